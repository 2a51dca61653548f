//! The query API: authenticates, limits, authorizes and routes requests.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Instant};

use axum::{
    Router,
    extract::{Request, State},
    response::Response,
};
use clap::Args;
use fleetdex_clusters::Clusters;
use fleetdex_query_api::{
    class::RequestClass,
    token_file::{TOKEN_FILE_VARIABLE, default_token_file},
    uri::RequestUri,
};
use fleetdex_telemetry::{Readiness, admin};
use fleetdex_ui::is_page_path;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{
    api_state::ApiState,
    compression,
    dispatch::{authenticate, is_from_another_site, respond},
    listen::{ListenError, Listener},
    page,
    request_trace::{RequestTrace, logged, traced},
};
use crate::{
    answers::{
        Answers,
        response::{not_modified, refusal},
    },
    api_error::{ApiError, Forbidden},
    auth::{
        SecureServing,
        authentication_mode::AuthenticationMode,
        caller::Caller,
        page_session::PageLinks,
        token_file::{TokenFile, TokenFileError},
    },
    catalog::Catalog,
    limits::{LimitArgs, RequestLimits},
    proxying::MemberProxy,
    read::{bindings::BindingReader, fleet::Registries, interpreters::Interpreters},
    render::etag::IfNoneMatch,
    telemetry::Telemetry,
    watch::peers::Peers,
};

/// The flag that sets the address, for error messages.
const ADDRESS_FLAG: &str = "--api-address";

/// Where the query API is served by default, and where `fleetdex get` looks for it.
pub const DEFAULT_ADDRESS: &str = "127.0.0.1:8443";

/// The flags of the query API.
#[derive(Args, Clone, Debug)]
pub struct ServerArgs {
    /// Where the query API is served (port 0: a free port): a loopback address, unless it is served
    /// over TLS.
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
    registries: Registries,
    bindings: Option<BindingReader>,
    links: Arc<PageLinks>,
}

impl Server {
    /// Opens the port, then writes the token file, so that the server is reachable once the file
    /// exists. `serves_others`: clients outside this machine are served, too.
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
            registries: Registries::default(),
            bindings: None,
            links: Arc::default(),
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

    /// The same with the statuses of these registries.
    #[must_use]
    pub fn with_registries(self, registries: Registries) -> Self {
        Self { registries, ..self }
    }

    /// The same with a view of what is distributed.
    #[must_use]
    pub fn with_bindings(self, bindings: BindingReader) -> Self {
        Self {
            bindings: Some(bindings),
            ..self
        }
    }

    /// The path of a link to the web page that signs its first user in as the holder of the token
    /// file.
    pub fn page_link(&self) -> Option<String> {
        let (user, token) = (Caller::local().name, self.token_file.token());
        Some(page::link(&self.links.create(&user, token)?))
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// Serves until cancelled, then removes the token file. Without `secure_serving` only the
    /// holder of the token is served; with it, that caller still is, over plain HTTP from this
    /// machine.
    pub async fn run(
        self,
        catalog: watch::Receiver<Arc<Catalog>>,
        clusters: Arc<Clusters>,
        telemetry: Telemetry,
        secure_serving: Option<SecureServing>,
        peers: Peers,
        cancel: CancellationToken,
    ) {
        let Telemetry {
            metrics,
            readiness,
            traces,
        } = telemetry;
        let authentication_mode = AuthenticationMode::LoopbackToken(self.token_file.verifier());
        let members = Arc::new(MemberProxy::new(clusters, cancel.clone()));
        let keys = secure_serving.as_ref().map(|serving| serving.keys.clone());
        let keys = keys.unwrap_or_default();
        let limits = RequestLimits::new(&self.limits, &metrics);
        let listener = self.listener.counting(Arc::clone(&metrics));
        let local = ApiState {
            answers: Answers {
                peers,
                keys,
                interpreters: self.interpreters,
                registries: self.registries,
                bindings: self.bindings,
                ..Answers::new(catalog, authentication_mode, limits, metrics)
            },
            members: Arc::clone(&members),
            traces,
            links: self.links,
        };
        let (address, token_file) = (listener.address(), self.token_file.path().display());
        tracing::info!(%address, %token_file, secured = secure_serving.is_some(), "serving the query API");
        match secure_serving {
            None => listener.serve(router(local, readiness), cancel).await,
            Some(SecureServing { auth, tls, .. }) => {
                let mut secured = local.clone();
                secured.answers.authentication_mode = AuthenticationMode::Delegated(auth);
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
    let mut trace = RequestTrace::of(&api.traces, &request);
    let response = if is_page_path(&path) {
        let span = trace.as_mut().and_then(RequestTrace::unauthenticated);
        traced(span, Box::pin(page::respond(&api, request))).await
    } else {
        match Box::pin(admit(&api, request, trace.as_mut())).await {
            Ok(response) => response,
            Err(error) => {
                let span = trace.as_mut().and_then(RequestTrace::unauthenticated);
                logged(span.as_ref(), || {
                    tracing::debug!(path, code = error.code(), %error, "request refused");
                });
                refusal(&error)
            }
        }
    };
    let response = not_modified(&known, response);
    api.answers
        .metrics
        .query_answered(response.status().as_u16(), started.elapsed().as_secs_f64());
    match trace {
        Some(trace) => trace.answered(response),
        None => response,
    }
}

/// Authenticates the caller and takes a slot for the request. Credentials are removed from it.
async fn admit(
    api: &ApiState,
    mut request: Request,
    trace: Option<&mut RequestTrace<'_>>,
) -> Result<Response, ApiError> {
    if is_from_another_site(request.headers()) {
        return Err(ApiError::from(Forbidden {
            message: "forbidden: the request comes from a web page of another site".to_owned(),
            ..Forbidden::default()
        }));
    }
    let caller = authenticate(api, &mut request).await?;
    let uri = request.uri().clone();
    let uri = RequestUri::parse(uri.path(), uri.query())?;
    // A question, which may take a hundred times the memory of its text, is parsed when the request
    // has its turn.
    let class = RequestClass::of(request.method(), &uri);
    let answered = async {
        let (in_flight, request) = api.answers.limits.admit(&caller, class, request).await?;
        in_flight
            .run(Box::pin(respond(api, &caller, &uri, request)))
            .await
    };
    traced(trace.and_then(RequestTrace::authenticated), answered).await
}
