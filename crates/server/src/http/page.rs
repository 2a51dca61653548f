//! The web page: sessions around the views of `fleetdex_ui`, which ask this server's own API as the
//! caller of the page.

use std::{sync::Arc, time::Duration};

use axum::{
    body::{Body, to_bytes},
    extract::Request,
    http::{
        HeaderValue, Method, StatusCode,
        header::{AUTHORIZATION, LOCATION, SET_COOKIE},
    },
    response::Response,
};
use fleetdex_limits::request::UserRequest;
use fleetdex_query_api::{
    class::RequestClass,
    group::API_VERSION,
    uri::{QueryParameters, RequestUri},
};
use fleetdex_ui::{
    LOGIN_PATH, LOGOUT_PATH, ROOT, SignIn, SignInProblem, asset, failed, login, secured, wants_page,
};
use percent_encoding::percent_decode_str;
use serde_json::json;
use tokio::time::timeout;

use super::{
    api_state::ApiState,
    dispatch::{authenticate, is_from_another_site},
    page_queries::CallerQueries,
};
use crate::{
    answers::response::{allowing, json, refusal},
    api_error::ApiError,
    auth::{
        authenticate::{RemoteClient, bearer_token},
        authentication_mode::AuthenticationMode,
        caller::Caller,
        page_session::{
            LINK_LIFETIME, authority, is_from_this_site, is_top_level_navigation, session_cookies,
            session_token,
        },
    },
};

/// Where links are made, with the token that they hand over.
const LINKS_PATH: &str = "/ui/links";
/// The parameter with the code of a link.
const CODE: &str = "code";
/// Bytes of the form with a token: more than the longest token that fits into cookies.
const MAX_FORM_BYTES: usize = 32 * 1024;
/// Why a request is refused that a page of another site makes.
const FROM_ANOTHER_SITE: &str =
    "This address was requested by a page of another site. Open it in a window of its own.";
/// How long a browser may take to send that form.
const FORM_TIMEOUT: Duration = Duration::from_secs(10);

/// The path of a link with this code.
pub(super) fn link(code: &str) -> String {
    format!("{LOGIN_PATH}?{CODE}={code}")
}

/// The response to a request for the page.
pub(super) async fn respond(api: &ApiState, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    if let Some(file) = asset(&path) {
        return file;
    }
    let response = routed(api, request, &path).await;
    if !response.status().is_success() {
        tracing::debug!(
            path,
            code = response.status().as_u16(),
            "request for the web page not served"
        );
    }
    response
}

async fn routed(api: &ApiState, request: Request, path: &str) -> Response {
    let headers = request.headers();
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    // A link of another site may lead here; its scripts, images and frames may not read as the
    // user.
    if is_read && is_from_another_site(headers) && !is_top_level_navigation(headers) {
        return failed(StatusCode::FORBIDDEN, FROM_ANOTHER_SITE);
    }
    match (request.method(), path) {
        (&Method::GET, LOGIN_PATH) => begin(api, &request),
        (&Method::POST, LOGIN_PATH) => sign_in(api, request).await,
        (&Method::POST, LOGOUT_PATH) => sign_out(api, &request),
        (&Method::POST, LINKS_PATH) => make_link(api, request).await,
        (&Method::GET | &Method::HEAD, _) => view(api, request).await,
        _ => secured(allowing(StatusCode::METHOD_NOT_ALLOWED, "GET, HEAD")),
    }
}

/// Begins a session by a link, or asks for a token.
fn begin(api: &ApiState, request: &Request) -> Response {
    let query = QueryParameters::parse(request.uri().query().unwrap_or_default());
    let next = below_root(value(&query, "next").unwrap_or_default());
    let Some(code) = value(&query, CODE) else {
        let problem = None;
        return login(&SignIn { next, problem });
    };
    // A page of another site could sign its reader in as another user.
    if is_from_another_site(request.headers()) {
        return refused(next, SignInProblem::ForeignForm);
    }
    match api.links.take(code) {
        Some(token) => redirect(api, request, Some(&token), &next),
        None => refused(next, SignInProblem::LinkExpired),
    }
}

