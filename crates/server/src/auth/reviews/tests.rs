use std::sync::atomic::{AtomicUsize, Ordering};

use fleetdex_core::query::ResourceName;
use futures::future::join_all;
use http::Response;
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tower::service_fn;

use super::{
    renewals::MAX_RENEWALS,
    reviewer::{CONTROL_PLANE_SLOTS, FAILURE_LIFETIME, MEMBER_SLOTS, TIMEOUT},
    *,
};

/// How long an API server takes for one review.
const REVIEW: Duration = Duration::from_millis(100);

/// How an API server behaves.
#[derive(Clone, Copy, PartialEq)]
enum Behaviour {
    Responds,
    RespondsAtOnce,
    /// It never responds.
    Hangs,
    /// It responds with 500.
    Fails,
    /// It responds with 403: the operator may not review.
    Refuses,
    /// It allows nothing.
    Denies,
    /// It responds with 429 to reviews of the user `unlucky`.
    IsBusyForOne,
}

struct ApiServer {
    behaviour: Mutex<Behaviour>,
    review_count: AtomicUsize,
}

impl ApiServer {
    fn new(behaviour: Behaviour) -> Arc<Self> {
        Arc::new(Self {
            behaviour: Mutex::new(behaviour),
            review_count: AtomicUsize::new(0),
        })
    }

    fn behaves(&self, behaviour: Behaviour) {
        *self.behaviour.lock() = behaviour;
    }

    fn review_count(&self) -> usize {
        self.review_count.load(Ordering::Relaxed)
    }

    fn client(self: &Arc<Self>) -> Client {
        let this = Arc::clone(self);
        let service = service_fn(move |request: http::Request<Body>| {
            let this = Arc::clone(&this);
            async move {
                this.review_count.fetch_add(1, Ordering::Relaxed);
                let bytes = request.into_body().collect().await.unwrap().to_bytes();
                let mut review: Value = serde_json::from_slice(&bytes).unwrap();
                if *this.behaviour.lock() != Behaviour::RespondsAtOnce {
                    sleep(REVIEW).await;
                }
                let behaviour = *this.behaviour.lock();
                let code = match behaviour {
                    Behaviour::Hangs => std::future::pending().await,
                    Behaviour::Fails => 500,
                    Behaviour::Refuses => 403,
                    Behaviour::IsBusyForOne if review["spec"]["user"] == "unlucky" => 429,
                    Behaviour::Responds
                    | Behaviour::RespondsAtOnce
                    | Behaviour::Denies
                    | Behaviour::IsBusyForOne => 201,
                };
                if code == 201 {
                    review["status"] = json!({ "allowed": behaviour != Behaviour::Denies });
                } else {
                    review = json!({ "kind": "Status", "status": "Failure", "code": code, "reason": "Planned", "message": "as planned" });
                }
                let body = Body::from(review.to_string().into_bytes());
                Ok::<_, std::convert::Infallible>(
                    Response::builder().status(code).body(body).unwrap(),
                )
            }
        });
        Client::new(service, "default")
    }
}

fn reviews(control_plane: &Arc<ApiServer>, member: &Arc<ApiServer>) -> Reviews {
    let member = member.client();
    Reviews::new(
        control_plane.client(),
        Arc::new(move |_| Some(member.clone())),
        Vec::new(),
        Counter::default(),
    )
}

fn user(name: &str) -> Caller {
    Caller {
        name: name.to_owned(),
        groups: Vec::new(),
        ..Caller::local()
    }
}

fn about(name: &str) -> Attributes {
    Attributes::of_objects(
        "get",
        &ResourceName::new("", "pods"),
        "v1",
        None,
        Some(name),
    )
}

fn with_member(
    control_plane: Behaviour,
    member: Behaviour,
) -> (Reviews, Arc<ApiServer>, ClusterName) {
    let member = ApiServer::new(member);
    let reviews = reviews(&ApiServer::new(control_plane), &member);
    (reviews, member, "member1".parse().unwrap())
}

async fn central(reviews: &Reviews, who: &str, object: &str) -> Result<Decision, ReviewError> {
    let reviewer = Reviewer::ControlPlane;
    reviews.decide(reviewer, &user(who), &about(object)).await
}

async fn by_member(
    reviews: &Reviews,
    name: &ClusterName,
    who: &str,
    object: &str,
) -> Result<Decision, ReviewError> {
    let reviewer = Reviewer::Member(name);
    reviews.decide(reviewer, &user(who), &about(object)).await
}

