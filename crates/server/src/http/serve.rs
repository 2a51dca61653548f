//! The query API: authenticates, limits, authorizes and routes requests.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Instant};

use axum::{
    Router,
    extract::{Request, State},
    http::{Method, StatusCode},
    response::Response,
};
use clap::Args;
use fleetdex_clusters::Clusters;
use fleetdex_telemetry::{Readiness, admin};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{
    aggregated_discovery::{aggregated_discovery, wants_aggregated},
    api_state::ApiState,
    completion_handler::complete_search,
    compression,
    handlers::{
        attributes, count_images, count_objects, interpret, list_objects, merged_object,
        related_objects, search_all_kinds, search_objects, watch_objects,
    },
    limits::{LimitArgs, RequestLimits},
    listen::{ListenError, Listener, RequestHandle},
    response::{document, json, not_modified, options, refusal, unknown_parameters, with_warnings},
};
use crate::{
    auth::{
        SecureServing,
        attributes::Attributes,
        authentication_mode::AuthenticationMode,
        caller::Caller,
        identity::impersonates,
        token_file::{TOKEN_FILE_VARIABLE, TokenFile, TokenFileError, default_token_file},
    },
    catalog::Catalog,
    proxying::{self, MemberProxy},
    read::{
        interpreters::Interpreters, store_moves::StoreMoves, verify,
        visible_objects::visible_clusters,
    },
    render::{
        discovery,
        etag::IfNoneMatch,
        group_discovery,
        representation::{Endpoint, Representation},
    },
    request::{
        api_error::ApiError,
        api_request::{self, ApiRequest, GroupDiscovery},
        uri::{QueryParameters, RequestUri},
    },
    telemetry::Telemetry,
    watch::{changes, peers::Peers},
};

/// The flag that sets the address, for error messages.
const ADDRESS_FLAG: &str = "--api-address";

/// Where the query API is served by default, and where `fleetdex get` looks for it.
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
    /// Without client authentication the server must not be reachable from other machines.
    #[error(
        "{ADDRESS_FLAG} {0} is not a loopback address, and without --api-service or --tls-cert-file the server cannot authenticate other clients; use 127.0.0.1 or [::1]"
    )]
    NotLoopback(SocketAddr),
    /// The port cannot be opened.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The token file cannot be written.
    #[error(transparent)]
    TokenFile(#[from] TokenFileError),
}

/// The query API with an open port.
#[derive(Debug)]
pub struct Server {
    listener: Listener,
    token_file: TokenFile,
    limits: LimitArgs,
    interpreters: Interpreters,
}

