//! What a caller may: ask at all, see clusters, see objects.
//!
//! The answer to a list is restricted in its query to what the caller may see, so that pages and counts are right. An API server that does not
//! answer is an error, never a yes.

use std::collections::{BTreeMap, BTreeSet};

use clap::ValueEnum;
use fleetdex_core::{
    model::{ClusterName, Namespace},
    query::{Grant, Permitted},
};
use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _, stream};

use super::{
    attributes::Attributes,
    reviews::{Decision, Place, ReviewError, Reviews},
};
use crate::{caller::Caller, status::ApiError};

/// Questions of one request that are asked at the same time.
const CONCURRENT: usize = 16;
/// Namespaces that are asked about for one request, over all clusters. At some milliseconds each, 16 at a time, this is half a second.
pub const MAX_NAMESPACES: usize = 1_000;
/// Clusters that a warning names.
const MAX_NAMED: usize = 5;
/// Clusters that are asked about for one request.
const MAX_CLUSTERS: usize = 1_000;

/// Whose rights decide which objects somebody sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// The control plane's: whoever may list pods there sees the pods of the fleet.
    #[default]
    ControlPlane,
    /// Each member's own: nobody sees more than the member would show.
    Members,
}

/// What objects a request is about.
#[derive(Clone, Debug)]
pub struct Wanted<'w> {
    /// `list`, `get` or `watch`.
    pub verb: &'w str,
    /// Group and plural.
    pub resource: &'w fleetdex_core::query::ResourceName,
    /// Version of the group, as the request has it.
    pub version: &'w str,
    /// Whether the objects live in namespaces.
    pub namespaced: bool,
    /// The one object asked for, if it is one.
    pub name: Option<&'w str>,
    /// The namespaces asked for; empty: all.
    pub namespaces: &'w [Namespace],
    /// The clusters that hold the resource, of those asked for and that the caller may see.
    pub clusters: &'w [ClusterName],
    /// Whether the answer has to be restricted to these, because the caller may not see all clusters.
    pub only_these: bool,
}

/// What of it may be shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permission {
    /// For the query.
    pub permitted: Permitted,
    /// What the caller should know about it.
    pub warnings: Vec<String>,
}

/// The namespaces that hold objects, by cluster; asked for only when it matters.
#[async_trait::async_trait]
pub trait Holders: Sync {
    /// Every namespace of these clusters that holds objects of the resource, [`MAX_NAMESPACES`] and one more at most.
    async fn namespaces(&self) -> Result<BTreeMap<ClusterName, Vec<Namespace>>, ApiError>;
}

/// Decides what callers may.
#[derive(Clone, Debug)]
pub struct Authorizer {
    reviews: Reviews,
    mode: Mode,
}

impl Authorizer {
    /// Decides by what API servers say.
    pub fn new(reviews: Reviews, mode: Mode) -> Self {
        Self { reviews, mode }
    }

    /// Whose rights decide about objects.
    pub(super) fn mode(&self) -> Mode {
        self.mode
    }

    /// Whom it asks.
    pub(super) fn reviews(&self) -> &Reviews {
        &self.reviews
    }

    /// Whether somebody may send a request at all.
    pub async fn check(&self, caller: &Caller, attributes: &Attributes) -> Result<(), ApiError> {
        if caller.may_everything() || attributes.is_health() {
            return Ok(());
        }
        match self
            .reviews
            .decide(Place::ControlPlane, caller, attributes)
            .await?
        {
            Decision::Allowed => Ok(()),
            Decision::Denied(reason) => Err(attributes.forbidden(caller, &reason).into()),
        }
    }

    /// What of the objects asked for somebody may see. Nothing of it is a refusal.
    pub async fn permission(
        &self,
        caller: &Caller,
        wanted: &Wanted<'_>,
        holders: &dyn Holders,
    ) -> Result<Permission, ApiError> {
        if caller.may_everything() {
            return Ok(Permission::default());
        }
        match self.mode {
            Mode::ControlPlane => self.by_control_plane(caller, wanted, holders).await,
            Mode::Members => self.by_members(caller, wanted, holders).await,
        }
    }

