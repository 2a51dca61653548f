//! Which view answers a request.

use axum::response::Response;
use fleetdex_query_api::group::BASE;
use http::StatusCode;
use maud::html;

use crate::{
    address::{NativePath, ObjectAddress, decoded, encoded},
    layout::{Frame, page, problem},
    live,
    parameters::Parameters,
    query::{Accept, QueryApi},
    response::{LOGIN_PATH, ROOT, html_response, secured},
    views,
};

/// Why a token is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignInProblem {
    /// There was a session, and its token is not valid any more.
    SessionExpired,
    /// The entered token is not valid.
    TokenRefused,
    /// The one-time link was used, or is too old.
    LinkExpired,
    /// The form was sent from another site.
    ForeignForm,
    /// Too many requests are being authenticated.
    Busy,
}

/// The view that asks for a token.
#[derive(Clone, Debug, Default)]
pub struct SignIn {
    /// Where to go on to: an address below [`ROOT`].
    pub next: String,
    /// Why the token is asked for again.
    pub problem: Option<SignInProblem>,
}

impl SignInProblem {
    fn status(self) -> StatusCode {
        match self {
            Self::SessionExpired | Self::TokenRefused | Self::LinkExpired => {
                StatusCode::UNAUTHORIZED
            }
            Self::ForeignForm => StatusCode::FORBIDDEN,
            Self::Busy => StatusCode::TOO_MANY_REQUESTS,
        }
    }

    fn message(self) -> &'static str {
        match self {
            Self::SessionExpired => {
                "Your session has ended: the token is not valid any more. Sign in again to go on where you were."
            }
            Self::TokenRefused => {
                "This token is not valid. It may have expired, or may be meant for another cluster."
            }
            Self::LinkExpired => {
                "This link was used already, or is older than five minutes. Make a new one with fleetdex ui."
            }
            Self::ForeignForm => "This form was sent from another site. Enter the token here.",
            Self::Busy => "Too many tokens are being checked. Try again in a moment.",
        }
    }
}

/// Whether a path belongs to the page.
pub fn is_page_path(path: &str) -> bool {
    path.strip_prefix(ROOT)
        .is_some_and(|below| below.is_empty() || below.starts_with('/'))
}

/// Whether an unauthenticated request of this path is answered with [`login`]: it is for a view,
/// and not for a part of one.
pub fn wants_page(path: &str) -> bool {
    !matches!(below(path).first(), Some(&("complete" | "events")))
}

/// The segments below [`ROOT`], as they are in the address.
fn below(path: &str) -> Vec<&str> {
    let below = path.strip_prefix(ROOT).unwrap_or_default();
    below.trim_matches('/').split('/').collect()
}

/// The view that asks for a token.
pub fn login(sign_in: &SignIn) -> Response {
    let (status, message) = match sign_in.problem {
        Some(problem) => (problem.status(), problem.message()),
        None => (StatusCode::UNAUTHORIZED, ""),
    };
    let main = html! {
        section.login {
            h1 { "Sign in" }
            @if !message.is_empty() { (problem(message)) }
            form method="post" action=(LOGIN_PATH) {
                input type="hidden" name="next" value=(sign_in.next);
                label for="token" { "Token" }
                input #token name="token" type="password" autocomplete="off" required autofocus aria-describedby="token-help";
                p #token-help {
                    "A bearer token of the control plane, such as " code { "kubectl create token NAME" }
                    " prints, or the content of the token file of " code { "fleetdex local" } ". You see what its owner may list."
                }
                button type="submit" { "Sign in" }
            }
        }
    };
    let frame = Frame {
        title: "Sign in".to_owned(),
        ..Frame::default()
    };
    html_response(status, page(&frame, &main))
}

/// The view in place of one that the server refuses.
pub fn failed(status: StatusCode, message: &str) -> Response {
    let frame = Frame {
        title: "Not shown".to_owned(),
        ..Frame::default()
    };
    let main = html! { h1 { "Not shown" } (problem(message)) p { a href={ (ROOT) "/" } { "Search all objects" } } };
    html_response(status, page(&frame, &main))
}

