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

#[cfg(test)]
mod tests {
    use fleetdex_core::model::{Gvk, Resource, Scope, Unit};

    use super::*;

    fn stream(cluster: &str, store: &str) -> StreamKey {
        StreamKey {
            unit: Unit {
                cluster: cluster.parse().unwrap(),
                resource: Resource {
                    gvk: Gvk::new("", "v1", "Pod"),
                    plural: "pods".into(),
                    namespaced: true,
                },
                scope: Scope::All,
            },
            store: store.parse().unwrap(),
        }
    }

    #[test]
    fn a_stream_waits_for_ended_writers_of_its_cluster_and_store_until_they_are_acknowledged() {
        let progress = Progress::new("member1".parse().unwrap(), Arc::default());
        let ticket = progress.ticket();
        let mut draining = DrainingWriters::default();
        draining.add(&"main".parse().unwrap(), Arc::clone(&progress));
        draining.forget_acknowledged();
        for (cluster, store, expected) in [
            ("member1", "main", 1),
            ("member2", "main", 0),
            ("member1", "other", 0),
        ] {
            let predecessors = draining.predecessors(&stream(cluster, store));
            assert_eq!(predecessors.len(), expected, "{cluster} {store}");
        }
        ticket.acknowledge();
        draining.forget_acknowledged();
        assert!(draining.predecessors(&stream("member1", "main")).is_empty());
    }
}