/// Lets all tasks run until they wait.
async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_that_hangs_does_not_delay_reviews_by_others() {
    let (reviews, member, name) = with_member(Behaviour::Responds, Behaviour::Hangs);
    let waiting: Vec<_> = (0..200)
        .map(|number| {
            let (reviews, name) = (reviews.clone(), name.clone());
            tokio::spawn(
                async move { by_member(&reviews, &name, &format!("user{number}"), "a").await },
            )
        })
        .collect();
    settle().await;
    let begun = Instant::now();
    assert_eq!(central(&reviews, "alice", "a").await, Ok(Decision::Allowed));
    assert_eq!(
        begun.elapsed(),
        REVIEW,
        "while 200 users wait for the member"
    );
    for review in waiting {
        assert!(review.await.unwrap().is_err());
    }
    assert_eq!(
        begun.elapsed(),
        TIMEOUT,
        "a queued review does not wait for the member again"
    );
    assert_eq!(member.review_count(), MEMBER_SLOTS);
}

#[tokio::test(start_paused = true)]
async fn a_failing_member_gets_one_review_at_a_time() {
    let (reviews, member, name) = with_member(Behaviour::Responds, Behaviour::Fails);
    let ask = async |who: &str| by_member(&reviews, &name, who, "a").await;
    let failed = ask("alice").await.unwrap_err();
    let count = member.review_count();
    let begun = Instant::now();
    assert_eq!(
        (ask("alice").await, ask("bob").await),
        (Err(failed.clone()), Err(failed.clone()))
    );
    assert_eq!(
        (member.review_count(), begun.elapsed()),
        (count, Duration::ZERO),
        "the failure is cached"
    );
    sleep(FAILURE_LIFETIME).await;
    member.behaves(Behaviour::Hangs);
    let results = join_all([ask("a"), ask("b"), ask("c")]).await;
    assert_eq!(
        results
            .iter()
            .filter(|result| **result == Err(failed.clone()))
            .count(),
        2,
        "{results:?}"
    );
    assert_eq!(member.review_count(), count + 1);
    sleep(FAILURE_LIFETIME).await;
    member.behaves(Behaviour::Responds);
    assert_eq!(ask("alice").await, Ok(Decision::Allowed));
    assert_eq!(ask("bob").await, Ok(Decision::Allowed));
    member.behaves(Behaviour::Refuses);
    assert!(ask("carol").await.is_err());
    let count = member.review_count();
    assert!(ask("carol").await.is_err());
    assert_eq!(
        member.review_count(),
        count + 1,
        "an error that may be specific to the review is not cached"
    );
}

#[tokio::test(start_paused = true)]
async fn a_user_with_many_reviews_delays_only_their_own() {
    let control_plane = ApiServer::new(Behaviour::Responds);
    let reviews = reviews(&control_plane, &control_plane);
    let noisy: Vec<_> = (0..25 * CONTROL_PLANE_SLOTS)
        .map(|number| {
            let reviews = reviews.clone();
            tokio::spawn(async move { central(&reviews, "noisy", &number.to_string()).await })
        })
        .collect();
    settle().await;
    let begun = Instant::now();
    assert_eq!(central(&reviews, "quiet", "a").await, Ok(Decision::Allowed));
    assert_eq!(begun.elapsed(), REVIEW);
    for review in noisy {
        assert_eq!(review.await.unwrap(), Ok(Decision::Allowed));
    }
}

#[tokio::test(start_paused = true)]
async fn no_slot_is_held_during_the_pause_before_a_retry() {
    let control_plane = ApiServer::new(Behaviour::IsBusyForOne);
    let reviews = reviews(&control_plane, &control_plane);
    let ask = |who: &'static str, number: usize| {
        let reviews = reviews.clone();
        tokio::spawn(async move { central(&reviews, who, &number.to_string()).await })
    };
    let unlucky: Vec<_> = (0..CONTROL_PLANE_SLOTS / 2)
        .map(|number| ask("unlucky", number))
        .collect();
    settle().await;
    // All of them have got 429, and their pauses have begun.
    sleep(REVIEW + Duration::from_millis(1)).await;
    let begun = Instant::now();
    let others: Vec<_> = (0..CONTROL_PLANE_SLOTS / 2)
        .map(|number| ask("lucky", number))
        .collect();
    for other in others {
        assert_eq!(other.await.unwrap(), Ok(Decision::Allowed));
    }
    assert_eq!(
        begun.elapsed(),
        REVIEW,
        "half of all slots are free for another user"
    );
    for review in unlucky {
        assert!(matches!(
            review.await.unwrap(),
            Err(ReviewError::Failed { .. })
        ));
    }
    assert!(
        central(&reviews, "lucky", "a").await.is_ok(),
        "failures of the control plane are not cached"
    );
}

