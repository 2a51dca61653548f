//! Limits concurrent requests, and shares them fairly among users ([`FairSemaphore`]).
//!
//! Each kind of request has permits of its own, so that no kind starves another: short requests,
//! which queue; watches and other long-running requests; sessions; replication between replicas;
//! and discovery, by which the API server in front checks that this server is alive.

pub mod guarded_body;

use std::{net::IpAddr, sync::Arc, time::Duration};

use axum::{body::Body, extract::Request, response::Response};
use clap::Args;
use fleetdex_limits::{
    computing::ComputingTurns,
    fair_semaphore::{FairPermit, FairSemaphore},
    intake::{Budget, Intake, IntakeError, MemoryReservation},
    poll_time::LongestPoll,
    request::UserRequest,
};
use fleetdex_query_api::class::RequestClass;
use fleetdex_telemetry::{Metrics, metrics::TaskKind};
use http_body::Body as _;
use http_body_util::Limited;
use tokio::time::{Instant, timeout};

use self::guarded_body::{guarded, surrounded};
use crate::{api_error::ApiError, auth::caller::Caller};

/// Bytes of a request's body: the limit of the API server in front.
pub const MAX_BODY_BYTES: usize = 3 * 1024 * 1024;
/// Concurrent sessions. Each has two buffers of 16 KiB and two connections with TLS: about 150 kB,
/// so all of them take 40 MB.
const MAX_SESSIONS: usize = 256;
/// Bytes of a query (names, namespaces, selectors, permissions) that are counted as one unit. Less
/// is not counted: in 4,000 watches that is 32 MB.
const QUERY_UNIT: usize = 8 * 1024;
/// Units of all queries in flight, of which one user can have half: 32 MiB. A watch with 1,000
/// names takes about 150 kB, so one user can have 100 of those.
const QUERY_UNITS: usize = 4_096;
/// Queued short requests for each one in flight; one user can have half of them. At most 64 KiB of
/// headers each: 26 MB with the default.
const QUEUED_PER_PERMIT: usize = 2;
/// Pages of all searches across kinds that are read at a time: what stores have to do at once.
const SEARCH_PAGES: usize = 8;
/// Queries that wait for a page: those of a hundred searches.
const QUEUED_SEARCH_PAGES: usize = 400;
/// Forms with tokens that are read and reviewed at a time, of which one address can have half; 20
/// KiB each.
const SIGN_INS: usize = 64;
/// Views of the web page that are made at a time, of which one user has two: their memory is within
/// what the requests of one user may hold.
const VIEWS: usize = 4;
/// What a view holds at most: a few answers and its HTML.
const VIEW_BYTES: usize = 40 << 20;
/// Views that wait for a permit.
const QUEUED_VIEWS: usize = 400;
/// How long a request waits in the queue: a quarter of its time, as in Kubernetes' API server.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a short request may take until the client has read the last byte of its response. A
/// client that reads 1 MB/s has 600 MB by then.
const MAX_RESPONSE_TIME: Duration = Duration::from_mins(10);

/// The flags of the limits.
#[derive(Args, Clone, Copy, Debug)]
pub struct LimitArgs {
    /// Concurrent requests, not counting watches and forwarded connections, of which one user has
    /// half at most; further ones are queued, and then refused with 429.
    #[arg(long, env = "FLEETDEX_MAX_REQUESTS_IN_FLIGHT", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub max_requests_in_flight: u32,

    /// Concurrent watches and forwarded connections, of which one user has half at most; further
    /// ones are refused with 429.
    #[arg(long, env = "FLEETDEX_MAX_LONG_RUNNING_REQUESTS", default_value_t = 4_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub max_long_running_requests: u32,

    /// Seconds until a response must begin, except for watches and forwarded connections.
    #[arg(long, env = "FLEETDEX_REQUEST_TIMEOUT", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub request_timeout: u64,
}

impl Default for LimitArgs {
    fn default() -> Self {
        Self {
            max_requests_in_flight: 200,
            max_long_running_requests: 4_000,
            request_timeout: 60,
        }
    }
}

