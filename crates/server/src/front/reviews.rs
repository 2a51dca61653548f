//! Asks API servers who somebody is and what somebody may do: `TokenReview`, which [`tokens`](super::tokens) remember, and `SubjectAccessReview`, remembered
//! here for ten seconds.
//!
//! Guarantees:
//! - an error is never an answer; the whole question is the key of an answer;
//! - each API server has places of its own, which users share fairly ([`Shares`]): neither a member that hangs nor a user with many questions holds up what
//!   other users ask the control plane and other members;
//! - a place is held only while the API server works on the question, not during the pause before the next attempt;
//! - a member that has just failed is asked by one question at a time; the others get the same error at once;
//! - the answers to one user's questions push out of what is remembered only that user's, while others have fewer.

use std::{collections::HashMap, sync::Arc, time::Duration};

use backon::{BackoffBuilder as _, ExponentialBuilder};
use fleetdex_core::model::{ClusterName, causes};
use fleetdex_limits::shares::Shares;
use futures::{FutureExt as _, future::BoxFuture};
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec},
    authorization::v1::{SubjectAccessReview, SubjectAccessReviewStatus},
};
use kube::{Api, Client, api::PostParams};
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use sha2::{Digest, Sha256};
use tokio::time::{Instant, sleep, timeout};

use super::{attributes::Attributes, expiring::SharedExpiring};
use crate::caller::Caller;

/// How long an answer counts, whatever it is: how long somebody still sees what was just forbidden.
const LIFETIME: Duration = Duration::from_secs(10);
/// Answers that are remembered, of all users. At about 100 bytes each, as keys are hashes.
const CAPACITY: usize = 8_192;
/// A question of more bytes of the caller's choice is not remembered, so that nobody fills the memory with questions made up.
const MAX_REMEMBERED_BYTES: usize = 10_000;
/// Bytes of what an API server says about a no: a sentence. A member may send any number.
const MAX_REASON_BYTES: usize = 1_024;
/// How long an API server may take for one question, repetitions and the pauses between them included, but not the waits for a place.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Questions about rights that are under way to the control plane at a time, of which one user has half at most.
const CONTROL_PLANE_PLACES: usize = 64;
/// The same for each member, which gets no more than 20 requests per second from here.
const MEMBER_PLACES: usize = 16;
/// Questions that wait for a place, for each API server, of which one user has half at most: with the default flags, what 200 requests ask at once
/// (16 questions each) and 4,000 watches (4 each). An entry takes about 100 bytes, so a full queue takes 2 MB.
const QUEUE: usize = 20_000;
/// How long a question waits for a place.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a member that has failed is not asked again.
const FAILURE_LIFETIME: Duration = Duration::from_secs(10);

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
    /// Too many questions wait to be asked.
    #[error("too many reviews wait for their turn")]
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
    servers: Mutex<HashMap<Option<ClusterName>, Arc<Server>>>,
    decisions: Mutex<SharedExpiring<Arc<str>, [u8; 32], Decision>>,
    refused: Counter,
}

/// An API server that is asked about rights.
struct Server {
    places: Shares<Arc<str>>,
    /// The last failure of a member, and until when it is the answer to every question.
    failure: Mutex<Option<(ReviewError, Instant)>>,
}

impl Server {
    fn new(place: Place<'_>, refused: Counter) -> Arc<Self> {
        let places = match place {
            Place::ControlPlane => CONTROL_PLANE_PLACES,
            Place::Member(_) => MEMBER_PLACES,
        };
        Arc::new(Self {
            places: Shares::new(places, QUEUE, refused),
            failure: Mutex::default(),
        })
    }

    /// Why it is not to be asked now. When it is time to ask again, one question is let through, and the others wait for what becomes of it.
    fn failure(&self) -> Option<ReviewError> {
        let mut failure = self.failure.lock();
        let (error, until) = failure.as_mut()?;
        let now = Instant::now();
        if now < *until {
            return Some(error.clone());
        }
        *until = now + TIMEOUT;
        None
    }

    fn has_failed(&self) -> bool {
        self.failure.lock().is_some()
    }

    fn answered(&self) {
        *self.failure.lock() = None;
    }

    fn failed(&self, error: &ReviewError) {
        *self.failure.lock() = Some((error.clone(), Instant::now() + FAILURE_LIFETIME));
    }
}

impl Reviews {
    /// Asks the control plane and members. Tokens have to be meant for one of the audiences, if there are any. `refused` counts questions about rights
    /// that get no place.
    pub fn new(
        control_plane: Client,
        members: Members,
        audiences: Vec<String>,
        refused: Counter,
    ) -> Self {
        Self(Arc::new(Inner {
            control_plane,
            members,
            audiences,
            servers: Mutex::default(),
            decisions: Mutex::new(SharedExpiring::new(LIFETIME, CAPACITY)),
            refused,
        }))
    }

    /// Whether somebody may do something.
    pub async fn decide(
        &self,
        place: Place<'_>,
        caller: &Caller,
        attributes: &Attributes,
    ) -> Result<Decision, ReviewError> {
        let review = SubjectAccessReview {
            spec: attributes.review(caller),
            ..SubjectAccessReview::default()
        };
        let key = key(place, &review);
        if let Some(known) = self.0.decisions.lock().get(caller.name.as_str(), &key) {
            return Ok(known);
        }
        let user: Arc<str> = caller.name.as_str().into();
        let api: Api<SubjectAccessReview> = Api::all(self.client(place)?);
        let parameters = PostParams::default();
        let turn = Turn {
            server: self.server(place),
            user: Arc::clone(&user),
            is_member: place != Place::ControlPlane,
        };
        let answer = ask(&place_name(place), Some(&turn), || {
            api.create(&parameters, &review).boxed()
        })
        .await?;
        let decision =
            decision(answer.status.unwrap_or_default()).map_err(|reason| ReviewError::Failed {
                place: place_name(place),
                reason,
            })?;
        if attributes.bytes() < MAX_REMEMBERED_BYTES {
            self.0.decisions.lock().insert(user, key, decision.clone());
        }
        Ok(decision)
    }