#[tokio::test(start_paused = true)]
async fn decisions_about_900_namespaces_of_30_kinds_are_kept() {
    let control_plane = ApiServer::new(Behaviour::RespondsAtOnce);
    let reviews = reviews(&control_plane, &control_plane);
    for user_name in ["alice", "bob", "alice", "bob"] {
        let caller = user(user_name);
        for kind in 0..30 {
            let resource = ResourceName::new("", &format!("kind{kind}"));
            for number in 0..900 {
                let namespace = format!("web-{number}").parse().unwrap();
                let attributes =
                    Attributes::of_objects("list", &resource, "v1", Some(&namespace), None);
                let decided =
                    reviews.allows_in_namespace(Reviewer::ControlPlane, &caller, &attributes);
                assert!(decided.await.unwrap());
            }
        }
    }
    assert_eq!(control_plane.review_count(), 2 * 27_000);
    tokio::time::advance(LIFETIME).await;
    let namespace = "web-1".parse().unwrap();
    let resource = ResourceName::new("", "kind1");
    let attributes = Attributes::of_objects("list", &resource, "v1", Some(&namespace), None);
    let caller = user("bob");
    let decided = reviews.allows_in_namespace(Reviewer::ControlPlane, &caller, &attributes);
    assert!(decided.await.unwrap());
    assert_eq!(control_plane.review_count(), 2 * 27_000 + 1);
}

#[tokio::test(start_paused = true)]
async fn equal_reviews_at_the_same_time_are_sent_once() {
    let control_plane = ApiServer::new(Behaviour::Responds);
    let reviews = reviews(&control_plane, &control_plane);
    let decide = |name: &'static str| {
        let reviews = reviews.clone();
        tokio::spawn(async move {
            let (reviewer, about) = (Reviewer::ControlPlane, about("a"));
            reviews.decide(reviewer, &user(name), &about).await
        })
    };
    let (first, second, other) = (decide("alice"), decide("alice"), decide("bob"));
    settle().await;
    assert_eq!(control_plane.review_count(), 2, "one for each user");
    // Who asked first leaves.
    first.abort();
    assert_eq!(second.await.unwrap(), Ok(Decision::Allowed));
    assert_eq!(other.await.unwrap(), Ok(Decision::Allowed));
    assert_eq!(control_plane.review_count(), 2);
    assert!(reviews.0.in_flight.is_empty());

    control_plane.behaves(Behaviour::Hangs);
    let gone = decide("carol");
    settle().await;
    gone.abort();
    settle().await;
    assert!(reviews.0.in_flight.is_empty(), "no caller waits for it");
    control_plane.behaves(Behaviour::Responds);
    assert_eq!(decide("carol").await.unwrap(), Ok(Decision::Allowed));
}