/// When a response ends at the latest. An extension of the response.
#[derive(Clone, Copy, Debug)]
pub struct ResponseDeadline(pub Instant);

/// The memory of the request. An extension of the response.
#[derive(Clone, Debug)]
pub struct ResponseMemory(pub Intake);

/// Permits that users share, by user name.
type Users = FairSemaphore<Arc<str>>;
/// The permit of a user.
pub type UserPermit = FairPermit<Arc<str>>;

/// The limits of all kinds of requests.
#[derive(Clone, Debug)]
pub struct RequestLimits {
    short: Users,
    searches: Users,
    objects: Users,
    long: Users,
    sessions: Users,
    replication: Users,
    discovery: Users,
    queries: Users,
    /// The permits of pages of searches across kinds, each for one page in memory.
    pub(crate) search_pages: Users,
    sign_ins: Users,
    views: Users,
    computing: ComputingTurns,
    memory: Budget,
    longest_poll: LongestPoll,
    /// How long reading a request may take, its body included.
    pub(crate) request_timeout: Duration,
}

impl RequestLimits {
    /// Limits with all permits free.
    pub fn new(args: &LimitArgs, metrics: &Metrics) -> Self {
        let short = args.max_requests_in_flight as usize;
        let long = args.max_long_running_requests as usize;
        let users = |permits, queue, name| {
            FairSemaphore::new(permits, queue, metrics.rejected_requests(name))
        };
        Self {
            short: users(short, QUEUED_PER_PERMIT * short, "requests"),
            // What searches and members take their time for does not keep lists waiting.
            searches: users(short.div_ceil(4), short, "searches"),
            objects: users(short.div_ceil(2), short, "object_requests"),
            long: users(long, 0, "long_running"),
            sessions: users(MAX_SESSIONS, 0, "sessions"),
            // As many as watches: each watch may need the changes of every other replica.
            replication: users(long, 0, "replication"),
            discovery: users(short, QUEUED_PER_PERMIT * short, "discovery"),
            queries: users(QUERY_UNITS, 0, "query_memory"),
            search_pages: users(SEARCH_PAGES, QUEUED_SEARCH_PAGES, "search_pages"),
            sign_ins: users(SIGN_INS, 0, "sign_ins"),
            views: users(VIEWS, QUEUED_VIEWS, "views"),
            computing: ComputingTurns::new(metrics.rejected_requests("computing")),
            memory: Budget::of_users(),
            longest_poll: LongestPoll::new(metrics.longest_poll(TaskKind::Request)),
            request_timeout: Duration::from_secs(args.request_timeout),
        }
    }

    /// The permit of a form with a token, from this address; `None` while too many are being read.
    pub fn sign_in(&self, address: IpAddr) -> Option<UserPermit> {
        self.sign_ins.try_acquire(address.to_string().into())
    }

    /// Waits for the permit of a view of the web page, and for its memory.
    pub async fn view(&self, caller: &Caller) -> Result<(MemoryReservation, UserPermit), ApiError> {
        let user = Arc::from(caller.name.as_str());
        let patience = QUEUE_TIMEOUT.min(self.request_timeout);
        let permit = self.views.acquire(user, patience).await;
        let permit = permit.ok_or(ApiError::TooManyRequests)?;
        let mut memory = UserRequest::current().memory().reservation();
        grow(&mut memory, VIEW_BYTES, patience).await?;
        Ok((memory, permit))
    }

