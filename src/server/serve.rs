//! The query API on a loopback address.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Instant};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::Response,
};
use clap::Args;
use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{
    auth::{TOKEN_FILE_VARIABLE, TokenFile, TokenFileError, TokenVerifier, default_token_file},
    caller::Caller,
    catalog::Catalog,
    discovery, list,
    listen::{ListenError, Listener},
    proxying::{self, Members},
    request::{self, ApiRequest, ListRequest},
    status::{ApiError, RETRY_AFTER_SECONDS},
    target::target,
    verify,
};
use crate::{
    cluster::Clusters,
    telemetry::{Metrics, Readiness, admin},
};

/// The flag that sets the address, for error messages.
const ADDRESS_FLAG: &str = "--api-address";

/// Where the query API is served unless somebody says otherwise, and where `fleetdex get` looks for it.
pub const DEFAULT_ADDRESS: &str = "127.0.0.1:8443";

/// The flags of the query API.
#[derive(Args, Clone, Debug)]
pub struct ServerArgs {
    /// Where the query API is served: a loopback address (port 0: a free port).
    #[arg(long, env = "FLEETDEX_API_ADDRESS", default_value = DEFAULT_ADDRESS)]
    pub api_address: SocketAddr,

    /// Where the token is written that requests have to carry.
    #[arg(long, env = TOKEN_FILE_VARIABLE, default_value_os_t = default_token_file())]
    pub token_file: PathBuf,
}

/// The query API could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Without authentication of clients nobody from outside may ask.
    #[error("{ADDRESS_FLAG} {0} is no loopback address, and this server knows no other clients; use 127.0.0.1 or [::1]")]
    NotLoopback(SocketAddr),
    /// The port is not to be had.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The token file is not to be had.
    #[error(transparent)]
    TokenFile(#[from] TokenFileError),
}

/// The query API, listening.
#[derive(Debug)]
pub struct Server {
    listener: Listener,
    token_file: TokenFile,
}