impl Server {
    /// Opens the port, then writes the token file, so that the server is reachable once the file exists. `serves_others`: clients outside this machine are
    /// served, too.
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
            interpreters: Interpreters::default(),
        })
    }

    /// The same with these resource interpreters.
    #[must_use]
    pub fn with_interpreters(self, interpreters: Interpreters) -> Self {
        Self {
            interpreters,
            ..self
        }
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// Serves until cancelled, then removes the token file. Without `secure_serving` only the holder of the token is served; with it, that
    /// caller still is, over plain HTTP from this machine.
    pub async fn run(
        self,
        catalog: watch::Receiver<Arc<Catalog>>,
        clusters: Arc<Clusters>,
        telemetry: Telemetry,
        secure_serving: Option<SecureServing>,
        peers: Peers,
        cancel: CancellationToken,
    ) {
        let Telemetry { metrics, readiness } = telemetry;
        let authentication_mode = AuthenticationMode::LoopbackToken(self.token_file.verifier());
        let members = Arc::new(MemberProxy::new(clusters, cancel.clone()));
        let keys = secure_serving
            .as_ref()
            .map(|secure_serving| secure_serving.keys.clone())
            .unwrap_or_default();
        let (limits, listener) = (
            RequestLimits::new(&self.limits, &metrics),
            self.listener.counting(Arc::clone(&metrics)),
        );
        let local = ApiState {
            catalog,
            moves: StoreMoves::default(),
            metrics,
            authentication_mode,
            limits,
            members: Arc::clone(&members),
            peers,
            keys,
            interpreters: self.interpreters,
        };
        let (address, token_file) = (listener.address(), self.token_file.path().display());
        tracing::info!(%address, %token_file, secured = secure_serving.is_some(), "serving the query API");
        match secure_serving {
            None => listener.serve(router(local, readiness), cancel).await,
            Some(SecureServing { auth, tls, .. }) => {
                let secured = ApiState {
                    authentication_mode: AuthenticationMode::Delegated(auth),
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
pub fn router(api: ApiState, readiness: Readiness) -> Router {
    Router::new()
        .fallback(handle)
        .with_state(api)
        .layer(compression::layer())
        .merge(admin::health_without_reasons(readiness))
}

async fn handle(State(api): State<ApiState>, request: Request) -> Response {
    let started = Instant::now();
    let path = request.uri().path().to_owned();
    let known = IfNoneMatch::of(request.headers());
    let response = match Box::pin(admit(&api, request)).await {
        Ok(response) => response,
        Err(error) => {
            tracing::debug!(path, code = error.code(), %error, "request refused");
            refusal(&error)
        }
    };
    let response = not_modified(&known, response);
    api.metrics
        .query_answered(response.status().as_u16(), started.elapsed().as_secs_f64());
    response
}

/// Authenticates the caller and takes a slot for the request. Credentials are removed from it.
async fn admit(api: &ApiState, mut request: Request) -> Result<Response, ApiError> {
    let impersonates = impersonates(request.headers());
    let caller = api.authentication_mode.authenticate(&mut request).await?;
    if let Some(handle) = request.extensions_mut().remove::<RequestHandle>() {
        handle.mark_authenticated();
    }
    if impersonates {
        return Err(ApiError::bad_request(
            "this server does not support impersonation; send the request through the control plane",
        ));
    }
    let uri = request.uri().clone();
    let uri = RequestUri::parse(uri.path(), uri.query())?;
    let (in_flight, request) = api.limits.admit(&caller, &uri, request).await?;
    in_flight
        .run(Box::pin(authorize(api, &caller, &uri, request)))
        .await
}

async fn authorize(
    api: &ApiState,
    caller: &Caller,
    uri: &RequestUri<'_>,
    mut request: Request,
) -> Result<Response, ApiError> {
    if let AuthenticationMode::Delegated(auth) = &api.authentication_mode {
        let attributes = Attributes::of(request.method(), uri);
        auth.authorizer().check(caller, &attributes).await?;
        request.extensions_mut().insert(attributes);
    }
    route(api, caller, uri, request).await
}

/// Routes an authorized request, with its body and the means to upgrade the connection.
async fn route(
    api: &ApiState,
    caller: &Caller,
    uri: &RequestUri<'_>,
    request: Request,
) -> Result<Response, ApiError> {
    if let Some(path) = proxying::request::below(uri) {
        return Box::pin(proxying::handle(api, caller, uri, &path, request)).await;
    }
    let parsed = api_request::parse(uri)?;
    let allowed = parsed.method();
    if request.method() == Method::OPTIONS {
        return Ok(options(if allowed == "GET" {
            "GET, HEAD, OPTIONS"
        } else {
            "POST, OPTIONS"
        }));
    }
    // The response to HEAD is the head of the response to GET.
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
    let ignored = unknown_parameters(&api_request::ignored(&parsed, uri.query())?);
    Ok(with_warnings(
        respond(api, caller, parsed, uri.query(), request).await?,
        &ignored,
    ))
}

/// The response to a parsed request.
async fn respond(
    api: &ApiState,
    caller: &Caller,
    parsed: ApiRequest,
    query: &QueryParameters<'_>,
    request: Request,
) -> Result<Response, ApiError> {
    let catalog = Arc::clone(&api.catalog.borrow());
    match parsed {
        ApiRequest::Version => document(
            &discovery::version()?,
            represented(&request, query, Endpoint::Document)?,
        ),
        ApiRequest::Discovery(GroupDiscovery::Groups) if wants_aggregated(&request) => {
            Ok(aggregated_discovery())
        }
        ApiRequest::Discovery(which) => document(
            &discovery::group_discovery(&which)?,
            represented(&request, query, Endpoint::Document)?,
        ),
        ApiRequest::OpenApi(which) => document(
            &group_discovery::open_api(which)?,
            represented(&request, query, Endpoint::Document)?,
        ),
        ApiRequest::List(list) if list.watch_options.watch => {
            let representation = represented(&request, query, Endpoint::Watch)?;
            watch_objects(
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
            let representation = represented(&request, query, Endpoint::List)?;
            list_objects(api, caller, &catalog, &list, representation).await
        }
        ApiRequest::Aggregate(counts) => {
            let representation = represented(&request, query, Endpoint::Counts)?;
            count_objects(api, caller, &catalog, &counts, representation).await
        }
        ApiRequest::Objects(search) => {
            let representation = represented(&request, query, Endpoint::Counts)?;
            search_objects(api, caller, &catalog, &search, representation).await
        }
        ApiRequest::Search(search) => {
            let representation = represented(&request, query, Endpoint::Counts)?;
            search_all_kinds(api, caller, &catalog, &search, representation).await
        }
        ApiRequest::Completions(completed) => {
            let representation = represented(&request, query, Endpoint::Document)?;
            complete_search(api, caller, &catalog, &completed, representation).await
        }
        ApiRequest::Related(search) => {
            let representation = represented(&request, query, Endpoint::Counts)?;
            related_objects(api, caller, &catalog, &search, representation).await
        }
        ApiRequest::Merged(merged) => {
            let representation = represented(&request, query, Endpoint::Counts)?;
            merged_object(api, caller, &catalog, &merged, representation).await
        }
        ApiRequest::Images(images) => {
            let representation = represented(&request, query, Endpoint::Counts)?;
            count_images(api, caller, &catalog, &images, representation).await
        }
        ApiRequest::Interpret => {
            let representation = represented(&request, query, Endpoint::Document)?;
            interpret(api, caller, &catalog, request, representation).await
        }
        ApiRequest::Changes(changes_request) => {
            if let AuthenticationMode::Delegated(auth) = &api.authentication_mode {
                auth.authorizer()
                    .check(caller, &Attributes::of_replication())
                    .await?;
            }
            let body = changes::respond(&catalog, &changes_request, api.catalog.clone()).await?;
            Ok(json(StatusCode::OK, body))
        }
        ApiRequest::Verify(clusters) => {
            let visible =
                visible_clusters(&api.authentication_mode, caller, &catalog, &clusters).await?;
            Ok(json(
                StatusCode::OK,
                verify::respond(&catalog, &clusters, visible.as_ref())?,
            ))
        }
    }
}

fn represented(
    request: &Request,
    query: &QueryParameters<'_>,
    endpoint: Endpoint,
) -> Result<Representation, ApiError> {
    Representation::negotiate(endpoint, request.headers(), query)
}