    /// The clusters that a caller may see, of those that the request names, or else of all of them; `None` if these are all there may ever be.
    ///
    /// Whether there are such clusters is not asked first: a name that the caller may not see is refused in the same words whether a cluster has
    /// it or not, and so is every question of a caller who may see no cluster.
    pub async fn clusters(
        &self,
        caller: &Caller,
        named: &[ClusterName],
        all: &BTreeSet<ClusterName>,
    ) -> Result<Option<BTreeSet<ClusterName>>, ApiError> {
        if caller.may_everything() {
            return Ok(None);
        }
        let any = Attributes::of_cluster(None);
        let refusal = match self
            .reviews
            .decide(Place::ControlPlane, caller, &any)
            .await?
        {
            Decision::Allowed => return Ok(None),
            Decision::Denied(reason) => any.forbidden(caller, &reason),
        };
        let meant: BTreeSet<&ClusterName> = if named.is_empty() {
            all.iter().collect()
        } else {
            named.iter().collect()
        };
        if meant.len() > MAX_CLUSTERS {
            return Err(too_many(
                &format!("you may not see all clusters, and these are more than {MAX_CLUSTERS}"),
                "clusters",
            ));
        }
        let questions = meant
            .into_iter()
            .map(|name| (name, Attributes::of_cluster(Some(name))))
            .collect();
        let mut answers = self
            .decide_all(Place::ControlPlane, caller, questions)
            .await?;
        answers.sort_by_key(|(name, _)| *name);
        if !named.is_empty()
            && let Some((name, Decision::Denied(reason))) =
                answers.iter().find(|(_, decision)| !decision.is_allowed())
        {
            return Err(Attributes::of_cluster(Some(name))
                .forbidden(caller, reason)
                .into());
        }
        let allowed: BTreeSet<ClusterName> = allowed(answers).cloned().collect();
        if allowed.is_empty() {
            Err(refusal.into())
        } else {
            Ok(Some(allowed))
        }
    }

    async fn by_control_plane(
        &self,
        caller: &Caller,
        wanted: &Wanted<'_>,
        holders: &dyn Holders,
    ) -> Result<Permission, ApiError> {
        let clusters = wanted.only_these.then(|| wanted.clusters.to_vec());
        let everywhere = wanted.attributes(None);
        let reason = match self
            .reviews
            .decide(Place::ControlPlane, caller, &everywhere)
            .await?
        {
            Decision::Allowed => return Ok(Permission::of(clusters, None)),
            Decision::Denied(reason) => reason,
        };
        if !wanted.namespaced {
            return Err(everywhere.forbidden(caller, &reason).into());
        }
        let Asked {
            namespaces: candidates,
            left_out,
        } = match wanted.namespaces {
            [] => together(holders.namespaces().await?),
            named => Asked {
                namespaces: named.to_vec(),
                left_out: BTreeSet::new(),
            },
        };
        let namespaces = self
            .namespaces(Place::ControlPlane, caller, wanted, &candidates)
            .await?;
        if namespaces.is_empty() {
            return Err(wanted.refusal(caller, &reason));
        }
        let mut warnings = wanted.left_out(&namespaces);
        let mut clusters = clusters;
        if !left_out.is_empty() {
            let is_kept = |name: &&ClusterName| !left_out.contains(*name);
            clusters = Some(wanted.clusters.iter().filter(is_kept).cloned().collect());
            warnings.push(wanted.has_too_many(&left_out));
        }
        Ok(Permission {
            warnings,
            ..Permission::of(clusters, Some(namespaces))
        })
    }