/// Begins a session with the token of a form.
async fn sign_in(api: &ApiState, mut request: Request) -> Response {
    if !is_own_form(&request) {
        return refused(String::new(), SignInProblem::ForeignForm);
    }
    let Some(_permit) = api
        .answers
        .limits
        .sign_in(RemoteClient::of(&request).address())
    else {
        return refused(String::new(), SignInProblem::Busy);
    };
    let body = std::mem::take(request.body_mut());
    let form = timeout(FORM_TIMEOUT, to_bytes(body, MAX_FORM_BYTES)).await;
    let Ok(Ok(form)) = form else {
        return refused(String::new(), SignInProblem::TokenRefused);
    };
    let text = String::from_utf8_lossy(&form);
    let form = QueryParameters::parse(&text);
    let token = value(&form, "token").unwrap_or_default().trim();
    let next = below_root(value(&form, "next").unwrap_or_default());
    match holder(api, RemoteClient::of(&request), token).await {
        Ok(_) => redirect(api, &request, Some(token), &next),
        Err(ApiError::TooManyRequests) => refused(next, SignInProblem::Busy),
        Err(_) => refused(next, SignInProblem::TokenRefused),
    }
}

/// The value of a parameter, or of a field of a form.
fn value<'q>(parameters: &'q QueryParameters<'_>, name: &str) -> Option<&'q str> {
    let parameters = parameters.distinct().unwrap_or_default();
    let found = parameters.iter().find(|parameter| parameter.key == name);
    found.map(|parameter| &*parameter.value)
}

fn sign_out(api: &ApiState, request: &Request) -> Response {
    if !is_own_form(request) {
        return refused(String::new(), SignInProblem::ForeignForm);
    }
    redirect(api, request, None, LOGIN_PATH)
}

/// Makes a one-time link for the token that the request carries.
async fn make_link(api: &ApiState, request: Request) -> Response {
    let Some(token) = bearer_token(request.headers()).map(str::to_owned) else {
        return secured(refusal(&ApiError::Unauthenticated));
    };
    let caller = match holder(api, RemoteClient::of(&request), &token).await {
        Ok(caller) => caller,
        Err(error) => return secured(refusal(&error)),
    };
    let Some(code) = api.links.create(&caller.name, &token) else {
        return secured(refusal(&ApiError::TooManyRequests));
    };
    let made = json!({
        "kind": "PageLink",
        "apiVersion": API_VERSION,
        "path": link(&code),
        "expiresInSeconds": LINK_LIFETIME.as_secs(),
    });
    secured(json(StatusCode::CREATED, Body::from(made.to_string())))
}

/// Whose token this is, whatever else the request proves. It has to fit into the cookies of a
/// session.
async fn holder(
    api: &ApiState,
    client: Arc<RemoteClient>,
    token: &str,
) -> Result<Caller, ApiError> {
    if token.is_empty() || session_cookies(None, Some(token), is_encrypted(api)).is_none() {
        return Err(ApiError::bad_request(
            "the token does not fit into the cookies of a session",
        ));
    }
    let mut alone = Request::new(Body::empty());
    alone.extensions_mut().insert(client.without_certificates());
    set_bearer(&mut alone, token);
    authenticate(api, &mut alone).await
}

fn is_own_form(request: &Request) -> bool {
    let here = authority(request.uri(), request.headers());
    is_from_this_site(here, request.headers())
}

/// A view, for the caller of a session or of any other credentials.
async fn view(api: &ApiState, mut request: Request) -> Response {
    let path = request.uri().path().to_owned();
    if path == ROOT {
        let query = request.uri().query().unwrap_or_default();
        return to(&format!("{ROOT}/?{query}"));
    }
    let mut has_session = false;
    let here = authority(request.uri(), request.headers());
    // Proxies may send a password of their own.
    if bearer_token(request.headers()).is_none()
        && let Some(token) = session_token(here, request.headers())
    {
        has_session = set_bearer(&mut request, &token);
    }
    let address = request.uri().path_and_query();
    let address = address.map(ToString::to_string).unwrap_or_default();
    match Box::pin(admitted(api, request)).await {
        Ok(response) => response,
        Err(ApiError::Unauthorized | ApiError::Unauthenticated) if wants_page(&path) => {
            login(&SignIn {
                next: address,
                problem: has_session.then_some(SignInProblem::SessionExpired),
            })
        }
        Err(error) if wants_page(&path) => {
            let code = StatusCode::from_u16(error.code());
            let code = code.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            failed(code, &error.to_string())
        }
        Err(error) => secured(refusal(&error)),
    }
}

