//! Sends `TokenReview` and `SubjectAccessReview` to API servers. Caches access reviews for ten
//! seconds; [`tokens`](super::tokens) caches token reviews.
//!
//! Guarantees:
//! - an error is never a decision; the key of a cached decision is the whole review;
//! - equal reviews that are asked for at the same time are sent once;
//! - a decision that is still used when half of its time is over is asked for again meanwhile, so
//!   that who asks all the time does not wait for a slow API server;
//! - each API server has slots of its own, which users share fairly ([`FairSemaphore`]): neither a
//!   member that hangs nor a user with many reviews delays other users' reviews by the control
//!   plane and other members;
//! - a review holds a slot only while the API server works on it, not during the pause before a
//!   retry;
//! - a member that has just failed gets one review at a time; the others get the same error at
//!   once;
//! - the decisions about one user evict only that user's while others have fewer.
//!
//! [`FairSemaphore`]: fleetdex_limits::fair_semaphore::FairSemaphore

pub(super) mod in_flight;
mod renewals;
mod reviewer;

#[cfg(test)]
mod tests;

use std::{collections::HashMap, sync::Arc, time::Duration};

use fleetdex_core::model::ClusterName;
use fleetdex_query_api::rbac_attributes::Attributes;
use fleetdex_telemetry::traces::{self, Beginning, KeyValue, SpanKind, Trace};
use futures::FutureExt as _;
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec},
    authorization::v1::{SubjectAccessReview, SubjectAccessReviewStatus},
};
use kube::{Api, Client, api::PostParams};
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use sha2::{Digest, Sha256};

pub use self::reviewer::{ReviewError, Reviewer};
use self::{
    in_flight::{ReviewKey, ReviewsInFlight},
    renewals::Renewals,
    reviewer::{ReviewerState, SlotRequest, send},
};
use super::{access_review, caller::Caller, expiring_cache::PerOwnerExpiringCache};

/// How long a decision is cached: how long a user still sees what has just been forbidden.
const LIFETIME: Duration = Duration::from_secs(10);
/// A decision that is used when it is older is renewed.
const RENEWED_AFTER: Duration = Duration::from_secs(5);
/// Cached decisions of all users. About 100 bytes each, as keys are hashes.
const CAPACITY: usize = 8_192;
/// Cached decisions about one namespace. At about 100 bytes each these take 6.5 MB. A search across
/// 30 kinds by a user who may list none of them in all of 900 namespaces needs 27,000.
const NAMESPACES_CAPACITY: usize = 65_536;
/// The decision about a review with more bytes of the caller's choice is not cached, so that
/// made-up reviews cannot fill the cache.
const MAX_CACHED_BYTES: usize = 10_000;
/// Bytes of the reason for a denial: a sentence. A member may send any number.
const MAX_REASON_BYTES: usize = 1_024;

/// The decision of an access review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The caller is allowed.
    Allowed,
    /// The caller is denied, with the API server's reason, if it gives one.
    Denied(String),
}

impl Decision {
    /// Whether the caller is allowed.
    pub fn is_allowed(&self) -> bool {
        *self == Self::Allowed
    }
}

/// Gives the client of a member that is connected.
pub type MemberClients = Arc<dyn Fn(&ClusterName) -> Option<Client> + Send + Sync>;

/// What is kept of decisions, by user.
type DecisionCache<V> = Mutex<PerOwnerExpiringCache<Arc<str>, ReviewKey, V>>;

/// Where decisions are kept, and what of them.
type KeptDecisions<V> = (fn(&SharedReviews) -> &DecisionCache<V>, fn(Decision) -> V);

/// Sends and caches reviews. Clones share the cache.
#[derive(Clone)]
pub struct Reviews(Arc<SharedReviews>);

struct SharedReviews {
    control_plane: Client,
    members: MemberClients,
    audiences: Vec<String>,
    reviewers: Mutex<HashMap<Option<ClusterName>, Arc<ReviewerState>>>,
    decisions: DecisionCache<Decision>,
    in_namespaces: DecisionCache<bool>,
    in_flight: ReviewsInFlight<Decision>,
    renewals: Renewals,
    refused: Counter,
}

