//! Authorizes callers: to send a request, to see clusters, and to see objects.
//!
//! A list is restricted in its query to what the caller is permitted to see, so that pages and
//! counts are right. An API server that does not respond is an error, never a permission.

mod access_request;
mod member_decisions;
mod namespaces;
mod permission;

use std::collections::BTreeSet;

use clap::ValueEnum;
use fleetdex_core::model::{ClusterName, Namespace};
use fleetdex_query_api::rbac_attributes::Attributes;
use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _, stream};

pub use self::{
    access_request::AccessRequest,
    namespaces::{MAX_NAMESPACES, NamespaceLister},
    permission::Permission,
};
use self::{member_decisions::MemberDecisions, namespaces::CandidateNamespaces};
use super::{
    access_review::forbidden,
    caller::Caller,
    reviews::{Decision, ReviewError, Reviewer, Reviews},
};
use crate::api_error::ApiError;

/// Concurrent reviews for one request.
const CONCURRENT: usize = 16;
/// Clusters that are reviewed for one request.
const MAX_CLUSTERS: usize = 1_000;

/// Whose RBAC decides which objects a user sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum AuthorizationMode {
    /// The control plane's: users that can list pods there see the pods of the fleet.
    #[default]
    ControlPlane,
    /// Each member's own: users see no more than the member would show them.
    Members,
}

/// Authorizes callers by the reviews of API servers.
#[derive(Clone, Debug)]
pub struct Authorizer {
    pub(super) reviews: Reviews,
    pub(super) mode: AuthorizationMode,
}

impl Authorizer {
    /// An authorizer that asks `reviews`.
    pub fn new(reviews: Reviews, mode: AuthorizationMode) -> Self {
        Self { reviews, mode }
    }

    /// Refuses a request that the control plane does not allow.
    pub async fn check(&self, caller: &Caller, attributes: &Attributes) -> Result<(), ApiError> {
        if caller.is_superuser() || attributes.is_health() {
            return Ok(());
        }
        let reviewer = Reviewer::ControlPlane;
        match self.reviews.decide(reviewer, caller, attributes).await? {
            Decision::Allowed => Ok(()),
            Decision::Denied(reason) => Err(forbidden(attributes, caller, &reason).into()),
        }
    }

    /// Whether a change of objects or a connection to one is likely to be permitted. Who decides
    /// when it is requested is the member that has the object.
    ///
    /// Where the members authorize, one of `clusters` that permits it is enough.
    pub async fn forecast(
        &self,
        caller: &Caller,
        attributes: &Attributes,
        clusters: &[ClusterName],
    ) -> Result<Decision, ReviewError> {
        if caller.is_superuser() {
            return Ok(Decision::Allowed);
        }
        if self.mode == AuthorizationMode::ControlPlane {
            let reviewer = Reviewer::ControlPlane;
            return self.reviews.decide(reviewer, caller, attributes).await;
        }
        let mut decision = Decision::Denied("no cluster has the resource".to_owned());
        for name in clusters.iter().take(MAX_CLUSTERS) {
            // A member that does not answer permits nothing now.
            let reviewer = Reviewer::Member(name);
            decision = match self.reviews.decide(reviewer, caller, attributes).await {
                Ok(Decision::Allowed) => return Ok(Decision::Allowed),
                Ok(denied) => denied,
                Err(error) => Decision::Denied(error.to_string()),
            };
        }
        Ok(decision)
    }

    /// What of the requested objects a caller can see; an error if it is nothing.
    pub async fn permission(
        &self,
        caller: &Caller,
        request: &AccessRequest<'_>,
        namespaces: &dyn NamespaceLister,
    ) -> Result<Permission, ApiError> {
        if caller.is_superuser() {
            return Ok(Permission::default());
        }
        match self.mode {
            AuthorizationMode::ControlPlane => {
                self.by_control_plane(caller, request, namespaces).await
            }
            AuthorizationMode::Members => self.by_members(caller, request, namespaces).await,
        }
    }

    /// The clusters that a caller can see, of those that the request names, or else of all of them;
    /// `None` for all clusters, present and future.
    ///
    /// Does not check first whether the clusters exist: the refusal of a name is the same whether a
    /// cluster has it or not, and so is the refusal of a caller that can see no cluster.
    pub async fn clusters(
        &self,
        caller: &Caller,
        named: &[ClusterName],
        all: &BTreeSet<ClusterName>,
    ) -> Result<Option<BTreeSet<ClusterName>>, ApiError> {
        if caller.is_superuser() {
            return Ok(None);
        }
        let any = Attributes::of_cluster(None);
        let decision = self.reviews.decide(Reviewer::ControlPlane, caller, &any);
        let refusal = match decision.await? {
            Decision::Allowed => return Ok(None),
            Decision::Denied(reason) => forbidden(&any, caller, &reason),
        };
        let requested: BTreeSet<&ClusterName> = if named.is_empty() {
            all.iter().collect()
        } else {
            named.iter().collect()
        };
        if requested.len() > MAX_CLUSTERS {
            return Err(too_many(
                &format!("you may not see all clusters, and these are more than {MAX_CLUSTERS}"),
                "clusters",
            ));
        }
        let mut reviews = Vec::new();
        for name in requested {
            let review = async move {
                let one = Attributes::of_cluster(Some(name));
                let decision = self.reviews.decide(Reviewer::ControlPlane, caller, &one);
                Ok::<_, ReviewError>((name, decision.await?))
            };
            reviews.push(review.boxed());
        }
        let decided = stream::iter(reviews).buffer_unordered(CONCURRENT);
        let mut decisions: Vec<(&ClusterName, Decision)> = decided.try_collect().await?;
        decisions.sort_by_key(|(name, _)| *name);
        let is_denied = |(_, decision): &&(&ClusterName, Decision)| !decision.is_allowed();
        if !named.is_empty()
            && let Some((name, Decision::Denied(reason))) = decisions.iter().find(is_denied)
        {
            let one = Attributes::of_cluster(Some(name));
            return Err(forbidden(&one, caller, reason).into());
        }
        decisions.retain(|(_, decision)| decision.is_allowed());
        let allowed = decisions.into_iter().map(|(name, _)| name.clone());
        let allowed: BTreeSet<ClusterName> = allowed.collect();
        if allowed.is_empty() {
            Err(refusal.into())
        } else {
            Ok(Some(allowed))
        }
    }

