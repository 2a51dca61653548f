//! Streams and garbage collections that have ended while some of their writes are unacknowledged.

use std::sync::Arc;

use fleetdex_core::model::StoreName;
use fleetdex_sync::progress::Progress;

use super::applied::AppliedPlan;
use crate::plan::StreamKey;

/// What has ended, with the stores that it writes to.
#[derive(Default)]
pub(super) struct DrainingWriters(Vec<(StoreName, Arc<Progress>)>);

impl DrainingWriters {
    pub(super) fn add(&mut self, store: &StoreName, progress: Arc<Progress>) {
        self.0.push((store.clone(), progress));
    }

    /// Forgets those whose writes are acknowledged by now.
    pub(super) fn forget_acknowledged(&mut self) {
        self.0.retain(|(_, progress)| progress.outstanding() > 0);
    }

    /// Those of the same cluster and store as a stream. Their scopes may differ, and still contain
    /// the same documents.
    pub(super) fn predecessors(&self, stream: &StreamKey) -> Vec<Arc<Progress>> {
        let of_same = |(store, progress): &&(StoreName, Arc<Progress>)| {
            *store == stream.store && *progress.cluster() == stream.unit.cluster
        };
        let predecessors = self.0.iter().filter(of_same);
        predecessors
            .map(|(_, progress)| Arc::clone(progress))
            .collect()
    }

    /// Whether any wrote to a cluster that another replica reads now.
    pub(super) fn hold_clusters_of_others(&self, applied: &AppliedPlan) -> bool {
        self.0
            .iter()
            .any(|(store, progress)| !applied.assignment_for(store).may_keep(progress.cluster()))
    }
}
