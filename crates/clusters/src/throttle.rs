//! A limit on the requests to one member, as Kubernetes clients have it: a bucket of tokens, one for each request, that
//! fills at a steady rate.
//!
//! Requests go out in the order in which they came. A watch takes one token, when it is opened. Probes take none: a long
//! queue of our own must not make a member look dead.

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

/// How many requests a member gets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Requests per second in the long run.
    pub per_second: f64,
    /// Requests that may go out at once after a quiet time.
    pub burst: u32,
}

/// That of Cluster API's cluster cache.
impl Default for Rate {
    fn default() -> Self {
        Self {
            per_second: 20.0,
            burst: 30,
        }
    }
}

/// The bucket. Its count goes below zero by those who wait.
#[derive(Debug)]
struct Bucket {
    rate: Rate,
    tokens: f64,
    filled: Instant,
}

impl Bucket {
    fn new(rate: Rate, now: Instant) -> Self {
        Self {
            rate,
            tokens: f64::from(rate.burst),
            filled: now,
        }
    }

    /// Takes a token, and says how long to wait until it is there.
    fn take(&mut self, now: Instant) -> Duration {
        let elapsed = now.saturating_duration_since(self.filled);
        self.filled = now;
        let filled = self.tokens + elapsed.as_secs_f64() * self.rate.per_second;
        self.tokens = filled.min(f64::from(self.rate.burst)) - 1.0;
        Duration::from_secs_f64((-self.tokens).max(0.0) / self.rate.per_second)
    }

    /// Gives a token back that was not used.
    fn give_back(&mut self) {
        self.tokens += 1.0;
    }
}

/// Puts a member's requests under its limit.
#[derive(Clone, Debug)]
pub struct ThrottleLayer {
    bucket: Arc<Mutex<Bucket>>,
}

impl ThrottleLayer {
    /// A full bucket.
    pub fn new(rate: Rate) -> Self {
        Self {
            bucket: Arc::new(Mutex::new(Bucket::new(rate, now()))),
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

/// A service under a limit.
#[derive(Clone, Debug)]
pub struct Throttle<S> {
    inner: S,
    bucket: Arc<Mutex<Bucket>>,
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
        let turn = (!is_probe(&request)).then(|| Turn::take(&self.bucket));
        let sent: Oneshot<S, Request<B>> = self.inner.clone().oneshot(request);
        Box::pin(async move {
            if let Some(turn) = turn {
                turn.come().await;
            }
            sent.await
        })
    }
}

fn is_probe<B>(request: &Request<B>) -> bool {
    matches!(request.uri().path(), "/readyz" | "/healthz")
}

/// A token that was taken. Dropped before it is there, it goes back to those who still wait.
struct Turn {
    bucket: Option<Arc<Mutex<Bucket>>>,
    wait: Duration,
}

impl Turn {
    fn take(bucket: &Arc<Mutex<Bucket>>) -> Self {
        let wait = bucket.lock().take(now());
        Self {
            bucket: Some(bucket.clone()),
            wait,
        }
    }

    async fn come(mut self) {
        if !self.wait.is_zero() {
            tokio::time::sleep(self.wait).await;
        }
        self.bucket = None;
    }
}

impl Drop for Turn {
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
    fn a_burst_goes_out_at_once_and_the_rest_at_the_rate() {
        let start = Instant::now();
        let mut bucket = Bucket::new(RATE, start);
        let waits: Vec<u128> = (0..34).map(|_| bucket.take(start).as_millis()).collect();
        assert_eq!(waits[..30], [0; 30]);
        assert_eq!(waits[30..], [50, 100, 150, 200]);
        // Four are owed, twenty come each second.
        assert_eq!(bucket.take(start + Duration::from_secs(1)), Duration::ZERO);
    }

    proptest! {
        #[test]
        fn no_stretch_of_time_sees_more_than_the_burst_and_what_the_rate_allows(
            gaps in prop::collection::vec(0_u64..400, 1..200),
        ) {
            let mut now = Instant::now();
            let mut bucket = Bucket::new(RATE, now);
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
    async fn probes_pass_by_the_queue() {
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
    async fn who_gives_up_waiting_leaves_the_token_to_others() {
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