    async fn by_members(
        &self,
        caller: &Caller,
        wanted: &Wanted<'_>,
        holders: &dyn Holders,
    ) -> Result<Permission, ApiError> {
        let clusters = wanted.clusters;
        if clusters.len() > MAX_CLUSTERS {
            return Err(too_many(
                &format!("more than {MAX_CLUSTERS} clusters hold what you ask for"),
                "clusters",
            ));
        }
        let everywhere = wanted.attributes(None);
        let mut questions = Vec::new();
        for name in clusters {
            let answer = self
                .reviews
                .decide(Place::Member(name), caller, &everywhere);
            questions.push(async move { (name, answer.await) }.boxed());
        }
        let answers: Vec<(&ClusterName, Result<Decision, ReviewError>)> = stream::iter(questions)
            .buffer_unordered(CONCURRENT)
            .collect()
            .await;
        let mut members = Members::default();
        for (name, answer) in answers {
            members.heard(name, answer);
        }
        if wanted.namespaced && !members.partly.is_empty() {
            let held = if wanted.namespaces.is_empty() {
                Some(holders.namespaces().await?)
            } else {
                None
            };
            for name in std::mem::take(&mut members.partly) {
                let candidates = held.as_ref().map_or_else(
                    || wanted.namespaces.to_vec(),
                    |held| held.get(&name).cloned().unwrap_or_default(),
                );
                match self
                    .namespaces(Place::Member(&name), caller, wanted, &candidates)
                    .await
                {
                    Ok(namespaces) => members.grant(name, namespaces),
                    Err(error) => members.silent(&name, &error.to_string()),
                }
            }
        }
        members.permission(caller, wanted)
    }

    /// The namespaces of these in which somebody may do what is wanted.
    async fn namespaces(
        &self,
        place: Place<'_>,
        caller: &Caller,
        wanted: &Wanted<'_>,
        candidates: &[Namespace],
    ) -> Result<Vec<Namespace>, ApiError> {
        if candidates.len() > MAX_NAMESPACES {
            let problem = format!(
                "you may not list {} in all namespaces, and more than {MAX_NAMESPACES} hold some",
                wanted.resource.plural
            );
            return Err(too_many(&problem, "namespaces"));
        }
        let questions = candidates
            .iter()
            .map(|namespace| (namespace, wanted.attributes(Some(namespace))))
            .collect();
        let mut found: Vec<Namespace> = allowed(self.decide_all(place, caller, questions).await?)
            .cloned()
            .collect();
        found.sort_unstable();
        Ok(found)
    }

    async fn decide_all<K: Copy + Send + Sync>(
        &self,
        place: Place<'_>,
        caller: &Caller,
        questions: Vec<(K, Attributes)>,
    ) -> Result<Vec<(K, Decision)>, ReviewError> {
        let mut asked = Vec::new();
        for (key, attributes) in &questions {
            let answer = self.reviews.decide(place, caller, attributes);
            asked.push(async move { Ok((*key, answer.await?)) }.boxed());
        }
        stream::iter(asked)
            .buffer_unordered(CONCURRENT)
            .try_collect()
            .await
    }
}

fn allowed<K>(answers: Vec<(K, Decision)>) -> impl Iterator<Item = K> {
    answers
        .into_iter()
        .filter(|(_, decision)| decision.is_allowed())
        .map(|(key, _)| key)
}

fn too_many(problem: &str, parameter: &str) -> ApiError {
    ApiError::bad_request(format!(
        "{problem}; name those that you want with the parameter {parameter}"
    ))
}

/// The namespaces that are asked about because clusters hold objects there.
struct Asked {
    namespaces: Vec<Namespace>,
    /// Clusters that would bring too many.
    left_out: BTreeSet<ClusterName>,
}

/// The namespaces of all clusters together. Where that is too many, the clusters with the most are left out, so that no cluster takes a list from users
/// who have rights in others; one cluster alone has all of its namespaces, and is refused.
fn together(held: BTreeMap<ClusterName, Vec<Namespace>>) -> Asked {
    let mut clusters: Vec<(ClusterName, Vec<Namespace>)> = held.into_iter().collect();
    clusters.sort_by_key(|(_, namespaces)| namespaces.len());
    let mut all: BTreeSet<Namespace> = BTreeSet::new();
    let mut left_out = BTreeSet::new();
    for (name, namespaces) in clusters {
        let more = namespaces
            .iter()
            .filter(|namespace| !all.contains(*namespace))
            .count();
        if all.is_empty() || all.len() + more <= MAX_NAMESPACES {
            all.extend(namespaces);
        } else {
            left_out.insert(name);
        }
    }
    Asked {
        namespaces: all.into_iter().collect(),
        left_out,
    }
}

