//! The query API: finds out who asks, what they want and may, and has it answered.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Instant};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{HeaderValue, Method, StatusCode, header},
    response::Response,
};
use clap::Args;
use fleetdex_clusters::Clusters;
use fleetdex_telemetry::{Readiness, admin};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{
    answers::{answer_counts, answer_list, answer_watch, attributes},
    auth::{TOKEN_FILE_VARIABLE, TokenFile, TokenFileError, TokenVerifier, default_token_file},
    caller::Caller,
    catalog::Catalog,
    changes, compression, discovery,
    etag::Known,
    front::{
        Entrance,
        attributes::Attributes,
        identity::{IdentityHeaders, impersonates},
        limits::{LimitArgs, Limits},
    },
    listen::{Arrived, ListenError, Listener},
    own,
    peers::Peers,
    permission::visible_clusters,
    proxying::{self, Members},
    representation::{Endpoint, Representation},
    request::{self, ApiRequest, OwnDiscovery, path_segments},
    respond::{document, json, options, refusal, unknown_parameters, unless_known, with_warnings},
    status::ApiError,
    verify,
};
pub use super::{api::Api, gate::Gate, telemetry::Telemetry};

/// The flag that sets the address, for error messages.
const ADDRESS_FLAG: &str = "--api-address";

/// Where the query API is served unless somebody says otherwise, and where `fleetdex get` looks for it.
pub const DEFAULT_ADDRESS: &str = "127.0.0.1:8443";

/// The flags of the query API.
#[derive(Args, Clone, Debug)]
pub struct ServerArgs {
    /// Where the query API is served (port 0: a free port): a loopback address, unless it is served over TLS.
    #[arg(long, env = "FLEETDEX_API_ADDRESS", default_value = DEFAULT_ADDRESS)]
    pub api_address: SocketAddr,

    /// Where the token is written that requests have to carry.
    #[arg(long, env = TOKEN_FILE_VARIABLE, default_value_os_t = default_token_file())]
    pub token_file: PathBuf,

    /// What it takes on at a time.
    #[command(flatten)]
    pub limits: LimitArgs,
}

/// The query API could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Without authentication of clients nobody from outside may ask.
    #[error(
        "{ADDRESS_FLAG} {0} is no loopback address, and without --api-service or --tls-cert-file this server knows no other clients; use 127.0.0.1 or [::1]"
    )]
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
    limits: LimitArgs,
}

