//! A swap: what queries see of the revisions of a cluster, from one request on.

use std::collections::BTreeSet;

use fleetdex_core::{model::ClusterName, query::ResourceName};

use super::visible_resources::VisibleResources;
use crate::IndexRevision;

/// Makes resources of a revision visible to queries.
#[derive(Clone, Debug)]
pub(super) struct Swap {
    pub(super) revision: IndexRevision,
    /// The resources that the aliases show; `None`: everything, and the earlier revisions of the
    /// cluster are removed.
    pub(super) shown: Option<BTreeSet<ResourceName>>,
}

impl Swap {
    /// What it shows.
    pub(super) fn visible(&self) -> VisibleResources {
        self.shown
            .clone()
            .map_or(VisibleResources::All, VisibleResources::Only)
    }

    /// Whether it removes a revision of a cluster.
    pub(super) fn replaces(&self, cluster: &ClusterName, number: u64) -> bool {
        self.shown.is_none() && *cluster == self.revision.cluster && number < self.revision.number
    }
}