#[tokio::test(start_paused = true)]
async fn a_user_who_asks_all_the_time_waits_once() {
    let control_plane = ApiServer::new(Behaviour::Responds);
    let reviews = reviews(&control_plane, &control_plane);
    let ask = async || {
        let begun = Instant::now();
        let (reviewer, about) = (Reviewer::ControlPlane, about("a"));
        let decided = reviews.decide(reviewer, &user("alice"), &about).await;
        (decided, begun.elapsed())
    };
    let cached = (Ok(Decision::Allowed), Duration::ZERO);
    assert_eq!(ask().await, (Ok(Decision::Allowed), REVIEW));
    for _ in 0..60 {
        sleep(Duration::from_secs(1)).await;
        assert_eq!(ask().await, cached);
    }
    let count = control_plane.review_count();
    assert!((6..=13).contains(&count), "{count} reviews in a minute");

    // A renewal that gets no decision leaves the old one until it expires, and no longer.
    sleep(RENEWED_AFTER).await;
    assert_eq!(ask().await, cached);
    sleep(2 * REVIEW).await;
    let count = control_plane.review_count();
    control_plane.behaves(Behaviour::Hangs);
    sleep(RENEWED_AFTER).await;
    for _ in 0..3 {
        assert_eq!(ask().await, cached);
        sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(
        control_plane.review_count(),
        count + 1,
        "one renewal of it at a time"
    );
    control_plane.behaves(Behaviour::Refuses);
    sleep(LIFETIME).await;
    assert!(ask().await.0.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_user_has_few_renewals_at_a_time() {
    let control_plane = ApiServer::new(Behaviour::Responds);
    let reviews = reviews(&control_plane, &control_plane);
    let count = 3 * MAX_RENEWALS;
    let alice = user("alice");
    let ask_all = async || {
        for number in 0..count {
            let about = about(&number.to_string());
            let decided = reviews.decide(Reviewer::ControlPlane, &alice, &about);
            assert_eq!(decided.await, Ok(Decision::Allowed));
        }
    };
    ask_all().await;
    assert_eq!(control_plane.review_count(), count);
    sleep(RENEWED_AFTER).await;
    ask_all().await;
    settle().await;
    assert_eq!(control_plane.review_count(), count + MAX_RENEWALS);
    sleep(REVIEW).await;
    settle().await;
    ask_all().await;
    settle().await;
    assert_eq!(control_plane.review_count(), count + 2 * MAX_RENEWALS);
}

#[tokio::test(start_paused = true)]
async fn a_decision_is_as_old_as_its_arrival_and_slots_are_free_then_whenever_its_asker_goes_on() {
    let control_plane = ApiServer::new(Behaviour::Responds);
    let reviews = reviews(&control_plane, &control_plane);
    let callers = [user("alice"), user("bob")];
    let abouts: Vec<Attributes> = (0..CONTROL_PLANE_SLOTS)
        .map(|number| about(&number.to_string()))
        .collect();
    // Their askers wait for something else meanwhile, such as a turn to compute.
    let mut late = Vec::new();
    for caller in &callers {
        for about in &abouts {
            let mut asked = reviews
                .decide(Reviewer::ControlPlane, caller, about)
                .boxed();
            assert!(futures::poll!(&mut asked).is_pending());
            late.push(asked);
        }
    }
    sleep(10 * REVIEW).await;
    let begun = Instant::now();
    let carol = user("carol");
    let decided = reviews.decide(Reviewer::ControlPlane, &carol, &abouts[0]);
    assert_eq!(decided.await, Ok(Decision::Allowed));
    assert_eq!(begun.elapsed(), REVIEW);

    // The right is revoked, and this is known.
    control_plane.behaves(Behaviour::Denies);
    sleep(LIFETIME).await;
    let ask = || reviews.decide(Reviewer::ControlPlane, &callers[0], &abouts[0]);
    let denied = Ok(Decision::Denied(String::new()));
    assert_eq!(ask().await, denied);
    for asked in late {
        assert_eq!(
            asked.await,
            Ok(Decision::Allowed),
            "what it was when it was asked"
        );
    }
    assert_eq!(ask().await, denied, "an older decision does not replace it");
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_fails_is_not_repeated_and_shortens_no_patience() {
    let control_plane = ApiServer::new(Behaviour::Responds);
    let reviews = reviews(&control_plane, &control_plane);
    let (alice, about) = (user("alice"), about("a"));
    let ask = || reviews.decide(Reviewer::ControlPlane, &alice, &about);
    assert_eq!(ask().await, Ok(Decision::Allowed));
    control_plane.behaves(Behaviour::Refuses);
    sleep(RENEWED_AFTER).await;
    for _ in 0..9 {
        assert_eq!(ask().await, Ok(Decision::Allowed));
        sleep(RENEWED_AFTER / 10).await;
    }
    assert_eq!(control_plane.review_count(), 2, "one renewal");

    sleep(LIFETIME).await;
    control_plane.behaves(Behaviour::Responds);
    assert_eq!(ask().await, Ok(Decision::Allowed));
    sleep(RENEWED_AFTER).await;
    control_plane.behaves(Behaviour::Hangs);
    assert_eq!(ask().await, Ok(Decision::Allowed));
    // The old decision expires while its renewal hangs, and a request joins that.
    sleep(LIFETIME.saturating_sub(RENEWED_AFTER)).await;
    let joined = tokio::spawn({
        let (reviews, alice, about) = (reviews.clone(), alice.clone(), about.clone());
        async move { reviews.decide(Reviewer::ControlPlane, &alice, &about).await }
    });
    settle().await;
    control_plane.behaves(Behaviour::Responds);
    assert_eq!(joined.await.unwrap(), Ok(Decision::Allowed));
}