impl Wanted<'_> {
    /// None of it may be shown. That is said of the one namespace, where only one was asked for.
    fn refusal(&self, caller: &Caller, reason: &str) -> ApiError {
        let only = if let [only] = self.namespaces {
            Some(only)
        } else {
            None
        };
        self.attributes(only).forbidden(caller, reason).into()
    }

    fn attributes(&self, namespace: Option<&Namespace>) -> Attributes {
        Attributes::of_objects(self.verb, self.resource, self.version, namespace, self.name)
    }

    /// The sentence about clusters that are left out because of their namespaces.
    fn has_too_many(&self, left_out: &BTreeSet<ClusterName>) -> String {
        let plural = &self.resource.plural;
        let mut named = left_out
            .iter()
            .take(MAX_NAMED)
            .map(ClusterName::as_str)
            .collect::<Vec<_>>()
            .join(", ");
        if let Some(more) = left_out
            .len()
            .checked_sub(MAX_NAMED)
            .filter(|more| *more > 0)
        {
            named = format!("{named} and {more} more");
        }
        format!(
            "left out: {named}, because you may not {} {plural} in all namespaces, and more than {MAX_NAMESPACES} hold some; name those that you want \
             with the parameter namespaces",
            self.verb
        )
    }

    /// One sentence if namespaces were asked for by name that are not shown.
    fn left_out(&self, shown: &[Namespace]) -> Vec<String> {
        let hidden: Vec<&str> = self
            .namespaces
            .iter()
            .filter(|name| !shown.contains(name))
            .map(Namespace::as_str)
            .collect();
        if hidden.is_empty() {
            return Vec::new();
        }
        vec![format!(
            "you may not {} {} in {}: left out",
            self.verb,
            self.resource.plural,
            hidden.join(", ")
        )]
    }
}

impl Permission {
    fn of(clusters: Option<Vec<ClusterName>>, namespaces: Option<Vec<Namespace>>) -> Self {
        let permitted = match (clusters, namespaces) {
            (None, None) => Permitted::Everything,
            (clusters, namespaces) => Permitted::Only(vec![Grant {
                clusters,
                namespaces,
            }]),
        };
        Self {
            permitted,
            warnings: Vec::new(),
        }
    }
}

/// What the members have said.
#[derive(Default)]
struct Members {
    /// Those that show everything.
    wholly: Vec<ClusterName>,
    /// Those that may show some namespaces.
    partly: Vec<ClusterName>,
    grants: BTreeMap<Vec<Namespace>, Vec<ClusterName>>,
    silent: usize,
    reason: String,
    warnings: Vec<String>,
}

impl Members {
    fn heard(&mut self, name: &ClusterName, answer: Result<Decision, ReviewError>) {
        match answer {
            Ok(Decision::Allowed) => self.wholly.push(name.clone()),
            Ok(Decision::Denied(reason)) => {
                self.reason = reason;
                self.partly.push(name.clone());
            }
            Err(error) => self.silent(name, &error.to_string()),
        }
    }

    fn silent(&mut self, name: &ClusterName, problem: &str) {
        self.silent += 1;
        self.warnings.push(format!(
            "cluster {name} is left out, because it cannot be asked what you may see: {problem}"
        ));
    }

    fn grant(&mut self, name: ClusterName, namespaces: Vec<Namespace>) {
        if !namespaces.is_empty() {
            self.grants.entry(namespaces).or_default().push(name);
        }
    }

    fn permission(mut self, caller: &Caller, wanted: &Wanted<'_>) -> Result<Permission, ApiError> {
        let mut grants = Vec::new();
        if !self.wholly.is_empty() {
            self.wholly.sort_unstable();
            grants.push(Grant {
                clusters: Some(self.wholly),
                namespaces: None,
            });
        }
        for (namespaces, mut clusters) in self.grants {
            clusters.sort_unstable();
            grants.push(Grant {
                clusters: Some(clusters),
                namespaces: Some(namespaces),
            });
        }
        if grants.is_empty() && self.silent == 0 && !wanted.clusters.is_empty() {
            return Err(wanted.refusal(caller, &self.reason));
        }
        self.warnings.sort_unstable();
        Ok(Permission {
            permitted: Permitted::Only(grants),
            warnings: self.warnings,
        })
    }
}

impl From<ReviewError> for ApiError {
    fn from(error: ReviewError) -> Self {
        if error == ReviewError::Busy {
            return Self::TooManyRequests;
        }
        Self::Internal(format!("cannot find out what you may do: {error}"))
    }
}
