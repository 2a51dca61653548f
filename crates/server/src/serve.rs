//! The query API: finds out who asks, what they want and may, and has it answered.

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
use fleetdex_clusters::Clusters;
use fleetdex_core::query::{Requester, ResourceName};
use fleetdex_telemetry::{Metrics, Readiness, admin};
use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{
    aggregate,
    auth::{TOKEN_FILE_VARIABLE, TokenFile, TokenFileError, TokenVerifier, default_token_file},
    caller::Caller,
    catalog::Catalog,
    changes,
    compression::{self, Compressible},
    continue_token::Keys,
    discovery,
    etag::{self, Known},
    explain,
    front::{
        Entrance, Front,
        attributes::Attributes,
        identity::{IdentityHeaders, impersonates},
        limits::{LimitArgs, Limits, UserShare},
    },
    holding::holding,
    list,
    listen::{Arrived, ListenError, Listener, delivery::EndsBy},
    own, owners,
    peers::Peers,
    permission::{Sight, permission, sight, standing, visible_clusters},
    proxying::{self, Members},
    representation::{Endpoint, Form, MetaVersion, Representation},
    request::{self, AggregateRequest, ApiRequest, ListRequest, OwnDiscovery, path_segments},
    status::{ApiError, RETRY_AFTER_SECONDS},
    target::{Target, target},
    verify,
    watching::{self, Lasting},
};

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