/// A watch that begins with the object, if it exists, and a bookmark.
const WATCH_OBJECT: &str =
    "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";

/// The response to an authenticated request for a path below [`ROOT`].
pub async fn respond(api: &dyn QueryApi, path: &str, query: &str, user: &str) -> Response {
    let parameters = Parameters::parse(query);
    let segments = below(path);
    let shown = match segments.as_slice() {
        [""] => views::search(api, &parameters).await,
        ["fleet"] => views::fleet(api, &parameters).await,
        ["distribution"] if api.distributes() => views::distribution(api, &parameters).await,
        ["distribution", "sets", namespace, name] if api.distributes() => {
            match (decoded(namespace), decoded(name)) {
                (Some(namespace), Some(name)) => {
                    views::distributed_set(api, &namespace, &name, &parameters).await
                }
                _ => views::not_found(path),
            }
        }
        ["clusters", cluster, native @ ..] => match object_address(cluster, native) {
            Some(object) if parameters.get("format") == "yaml" => {
                return views::download(api, &object).await;
            }
            Some(object) => views::object(api, &object, &parameters).await,
            None => views::not_found(path),
        },
        ["compare", native @ ..] => match native_path(native) {
            Some(object) => views::compare(api, &object, &parameters).await,
            None => views::not_found(path),
        },
        ["complete"] => return complete(api, &parameters).await,
        ["events"] => {
            let question = format!("/objects?q={}&watch=true", encoded(parameters.get("q")));
            return live::events(api, &question).await;
        }
        ["events", "clusters", cluster, native @ ..] => match object_address(cluster, native) {
            Some(object) => {
                return live::events(api, &format!("{}?{WATCH_OBJECT}", object.query())).await;
            }
            None => views::not_found(path),
        },
        _ => views::not_found(path),
    };
    let frame = Frame {
        title: shown.title.clone(),
        search: &shown.search,
        user: Some(user),
        live: shown.live.as_ref(),
        has_distribution: api.distributes(),
    };
    html_response(shown.status, page(&frame, &shown.main))
}

fn native_path(segments: &[&str]) -> Option<NativePath> {
    NativePath::decode(&format!("/{}", segments.join("/")))
}

fn object_address(cluster: &str, native: &[&str]) -> Option<ObjectAddress> {
    Some(ObjectAddress {
        cluster: decoded(cluster)?.parse().ok()?,
        path: native_path(native)?,
    })
}

/// Completions of a search, as the query API answers them.
async fn complete(api: &dyn QueryApi, parameters: &Parameters) -> Response {
    let cursor = parameters.get("cursor");
    let question = format!(
        "{BASE}/completions?q={}&cursor={}",
        encoded(parameters.get("q")),
        encoded(cursor)
    );
    secured(api.forward(&question, Accept::Json).await)
}

#[cfg(test)]
mod tests {
    use http::header;
    use http_body_util::BodyExt as _;

    use super::*;
    use crate::response::CONTENT_SECURITY_POLICY;

    #[test]
    fn paths_of_the_page_are_recognized() {
        for path in ["/ui", "/ui/", "/ui/fleet"] {
            assert!(is_page_path(path), "{path}");
        }
        for path in ["/", "/uix", "/apis/ui"] {
            assert!(!is_page_path(path), "{path}");
        }
        assert!(wants_page("/ui/") && !wants_page("/ui/events"));
    }

    #[tokio::test]
    async fn the_sign_in_view_names_no_other_host_and_keeps_the_address() {
        let response = login(&SignIn {
            next: "/ui/?q=\"><script>".to_owned(),
            problem: Some(SignInProblem::SessionExpired),
        });
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
        let policy = &response.headers()[header::CONTENT_SECURITY_POLICY];
        assert_eq!(policy, CONTENT_SECURITY_POLICY);
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let html = String::from_utf8(bytes.to_vec()).unwrap();
        assert!(html.contains("/ui/?q=&quot;&gt;&lt;script&gt;"), "{html}");
        assert!(!html.contains("http"), "{html}");
    }
}
