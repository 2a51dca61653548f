//! Asks API servers who somebody is and what somebody may do: `TokenReview`, which [`tokens`](super::tokens) remember, and `SubjectAccessReview`, remembered
//! here for ten seconds.
//!
//! Guarantees: an error is never an answer and never remembered; the whole question is the key of an answer.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use backon::{ExponentialBuilder, Retryable as _};
use futures::{FutureExt as _, future::BoxFuture};
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec},
    authorization::v1::{SubjectAccessReview, SubjectAccessReviewStatus},
};
use kube::{Api, Client, api::PostParams};
use sha2::{Digest, Sha256};
use tokio::{sync::Semaphore, time::timeout};

use super::{attributes::Attributes, expiring::Expiring};
use crate::{
    model::{ClusterName, causes},
    server::caller::Caller,
};

/// How long an answer counts, whatever it is: how long somebody still sees what was just forbidden.
const LIFETIME: Duration = Duration::from_secs(10);
/// Answers that are remembered. At about 100 bytes each, as keys are hashes.
const CAPACITY: usize = 8_192;
/// A question of more bytes of the caller's choice is not remembered, so that nobody fills the memory with questions made up.
const MAX_REMEMBERED_BYTES: usize = 10_000;
/// How long one question may take, its repetitions included.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Questions under way to all API servers together, but for those about tokens; further ones wait.
const CONCURRENT: usize = 64;

/// A question without an answer. Never a yes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReviewError {
    /// No answer in time.
    #[error("{place} does not answer within {} s", TIMEOUT.as_secs())]
    Timeout {
        /// Who was asked.
        place: String,
    },
    /// It could not be asked, or would not answer.
    #[error("{place} cannot tell: {reason}")]
    Failed {
        /// Who was asked.
        place: String,
        /// What it said.
        reason: String,
    },
    /// There are too many questions to ask it.
    #[error("too many tokens wait for their review")]
    Busy,
}

/// Whether somebody may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Yes.
    Allowed,
    /// No, and what the API server says about it, if anything.
    Denied(String),
}

impl Decision {
    /// Whether it is a yes.
    pub fn is_allowed(&self) -> bool {
        *self == Self::Allowed
    }
}

/// Whose word counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place<'a> {
    /// The control plane's.
    ControlPlane,
    /// A member's.
    Member(&'a ClusterName),
}

/// Gives the client of a member that is connected.
pub type Members = Arc<dyn Fn(&ClusterName) -> Option<Client> + Send + Sync>;

/// Asks and remembers. Clones share what they remember.
#[derive(Clone)]
pub struct Reviews(Arc<Inner>);

struct Inner {
    control_plane: Client,
    members: Members,
    audiences: Vec<String>,
    under_way: Semaphore,
    decisions: Mutex<Expiring<[u8; 32], Decision>>,
}

impl Reviews {
    /// Asks the control plane and members. Tokens have to be meant for one of the audiences, if there are any.
    pub fn new(control_plane: Client, members: Members, audiences: Vec<String>) -> Self {
        Self(Arc::new(Inner {
            control_plane,
            members,
            audiences,
            under_way: Semaphore::new(CONCURRENT),
            decisions: Mutex::new(Expiring::new(LIFETIME, CAPACITY)),
        }))
    }

    /// Whether somebody may do something.
    pub async fn decide(&self, place: Place<'_>, caller: &Caller, attributes: &Attributes) -> Result<Decision, ReviewError> {
        let review = SubjectAccessReview { spec: attributes.review(caller), ..SubjectAccessReview::default() };
        let key = key(place, &review);
        if let Some(known) = lock(&self.0.decisions).get(&key) {
            return Ok(known);
        }
        let (name, parameters) = (place_name(place), PostParams::default());
        let api: Api<SubjectAccessReview> = Api::all(self.client(place)?);
        let _turn = self.0.under_way.acquire().await;
        let answer = self.ask(&name, || api.create(&parameters, &review).boxed()).await?;
        let decision =
            decision(answer.status.unwrap_or_default()).map_err(|reason| ReviewError::Failed { place: name, reason })?;
        if attributes.bytes() < MAX_REMEMBERED_BYTES {
            lock(&self.0.decisions).insert(key, decision.clone());
        }
        Ok(decision)
    }