impl Reviews {
    /// Reviews by the control plane and by members. Tokens must have one of the audiences, if there
    /// are any. `refused` counts access reviews that get no slot.
    pub fn new(
        control_plane: Client,
        members: MemberClients,
        audiences: Vec<String>,
        refused: Counter,
    ) -> Self {
        Self(Arc::new(SharedReviews {
            control_plane,
            members,
            audiences,
            reviewers: Mutex::default(),
            decisions: Mutex::new(PerOwnerExpiringCache::new(LIFETIME, CAPACITY)),
            in_namespaces: Mutex::new(PerOwnerExpiringCache::new(LIFETIME, NAMESPACES_CAPACITY)),
            in_flight: ReviewsInFlight::default(),
            renewals: Renewals::default(),
            refused,
        }))
    }

    /// Decides whether `caller` is allowed what `attributes` describe.
    pub async fn decide(
        &self,
        reviewer: Reviewer<'_>,
        caller: &Caller,
        attributes: &Attributes,
    ) -> Result<Decision, ReviewError> {
        let kept: KeptDecisions<Decision> = (|shared| &shared.decisions, |decision| decision);
        self.cached(kept, reviewer, caller, attributes).await
    }

    /// Decides the same about what is in one of many namespaces. The reason of a denial is not
    /// kept, so that there is room for the decisions about all of them.
    pub async fn allows_in_namespace(
        &self,
        reviewer: Reviewer<'_>,
        caller: &Caller,
        attributes: &Attributes,
    ) -> Result<bool, ReviewError> {
        let kept: KeptDecisions<bool> = (
            |shared| &shared.in_namespaces,
            |decision| decision.is_allowed(),
        );
        self.cached(kept, reviewer, caller, attributes).await
    }

