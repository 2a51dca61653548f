//! What one server takes on at a time.

use std::{sync::Arc, time::Duration};

use axum::{body::Body, extract::Request, response::Response};
use clap::Args;
use http::{Method, header};
use http_body::Body as _;
use http_body_util::Limited;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use crate::server::{holding::holding, status::ApiError};

/// Bytes of a request's body: what the API server in front takes.
pub const MAX_BODY_BYTES: usize = 3 * 1024 * 1024;
/// Subresources that last as long as the client likes.
const LASTING: [&str; 4] = ["exec", "attach", "portforward", "proxy"];

/// The flags of the bounds.
#[derive(Args, Clone, Copy, Debug)]
pub struct LimitArgs {
    /// Requests under way at a time, watches and forwarded connections not counted; further ones are answered 429.
    #[arg(long, env = "FLEETDEX_MAX_REQUESTS_IN_FLIGHT", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub max_requests_in_flight: u32,

    /// Watches and forwarded connections at a time; further ones are answered 429.
    #[arg(long, env = "FLEETDEX_MAX_LONG_RUNNING_REQUESTS", default_value_t = 4_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub max_long_running_requests: u32,

    /// Seconds until an answer has to begin, but for watches and forwarded connections.
    #[arg(long, env = "FLEETDEX_REQUEST_TIMEOUT", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub request_timeout: u64,
}

impl Default for LimitArgs {
    fn default() -> Self {
        Self { max_requests_in_flight: 200, max_long_running_requests: 4_000, request_timeout: 60 }
    }
}

/// The bounds, and what of them is taken.
#[derive(Clone, Debug)]
pub struct Limits {
    short: Arc<Semaphore>,
    long: Arc<Semaphore>,
    request_timeout: Duration,
}

impl Limits {
    /// Nothing is taken yet.
    pub fn new(args: &LimitArgs) -> Self {
        Self {
            short: Arc::new(Semaphore::new(args.max_requests_in_flight as usize)),
            long: Arc::new(Semaphore::new(args.max_long_running_requests as usize)),
            request_timeout: Duration::from_secs(args.request_timeout),
        }
    }

    /// Takes a place for a request, whose body is bounded from now on. What tells only what there is needs none: by that the API server in
    /// front finds out whether this one lives, and a full house is no reason to take it for dead.
    pub fn admit(&self, request: Request) -> Result<(Place, Request), ApiError> {
        let lasts = lasts(&request);
        let places = if lasts { &self.long } else { &self.short };
        let permit = if tells_what_there_is(request.uri().path()) {
            None
        } else {
            Some(Arc::clone(places).try_acquire_owned().map_err(|_| ApiError::TooManyRequests)?)
        };
        let request_timeout = (!lasts).then_some(self.request_timeout);
        Ok((Place { permit, request_timeout }, bounded(request)?))
    }
}

/// The place of a request that is under way.
#[derive(Debug)]
pub struct Place {
    permit: Option<OwnedSemaphorePermit>,
    request_timeout: Option<Duration>,
}

impl Place {
    /// Waits for an answer as long as it may take. The place is taken until its last byte is sent.
    pub async fn hold(self, answer: impl Future<Output = Result<Response, ApiError>>) -> Result<Response, ApiError> {
        let response = match self.request_timeout {
            None => answer.await?,
            Some(limit) => timeout(limit, answer).await.map_err(|_| ApiError::RequestTimeout(limit.as_secs()))??,
        };
        Ok(response.map(|body| holding(body, self.permit)))
    }
}

/// Whether a request lasts as long as the client likes: a watch, a verification, or a connection that is forwarded.
fn lasts(request: &Request) -> bool {
    let parameters = || request.uri().query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    let is_set = |wanted: &str| parameters().any(|(key, value)| key == wanted && !matches!(value, "" | "0" | "false"));
    let last = request.uri().path().trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    is_set("watch")
        || request.headers().contains_key(header::UPGRADE)
        || LASTING.contains(&last)
        || (last == "log" && is_set("follow"))
        || (last == "verify" && request.method() == Method::POST)
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

    #[test]
    fn watches_and_forwarded_connections_last() {
        let upgrade = Request::get("/a").header("upgrade", "websocket").body(Body::empty()).unwrap();
        assert!(lasts(&upgrade));
        for path in ["/pods?watch=true", "/pods?limit=1&watch=1", "/pods/a/exec?command=ls", "/pods/a/log?follow=true"] {
            assert!(lasts(&get(path)), "{path}");
        }
        for path in ["/pods", "/pods?watch=false", "/pods?watch=0", "/pods/a/log", "/pods?labelSelector=watch%3Dtrue", "/verify"]
        {
            assert!(!lasts(&get(path)), "{path}");
        }
    }

    async fn answer(limits: &Limits, path: &str, answer: impl Future<Output = Response>) -> Result<Response, ApiError> {
        let (place, _request) = limits.admit(get(path))?;
        place.hold(async { Ok(answer.await) }).await
    }

    fn ok() -> impl Future<Output = Response> {
        std::future::ready(Response::new(Body::from("x")))
    }

    #[tokio::test]
    async fn a_request_counts_until_its_answer_is_read_and_watches_are_counted_apart() {
        let limits = Limits::new(&LimitArgs { max_requests_in_flight: 1, max_long_running_requests: 1, request_timeout: 1 });
        let first = answer(&limits, "/a", ok()).await.unwrap();
        assert_eq!(answer(&limits, "/a", ok()).await.unwrap_err(), ApiError::TooManyRequests);
        let watch = answer(&limits, "/a?watch=true", ok()).await.unwrap();
        assert_eq!(answer(&limits, "/a?watch=true", ok()).await.unwrap_err(), ApiError::TooManyRequests);
        for path in ["/apis", "/apis/search.fleetdex.io/v1alpha1", "/openapi/v3", "/version"] {
            assert!(answer(&limits, path, ok()).await.is_ok(), "{path} has to be answered in any case");
        }
        assert!(answer(&limits, "/apis/search.fleetdex.io/v1alpha1/search", ok()).await.is_err());
        drop((first, watch));
        assert!(answer(&limits, "/a", ok()).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn only_what_does_not_last_has_to_be_answered_in_time() {
        let limits = Limits::new(&LimitArgs { request_timeout: 5, ..LimitArgs::default() });
        let slow = async || {
            tokio::time::sleep(Duration::from_mins(1)).await;
            Response::default()
        };
        assert_eq!(answer(&limits, "/a", slow()).await.unwrap_err(), ApiError::RequestTimeout(5));
        assert!(answer(&limits, "/a?watch=1", slow()).await.is_ok());
    }

    #[tokio::test]
    async fn a_body_that_is_too_long_is_refused_or_cut() {
        let limits = Limits::new(&LimitArgs::default());
        let told = Request::put("/a").body(Body::from(vec![b'x'; MAX_BODY_BYTES + 1])).unwrap();
        assert_eq!(limits.admit(told).unwrap_err(), ApiError::TooLarge(MAX_BODY_BYTES));
        let chunks = (0..4).map(|_| Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; 1024 * 1024])));
        let untold = Request::put("/a").body(Body::from_stream(futures::stream::iter(chunks))).unwrap();
        let (_place, request) = limits.admit(untold).unwrap();
        assert!(http_body_util::BodyExt::collect(request.into_body()).await.is_err());
    }
}
