//! The query API on a loopback address.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Instant};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{HeaderValue, Method, StatusCode, header},
    response::Response,
};
use bytes::Bytes;
use clap::Args;
use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{
    aggregate,
    auth::{TOKEN_FILE_VARIABLE, TokenFile, TokenFileError, TokenVerifier, default_token_file},
    caller::Caller,
    catalog::Catalog,
    compression::{self, Compressible},
    discovery,
    etag::{self, Known},
    explain, list,
    listen::{ListenError, Listener},
    owners,
    proxying::{self, Members},
    representation::{Endpoint, Form, MetaVersion, Representation},
    request::{self, AggregateRequest, ApiRequest, ListRequest},
    status::{ApiError, RETRY_AFTER_SECONDS},
    target::target,
    verify,
    watching::{self, Lasting},
};
use crate::{
    cluster::Clusters,
    query::Permitted,
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
    Router::new().fallback(handle).with_state(api).layer(compression::layer()).merge(admin::health(readiness))
}

async fn handle(State(api): State<Api>, request: Request) -> Response {
    let started = Instant::now();
    let path = request.uri().path().to_owned();
    let known = Known::of(request.headers());
    let response = match admit(&api, request).await {
        Ok(response) => response,
        Err(error) => {
            tracing::debug!(path, code = error.code(), %error, "request refused");
            refusal(&error)
        }
    };
    let response = unless_known(&known, response);
    api.metrics.query_answered(response.status().as_u16(), started.elapsed().as_secs_f64());
    response
}

/// An answer that the client has already is not sent again.
fn unless_known(known: &Known, mut response: Response) -> Response {
    if response.headers().get(header::ETAG).is_some_and(|tag| known.has(tag)) {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response.headers_mut().remove(header::CONTENT_TYPE);
        *response.body_mut() = Body::empty();
    }
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
    // The answer to HEAD is that to GET, of which only the head is sent.
    let method = if request.method() == Method::HEAD { "GET" } else { request.method().as_str() };
    if method != allowed {
        return Err(ApiError::MethodNotAllowed { method: request.method().to_string(), allowed });
    }
    let catalog = Arc::clone(&api.catalog.borrow());
    match wanted {
        ApiRequest::Version => document(&discovery::version()?, represented(&request, Endpoint::Document)?),
        ApiRequest::Own(which) => document(&discovery::own(&which)?, represented(&request, Endpoint::Document)?),
        ApiRequest::List(list) if list.follow.watch => {
            let representation = represented(&request, Endpoint::Watch)?;
            answer_watch(api, &catalog, &list, representation).await
        }
        ApiRequest::List(list) => {
            let representation = represented(&request, Endpoint::List)?;
            answer_list(&catalog, &list, representation).await
        }
        ApiRequest::Aggregate(counts) => {
            let representation = represented(&request, Endpoint::Document)?;
            answer_counts(&catalog, &counts, representation).await
        }
        ApiRequest::Verify(clusters) => Ok(json(StatusCode::OK, verify::answer(&catalog, &clusters)?)),
    }
}

fn represented(request: &Request, endpoint: Endpoint) -> Result<Representation, ApiError> {
    Representation::negotiate(endpoint, request.headers(), request.uri().query())
}

pub(super) async fn answer_list(
    catalog: &Catalog,
    wanted: &ListRequest,
    mut representation: Representation,
) -> Result<Response, ApiError> {
    let mut found = target(catalog, wanted, Permitted::Everything)?;
    owners::resolve(&mut found, &wanted.options.owner).await?;
    let warnings = found.warnings.clone();
    if wanted.options.explain {
        let explained = explain::list(&found, wanted).await?;
        return Ok(with_warnings(document(&explained, representation)?, &warnings));
    }
    if wanted.options.only_metadata && representation.form == Form::Whole {
        representation.form = Form::Metadata(MetaVersion::V1);
    }
    Ok(with_warnings(tagged(list::answer(found, wanted, representation).await?), &warnings))
}

async fn answer_counts(
    catalog: &Catalog,
    wanted: &AggregateRequest,
    representation: Representation,
) -> Result<Response, ApiError> {
    let mut found = target(catalog, &wanted.list, Permitted::Everything)?;
    owners::resolve(&mut found, &wanted.list.options.owner).await?;
    let warnings = found.warnings.clone();
    let answer = match wanted.list.options.explain {
        true => explain::counts(&found, wanted).await?,
        false => aggregate::answer(&aggregate::count(found, wanted).await?, wanted)?,
    };
    Ok(with_warnings(document(&answer, representation)?, &warnings))
}

pub(super) fn with_warnings(mut response: Response, warnings: &[String]) -> Response {
    for value in warnings.iter().filter_map(|text| warning(text)) {
        response.headers_mut().append(header::WARNING, value);
    }
    response
}

pub(super) async fn answer_watch(
    api: &Api,
    catalog: &Catalog,
    wanted: &ListRequest,
    mut representation: Representation,
) -> Result<Response, ApiError> {
    let found = target(catalog, wanted, Permitted::Everything)?;
    if wanted.options.only_metadata && representation.form == Form::Whole {
        representation.form = Form::Metadata(MetaVersion::V1);
    }
    let warnings = found.warnings.clone();
    let lasting = if wanted.rewrites_version { Lasting::Long } else { Lasting::Short };
    let body = watching::answer(found, wanted, representation, lasting, api.catalog.clone()).await?;
    Ok(with_warnings(json(StatusCode::OK, body), &warnings))
}

/// `299 - "text"`, as Kubernetes sends warnings. Characters that a header cannot carry become `?`.
fn warning(text: &str) -> Option<HeaderValue> {
    let plain = |letter: char| if letter.is_ascii_graphic() || letter == ' ' { letter } else { '?' };
    let quoted = text.chars().map(plain).collect::<String>().replace('\\', r"\\").replace('"', r#"\""#);
    HeaderValue::from_str(&format!("299 - \"{quoted}\"")).ok()
}

/// A document that is no object, as the client wants to read it.
pub(super) fn document(json_text: &RawValue, representation: Representation) -> Result<Response, ApiError> {
    let bytes = Bytes::from(representation.document(json_text)?);
    let tag = Some(etag::of(&bytes));
    Ok(tagged(list::Answer { body: Body::from(bytes), media_type: representation.encoding.media_type(), tag }))
}

pub(super) fn tagged(answer: list::Answer) -> Response {
    let mut response = json(StatusCode::OK, answer.body);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(answer.media_type));
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("accept"));
    if let Some(tag) = answer.tag {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response.extensions_mut().insert(Compressible);
    response
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
