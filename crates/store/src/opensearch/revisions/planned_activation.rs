//! An activation: what queries see of the revisions of a cluster, from one request on.

use std::collections::BTreeSet;

use fleetdex_core::{model::ClusterName, query::ResourceName};

use crate::{CompleteResources, IndexRevision};

/// Makes resources of a revision visible to queries.
#[derive(Clone, Debug)]
pub(crate) struct PlannedActivation {
    pub(crate) revision: IndexRevision,
    /// The resources that the aliases show; `None`: everything, and the earlier revisions of the
    /// cluster are removed.
    pub(crate) shown: Option<BTreeSet<ResourceName>>,
}

impl PlannedActivation {
    pub(crate) fn visible(&self) -> CompleteResources {
        self.shown
            .clone()
            .map_or(CompleteResources::All, CompleteResources::Only)
    }

    /// Whether it removes a revision of a cluster.
    pub(crate) fn replaces(&self, cluster: &ClusterName, number: u64) -> bool {
        self.shown.is_none() && *cluster == self.revision.cluster && number < self.revision.number
    }
}