    /// Whose token it is; nobody's if the control plane does not know it. Asked each time.
    pub(super) async fn owner(&self, token: &str) -> Result<Option<Caller>, ReviewError> {
        let audiences = Some(self.0.audiences.clone()).filter(|audiences| !audiences.is_empty());
        let spec = TokenReviewSpec { token: token.to_owned(), audiences };
        let review = TokenReview { spec, ..TokenReview::default() };
        let api: Api<TokenReview> = Api::all(self.0.control_plane.clone());
        let (place, parameters) = (place_name(Place::ControlPlane), PostParams::default());
        let answer = self.ask(&place, || api.create(&parameters, &review).boxed()).await?;
        Ok(self.owner_of(answer))
    }

    fn owner_of(&self, review: TokenReview) -> Option<Caller> {
        let status = review.status.filter(|status| status.authenticated == Some(true))?;
        // A control plane that knows nothing of audiences says nothing of them, and has not looked whom the token is meant for.
        let meant_for = status.audiences.unwrap_or_default();
        if !self.0.audiences.is_empty() && !self.0.audiences.iter().any(|wanted| meant_for.contains(wanted)) {
            return None;
        }
        let user = status.user?;
        Some(Caller {
            name: user.username.filter(|name| !name.is_empty())?,
            uid: user.uid.filter(|uid| !uid.is_empty()),
            groups: user.groups.unwrap_or_default(),
            extra: user.extra.unwrap_or_default(),
        })
    }

    fn client(&self, place: Place<'_>) -> Result<Client, ReviewError> {
        let Place::Member(name) = place else { return Ok(self.0.control_plane.clone()) };
        let disconnected = || ReviewError::Failed { place: place_name(place), reason: "it is not connected".to_owned() };
        (self.0.members)(name).ok_or_else(disconnected)
    }

    /// Asks again when the API server says that it was only busy.
    async fn ask<'q, T>(
        &self,
        place: &str,
        question: impl FnMut() -> BoxFuture<'q, kube::Result<T>> + Send,
    ) -> Result<T, ReviewError> {
        let schedule = ExponentialBuilder::default()
            .with_min_delay(Duration::from_millis(500))
            .with_factor(1.5)
            .with_max_times(4)
            .with_jitter();
        let asked = timeout(TIMEOUT, question.retry(schedule).when(is_busy)).await;
        let failed = |error: kube::Error| ReviewError::Failed { place: place.to_owned(), reason: causes(&error) };
        asked.map_err(|_| ReviewError::Timeout { place: place.to_owned() })?.map_err(failed)
    }
}

impl std::fmt::Debug for Reviews {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Reviews").field("audiences", &self.0.audiences).finish_non_exhaustive()
    }
}

fn is_busy(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 429 | 500 | 503 | 504))
}

/// Both at once makes no sense, and neither is a no.
fn decision(status: SubjectAccessReviewStatus) -> Result<Decision, String> {
    let reason = status.reason.unwrap_or_default();
    match (status.allowed, status.denied == Some(true)) {
        (true, false) => Ok(Decision::Allowed),
        (false, _) if reason.is_empty() => Ok(Decision::Denied(status.evaluation_error.unwrap_or_default())),
        (false, _) => Ok(Decision::Denied(reason)),
        (true, true) => Err("the answer is both allowed and denied".to_owned()),
    }
}

fn key(place: Place<'_>, review: &SubjectAccessReview) -> [u8; 32] {
    let place = match place {
        Place::ControlPlane => None,
        Place::Member(name) => Some(name.as_str()),
    };
    Sha256::digest(serde_json::json!([place, review.spec]).to_string()).into()
}

fn place_name(place: Place<'_>) -> String {
    match place {
        Place::ControlPlane => "the control plane".to_owned(),
        Place::Member(name) => format!("cluster {name}"),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
