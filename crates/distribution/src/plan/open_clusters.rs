//! The clusters that an object may go to, before its policy's rules are looked at.

use std::{borrow::Cow, collections::BTreeSet};

use super::claimed::Claimed;
use crate::{
    cluster::TargetCluster,
    placing::{NotChosen, Placed, PreviousPlacement},
};

/// The clusters that an object may go to: its namespace allows them, and its set has it for them.
pub(super) struct OpenClusters<'c> {
    /// The names that the namespace allows, where not all.
    names: Option<&'c BTreeSet<String>>,
    allowed: Cow<'c, [TargetCluster]>,
    /// Those of them for which the set has the object; `None`: all.
    having: Option<Vec<TargetCluster>>,
    forbidden: Vec<NotChosen>,
    lacking: Vec<NotChosen>,
}

impl<'c> OpenClusters<'c> {
    /// `names`: those that the namespace allows, where not all. `previous`: where the object was.
    pub(super) fn of(
        clusters: &'c [TargetCluster],
        names: Option<&'c BTreeSet<String>>,
        one: &Claimed<'_>,
        previous: &PreviousPlacement,
    ) -> Self {
        let (allowed, forbidden) = allowed_clusters(clusters, names);
        let lacking = one.lacking(&allowed, previous);
        let having = (!lacking.is_empty()).then(|| {
            let without: BTreeSet<&str> = lacking.iter().map(|one| one.cluster.as_str()).collect();
            let having = allowed.iter();
            let having = having.filter(|one| !without.contains(one.name.as_str()));
            having.cloned().collect()
        });
        Self {
            names,
            allowed,
            having,
            forbidden,
            lacking,
        }
    }

    /// The clusters.
    pub(super) fn clusters(&self) -> &[TargetCluster] {
        self.having.as_deref().unwrap_or(&self.allowed)
    }

    /// These, and those for which the set does not have the object.
    pub(super) fn allowed(&self) -> &[TargetCluster] {
        &self.allowed
    }

    /// The clusters for which the set does not have the object.
    pub(super) fn lacking(&self) -> BTreeSet<String> {
        let lacking = self.lacking.iter();
        lacking.map(|one| one.cluster.clone()).collect()
    }

    /// Removes other clusters: what a binding says of the past reaches none of them, either.
    pub(super) fn limit(&self, placed: &mut Placed) {
        if let Some(names) = self.names {
            placed.clusters.retain(|one| names.contains(&one.name));
        }
        if !self.lacking.is_empty() {
            let lacking = self.lacking();
            placed.clusters.retain(|one| !lacking.contains(&one.name));
        }
        let excluded = self.forbidden.iter().chain(&self.lacking);
        placed.forbid(excluded.cloned());
    }
}

/// The clusters that a policy may reach, and why it reaches no others.
fn allowed_clusters<'c>(
    clusters: &'c [TargetCluster],
    names: Option<&BTreeSet<String>>,
) -> (Cow<'c, [TargetCluster]>, Vec<NotChosen>) {
    let Some(names) = names else {
        return (clusters.into(), Vec::new());
    };
    let (reached, forbidden): (Vec<_>, Vec<_>) = clusters
        .iter()
        .partition(|cluster| names.contains(&cluster.name));
    let reason = "the annotation distribute.fleetdex.io/clusters of the policy's namespace does \
                  not allow it";
    let forbidden = forbidden.into_iter().map(|cluster| NotChosen {
        cluster: cluster.name.clone(),
        reason: reason.to_owned(),
    });
    (reached.into_iter().cloned().collect(), forbidden.collect())
}