async fn admitted(api: &ApiState, mut request: Request) -> Result<Response, ApiError> {
    let caller = authenticate(api, &mut request).await?;
    let target = request.uri().clone();
    let uri = RequestUri::parse(target.path(), target.query())?;
    let class = match *uri.segments() {
        ["ui", "events", ..] => RequestClass::LongRunning,
        _ => RequestClass::Search,
    };
    let (in_flight, _) = api.answers.limits.admit(&caller, class, request).await?;
    let queries = CallerQueries {
        api,
        caller: &caller,
    };
    let (path, query) = (target.path(), target.query().unwrap_or_default());
    let user = if caller.is_local() {
        "local"
    } else {
        &caller.name
    };
    let is_view = wants_page(path);
    let response = async {
        // The memory of a view; its parts have little.
        let _room = if is_view {
            Some(api.answers.limits.view(&caller).await?)
        } else {
            None
        };
        let view = Box::pin(fleetdex_ui::respond(&queries, path, query, user));
        let view = UserRequest::current().computing().run_task(view).await;
        view.ok_or(ApiError::TooManyRequests)
    };
    in_flight.run(response).await
}

/// Sets the bearer token. `false` if it does not fit into a header.
fn set_bearer(request: &mut Request, token: &str) -> bool {
    let Ok(value) = HeaderValue::from_str(&format!("Bearer {token}")) else {
        return false;
    };
    request.headers_mut().insert(AUTHORIZATION, value);
    true
}

/// Servers that authenticate by the control plane are served over TLS.
fn is_encrypted(api: &ApiState) -> bool {
    matches!(
        api.answers.authentication_mode,
        AuthenticationMode::Delegated(_)
    )
}

/// An address of the page to go on to; the first view for any other.
fn below_root(address: &str) -> String {
    let is_below = address
        .strip_prefix(ROOT)
        .is_some_and(|below| below.starts_with('/'));
    let path = address.split(['?', '#']).next().unwrap_or_default();
    let leaves = |segment: &str| {
        let decoded = percent_decode_str(segment).decode_utf8_lossy();
        matches!(&*decoded, "." | "..")
    };
    let is_plain = !address.contains(['\\', '\r', '\n']) && !path.split('/').any(leaves);
    if is_below && is_plain && !address.starts_with(LOGIN_PATH) {
        address.to_owned()
    } else {
        format!("{ROOT}/")
    }
}

fn refused(next: String, problem: SignInProblem) -> Response {
    let problem = Some(problem);
    login(&SignIn { next, problem })
}

/// Goes on to an address, with the cookies of a session, or without them.
fn redirect(api: &ApiState, request: &Request, token: Option<&str>, address: &str) -> Response {
    let mut response = to(address);
    let here = authority(request.uri(), request.headers());
    let cookies = session_cookies(here, token, is_encrypted(api)).unwrap_or_default();
    for cookie in cookies {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    response
}

fn to(address: &str) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    if let Ok(address) = HeaderValue::from_str(address) {
        response.headers_mut().insert(LOCATION, address);
    }
    secured(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_page_are_gone_on_to() {
        assert_eq!(below_root("/ui/?q=a..b"), "/ui/?q=a..b");
        for address in [
            "",
            "/",
            "//evil.example",
            "/uix",
            "https://evil.example/ui/",
            "/ui/\\evil",
            "/ui/../apis",
            "/ui/%2e%2E/apis",
            "/ui/login?code=1",
        ] {
            assert_eq!(below_root(address), "/ui/", "{address}");
        }
    }
}
