//! Client-side rate limit of the requests to one member: a token bucket, as Kubernetes clients have
//! it.
//!
//! Requests are sent in the order in which they arrive. A watch takes one token when it is opened.
//! Probes take none: a long queue in this program must not make a member look dead.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use http::Request;
use parking_lot::Mutex;
use tower::{Layer, Service, ServiceExt, util::Oneshot};

/// The rate limit of requests to a member.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Requests per second in the long run.
    pub per_second: f64,
    /// Requests that may be sent at once after a pause.
    pub burst: u32,
}

/// The rate of Cluster API's `clustercache`.
impl Default for Rate {
    fn default() -> Self {
        Self {
            per_second: 20.0,
            burst: 30,
        }
    }
}

/// A token bucket. The number of tokens is negative while requests wait.
#[derive(Debug)]
struct TokenBucket {
    rate: Rate,
    tokens: f64,
    filled: Instant,
}

impl TokenBucket {
    fn new(rate: Rate, now: Instant) -> Self {
        Self {
            rate,
            tokens: f64::from(rate.burst),
            filled: now,
        }
    }

    /// Takes a token, and returns how long to wait for it.
    fn take(&mut self, now: Instant) -> Duration {
        let elapsed = now.saturating_duration_since(self.filled);
        self.filled = now;
        let filled = self.tokens + elapsed.as_secs_f64() * self.rate.per_second;
        self.tokens = filled.min(f64::from(self.rate.burst)) - 1.0;
        Duration::from_secs_f64((-self.tokens).max(0.0) / self.rate.per_second)
    }

    /// Returns an unused token.
    fn give_back(&mut self) {
        self.tokens += 1.0;
    }
}

/// Limits the rate of requests to a member.
#[derive(Clone, Debug)]
pub struct ThrottleLayer {
    bucket: Arc<Mutex<TokenBucket>>,
}

impl ThrottleLayer {
    /// A full bucket.
    pub fn new(rate: Rate) -> Self {
        Self {
            bucket: Arc::new(Mutex::new(TokenBucket::new(rate, now()))),
        }
    }
}

impl<S> Layer<S> for ThrottleLayer {
    type Service = Throttle<S>;

    fn layer(&self, inner: S) -> Throttle<S> {
        Throttle {
            inner,
            bucket: self.bucket.clone(),
        }
    }
}

/// A service with a rate limit.
#[derive(Clone, Debug)]
pub struct Throttle<S> {
    inner: S,
    bucket: Arc<Mutex<TokenBucket>>,
}

impl<S, B> Service<Request<B>> for Throttle<S>
where
    S: Service<Request<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Response: Send,
    S::Error: Send,
    B: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let is_probe = matches!(request.uri().path(), "/readyz" | "/healthz");
        let reservation = (!is_probe).then(|| Reservation::take(&self.bucket));
        let sent: Oneshot<S, Request<B>> = self.inner.clone().oneshot(request);
        Box::pin(async move {
            if let Some(reservation) = reservation {
                reservation.wait().await;
            }
            sent.await
        })
    }
}

/// A token that was taken. If it is dropped before it is available, the token is returned for other
/// requests.
struct Reservation {
    bucket: Option<Arc<Mutex<TokenBucket>>>,
    wait: Duration,
}

impl Reservation {
    fn take(bucket: &Arc<Mutex<TokenBucket>>) -> Self {
        let wait = bucket.lock().take(now());
        Self {
            bucket: Some(bucket.clone()),
            wait,
        }
    }

    async fn wait(mut self) {
        if !self.wait.is_zero() {
            tokio::time::sleep(self.wait).await;
        }
        self.bucket = None;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(bucket) = self.bucket.take() {
            bucket.lock().give_back();
        }
    }
}

fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::{StreamExt, stream::FuturesUnordered};
    use proptest::prelude::*;
    use tokio::time::{sleep, timeout};
    use tower::service_fn;

    use super::*;

    const RATE: Rate = Rate {
        per_second: 20.0,
        burst: 30,
    };

    #[test]
    fn a_burst_is_sent_at_once_and_the_rest_at_the_rate() {
        let start = Instant::now();
        let mut bucket = TokenBucket::new(RATE, start);
        let waits: Vec<u128> = (0..34).map(|_| bucket.take(start).as_millis()).collect();
        assert_eq!(waits[..30], [0; 30]);
        assert_eq!(waits[30..], [50, 100, 150, 200]);
        // Four are owed, twenty come each second.
        assert_eq!(bucket.take(start + Duration::from_secs(1)), Duration::ZERO);
    }

    proptest! {
        #[test]
        fn no_interval_has_more_requests_than_burst_plus_rate(
            gaps in prop::collection::vec(0_u64..400, 1..200),
        ) {
            let mut now = Instant::now();
            let mut bucket = TokenBucket::new(RATE, now);
            let mut sent = Vec::new();
            for gap in gaps {
                now += Duration::from_millis(gap);
                let out = now + bucket.take(now);
                prop_assert!(sent.last().is_none_or(|last| *last <= out), "in the order of coming");
                sent.push(out);
            }
            for (first, start) in sent.iter().enumerate() {
                let within = sent[first..].iter().filter(|at| **at <= *start + Duration::from_secs(1)).count();
                prop_assert!(within <= 51, "{within} requests in a second");
            }
        }
    }

    fn throttled() -> Throttle<
        impl Service<Request<()>, Response = tokio::time::Instant, Error = Infallible, Future: Send>
        + Clone,
    > {
        ThrottleLayer::new(RATE).layer(service_fn(|_| async { Ok(tokio::time::Instant::now()) }))
    }

    fn request(path: &str) -> Request<()> {
        Request::get(path).body(()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn probes_do_not_wait_in_the_queue() {
        let service = throttled();
        let queue: FuturesUnordered<_> = (0..90)
            .map(|_| service.clone().oneshot(request("/api/v1/pods?watch=true")))
            .collect();
        let queue = tokio::spawn(queue.collect::<Vec<_>>());
        sleep(Duration::from_millis(1)).await;
        let asked = tokio::time::Instant::now();
        assert_eq!(service.oneshot(request("/readyz")).await, Ok(asked));
        queue.await.unwrap();
        assert_eq!(asked.elapsed().as_secs(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_request_returns_its_token() {
        let service = throttled();
        for _ in 0..30 {
            service.clone().oneshot(request("/api")).await.unwrap();
        }
        let impatient: FuturesUnordered<_> = (0..100)
            .map(|_| service.clone().oneshot(request("/api")))
            .collect();
        let given_up = timeout(Duration::from_millis(10), impatient.collect::<Vec<_>>()).await;
        assert!(given_up.is_err());
        let asked = tokio::time::Instant::now();
        service.oneshot(request("/api")).await.unwrap();
        assert!(
            asked.elapsed() <= Duration::from_millis(50),
            "{:?}",
            asked.elapsed()
        );
    }
}