    /// Acquires a permit for a request, and limits its body. A short request waits for its permit.
    pub async fn admit(
        &self,
        caller: &Caller,
        class: RequestClass,
        request: Request,
    ) -> Result<(InFlightRequest, Request), ApiError> {
        let user = Arc::from(caller.name.as_str());
        let queue_timeout = QUEUE_TIMEOUT.min(self.request_timeout);
        let permit = match class {
            // Users share these fairly, too.
            RequestClass::Replication | RequestClass::ReplicationStream => {
                self.replication.try_acquire(user)
            }
            RequestClass::LongRunning => self.long.try_acquire(user),
            RequestClass::Discovery => self.discovery.acquire(user, queue_timeout).await,
            RequestClass::List => self.short.acquire(user, queue_timeout).await,
            RequestClass::Search => self.searches.acquire(user, queue_timeout).await,
            RequestClass::Objects => self.objects.acquire(user, queue_timeout).await,
        };
        let permit = permit.ok_or(ApiError::TooManyRequests)?;
        let request_timeout = (!class.is_long_running()).then_some(self.request_timeout);
        Ok((
            InFlightRequest {
                permit,
                request_timeout,
                request: UserRequest::new(&self.memory, &self.computing, &caller.name)
                    .measured(self.longest_poll.clone()),
            },
            with_limited_body(request)?,
        ))
    }

    /// Reserves memory for a query of `bytes`, until the result is dropped.
    pub fn reserve_query(
        &self,
        caller: &Caller,
        bytes: usize,
    ) -> Result<Vec<UserPermit>, ApiError> {
        let user: Arc<str> = caller.name.as_str().into();
        let units = (0..bytes / QUERY_UNIT).map(|_| self.queries.try_acquire(Arc::clone(&user)));
        let busy = || {
            ApiError::Busy(format!(
                "names, namespaces and selectors of open requests, of this user or of all, exceed their share of {} MiB; request fewer at once",
                (QUERY_UNITS * QUERY_UNIT) >> 20
            ))
        };
        units.collect::<Option<Vec<_>>>().ok_or_else(busy)
    }

    /// Acquires the permit of a session, which outlasts the response that begins it.
    pub fn session(&self, caller: &Caller) -> Result<UserPermit, ApiError> {
        let busy = || {
            ApiError::Busy(format!(
                "too many of the {MAX_SESSIONS} sessions through this server are open, of this user or of all"
            ))
        };
        self.sessions
            .try_acquire(Arc::from(caller.name.as_str()))
            .ok_or_else(busy)
    }
}

/// Holds the permit of a request in flight.
#[derive(Debug)]
pub struct InFlightRequest {
    permit: UserPermit,
    request_timeout: Option<Duration>,
    request: UserRequest,
}

impl InFlightRequest {
    /// Waits for the response within its timeout. Holds the permit until the last byte is sent, for
    /// which there is a timeout, too.
    pub async fn run(
        self,
        response: impl Future<Output = Result<Response, ApiError>>,
    ) -> Result<Response, ApiError> {
        let (permit, request) = (self.permit, self.request);
        let response = request.clone().scope(response);
        let memory = ResponseMemory(request.memory().clone());
        let sent = |mut response: Response| {
            response.extensions_mut().insert(memory);
            response.map(|body| guarded(surrounded(body, request), permit))
        };
        let Some(limit) = self.request_timeout else {
            return Ok(sent(response.await?));
        };
        let begun = Instant::now();
        let mut response = timeout(limit, response)
            .await
            .map_err(|_| ApiError::RequestTimeout(limit.as_secs()))??;
        response
            .extensions_mut()
            .insert(ResponseDeadline(begun + MAX_RESPONSE_TIME));
        Ok(sent(response))
    }
}

/// Reserves memory of a request, for which it waits no longer than `patience`.
pub(crate) async fn grow(
    memory: &mut MemoryReservation,
    bytes: usize,
    patience: Duration,
) -> Result<(), ApiError> {
    let reserved = timeout(patience, memory.grow(bytes)).await;
    let reserved = reserved.map_err(|_| ApiError::TooManyRequests)?;
    reserved.map_err(|error| no_memory(&error))
}

/// The refusal of a request that there is no memory for.
pub(crate) fn no_memory(error: &IntakeError) -> ApiError {
    match error {
        IntakeError::TooLarge(limit) => ApiError::TooLarge(*limit),
        IntakeError::RequestTooLarge(_) => ApiError::Unprocessable(error.for_user()),
        IntakeError::ShareExhausted(_) | IntakeError::Slow | IntakeError::Broken(_) => {
            ApiError::Busy(error.for_user())
        }
    }
}