/// Who is let in.
#[derive(Clone, Debug)]
pub enum Gate {
    /// The holder of the token, who may everything.
    Token(TokenVerifier),
    /// Whom the control plane knows, to what they may.
    Front(Front),
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
    pub gate: Gate,
    /// What is taken on at a time.
    pub limits: Limits,
    /// Where requests about single objects go on to.
    pub members: Arc<Members>,
    /// The other replicas.
    pub peers: Peers,
    /// What continue tokens are sealed with.
    pub keys: Keys,
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

/// An answer that the client has already is not sent again.
fn unless_known(known: &Known, mut response: Response) -> Response {
    if response
        .headers()
        .get(header::ETAG)
        .is_some_and(|tag| known.has(tag))
    {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response.headers_mut().remove(header::CONTENT_TYPE);
        *response.body_mut() = Body::empty();
    }
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

/// What a request was let in as, where somebody was asked.
pub(super) fn attributes(request: &Request) -> Option<Attributes> {
    request.extensions().get().cloned()
}

/// The parameter `onlyMetadata` says the same as a media type does, which wins.
fn narrowed(representation: Representation, wanted: &ListRequest) -> Representation {
    match representation.form {
        Form::Whole if wanted.options.only_metadata => Representation {
            form: Form::Metadata(MetaVersion::V1),
            ..representation
        },
        _ => representation,
    }
}

pub(super) async fn answer_list(
    api: &Api,
    caller: &Caller,
    catalog: &Arc<Catalog>,
    wanted: &ListRequest,
    representation: Representation,
) -> Result<Response, ApiError> {
    let Found {
        target: found,
        warnings,
        question,
        ..
    } = permitted_target(api, caller, catalog, wanted).await?;
    if wanted.options.explain {
        let explained = explain::list(&found, wanted).await?;
        return Ok(with_warnings(
            document(&explained, representation)?,
            &warnings,
        ));
    }
    let representation = narrowed(representation, wanted);
    // Somebody who lists may watch next.
    let _following = api.peers.follow(&found, &wanted.native).await?;
    let response = tagged(list::answer(found, wanted, representation, caller, &api.keys).await?);
    Ok(with_warnings(
        response.map(|body| held(body, question)),
        &warnings,
    ))
}

async fn answer_counts(
    api: &Api,
    caller: &Caller,
    catalog: &Arc<Catalog>,
    wanted: &AggregateRequest,
    representation: Representation,
) -> Result<Response, ApiError> {
    let Found {
        target: found,
        warnings,
        question: _question,
        ..
    } = permitted_target(api, caller, catalog, &wanted.list).await?;
    let answer = if wanted.list.options.explain {
        explain::counts(&found, wanted).await?
    } else {
        aggregate::answer(
            &aggregate::count(found, wanted).await?,
            wanted,
            representation.form,
        )?
    };
    Ok(with_warnings(document(&answer, representation)?, &warnings))
}

/// The same body, which holds the memory of its question.
fn held(body: Body, question: Vec<UserShare>) -> Body {
    if question.is_empty() {
        body
    } else {
        holding(body, question)
    }
}

/// What answers a caller.
pub(super) struct Found {
    /// The store and what it is asked, restricted to what the caller may see.
    pub(super) target: Target,
    /// What the caller should know about the answer.
    pub(super) warnings: Vec<String>,
    /// What the caller may know of.
    catalog: Arc<Catalog>,
    /// The memory that the question takes, to be held as long as it is kept.
    question: Vec<UserShare>,
}

/// Finds what answers a caller.
pub(super) async fn permitted_target(
    api: &Api,
    caller: &Caller,
    catalog: &Arc<Catalog>,
    wanted: &ListRequest,
) -> Result<Found, ApiError> {
    let resource = ResourceName::new(&wanted.native.group, &wanted.native.plural);
    // Owners may be of any resource.
    let only = (!wanted.options.owner.is_asked()).then_some(&resource);
    let catalog = sight(&api.gate, caller, catalog, &wanted.clusters, only).await?;
    let permission = permission(&api.gate, caller, &catalog, wanted).await?;
    let mut found = target(&catalog, wanted, permission.permitted)?;
    found.query.requester = Requester::User(caller.name.as_str().into());
    owners::resolve(
        &mut found,
        &wanted.options.owner,
        &Sight {
            gate: &api.gate,
            caller,
            catalog: &catalog,
        },
    )
    .await?;
    // In the query, and in what each store makes of it.
    let question = api.limits.question(
        caller,
        found.query.bytes() * (1 + found.stores.parts().len()),
    )?;
    let warnings = unknown_parameters(&wanted.ignored)
        .into_iter()
        .chain(permission.warnings)
        .chain(found.warnings.clone())
        .collect();
    Ok(Found {
        target: found,
        warnings,
        catalog,
        question,
    })
}

/// Parameters that warnings name: as many as an answer's head has room for.
const MAX_NAMED: usize = 16;
/// Characters of the name of a parameter that a warning repeats.
const MAX_NAME: usize = 64;

/// Says which parameters were ignored.
pub(super) fn unknown_parameters(names: &[String]) -> Vec<String> {
    let short = |name: &String| name.chars().take(MAX_NAME).collect::<String>();
    let named = names
        .iter()
        .take(MAX_NAMED)
        .map(|name| format!("unknown parameter {:?} is ignored", short(name)));
    let others = names.len().saturating_sub(MAX_NAMED);
    named
        .chain((others > 0).then(|| format!("{others} more unknown parameters are ignored")))
        .collect()
}

/// Says which methods a path takes.
pub(super) fn options(allowed: &'static str) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
        .headers_mut()
        .insert(header::ALLOW, HeaderValue::from_static(allowed));
    response
}

pub(super) fn with_warnings(mut response: Response, warnings: &[String]) -> Response {
    for value in warnings.iter().filter_map(|text| warning(text)) {
        response.headers_mut().append(header::WARNING, value);
    }
    response
}

pub(super) async fn answer_watch(
    api: &Api,
    caller: &Caller,
    catalog: &Arc<Catalog>,
    wanted: &ListRequest,
    representation: Representation,
    let_in_as: Option<Attributes>,
) -> Result<Response, ApiError> {
    let everything = Arc::clone(catalog);
    let Found {
        target: found,
        warnings,
        catalog,
        question,
    } = permitted_target(api, caller, catalog, wanted).await?;
    let representation = narrowed(representation, wanted);
    let lasting = if wanted.rewrites_version {
        Lasting::Long
    } else {
        Lasting::Short
    };
    let following = api.peers.follow(&found, &wanted.native).await?;
    following.check(&catalog)?;
    let standing = standing(&api.gate, caller, wanted, &found.query.permitted, let_in_as);
    let (body, ends) = watching::answer(
        &everything,
        found,
        wanted,
        representation,
        lasting,
        &following,
        api.catalog.clone(),
    )
    .await?;
    let body = match standing {
        Some(standing) => watching::ended_by(body, standing.lost()),
        None => body,
    };
    let mut response = json(StatusCode::OK, held(body, question));
    response.extensions_mut().insert(EndsBy(ends));
    Ok(with_warnings(response, &warnings))
}

/// `299 - "text"`, as Kubernetes sends warnings. Characters that a header cannot carry become `?`.
fn warning(text: &str) -> Option<HeaderValue> {
    let plain = |letter: char| {
        if letter.is_ascii_graphic() || letter == ' ' {
            letter
        } else {
            '?'
        }
    };
    let quoted = text
        .chars()
        .map(plain)
        .collect::<String>()
        .replace('\\', r"\\")
        .replace('"', r#"\""#);
    HeaderValue::from_str(&format!("299 - \"{quoted}\"")).ok()
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

/// A document that is no object, as the client wants to read it.
pub(super) fn document(
    json_text: &RawValue,
    representation: Representation,
) -> Result<Response, ApiError> {
    let bytes = Bytes::from(representation.document(json_text.get())?);
    let tag = Some(etag::of(&bytes));
    Ok(tagged(list::Answer {
        body: Body::from(bytes),
        media_type: representation.encoding.media_type(),
        tag,
    }))
}

pub(super) fn tagged(answer: list::Answer) -> Response {
    let mut response = json(StatusCode::OK, answer.body);
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static(answer.media_type),
    );
    response
        .headers_mut()
        .insert(header::VARY, HeaderValue::from_static("accept"));
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
        ApiError::Unauthorized | ApiError::Unauthenticated => {
            (header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
        }
        ApiError::MethodNotAllowed { allowed, .. } => {
            (header::ALLOW, HeaderValue::from_static(allowed))
        }
        ApiError::Busy(_) | ApiError::Crowded(_) | ApiError::TooManyRequests => {
            (header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER_SECONDS))
        }
        _ => return response,
    };
    response.headers_mut().insert(name, value);
    response
}

pub(super) fn json(code: StatusCode, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    response
}