impl Server {
    /// Opens the port, then writes the token file: whoever finds the file finds the server. `serves_others`: not only this machine.
    pub async fn bind(args: &ServerArgs, serves_others: bool) -> Result<Self, ServerError> {
        if !serves_others && !args.api_address.ip().to_canonical().is_loopback() {
            return Err(ServerError::NotLoopback(args.api_address));
        }
        let listener = Listener::bind(args.api_address, ADDRESS_FLAG).await?;
        let token_file = TokenFile::create(&args.token_file)?;
        Ok(Self {
            listener,
            token_file,
            limits: args.limits,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// Answers until cancelled, then removes the token file. Without an entrance only the holder of the token is answered; with one, that
    /// caller still is, over plain HTTP from this machine.
    pub async fn run(
        self,
        catalog: watch::Receiver<Arc<Catalog>>,
        clusters: Arc<Clusters>,
        telemetry: Telemetry,
        entrance: Option<Entrance>,
        peers: Peers,
        cancel: CancellationToken,
    ) {
        let Telemetry { metrics, readiness } = telemetry;
        let gate = Gate::Token(self.token_file.verifier());
        let members = Arc::new(Members::new(clusters, cancel.clone()));
        let keys = entrance
            .as_ref()
            .map(|entrance| entrance.keys.clone())
            .unwrap_or_default();
        let (limits, listener) = (
            Limits::new(&self.limits, &metrics),
            self.listener.counting(Arc::clone(&metrics)),
        );
        let local = Api {
            catalog,
            metrics,
            gate,
            limits,
            members: Arc::clone(&members),
            peers,
            keys,
        };
        let (address, token_file) = (listener.address(), self.token_file.path().display());
        tracing::info!(%address, %token_file, secured = entrance.is_some(), "serving the query API");
        match entrance {
            None => listener.serve(router(local, readiness), cancel).await,
            Some(Entrance { front, tls, .. }) => {
                let secured = Api {
                    gate: Gate::Front(front),
                    ..local.clone()
                };
                let (secured, local) =
                    (router(secured, readiness.clone()), router(local, readiness));
                listener.serve_secured(secured, local, tls, cancel).await;
            }
        }
        members.stopped().await;
    }
}

/// The query API, with open health endpoints.
pub fn router(api: Api, readiness: Readiness) -> Router {
    Router::new()
        .fallback(handle)
        .with_state(api)
        .layer(compression::layer())
        .merge(admin::health_without_reasons(readiness))
}

async fn handle(State(api): State<Api>, request: Request) -> Response {
    let started = Instant::now();
    let path = request.uri().path().to_owned();
    let known = Known::of(request.headers());
    let response = match Box::pin(admit(&api, request)).await {
        Ok(response) => response,
        Err(error) => {
            tracing::debug!(path, code = error.code(), %error, "request refused");
            refusal(&error)
        }
    };
    let response = unless_known(&known, response);
    api.metrics
        .query_answered(response.status().as_u16(), started.elapsed().as_secs_f64());
    response
}

/// Finds out who asks and whether they may; what proves it goes no further.
async fn admit(api: &Api, mut request: Request) -> Result<Response, ApiError> {
    let impersonates = impersonates(request.headers());
    let caller = match &api.gate {
        Gate::Token(verifier) => token_holder(verifier, &mut request)?,
        Gate::Front(front) => front.caller(&mut request).await?,
    };
    if let Some(arrived) = request.extensions_mut().remove::<Arrived>() {
        arrived.caller_is_known();
    }
    if impersonates {
        return Err(ApiError::bad_request(
            "this server impersonates nobody; ask by way of the control plane",
        ));
    }
    let (place, request) = api.limits.admit(&caller, request).await?;
    place.hold(Box::pin(checked(api, &caller, request))).await
}

async fn checked(api: &Api, caller: &Caller, mut request: Request) -> Result<Response, ApiError> {
    if let Gate::Front(front) = &api.gate {
        let attributes = Attributes::of(request.method(), &path_segments(request.uri().path())?);
        front.authorizer().check(caller, &attributes).await?;
        request.extensions_mut().insert(attributes);
    }
    answer(api, caller, request).await
}

fn token_holder(verifier: &TokenVerifier, request: &mut Request) -> Result<Caller, ApiError> {
    let authorization = request
        .headers()
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    let is_holder = verifier.accepts(authorization);
    IdentityHeaders::default().remove_from(request.headers_mut());
    if is_holder {
        Ok(Caller::local())
    } else {
        Err(ApiError::Unauthorized)
    }
}

/// Answers one request of somebody who is known. The whole request arrives here, with its body and the means to upgrade the connection.
async fn answer(api: &Api, caller: &Caller, request: Request) -> Result<Response, ApiError> {
    if let Some(inner) = proxying::request::below(request.uri().path()).map(str::to_owned) {
        return Box::pin(proxying::answer(api, caller, &inner, request)).await;
    }
    let wanted = request::parse(request.uri().path(), request.uri().query())?;
    let allowed = wanted.method();
    if request.method() == Method::OPTIONS {
        return Ok(options(if allowed == "GET" {
            "GET, HEAD, OPTIONS"
        } else {
            "POST, OPTIONS"
        }));
    }
    // The answer to HEAD is that to GET, of which only the head is sent.
    let method = if request.method() == Method::HEAD {
        "GET"
    } else {
        request.method().as_str()
    };
    if method != allowed {
        return Err(ApiError::MethodNotAllowed {
            method: request.method().to_string(),
            allowed,
        });
    }
    let ignored = unknown_parameters(&request::ignored(&wanted, request.uri().query())?);
    Ok(with_warnings(
        served(api, caller, wanted, request).await?,
        &ignored,
    ))
}

/// The answer to a request that is understood.
async fn served(
    api: &Api,
    caller: &Caller,
    wanted: ApiRequest,
    request: Request,
) -> Result<Response, ApiError> {
    let catalog = Arc::clone(&api.catalog.borrow());
    match wanted {
        ApiRequest::Version => document(
            &discovery::version()?,
            represented(&request, Endpoint::Document)?,
        ),
        ApiRequest::Own(OwnDiscovery::Groups) if wants_aggregated(&request) => {
            Ok(aggregated_discovery())
        }
        ApiRequest::Own(which) => document(
            &discovery::own(&which)?,
            represented(&request, Endpoint::Document)?,
        ),
        ApiRequest::OpenApi(which) => document(
            &own::open_api(which)?,
            represented(&request, Endpoint::Document)?,
        ),
        ApiRequest::List(list) if list.follow.watch => {
            let representation = represented(&request, Endpoint::Watch)?;
            answer_watch(
                api,
                caller,
                &catalog,
                &list,
                representation,
                attributes(&request),
            )
            .await
        }
        ApiRequest::List(list) => {
            let representation = represented(&request, Endpoint::List)?;
            answer_list(api, caller, &catalog, &list, representation).await
        }
        ApiRequest::Aggregate(counts) => {
            let representation = represented(&request, Endpoint::Counts)?;
            answer_counts(api, caller, &catalog, &counts, representation).await
        }
        ApiRequest::Changes(wanted) => {
            if let Gate::Front(front) = &api.gate {
                front
                    .authorizer()
                    .check(caller, &Attributes::of_replication())
                    .await?;
            }
            let body = changes::answer(&catalog, &wanted, api.catalog.clone()).await?;
            Ok(json(StatusCode::OK, body))
        }
        ApiRequest::Verify(clusters) => {
            let visible = visible_clusters(&api.gate, caller, &catalog, &clusters).await?;
            Ok(json(
                StatusCode::OK,
                verify::answer(&catalog, &clusters, visible.as_ref())?,
            ))
        }
    }
}

fn represented(request: &Request, endpoint: Endpoint) -> Result<Representation, ApiError> {
    Representation::negotiate(endpoint, request.headers(), request.uri().query())
}

fn wants_aggregated(request: &Request) -> bool {
    let ranges = request
        .headers()
        .get_all(header::ACCEPT)
        .iter()
        .map(|value| value.to_str().unwrap_or_default());
    own::wants_aggregated(&ranges.collect::<Vec<_>>().join(","))
}

fn aggregated_discovery() -> Response {
    let mut response = json(StatusCode::OK, Body::from(own::aggregated().to_string()));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static(own::AGGREGATED_TYPE),
    );
    response
        .headers_mut()
        .insert(header::VARY, HeaderValue::from_static("accept"));
    response
}
