//! What one server takes on at a time, shared fairly among the users ([`Shares`]).
//!
//! There are places of several kinds, so that no kind of request takes those of another: short requests, which wait for their turn; watches and other long
//! ones; sessions; the replicas among themselves; and discovery, by which the API server in front finds out whether this one lives.

use std::{sync::Arc, time::Duration};

use axum::{body::Body, extract::Request, response::Response};
use clap::Args;
use fleetdex_limits::shares::{Share, Shares};
use fleetdex_telemetry::Metrics;
use http::Method;
use http_body::Body as _;
use http_body_util::Limited;
use tokio::time::{Instant, timeout};

use crate::{
    caller::Caller,
    holding::holding,
    listen::delivery::EndsBy,
    proxying::{self, request::is_watch},
    request::{self, GROUPS, VERSION},
    status::ApiError,
};

/// Bytes of a request's body: what the API server in front takes.
pub const MAX_BODY_BYTES: usize = 3 * 1024 * 1024;
/// Sessions at a time. Each has two buffers of 16 KiB and two connections with TLS: about 150 kB, so a full house costs 40 MB.
const MAX_SESSIONS: usize = 256;
/// Bytes of questions (names, namespaces, selectors, rights) that are counted as one. What is less is not counted: 4,000 watches have 32 MB of it.
const QUESTION_UNIT: usize = 8 * 1024;
/// Units of all questions under way, of which those of one user are half at most: 128 MiB. A watch with 1,000 names takes about 150 kB, so one user may have
/// 400 of those.
const QUESTION_UNITS: usize = 16_384;
/// Short requests that wait for their turn, for each that is under way; one user may have half of them. At most 64 KiB of headers each: 26 MB with the
/// default.
const QUEUED_PER_PLACE: usize = 2;
/// How long a request waits for its turn: a quarter of its time, as in Kubernetes' API server.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a short request may take until the last byte of its answer is taken. A client that takes 1 MB/s has 600 MB by then.
const MAX_ANSWER_TIME: Duration = Duration::from_mins(10);

/// The flags of the bounds.
#[derive(Args, Clone, Copy, Debug)]
pub struct LimitArgs {
    /// Requests under way at a time, watches and forwarded connections not counted, of which one user has half at most; further ones wait, and are then
    /// answered 429.
    #[arg(long, env = "FLEETDEX_MAX_REQUESTS_IN_FLIGHT", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub max_requests_in_flight: u32,

    /// Watches and forwarded connections at a time, of which one user has half at most; further ones are answered 429.
    #[arg(long, env = "FLEETDEX_MAX_LONG_RUNNING_REQUESTS", default_value_t = 4_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub max_long_running_requests: u32,

    /// Seconds until an answer has to begin, but for watches and forwarded connections.
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

/// Users share places by their names.
type Users = Shares<Arc<str>>;
/// A place of a user.
pub type UserShare = Share<Arc<str>>;

/// The bounds, and what of them is taken.
#[derive(Clone, Debug)]
pub struct Limits {
    short: Users,
    long: Users,
    sessions: Users,
    replication: Users,
    discovery: Users,
    questions: Users,
    request_timeout: Duration,
}

impl Limits {
    /// Nothing is taken yet.
    pub fn new(args: &LimitArgs, metrics: &Metrics) -> Self {
        let (short, long) = (
            args.max_requests_in_flight as usize,
            args.max_long_running_requests as usize,
        );
        let users = |places, room, name| Shares::new(places, room, metrics.refused_requests(name));
        Self {
            short: users(short, QUEUED_PER_PLACE * short, "requests"),
            long: users(long, 0, "long_running"),
            sessions: users(MAX_SESSIONS, 0, "sessions"),
            // As many as watches: each of those may need changes of each other replica.
            replication: users(long, 0, "replication"),
            discovery: users(short, QUEUED_PER_PLACE * short, "discovery"),
            questions: users(QUESTION_UNITS, 0, "questions"),
            request_timeout: Duration::from_secs(args.request_timeout),
        }
    }

