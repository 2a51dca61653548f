//! The web page: sessions around the views of `fleetdex_ui`, which ask this server's own API as the caller of the page.

use std::time::Duration;

use async_trait::async_trait;
use axum::{
    body::{Body, to_bytes},
    extract::Request,
    http::{
        HeaderMap, HeaderValue, Method, StatusCode,
        header::{ACCEPT, ALLOW, AUTHORIZATION, LOCATION, SET_COOKIE},
    },
    response::Response,
};
use fleetdex_ui::{
    Accept, LOGIN_PATH, LOGOUT_PATH, QueryApi, ROOT, SignIn, SignInProblem, asset, login, secured,
    wants_page,
};
use serde_json::json;
use tokio::time::timeout;

use super::{
    api_state::ApiState,
    dispatch::{authenticate, authorize},
    response::{json, refusal},
};
use crate::{
    auth::{
        authentication_mode::AuthenticationMode,
        caller::Caller,
        page_session::{LINK_LIFETIME, is_from_this_site, session_cookies, session_token},
    },
    request::{
        api_error::ApiError,
        api_request::{GROUPS, VERSION},
        uri::{QueryParameters, RequestUri},
    },
};

/// Where links are made, with the token that they hand over.
const LINKS_PATH: &str = "/ui/links";
/// The parameter with the code of a link.
const CODE: &str = "code";
/// Bytes of the form with a token: more than the longest token that fits into cookies.
const MAX_FORM_BYTES: usize = 64 * 1024;
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
    match (request.method(), &*path) {
        (&Method::GET, LOGIN_PATH) => begin(api, &request),
        (&Method::POST, LOGIN_PATH) => sign_in(api, request).await,
        (&Method::POST, LOGOUT_PATH) => sign_out(api, request.headers()),
        (&Method::POST, LINKS_PATH) => make_link(api, request).await,
        (&Method::GET | &Method::HEAD, _) => view(api, request).await,
        _ => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
            let allowed = HeaderValue::from_static("GET, HEAD");
            response.headers_mut().insert(ALLOW, allowed);
            secured(response)
        }
    }
}

/// Begins a session by a link, or asks for a token.
fn begin(api: &ApiState, request: &Request) -> Response {
    let query = QueryParameters::parse(request.uri().query().unwrap_or_default());
    let parameter = |name: &str| {
        let parameters = query.distinct().unwrap_or_default();
        let found = parameters.iter().find(|parameter| parameter.key == name);
        found.map(|parameter| parameter.value.to_string())
    };
    let next = below_root(&parameter("next").unwrap_or_default());
    let Some(code) = parameter(CODE) else {
        let problem = None;
        return login(&SignIn { next, problem });
    };
    match api.links.take(&code) {
        Some(token) => redirect(api, request.headers(), Some(&token), &next),
        None => refused(next, SignInProblem::LinkExpired),
    }
}

/// Begins a session with the token of a form.
async fn sign_in(api: &ApiState, mut request: Request) -> Response {
    let headers = request.headers().clone();
    if !is_from_this_site(&headers) {
        return refused(String::new(), SignInProblem::ForeignForm);
    }
    let body = std::mem::take(request.body_mut());
    let form = timeout(FORM_TIMEOUT, to_bytes(body, MAX_FORM_BYTES)).await;
    let Ok(Ok(form)) = form else {
        return refused(String::new(), SignInProblem::TokenRefused);
    };
    let text = String::from_utf8_lossy(&form);
    let form = QueryParameters::parse(&text);
    let field = |name: &str| {
        let fields = form.distinct().unwrap_or_default();
        let found = fields.iter().find(|field| field.key == name);
        found.map(|field| field.value.trim().to_owned())
    };
    let (token, next) = (
        field("token").unwrap_or_default(),
        below_root(&field("next").unwrap_or_default()),
    );
    if session_cookies(&headers, Some(&token), is_encrypted(api)).is_none()
        || !bears(&mut request, &token)
    {
        return refused(next, SignInProblem::TokenRefused);
    }
    match authenticate(api, &mut request).await {
        Ok(_) => redirect(api, &headers, Some(&token), &next),
        Err(ApiError::TooManyRequests) => refused(next, SignInProblem::Busy),
        Err(_) => refused(next, SignInProblem::TokenRefused),
    }
}

fn sign_out(api: &ApiState, headers: &HeaderMap) -> Response {
    if !is_from_this_site(headers) {
        return refused(String::new(), SignInProblem::ForeignForm);
    }
    redirect(api, headers, None, LOGIN_PATH)
}

