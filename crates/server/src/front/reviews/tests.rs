use std::sync::atomic::{AtomicUsize, Ordering};

use fleetdex_core::query::ResourceName;
use futures::future::join_all;
use http::Response;
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};
use tower::service_fn;

use super::*;

/// How long an API server takes for one review.
const REVIEW: Duration = Duration::from_millis(100);

/// What an API server does with a question.
#[derive(Clone, Copy, PartialEq)]
enum Behaviour {
    Answers,
    /// It never answers.
    Hangs,
    /// It answers 500.
    Fails,
    /// It answers 403: the operator may not ask.
    Refuses,
    /// It answers 429 to the user `unlucky`.
    IsBusyForOne,
}

struct ApiServer {
    behaviour: Mutex<Behaviour>,
    asked: AtomicUsize,
}

impl ApiServer {
    fn new(behaviour: Behaviour) -> Arc<Self> {
        Arc::new(Self {
            behaviour: Mutex::new(behaviour),
            asked: AtomicUsize::new(0),
        })
    }

    fn behaves(&self, behaviour: Behaviour) {
        *self.behaviour.lock() = behaviour;
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    fn client(self: &Arc<Self>) -> Client {
        let this = Arc::clone(self);
        let service = service_fn(move |request: http::Request<Body>| {
            let this = Arc::clone(&this);
            async move {
                this.asked.fetch_add(1, Ordering::Relaxed);
                let bytes = request.into_body().collect().await.unwrap().to_bytes();
                let mut review: Value = serde_json::from_slice(&bytes).unwrap();
                sleep(REVIEW).await;
                let behaviour = *this.behaviour.lock();
                let code = match behaviour {
                    Behaviour::Hangs => std::future::pending().await,
                    Behaviour::Fails => 500,
                    Behaviour::Refuses => 403,
                    Behaviour::IsBusyForOne if review["spec"]["user"] == "unlucky" => 429,
                    Behaviour::Answers | Behaviour::IsBusyForOne => 201,
                };
                if code == 201 {
                    review["status"] = json!({ "allowed": true });
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

/// Lets what was begun go as far as it can at this moment.
async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_that_hangs_holds_up_nothing_that_others_are_asked() {
    let (control_plane, member) = (
        ApiServer::new(Behaviour::Answers),
        ApiServer::new(Behaviour::Hangs),
    );
    let (reviews, name) = (
        reviews(&control_plane, &member),
        "member1".parse::<ClusterName>().unwrap(),
    );
    let waiting: Vec<_> = (0..200)
        .map(|number| {
            let (reviews, name) = (reviews.clone(), name.clone());
            tokio::spawn(async move {
                reviews
                    .decide(
                        Place::Member(&name),
                        &user(&format!("user{number}")),
                        &about("a"),
                    )
                    .await
            })
        })
        .collect();
    settle().await;
    let begun = Instant::now();
    assert_eq!(
        reviews
            .decide(Place::ControlPlane, &user("alice"), &about("a"))
            .await,
        Ok(Decision::Allowed)
    );
    assert_eq!(
        begun.elapsed(),
        REVIEW,
        "while 200 users wait for the member"
    );
    for asked in waiting {
        assert!(asked.await.unwrap().is_err());
    }
    assert_eq!(
        begun.elapsed(),
        TIMEOUT,
        "who waited for a place does not wait for the member once more"
    );
    assert_eq!(member.asked(), MEMBER_PLACES);
}

#[tokio::test(start_paused = true)]
async fn a_member_that_fails_is_asked_by_one_question_at_a_time() {
    let (control_plane, member) = (
        ApiServer::new(Behaviour::Answers),
        ApiServer::new(Behaviour::Fails),
    );
    let (reviews, name) = (
        reviews(&control_plane, &member),
        "member1".parse::<ClusterName>().unwrap(),
    );
    let ask = async |who: &str| {
        reviews
            .decide(Place::Member(&name), &user(who), &about("a"))
            .await
    };
    let failed = ask("alice").await.unwrap_err();
    let asked = member.asked();
    let begun = Instant::now();
    assert_eq!(
        (ask("alice").await, ask("bob").await),
        (Err(failed.clone()), Err(failed.clone()))
    );
    assert_eq!(
        (member.asked(), begun.elapsed()),
        (asked, Duration::ZERO),
        "the failure is remembered"
    );
    sleep(FAILURE_LIFETIME).await;
    member.behaves(Behaviour::Hangs);
    let answers = join_all([ask("a"), ask("b"), ask("c")]).await;
    assert_eq!(
        answers
            .iter()
            .filter(|answer| **answer == Err(failed.clone()))
            .count(),
        2,
        "{answers:?}"
    );
    assert_eq!(member.asked(), asked + 1);
    sleep(FAILURE_LIFETIME).await;
    member.behaves(Behaviour::Answers);
    assert_eq!(ask("alice").await, Ok(Decision::Allowed));
    assert_eq!(ask("bob").await, Ok(Decision::Allowed));
    member.behaves(Behaviour::Refuses);
    assert!(ask("carol").await.is_err());
    let asked = member.asked();
    assert!(ask("carol").await.is_err());
    assert_eq!(
        member.asked(),
        asked + 1,
        "what may be about the question is not remembered"
    );
}

#[tokio::test(start_paused = true)]
async fn a_user_with_many_questions_holds_up_only_their_own() {
    let control_plane = ApiServer::new(Behaviour::Answers);
    let reviews = reviews(&control_plane, &control_plane);
    let noisy: Vec<_> = (0..1_600)
        .map(|number| {
            let reviews = reviews.clone();
            tokio::spawn(async move {
                reviews
                    .decide(
                        Place::ControlPlane,
                        &user("noisy"),
                        &about(&number.to_string()),
                    )
                    .await
            })
        })
        .collect();
    settle().await;
    let begun = Instant::now();
    assert_eq!(
        reviews
            .decide(Place::ControlPlane, &user("quiet"), &about("a"))
            .await,
        Ok(Decision::Allowed)
    );
    assert_eq!(begun.elapsed(), REVIEW);
    for asked in noisy {
        assert_eq!(asked.await.unwrap(), Ok(Decision::Allowed));
    }
}

#[tokio::test(start_paused = true)]
async fn no_place_is_held_while_an_api_server_is_given_time() {
    let control_plane = ApiServer::new(Behaviour::IsBusyForOne);
    let reviews = reviews(&control_plane, &control_plane);
    let ask = |who: &'static str, number: usize| {
        let reviews = reviews.clone();
        tokio::spawn(async move {
            reviews
                .decide(Place::ControlPlane, &user(who), &about(&number.to_string()))
                .await
        })
    };
    let unlucky: Vec<_> = (0..CONTROL_PLANE_PLACES / 2)
        .map(|number| ask("unlucky", number))
        .collect();
    settle().await;
    // All of them have been answered that it is busy, and the pauses have begun.
    sleep(REVIEW + Duration::from_millis(1)).await;
    let begun = Instant::now();
    let others: Vec<_> = (0..CONTROL_PLANE_PLACES / 2)
        .map(|number| ask("lucky", number))
        .collect();
    for other in others {
        assert_eq!(other.await.unwrap(), Ok(Decision::Allowed));
    }
    assert_eq!(
        begun.elapsed(),
        REVIEW,
        "half of all places are free for another user"
    );
    for asked in unlucky {
        assert!(matches!(
            asked.await.unwrap(),
            Err(ReviewError::Failed { .. })
        ));
    }
    assert!(
        reviews
            .decide(Place::ControlPlane, &user("lucky"), &about("a"))
            .await
            .is_ok(),
        "the control plane is always asked"
    );
}