    /// Takes a place for a request, whose body is bounded from now on. A short one waits for it.
    pub async fn admit(
        &self,
        caller: &Caller,
        request: Request,
    ) -> Result<(Place, Request), ApiError> {
        let lasts = lasts(&request);
        let path = request.uri().path();
        let (user, patience) = (
            Arc::from(caller.name.as_str()),
            QUEUE_TIMEOUT.min(self.request_timeout),
        );
        let share = if is_of_replicas(path) {
            self.replication.try_take(user)
        } else if lasts {
            self.long.try_take(user)
        } else if tells_what_there_is(path) {
            self.discovery.take(user, patience).await
        } else {
            self.short.take(user, patience).await
        };
        let share = share.ok_or(ApiError::TooManyRequests)?;
        let request_timeout = (!lasts).then_some(self.request_timeout);
        Ok((
            Place {
                share,
                request_timeout,
            },
            bounded(request)?,
        ))
    }

    /// How long reading a request may take, its body included.
    pub fn request_timeout(&self) -> Duration {
        self.request_timeout
    }

    /// Takes memory for a question of so many bytes, for as long as it is kept.
    pub fn question(&self, caller: &Caller, bytes: usize) -> Result<Vec<UserShare>, ApiError> {
        let user: Arc<str> = caller.name.as_str().into();
        let units = (0..bytes / QUESTION_UNIT).map(|_| self.questions.try_take(Arc::clone(&user)));
        let busy = || {
            ApiError::Busy(format!(
                "names, namespaces and selectors of questions under way, of this user or altogether, take more than their share of {} MiB; ask for fewer at once",
                (QUESTION_UNITS * QUESTION_UNIT) >> 20
            ))
        };
        units.collect::<Option<Vec<_>>>().ok_or_else(busy)
    }