    async fn by_control_plane(
        &self,
        caller: &Caller,
        request: &AccessRequest<'_>,
        lister: &dyn NamespaceLister,
    ) -> Result<Permission, ApiError> {
        let clusters = request
            .only_these_clusters
            .then(|| request.clusters.to_vec());
        let everywhere = request.attributes(None);
        let reviewer = Reviewer::ControlPlane;
        let reason = match self.reviews.decide(reviewer, caller, &everywhere).await? {
            Decision::Allowed => return Ok(Permission::of(clusters, None)),
            Decision::Denied(reason) => reason,
        };
        if !request.namespaced {
            return Err(forbidden(&everywhere, caller, &reason).into());
        }
        let CandidateNamespaces {
            namespaces: candidates,
            omitted_clusters: omitted,
        } = match request.namespaces {
            [] => CandidateNamespaces::of_clusters(lister.namespaces().await?),
            named => CandidateNamespaces::named(named),
        };
        let namespaces = self.namespaces(reviewer, caller, request, &candidates);
        let namespaces = namespaces.await?;
        if namespaces.is_empty() {
            return Err(request.forbidden(caller, &reason));
        }
        let mut warnings = Vec::from_iter(request.omitted_namespaces_warning(&namespaces));
        let mut clusters = clusters;
        if !omitted.is_empty() {
            let is_included = |name: &&ClusterName| !omitted.contains(*name);
            let included = request.clusters.iter().filter(is_included);
            clusters = Some(included.cloned().collect());
            warnings.push(request.omitted_clusters_warning(&omitted));
        }
        Ok(Permission {
            warnings,
            ..Permission::of(clusters, Some(namespaces))
        })
    }

    async fn by_members(
        &self,
        caller: &Caller,
        request: &AccessRequest<'_>,
        lister: &dyn NamespaceLister,
    ) -> Result<Permission, ApiError> {
        let clusters = request.clusters;
        if clusters.len() > MAX_CLUSTERS {
            return Err(too_many(
                &format!("more than {MAX_CLUSTERS} clusters hold what you ask for"),
                "clusters",
            ));
        }
        let everywhere = request.attributes(None);
        let mut reviews = Vec::new();
        for name in clusters {
            let decision = self
                .reviews
                .decide(Reviewer::Member(name), caller, &everywhere);
            reviews.push(async move { (name, decision.await) }.boxed());
        }
        let decisions: Vec<(&ClusterName, Result<Decision, ReviewError>)> = stream::iter(reviews)
            .buffer_unordered(CONCURRENT)
            .collect()
            .await;
        let mut members = MemberDecisions::default();
        for (name, decision) in decisions {
            members.add(name, decision);
        }
        if request.namespaced && !members.undecided.is_empty() {
            let held = if request.namespaces.is_empty() {
                Some(lister.namespaces().await?)
            } else {
                None
            };
            for name in std::mem::take(&mut members.undecided) {
                let candidates = held.as_ref().map_or_else(
                    || request.namespaces.to_vec(),
                    |held| held.get(&name).cloned().unwrap_or_default(),
                );
                match self
                    .namespaces(Reviewer::Member(&name), caller, request, &candidates)
                    .await
                {
                    Ok(namespaces) => members.grant(name, namespaces),
                    Err(error) => members.fail(&name, &error.to_string()),
                }
            }
        }
        members.permission(caller, request)
    }

    /// The candidate namespaces in which the request is allowed.
    async fn namespaces(
        &self,
        reviewer: Reviewer<'_>,
        caller: &Caller,
        request: &AccessRequest<'_>,
        candidates: &[Namespace],
    ) -> Result<Vec<Namespace>, ApiError> {
        if candidates.len() > MAX_NAMESPACES {
            let problem = format!(
                "you may not list {} in all namespaces, and more than {MAX_NAMESPACES} hold some",
                request.resource.plural
            );
            return Err(too_many(&problem, "namespaces"));
        }
        let mut reviews = Vec::new();
        for namespace in candidates {
            let attributes = request.attributes(Some(namespace));
            reviews.push(async move {
                let reviews = &self.reviews;
                let decided = reviews.allows_in_namespace(reviewer, caller, &attributes);
                let is_allowed = decided.await?;
                Ok::<_, ReviewError>(is_allowed.then(|| namespace.clone()))
            });
        }
        let decided = stream::iter(reviews).buffer_unordered(CONCURRENT);
        let permitted = decided.try_filter_map(async |namespace| Ok(namespace));
        let mut permitted: Vec<Namespace> = permitted.try_collect().await?;
        permitted.sort_unstable();
        Ok(permitted)
    }
}

fn too_many(problem: &str, parameter: &str) -> ApiError {
    ApiError::bad_request(format!(
        "{problem}; name those that you want with the parameter {parameter}"
    ))
}

impl From<ReviewError> for ApiError {
    fn from(error: ReviewError) -> Self {
        if error == ReviewError::Busy {
            return Self::TooManyRequests;
        }
        Self::Internal(format!("cannot authorize the request: {error}"))
    }
}