    /// The places of an API server. Those of members that nobody asks and that have not failed are not kept.
    fn server(&self, place: Place<'_>) -> Arc<Server> {
        let name = match place {
            Place::ControlPlane => None,
            Place::Member(name) => Some(name.clone()),
        };
        let mut servers = self.0.servers.lock();
        if let Some(known) = servers.get(&name) {
            return Arc::clone(known);
        }
        servers.retain(|_, server| Arc::strong_count(server) > 1 || server.has_failed());
        let server = Server::new(place, self.0.refused.clone());
        servers.insert(name, Arc::clone(&server));
        server
    }

    /// Whose token it is; nobody's if the control plane does not know it. Asked each time.
    pub(super) async fn owner(&self, token: &str) -> Result<Option<Caller>, ReviewError> {
        let audiences = Some(self.0.audiences.clone()).filter(|audiences| !audiences.is_empty());
        let spec = TokenReviewSpec {
            token: token.to_owned(),
            audiences,
        };
        let review = TokenReview {
            spec,
            ..TokenReview::default()
        };
        let api: Api<TokenReview> = Api::all(self.0.control_plane.clone());
        let (place, parameters) = (place_name(Place::ControlPlane), PostParams::default());
        let answer = ask(&place, None, || api.create(&parameters, &review).boxed()).await?;
        Ok(self.owner_of(answer))
    }

    fn owner_of(&self, review: TokenReview) -> Option<Caller> {
        let status = review
            .status
            .filter(|status| status.authenticated == Some(true))?;
        // A control plane that knows nothing of audiences says nothing of them, and has not looked whom the token is meant for.
        let meant_for = status.audiences.unwrap_or_default();
        if !self.0.audiences.is_empty()
            && !self
                .0
                .audiences
                .iter()
                .any(|wanted| meant_for.contains(wanted))
        {
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
        let Place::Member(name) = place else {
            return Ok(self.0.control_plane.clone());
        };
        let disconnected = || ReviewError::Failed {
            place: place_name(place),
            reason: "it is not connected".to_owned(),
        };
        (self.0.members)(name).ok_or_else(disconnected)
    }
}

/// What a question waits for before each attempt: a place at the API server, which is its user's.
struct Turn {
    server: Arc<Server>,
    user: Arc<str>,
    is_member: bool,
}

/// Asks, and asks again when the API server says that it was only busy. Without a turn, the caller holds a place.
async fn ask<'q, T>(
    place: &str,
    turn: Option<&Turn>,
    mut question: impl FnMut() -> BoxFuture<'q, kube::Result<T>> + Send,
) -> Result<T, ReviewError> {
    let mut pauses = schedule();
    let mut left = TIMEOUT;
    loop {
        // Held until it is known what a failure means for those who wait for it.
        let share = match turn {
            Some(Turn { server, user, .. }) => Some(
                server
                    .places
                    .take(Arc::clone(user), PATIENCE)
                    .await
                    .ok_or(ReviewError::Busy)?,
            ),
            None => None,
        };
        // Whoever waited for a member that has failed meanwhile does not wait for it once more.
        let is_first = left == TIMEOUT;
        if let Some(known) = turn
            .filter(|turn| is_first && turn.is_member)
            .and_then(|turn| turn.server.failure())
        {
            return Err(known);
        }
        let begun = Instant::now();
        let answer = timeout(left, question()).await;
        left = left.saturating_sub(begun.elapsed());
        let (error, is_failure) = match answer {
            Ok(Ok(answer)) => {
                if let Some(turn) = turn {
                    turn.server.answered();
                }
                return Ok(answer);
            }
            Ok(Err(error))
                if is_busy(&error)
                    && let Some(pause) = pauses.next().filter(|pause| *pause < left) =>
            {
                drop(share);
                sleep(pause).await;
                left -= pause;
                continue;
            }
            Ok(Err(error)) => (
                ReviewError::Failed {
                    place: place.to_owned(),
                    reason: causes(&error),
                },
                is_of_server(&error),
            ),
            Err(_) => (
                ReviewError::Timeout {
                    place: place.to_owned(),
                },
                true,
            ),
        };
        match turn {
            Some(turn) if turn.is_member && is_failure => turn.server.failed(&error),
            Some(turn) => turn.server.answered(),
            None => {}
        }
        return Err(error);
    }
}

fn schedule() -> impl Iterator<Item = Duration> {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(500))
        .with_factor(1.5)
        .with_max_times(4)
        .with_jitter()
        .build()
}

/// Whether an error says something of the API server, and nothing of the question: another user's gets the same.
fn is_of_server(error: &kube::Error) -> bool {
    is_busy(error) || !matches!(error, kube::Error::Api(_))
}

impl std::fmt::Debug for Reviews {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Reviews")
            .field("audiences", &self.0.audiences)
            .finish_non_exhaustive()
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
        (false, _) if reason.is_empty() => Ok(Decision::Denied(cut(status
            .evaluation_error
            .unwrap_or_default()))),
        (false, _) => Ok(Decision::Denied(cut(reason))),
        (true, true) => Err("the answer is both allowed and denied".to_owned()),
    }
}

fn cut(mut reason: String) -> String {
    reason.truncate(reason.floor_char_boundary(MAX_REASON_BYTES));
    reason.shrink_to_fit();
    reason
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

#[cfg(test)]
mod tests;