    /// Takes a place for a session of a user, which lasts longer than the answer that begins it.
    pub fn session(&self, caller: &Caller) -> Result<UserShare, ApiError> {
        let busy = || {
            ApiError::Busy(format!(
                "of {MAX_SESSIONS} sessions through this server, too many are open already, of this user or altogether"
            ))
        };
        self.sessions
            .try_take(Arc::from(caller.name.as_str()))
            .ok_or_else(busy)
    }
}

/// The place of a request that is under way.
#[derive(Debug)]
pub struct Place {
    share: UserShare,
    request_timeout: Option<Duration>,
}

impl Place {
    /// Waits for an answer as long as it may take. The place is taken until its last byte is sent, for which there is a limit, too.
    pub async fn hold(
        self,
        answer: impl Future<Output = Result<Response, ApiError>>,
    ) -> Result<Response, ApiError> {
        let Some(limit) = self.request_timeout else {
            return Ok(answer.await?.map(|body| holding(body, self.share)));
        };
        let begun = Instant::now();
        let mut response = timeout(limit, answer)
            .await
            .map_err(|_| ApiError::RequestTimeout(limit.as_secs()))??;
        response
            .extensions_mut()
            .insert(EndsBy(begun + MAX_ANSWER_TIME));
        Ok(response.map(|body| holding(body, self.share)))
    }
}

/// What the replicas tell one another. Whether the caller is one is not known yet, so that each user has a share of these places, too.
fn is_of_replicas(path: &str) -> bool {
    let mut segments = path.trim_matches('/').split('/');
    segments.next() == Some("apis")
        && segments.next().is_some_and(|group| GROUPS.contains(&group))
        && segments.next() == Some(VERSION)
        && segments.next() == Some("changes")
}

/// Whether a request lasts as long as the client likes: a watch, a verification, or a connection that is forwarded. The parsers that answer
/// requests decide it, so that no request has a place of another kind than it is answered as.
fn lasts(request: &Request) -> bool {
    let (method, path, query) = (
        request.method(),
        request.uri().path(),
        request.uri().query(),
    );
    if let Some(inner) = proxying::request::below(path) {
        return proxying::request::parse(method.as_str(), inner, query)
            .is_ok_and(|info| info.lasts());
    }
    let may_last = match *method {
        Method::GET | Method::HEAD => is_watch(query),
        Method::POST => true,
        _ => false,
    };
    may_last && request::parse(path, query).is_ok_and(|wanted| wanted.lasts())
}

/// Discovery of the server's own groups, their schemas, and the version.
fn tells_what_there_is(path: &str) -> bool {
    let mut segments = path.trim_matches('/').split('/');
    match segments.next() {
        Some("apis") => segments.count() <= 2,
        Some("openapi" | "version") => true,
        _ => false,
    }
}

fn bounded(request: Request) -> Result<Request, ApiError> {
    if request.body().size_hint().lower() > MAX_BODY_BYTES as u64 {
        return Err(ApiError::TooLarge(MAX_BODY_BYTES));
    }
    Ok(request.map(|body| Body::new(Limited::new(body, MAX_BODY_BYTES))))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn get(path: &str) -> Request {
        Request::get(path).body(Body::empty()).unwrap()
    }

    const SEARCH: &str = "/apis/search.fleetdex.io/v1alpha1/search/api/v1";
    const WATCH: &str = "/apis/search.fleetdex.io/v1alpha1/search/api/v1/pods?watch=true";
    const PROXY: &str = "/apis/search.fleetdex.io/v1alpha1/proxying/karmada/proxy";

    fn by(method: &str, path: &str) -> Request {
        let headers = Request::builder()
            .method(method)
            .uri(path)
            .header("connection", "upgrade")
            .header("upgrade", "websocket");
        headers.body(Body::empty()).unwrap()
    }

    #[test]
    fn watches_and_forwarded_connections_last() {
        for query in [
            "watch=true",
            "limit=1&watch=1",
            "watch",
            "watch=",
            "%77atch=yes",
        ] {
            assert!(lasts(&get(&format!("{SEARCH}/pods?{query}"))), "{query}");
            assert!(
                lasts(&get(&format!("{PROXY}/api/v1/pods?{query}"))),
                "{query}"
            );
        }
        for path in [
            "pods/a/exec?command=ls",
            "pods/a/log",
            "services/a/proxy",
            "services/a/proxy/x/y",
        ] {
            assert!(
                lasts(&get(&format!(
                    "{PROXY}/clusters/m/api/v1/namespaces/n/{path}"
                ))),
                "{path}"
            );
        }
        assert!(lasts(&by(
            "POST",
            "/apis/search.fleetdex.io/v1alpha1/verify"
        )));
    }

    #[test]
    fn what_is_answered_at_once_does_not_last_however_it_is_asked() {
        for query in [
            "",
            "watch=false",
            "watch=False",
            "watch=%30",
            "watch=0",
            "labelSelector=watch%3Dtrue",
        ] {
            for method in ["GET", "PUT"] {
                assert!(
                    !lasts(&by(method, &format!("{SEARCH}/pods?{query}"))),
                    "{method} {query}"
                );
                assert!(
                    !lasts(&by(method, &format!("{PROXY}/api/v1/pods?{query}"))),
                    "{method} {query}"
                );
            }
        }
        let others = [
            (
                "PUT",
                format!("{PROXY}/clusters/m/api/v1/namespaces/n/pods/a?watch=true"),
            ),
            (
                "GET",
                format!("{PROXY}/clusters/m/api/v1/namespaces/n/pods/a?watch=true"),
            ),
            ("GET", format!("{PROXY}/version?watch=true")),
            ("GET", "/version?watch=true".to_owned()),
            (
                "GET",
                "/apis/search.fleetdex.io/v1alpha1/search/log".to_owned(),
            ),
            ("POST", format!("{SEARCH}/verify")),
        ];
        for (method, path) in others {
            assert!(!lasts(&by(method, &path)), "{method} {path}");
        }
    }

    fn limits(args: &LimitArgs) -> Limits {
        Limits::new(args, &Metrics::new())
    }

    fn user(name: &str) -> Caller {
        Caller {
            name: name.to_owned(),
            uid: None,
            groups: Vec::new(),
            extra: std::collections::BTreeMap::new(),
        }
    }

    async fn answer(
        limits: &Limits,
        user_name: &str,
        path: &str,
        answer: impl Future<Output = Response>,
    ) -> Result<Response, ApiError> {
        let (place, _request) = limits.admit(&user(user_name), get(path)).await?;
        place.hold(async { Ok(answer.await) }).await
    }

    fn ok() -> impl Future<Output = Response> {
        std::future::ready(Response::new(Body::from("x")))
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_counts_until_its_answer_is_read_and_each_kind_is_counted_apart() {
        let limits = limits(&LimitArgs {
            max_requests_in_flight: 1,
            max_long_running_requests: 1,
            request_timeout: 1,
        });
        let ask = async |path: &str| answer(&limits, "alice", path, ok()).await;
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
            assert!(
                ask(path).await.is_ok(),
                "{path} has to be answered in any case"
            );
        }
        let changes = format!(
            "/apis/{}/{VERSION}/changes/api/v1/pods?watch=true",
            GROUPS[0]
        );
        let replica = answer(&limits, "replica", &changes, ok()).await.unwrap();
        assert!(
            ask("/apis/search.fleetdex.io/v1alpha1/search")
                .await
                .is_err()
        );
        drop((first, watch, replica));
        assert!(ask("/a").await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_user_with_many_unread_answers_leaves_places_to_others() {
        let limits = limits(&LimitArgs::default());
        for (path, share) in [("/a", 100), (WATCH, 2_000)] {
            let mut unread = Vec::new();
            while let Ok(response) = answer(&limits, "noisy", path, ok()).await {
                unread.push(response);
            }
            assert_eq!(unread.len(), share);
            for name in ["alice", "bob"] {
                assert!(answer(&limits, name, path, ok()).await.is_ok());
            }
        }
        let sessions: Vec<UserShare> =
            std::iter::from_fn(|| limits.session(&user("noisy")).ok()).collect();
        assert_eq!(sessions.len(), MAX_SESSIONS / 2);
        assert_eq!(limits.session(&user("noisy")).unwrap_err().code(), 429);
        assert!(limits.session(&user("alice")).is_ok());
    }

    #[test]
    fn large_questions_are_shared_among_users_and_small_ones_are_free() {
        let limits = limits(&LimitArgs::default());
        let (noisy, alice) = (user("noisy"), user("alice"));
        let large: Vec<_> = std::iter::from_fn(|| limits.question(&noisy, 3 << 20).ok()).collect();
        assert_eq!(large.len(), 21, "64 MiB of 128");
        assert_eq!(limits.question(&noisy, 3 << 20).unwrap_err().code(), 429);
        assert!(
            limits
                .question(&noisy, QUESTION_UNIT - 1)
                .is_ok_and(|shares| shares.is_empty())
        );
        assert!(limits.question(&alice, 3 << 20).is_ok());
        drop(large);
        assert!(
            limits.question(&noisy, 60 << 20).is_ok(),
            "what was taken for a refused question is given back"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_user_who_waits_is_served_before_one_who_has_more() {
        let limits = limits(&LimitArgs {
            max_requests_in_flight: 4,
            ..LimitArgs::default()
        });
        let noisy = answer(&limits, "noisy", "/a", ok()).await.unwrap();
        let _second = answer(&limits, "noisy", "/a", ok()).await.unwrap();
        let others = (
            answer(&limits, "b", "/a", ok()).await.unwrap(),
            answer(&limits, "c", "/a", ok()).await.unwrap(),
        );
        let wait = |name: &'static str| {
            let limits = limits.clone();
            tokio::spawn(async move { answer(&limits, name, "/a", ok()).await.map(|_| name) })
        };
        let (greedy, quiet) = (wait("noisy"), wait("quiet"));
        tokio::task::yield_now().await;
        drop(noisy);
        assert_eq!(quiet.await.unwrap(), Ok("quiet"));
        drop(others);
        assert_eq!(greedy.await.unwrap(), Ok("noisy"));
    }

    #[tokio::test(start_paused = true)]
    async fn only_what_does_not_last_has_to_be_answered_in_time() {
        let limits = limits(&LimitArgs {
            request_timeout: 5,
            ..LimitArgs::default()
        });
        let slow = async || {
            tokio::time::sleep(Duration::from_mins(1)).await;
            Response::default()
        };
        assert_eq!(
            answer(&limits, "alice", "/a", slow()).await.unwrap_err(),
            ApiError::RequestTimeout(5)
        );
        assert!(answer(&limits, "alice", WATCH, slow()).await.is_ok());
        let ends = answer(&limits, "alice", "/a", ok())
            .await
            .unwrap()
            .extensions()
            .get::<EndsBy>()
            .map(|EndsBy(at)| *at);
        assert_eq!(ends, Some(Instant::now() + MAX_ANSWER_TIME));
    }

    #[tokio::test]
    async fn a_body_that_is_too_long_is_refused_or_cut() {
        let limits = limits(&LimitArgs::default());
        let told = Request::put("/a")
            .body(Body::from(vec![b'x'; MAX_BODY_BYTES + 1]))
            .unwrap();
        assert_eq!(
            limits.admit(&user("alice"), told).await.unwrap_err(),
            ApiError::TooLarge(MAX_BODY_BYTES)
        );
        let chunks = (0..4).map(|_| Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; 1024 * 1024])));
        let untold = Request::put("/a")
            .body(Body::from_stream(futures::stream::iter(chunks)))
            .unwrap();
        let (_place, request) = limits.admit(&user("alice"), untold).await.unwrap();
        assert!(
            http_body_util::BodyExt::collect(request.into_body())
                .await
                .is_err()
        );
    }
}