/// Makes a one-time link for the token that the request carries.
async fn make_link(api: &ApiState, mut request: Request) -> Response {
    let authorization = request.headers().get(AUTHORIZATION).cloned();
    if let Err(error) = authenticate(api, &mut request).await {
        return secured(refusal(&error));
    }
    let token = authorization.as_ref().and_then(|value| {
        let (scheme, token) = value.to_str().ok()?.trim().split_once(' ')?;
        scheme
            .eq_ignore_ascii_case("bearer")
            .then(|| token.trim().to_owned())
    });
    let fits = |token: &String| {
        session_cookies(request.headers(), Some(token), is_encrypted(api)).is_some()
    };
    let Some(token) = token.filter(fits) else {
        return secured(refusal(&ApiError::bad_request(
            "a link hands over a bearer token, which has to fit into cookies; send one in the header Authorization",
        )));
    };
    let Some(code) = api.links.create(&token) else {
        return secured(refusal(&ApiError::TooManyRequests));
    };
    let made = json!({
        "kind": "PageLink",
        "apiVersion": format!("{}/{VERSION}", GROUPS[0]),
        "path": link(&code),
        "expiresInSeconds": LINK_LIFETIME.as_secs(),
    });
    secured(json(StatusCode::CREATED, Body::from(made.to_string())))
}

/// A view, for the caller of a session or of any other credentials.
async fn view(api: &ApiState, mut request: Request) -> Response {
    let path = request.uri().path().to_owned();
    if path == ROOT {
        return to(&format!("{ROOT}/"));
    }
    let mut has_session = false;
    if !request.headers().contains_key(AUTHORIZATION)
        && let Some(token) = session_token(request.headers())
    {
        has_session = bears(&mut request, &token);
    }
    let address = request
        .uri()
        .path_and_query()
        .map(ToString::to_string)
        .unwrap_or_default();
    match Box::pin(admitted(api, request)).await {
        Ok(response) => response,
        Err(ApiError::Unauthorized | ApiError::Unauthenticated) if wants_page(&path) => {
            login(&SignIn {
                next: address,
                problem: has_session.then_some(SignInProblem::SessionExpired),
            })
        }
        Err(error) => secured(refusal(&error)),
    }
}

async fn admitted(api: &ApiState, mut request: Request) -> Result<Response, ApiError> {
    let caller = authenticate(api, &mut request).await?;
    let target = request.uri().clone();
    let uri = RequestUri::parse(target.path(), target.query())?;
    let (in_flight, _) = api.limits.admit(&caller, &uri, request).await?;
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
    let response = async { Ok(fleetdex_ui::respond(&queries, path, query, user).await) };
    in_flight.run(response).await
}

/// Requests to this server's own API, as the caller of the page.
struct CallerQueries<'q> {
    api: &'q ApiState,
    caller: &'q Caller,
}

#[async_trait]
impl QueryApi for CallerQueries<'_> {
    async fn get(&self, path: &str, accept: Accept) -> Response {
        match Box::pin(self.answer(path, accept)).await {
            Ok(response) => response,
            Err(error) => refusal(&error),
        }
    }
}

impl CallerQueries<'_> {
    async fn answer(&self, target: &str, accept: Accept) -> Result<Response, ApiError> {
        let request = Request::get(target)
            .header(ACCEPT, accept.header())
            .body(Body::empty())
            .map_err(|error| ApiError::bad_request(error.to_string()))?;
        let target = request.uri().clone();
        let uri = RequestUri::parse(target.path(), target.query())?;
        authorize(self.api, self.caller, &uri, request).await
    }
}

/// Puts a token where it is looked for. `false` if it does not fit into a header.
fn bears(request: &mut Request, token: &str) -> bool {
    let Ok(value) = HeaderValue::from_str(&format!("Bearer {token}")) else {
        return false;
    };
    request.headers_mut().insert(AUTHORIZATION, value);
    true
}

/// Servers that authenticate by the control plane are served over TLS.
fn is_encrypted(api: &ApiState) -> bool {
    matches!(api.authentication_mode, AuthenticationMode::Delegated(_))
}

/// An address of the page to go on to; the first view for any other.
fn below_root(address: &str) -> String {
    let is_below = address
        .strip_prefix(ROOT)
        .is_some_and(|below| below.starts_with('/'));
    let is_plain = !address.contains(['\\', '\r', '\n']) && !address.contains("..");
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
fn redirect(api: &ApiState, headers: &HeaderMap, token: Option<&str>, address: &str) -> Response {
    let mut response = to(address);
    let cookies = session_cookies(headers, token, is_encrypted(api)).unwrap_or_default();
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
        assert_eq!(below_root("/ui/?q=a"), "/ui/?q=a");
        for address in [
            "",
            "/",
            "//evil.example",
            "/uix",
            "https://evil.example/ui/",
            "/ui/\\evil",
            "/ui/../apis",
            "/ui/login?code=1",
        ] {
            assert_eq!(below_root(address), "/ui/", "{address}");
        }
    }
}