impl Server {
    /// Opens the port, then writes the token file: whoever finds the file finds the server.
    pub async fn bind(args: &ServerArgs) -> Result<Self, ServerError> {
        if !args.api_address.ip().to_canonical().is_loopback() {
            return Err(ServerError::NotLoopback(args.api_address));
        }
        let listener = Listener::bind(args.api_address, ADDRESS_FLAG).await?;
        let token_file = TokenFile::create(&args.token_file)?;
        Ok(Self { listener, token_file })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// Answers until cancelled, then removes the token file.
    pub async fn run(
        self,
        catalog: watch::Receiver<Arc<Catalog>>,
        clusters: Arc<Clusters>,
        telemetry: Telemetry,
        cancel: CancellationToken,
    ) {
        let Telemetry { metrics, readiness } = telemetry;
        let members = Arc::new(Members::new(clusters, cancel.clone()));
        let api = Api { catalog, metrics, verifier: self.token_file.verifier(), members: Arc::clone(&members) };
        tracing::info!(address = %self.address(), token_file = %self.token_file.path().display(), "serving the query API");
        self.listener.serve(router(api, readiness), cancel).await;
        members.stopped().await;
    }
}

/// What the server tells about itself.
#[derive(Clone, Debug)]
pub struct Telemetry {
    /// Where answers are counted.
    pub metrics: Arc<Metrics>,
    /// What `/readyz` says.
    pub readiness: Readiness,
}

/// What every request needs.
#[derive(Clone, Debug)]
pub struct Api {
    /// What is registered now.
    pub catalog: watch::Receiver<Arc<Catalog>>,
    /// Where answers are counted.
    pub metrics: Arc<Metrics>,
    /// Who may ask.
    pub verifier: TokenVerifier,
    /// Where requests about single objects go on to.
    pub members: Arc<Members>,
}

/// The query API, with open health endpoints.
pub fn router(api: Api, readiness: Readiness) -> Router {
    Router::new().fallback(handle).with_state(api).merge(admin::health(readiness))
}

async fn handle(State(api): State<Api>, request: Request) -> Response {
    let started = Instant::now();
    let path = request.uri().path().to_owned();
    let response = match admit(&api, request).await {
        Ok(response) => response,
        Err(error) => {
            tracing::debug!(path, code = error.code(), %error, "request refused");
            refusal(&error)
        }
    };
    api.metrics.query_answered(response.status().as_u16(), started.elapsed().as_secs_f64());
    response
}

/// Finds out who asks; what proves it goes no further.
async fn admit(api: &Api, mut request: Request) -> Result<Response, ApiError> {
    let authorization = request.headers_mut().remove(header::AUTHORIZATION);
    if !api.verifier.accepts(authorization.as_ref().and_then(|value| value.to_str().ok())) {
        return Err(ApiError::Unauthorized);
    }
    answer(api, &Caller::local(), request).await
}

/// Answers one request of somebody who is known. The whole request arrives here, with its body and the means to upgrade the connection.
async fn answer(api: &Api, caller: &Caller, request: Request) -> Result<Response, ApiError> {
    if let Some(inner) = proxying::request::below(request.uri().path()).map(str::to_owned) {
        return proxying::answer(api, caller, &inner, request).await;
    }
    let wanted = request::parse(request.uri().path(), request.uri().query())?;
    let allowed = wanted.method();
    if request.method().as_str() != allowed {
        return Err(ApiError::MethodNotAllowed { method: request.method().to_string(), allowed });
    }
    check_accept(request.headers())?;
    let catalog = Arc::clone(&api.catalog.borrow());
    match wanted {
        ApiRequest::Version => Ok(document(discovery::version()?)),
        ApiRequest::Own(which) => Ok(document(discovery::own(&which)?)),
        ApiRequest::List(list) => answer_list(&catalog, &list).await,
        ApiRequest::Verify(clusters) => Ok(json(StatusCode::OK, verify::answer(&catalog, &clusters)?)),
    }
}

pub(super) async fn answer_list(catalog: &Catalog, wanted: &ListRequest) -> Result<Response, ApiError> {
    let found = target(catalog, wanted)?;
    let warnings: Vec<HeaderValue> = found.warnings.iter().filter_map(|text| warning(text)).collect();
    let mut response = json(StatusCode::OK, list::answer(found, wanted).await?);
    for value in warnings {
        response.headers_mut().append(header::WARNING, value);
    }
    Ok(response)
}

/// `299 - "text"`, as Kubernetes sends warnings. Characters that a header cannot carry become `?`.
pub(super) fn warning(text: &str) -> Option<HeaderValue> {
    let plain = |letter: char| if letter.is_ascii_graphic() || letter == ' ' { letter } else { '?' };
    let quoted = text.chars().map(plain).collect::<String>().replace('\\', r"\\").replace('"', r#"\""#);
    HeaderValue::from_str(&format!("299 - \"{quoted}\"")).ok()
}

/// Only plain JSON is served; clients that prefer a Table or protobuf name JSON as well.
pub(super) fn check_accept(headers: &HeaderMap) -> Result<(), ApiError> {
    let ranges = headers.get_all(header::ACCEPT).iter().map(|value| value.to_str().unwrap_or_default());
    let accepted = ranges.collect::<Vec<_>>().join(",");
    if accepted.trim().is_empty() || accepted.split(',').any(is_plain_json) {
        return Ok(());
    }
    Err(ApiError::NotAcceptable(accepted))
}

fn is_plain_json(range: &str) -> bool {
    let mut parts = range.split(';').map(str::trim);
    let is_json = parts.next().is_some_and(|media| matches!(media, "*/*" | "application/*" | "application/json"));
    is_json && parts.all(|parameter| !parameter.starts_with("as="))
}

pub(super) fn document(json_text: Box<RawValue>) -> Response {
    let text: Box<str> = json_text.into();
    json(StatusCode::OK, Body::from(String::from(text)))
}

fn refusal(error: &ApiError) -> Response {
    let code = StatusCode::from_u16(error.code()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let body = serde_json::to_vec(&error.status()).unwrap_or_default();
    let mut response = json(code, Body::from(body));
    let (name, value) = match error {
        ApiError::Unauthorized => (header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")),
        ApiError::MethodNotAllowed { allowed, .. } => (header::ALLOW, HeaderValue::from_static(allowed)),
        ApiError::Busy(_) => (header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER_SECONDS)),
        _ => return response,
    };
    response.headers_mut().insert(name, value);
    response
}

pub(super) fn json(code: StatusCode, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