    /// What is kept of a decision.
    async fn cached<V: Clone + Send + 'static>(
        &self,
        (cache, kept): KeptDecisions<V>,
        reviewer: Reviewer<'_>,
        caller: &Caller,
        attributes: &Attributes,
    ) -> Result<V, ReviewError> {
        let review = SubjectAccessReview {
            spec: access_review::review(attributes, caller),
            ..SubjectAccessReview::default()
        };
        let key = key(reviewer, &review);
        let user: Arc<str> = caller.name.as_str().into();
        let cached = cache(&self.0).lock().get(&*user, &key);
        let renewal = match &cached {
            Some((_, age)) if *age >= RENEWED_AFTER => self.0.renewals.begin(reviewer, &user, key),
            _ => None,
        };
        if let (Some((value, _)), None) = (&cached, &renewal) {
            return Ok(value.clone());
        }
        let begin = || {
            let (reviews, user) = (self.clone(), Arc::clone(&user));
            let (member, review) = (reviewer.member().cloned(), review.clone());
            let is_kept = attributes.bytes() < MAX_CACHED_BYTES;
            let span = span(reviewer);
            // Kept as soon as it arrives, so that it is not older than it is taken for.
            async move {
                let reviewer = Reviewer::of(member.as_ref());
                let decision = reviews
                    .ask(reviewer, Arc::clone(&user), &review, span)
                    .await?;
                if is_kept {
                    let mut cache = cache(&reviews.0).lock();
                    cache.insert(user, key, kept(decision.clone()));
                }
                Ok(decision)
            }
        };
        let review = self.0.in_flight.join(key, begin);
        let Some((value, age)) = cached else {
            let decision = match review.result.await {
                // Who began it has waited for long, and this one has not.
                Err(ReviewError::Busy | ReviewError::Timeout { .. }) if review.is_joined => {
                    self.0.in_flight.join(key, begin).result.await?
                }
                decided => decided?,
            };
            return Ok(kept(decision));
        };
        tokio::spawn(async move {
            let _renewal = renewal;
            if review.result.await.is_err() {
                // The old decision expires, and the next request gets the error. Until then it is
                // not asked for again.
                tokio::time::sleep(LIFETIME.saturating_sub(age)).await;
            }
        });
        Ok(value)
    }

    async fn ask(
        &self,
        reviewer: Reviewer<'_>,
        user: Arc<str>,
        review: &SubjectAccessReview,
        span: Option<Trace>,
    ) -> Result<Decision, ReviewError> {
        let api: Api<SubjectAccessReview> = Api::all(self.client(reviewer)?);
        let parameters = PostParams::default();
        let slot = SlotRequest {
            state: self.reviewer(reviewer),
            user,
            is_member: reviewer != Reviewer::ControlPlane,
        };
        let reviewed = send(reviewer, Some(&slot), || {
            api.create(&parameters, review).boxed()
        })
        .await
        .inspect_err(|error| {
            if let Some(span) = &span {
                span.fail(error.reason());
            }
        })?;
        let decision = decision(reviewed.status.unwrap_or_default()).map_err(|reason| {
            ReviewError::Failed {
                reviewer: reviewer.describe(),
                reason,
            }
        })?;
        if let Some(span) = span {
            span.set(KeyValue::new("fleetdex.allowed", decision.is_allowed()));
        }
        Ok(decision)
    }

    /// The state of an API server. Drops the states of members without reviews and failures.
    fn reviewer(&self, reviewer: Reviewer<'_>) -> Arc<ReviewerState> {
        let name = reviewer.member().cloned();
        let mut reviewers = self.0.reviewers.lock();
        if let Some(known) = reviewers.get(&name) {
            return Arc::clone(known);
        }
        reviewers.retain(|_, state| Arc::strong_count(state) > 1 || state.has_failed());
        let state = ReviewerState::new(reviewer, self.0.refused.clone());
        reviewers.insert(name, Arc::clone(&state));
        state
    }

    /// The user of a token; `None` if the control plane rejects the token. Not cached.
    pub(super) async fn token_user(&self, token: &str) -> Result<Option<Caller>, ReviewError> {
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
        let parameters = PostParams::default();
        let create = || api.create(&parameters, &review).boxed();
        let reviewed = send(Reviewer::ControlPlane, None, create).await?;
        Ok(self.user_of(reviewed))
    }

    fn user_of(&self, review: TokenReview) -> Option<Caller> {
        let status = review
            .status
            .filter(|status| status.authenticated == Some(true))?;
        // A control plane that does not support audiences returns none, and has not checked them.
        let audiences = status.audiences.unwrap_or_default();
        let mut required = self.0.audiences.iter();
        if required.len() > 0 && !required.any(|required| audiences.contains(required)) {
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

    fn client(&self, reviewer: Reviewer<'_>) -> Result<Client, ReviewError> {
        let Reviewer::Member(name) = reviewer else {
            return Ok(self.0.control_plane.clone());
        };
        let disconnected = || ReviewError::Failed {
            reviewer: reviewer.describe(),
            reason: "it is not connected".to_owned(),
        };
        (self.0.members)(name).ok_or_else(disconnected)
    }
}

impl std::fmt::Debug for Reviews {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Reviews")
            .field("audiences", &self.0.audiences)
            .finish_non_exhaustive()
    }
}

/// The span of an access review, within the current trace. It includes the time in the queue.
fn span(reviewer: Reviewer<'_>) -> Option<Trace> {
    let beginning = Beginning::now("SubjectAccessReview", SpanKind::Client);
    traces::child(beginning, || match reviewer {
        Reviewer::ControlPlane => Vec::new(),
        Reviewer::Member(name) => {
            vec![KeyValue::new("k8s.cluster.name", name.as_str().to_owned())]
        }
    })
}

/// Both allowed and denied contradict each other; neither is a denial.
fn decision(status: SubjectAccessReviewStatus) -> Result<Decision, String> {
    let reason = status.reason.unwrap_or_default();
    match (status.allowed, status.denied == Some(true)) {
        (true, false) => Ok(Decision::Allowed),
        (false, _) if reason.is_empty() => Ok(Decision::Denied(truncated(
            status.evaluation_error.unwrap_or_default(),
        ))),
        (false, _) => Ok(Decision::Denied(truncated(reason))),
        (true, true) => Err("the response is both allowed and denied".to_owned()),
    }
}

fn truncated(mut reason: String) -> String {
    reason.truncate(reason.floor_char_boundary(MAX_REASON_BYTES));
    reason.shrink_to_fit();
    reason
}

fn key(reviewer: Reviewer<'_>, review: &SubjectAccessReview) -> ReviewKey {
    let member = reviewer.member().map(ClusterName::as_str);
    Sha256::digest(serde_json::json!([member, review.spec]).to_string()).into()
}
