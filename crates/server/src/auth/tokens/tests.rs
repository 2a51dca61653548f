use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::join_all;
use http::Response;
use http_body_util::BodyExt as _;
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tower::service_fn;

use super::*;

/// How long the control plane takes for one review.
const REVIEW: Duration = Duration::from_millis(100);
const FLOOD: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 66));
const OFFICE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

/// A control plane that accepts the tokens that begin with `good`.
#[derive(Default)]
struct ControlPlane {
    review_count: AtomicUsize,
    in_flight: AtomicUsize,
    most: AtomicUsize,
}

impl ControlPlane {
    fn tokens(self: &Arc<Self>) -> TokenAuthenticator {
        let this = Arc::clone(self);
        let service = service_fn(move |request: http::Request<Body>| {
            let this = Arc::clone(&this);
            async move {
                this.review_count.fetch_add(1, Ordering::Relaxed);
                let in_flight = this.in_flight.fetch_add(1, Ordering::Relaxed) + 1;
                this.most.fetch_max(in_flight, Ordering::Relaxed);
                let bytes = request.into_body().collect().await.unwrap().to_bytes();
                let mut review: Value = serde_json::from_slice(&bytes).unwrap();
                let token = review["spec"]["token"].as_str().unwrap().to_owned();
                sleep(REVIEW).await;
                review["status"] = json!({ "authenticated": token.starts_with("good"), "user": { "username": token } });
                this.in_flight.fetch_sub(1, Ordering::Relaxed);
                Ok::<_, std::convert::Infallible>(Response::new(Body::from(
                    review.to_string().into_bytes(),
                )))
            }
        });
        let reviews = Reviews::new(
            Client::new(service, "default"),
            Arc::new(|_| None),
            Vec::new(),
            Counter::default(),
        );
        TokenAuthenticator::new(reviews, Counter::default())
    }

    fn review_count(&self) -> usize {
        self.review_count.load(Ordering::Relaxed)
    }
}

fn made_up(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|number| format!("bad{number}"))
}

#[tokio::test(start_paused = true)]
async fn concurrent_requests_with_one_token_share_one_review() {
    let control_plane = Arc::new(ControlPlane::default());
    let tokens = control_plane.tokens();
    let answers = join_all((0..50).map(|_| tokens.review("good", OFFICE))).await;
    assert!(
        answers
            .into_iter()
            .all(|answer| answer.unwrap().unwrap().name == "good")
    );
    assert_eq!(tokens.review("bad", OFFICE).await, Ok(None));
    assert_eq!(tokens.review("bad", OFFICE).await, Ok(None));
    assert_eq!(control_plane.review_count(), 2);
    assert!(tokens.0.in_flight.is_empty());
}

#[tokio::test(start_paused = true)]
async fn made_up_tokens_delay_only_themselves() {
    let control_plane = Arc::new(ControlPlane::default());
    let tokens = control_plane.tokens();
    assert!(
        tokens
            .review("good of the same address", FLOOD)
            .await
            .unwrap()
            .is_some()
    );
    sleep(LIFETIME).await;
    let flood: Vec<_> = made_up(400)
        .map(|token| {
            let tokens = tokens.clone();
            tokio::spawn(async move { tokens.review(&token, FLOOD).await })
        })
        .collect();
    sleep(REVIEW / 2).await;
    let begun = Instant::now();
    for (token, from) in [("good", OFFICE), ("good of the same address", FLOOD)] {
        assert!(tokens.review(token, from).await.unwrap().is_some());
    }
    assert_eq!(begun.elapsed(), 2 * REVIEW, "each at once");
    let answers = join_all(flood).await;
    let refused = answers
        .into_iter()
        .filter(|answer| *answer.as_ref().unwrap() == Err(ReviewError::Busy))
        .count();
    assert_eq!(refused, 400 - CONCURRENT / 2 - QUEUE / 2);
    assert!(control_plane.most.load(Ordering::Relaxed) <= CONCURRENT / 2 + 2);
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_too_long_is_rejected_without_a_review() {
    let control_plane = Arc::new(ControlPlane::default());
    let tokens = control_plane.tokens();
    assert_eq!(
        tokens
            .review(&format!("good{}", "x".repeat(MAX_TOKEN_BYTES)), OFFICE)
            .await,
        Ok(None)
    );
    assert_eq!(control_plane.review_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn made_up_tokens_evict_no_good_one_and_leave_nothing_behind() {
    let control_plane = Arc::new(ControlPlane::default());
    let tokens = control_plane.tokens();
    assert!(tokens.review("good", OFFICE).await.unwrap().is_some());
    // As many as can be reviewed within ten seconds.
    let flood = made_up(1_000).map(|token| {
        let tokens = tokens.clone();
        async move { tokens.review(&token, FLOOD).await }
    });
    let _answers = join_all(flood).await;
    assert!(tokens.review("good", OFFICE).await.unwrap().is_some());
    assert_eq!(control_plane.review_count(), 1 + CONCURRENT / 2 + QUEUE / 2);
    let gone: Vec<_> = made_up(10).map(|token| format!("other{token}")).collect();
    for token in &gone {
        assert!(
            timeout(REVIEW / 2, tokens.review(token, FLOOD))
                .await
                .is_err()
        );
    }
    assert!(
        tokens.0.in_flight.is_empty(),
        "after their requests were dropped"
    );
    assert!(tokens.0.slots.try_acquire(FLOOD).is_some());
}