fn with_limited_body(request: Request) -> Result<Request, ApiError> {
    if request.body().size_hint().lower() > MAX_BODY_BYTES as u64 {
        return Err(ApiError::TooLarge(MAX_BODY_BYTES));
    }
    Ok(request.map(|body| Body::new(Limited::new(body, MAX_BODY_BYTES))))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use fleetdex_query_api::{
        group::{GROUPS, VERSION},
        uri::RequestUri,
    };

    use super::*;

    fn get(path: &str) -> Request {
        by("GET", path)
    }

    fn class(request: &Request) -> RequestClass {
        let uri = request.uri();
        let uri = RequestUri::parse(uri.path(), uri.query()).unwrap();
        RequestClass::of(request.method(), &uri)
    }

    async fn admit(
        limits: &RequestLimits,
        user_name: &str,
        request: Request,
    ) -> Result<(InFlightRequest, Request), ApiError> {
        let class = class(&request);
        limits.admit(&user(user_name), class, request).await
    }

    const WATCH: &str = "/apis/search.fleetdex.io/v1alpha1/search/api/v1/pods?watch=true";

    fn by(method: &str, path: &str) -> Request {
        let headers = Request::builder()
            .method(method)
            .uri(path)
            .header("connection", "upgrade")
            .header("upgrade", "websocket");
        headers.body(Body::empty()).unwrap()
    }

    fn limits(args: &LimitArgs) -> RequestLimits {
        RequestLimits::new(args, &Metrics::new())
    }

    fn user(name: &str) -> Caller {
        Caller {
            name: name.to_owned(),
            uid: None,
            groups: Vec::new(),
            extra: std::collections::BTreeMap::new(),
        }
    }

    async fn send(
        limits: &RequestLimits,
        user_name: &str,
        path: &str,
        response: impl Future<Output = Response>,
    ) -> Result<Response, ApiError> {
        let (in_flight, _request) = admit(limits, user_name, get(path)).await?;
        in_flight.run(async { Ok(response.await) }).await
    }

    fn ok() -> impl Future<Output = Response> {
        std::future::ready(Response::new(Body::from("x")))
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_counts_until_its_response_is_read_and_each_kind_has_its_own_limit() {
        let limits = limits(&LimitArgs {
            max_requests_in_flight: 1,
            max_long_running_requests: 1,
            request_timeout: 1,
        });
        let ask = async |path: &str| send(&limits, "alice", path, ok()).await;
        let first = ask("/a").await.unwrap();
        assert_eq!(ask("/a").await.unwrap_err(), ApiError::TooManyRequests);
        let watch = ask(WATCH).await.unwrap();
        assert_eq!(ask(WATCH).await.unwrap_err(), ApiError::TooManyRequests);
        for path in [
            "/apis",
            "/apis/search.fleetdex.io/v1alpha1",
            "/openapi/v3",
            "/version",
        ] {
            assert!(ask(path).await.is_ok(), "{path} must always be answered");
        }
        let changes = format!(
            "/apis/{}/{VERSION}/changes/api/v1/pods?watch=true",
            GROUPS[0]
        );
        let replica = send(&limits, "replica", &changes, ok()).await.unwrap();
        assert!(
            ask("/apis/search.fleetdex.io/v1alpha1/search")
                .await
                .is_err()
        );
        drop((first, watch, replica));
        assert!(ask("/a").await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_user_with_many_unread_responses_leaves_permits_to_others() {
        let limits = limits(&LimitArgs::default());
        for (path, share) in [("/a", 100), (WATCH, 2_000)] {
            let mut unread = Vec::new();
            while let Ok(response) = send(&limits, "noisy", path, ok()).await {
                unread.push(response);
            }
            assert_eq!(unread.len(), share);
            for name in ["alice", "bob"] {
                assert!(send(&limits, name, path, ok()).await.is_ok());
            }
        }
        let sessions: Vec<UserPermit> =
            std::iter::from_fn(|| limits.session(&user("noisy")).ok()).collect();
        assert_eq!(sessions.len(), MAX_SESSIONS / 2);
        assert_eq!(limits.session(&user("noisy")).unwrap_err().code(), 429);
        assert!(limits.session(&user("alice")).is_ok());
    }

    #[test]
    fn large_queries_are_shared_among_users_and_small_ones_are_free() {
        let limits = limits(&LimitArgs::default());
        let (noisy, alice) = (user("noisy"), user("alice"));
        let large: Vec<_> =
            std::iter::from_fn(|| limits.reserve_query(&noisy, 3 << 20).ok()).collect();
        assert_eq!(large.len(), 5, "16 MiB of 32");
        assert_eq!(
            limits.reserve_query(&noisy, 3 << 20).unwrap_err().code(),
            429
        );
        assert!(
            limits
                .reserve_query(&noisy, QUERY_UNIT - 1)
                .is_ok_and(|shares| shares.is_empty())
        );
        assert!(limits.reserve_query(&alice, 3 << 20).is_ok());
        drop(large);
        assert!(
            limits.reserve_query(&noisy, 15 << 20).is_ok(),
            "the units of a refused query are released"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_queued_user_is_served_before_one_with_more_requests() {
        let limits = limits(&LimitArgs {
            max_requests_in_flight: 4,
            ..LimitArgs::default()
        });
        let noisy = send(&limits, "noisy", "/a", ok()).await.unwrap();
        let _second = send(&limits, "noisy", "/a", ok()).await.unwrap();
        let others = (
            send(&limits, "b", "/a", ok()).await.unwrap(),
            send(&limits, "c", "/a", ok()).await.unwrap(),
        );
        let wait = |name: &'static str| {
            let limits = limits.clone();
            tokio::spawn(async move { send(&limits, name, "/a", ok()).await.map(|_| name) })
        };
        let (greedy, quiet) = (wait("noisy"), wait("quiet"));
        tokio::task::yield_now().await;
        drop(noisy);
        assert_eq!(quiet.await.unwrap(), Ok("quiet"));
        drop(others);
        assert_eq!(greedy.await.unwrap(), Ok("noisy"));
    }

    #[tokio::test(start_paused = true)]
    async fn only_short_requests_time_out() {
        let limits = limits(&LimitArgs {
            request_timeout: 5,
            ..LimitArgs::default()
        });
        let slow = async || {
            tokio::time::sleep(Duration::from_mins(1)).await;
            Response::default()
        };
        assert_eq!(
            send(&limits, "alice", "/a", slow()).await.unwrap_err(),
            ApiError::RequestTimeout(5)
        );
        assert!(send(&limits, "alice", WATCH, slow()).await.is_ok());
        let ends = send(&limits, "alice", "/a", ok())
            .await
            .unwrap()
            .extensions()
            .get::<ResponseDeadline>()
            .map(|ResponseDeadline(at)| *at);
        assert_eq!(ends, Some(Instant::now() + MAX_RESPONSE_TIME));
    }

    #[tokio::test]
    async fn a_body_that_is_too_long_is_refused_or_cut() {
        let limits = limits(&LimitArgs::default());
        let declared = Request::put("/a")
            .body(Body::from(vec![b'x'; MAX_BODY_BYTES + 1]))
            .unwrap();
        assert_eq!(
            admit(&limits, "alice", declared).await.unwrap_err(),
            ApiError::TooLarge(MAX_BODY_BYTES)
        );
        let chunks = (0..4).map(|_| Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; 1024 * 1024])));
        let chunked = Request::put("/a")
            .body(Body::from_stream(futures::stream::iter(chunks)))
            .unwrap();
        let (_in_flight, request) = admit(&limits, "alice", chunked).await.unwrap();
        assert!(
            http_body_util::BodyExt::collect(request.into_body())
                .await
                .is_err()
        );
    }
}
