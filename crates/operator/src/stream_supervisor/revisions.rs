//! The index revisions that the running streams write to: when queries are answered from them.

use std::collections::{BTreeMap, BTreeSet};

use fleetdex_core::{
    model::{ClusterName, StoreName},
    query::ResourceName,
};
use fleetdex_store::IndexRevision;
use fleetdex_sync::progress::{Progress, UnitState};

use super::{stores::RunningStores, streams::RunningStreams};
use crate::{activation::Activations, plan::Plan};

/// The index revisions of the stores, beside the streams that write to them.
#[derive(Clone, Copy)]
pub(super) struct WrittenRevisions<'a> {
    pub(super) stores: &'a RunningStores,
    pub(super) streams: &'a RunningStreams,
}

/// A resource that is written to an index revision, and the progress of its stream if it runs.
type UnitProgress<'a> = (ResourceName, Option<&'a Progress>);

fn is_synced((_, progress): &UnitProgress<'_>) -> bool {
    progress.is_some_and(|progress| progress.state() == UnitState::Synced)
}

impl WrittenRevisions<'_> {
    /// Activates the revisions that have become complete.
    pub(super) fn activate(self, plan: &Plan, activations: &mut Activations) {
        let mut units: BTreeMap<(StoreName, ClusterName), Vec<UnitProgress>> = BTreeMap::new();
        for stream in plan.streams.keys() {
            let progress = self.streams.running_progress(stream);
            let resource = ResourceName::from(&stream.unit.resource);
            units
                .entry((stream.store.clone(), stream.unit.cluster.clone()))
                .or_default()
                .push((resource, progress));
        }
        for (name, store) in self.stores.iter() {
            let mut synced = BTreeSet::new();
            for revision in store.pipeline.revisions.all() {
                let of_store = (name.clone(), revision.cluster.clone());
                let is_certain = plan
                    .coverage
                    .get(&of_store)
                    .is_some_and(|coverage| coverage.certain);
                let of_cluster = units.remove(&of_store).unwrap_or_default();
                if of_cluster.iter().all(is_synced) {
                    synced.insert(revision.cluster.clone());
                }
                activations.update(name, &store.pipeline, revision, &of_cluster, is_certain);
            }
            store.pipeline.revisions.set_synced(synced);
        }
    }

    /// Whether queries of a cluster are answered from the revision that its streams write to, as
    /// far as these are in sync.
    pub(super) fn is_live(self, store: &StoreName, cluster: &ClusterName) -> bool {
        let revision = self
            .stores
            .pipeline(store)
            .and_then(|pipeline| pipeline.revisions.of_cluster(cluster));
        let Some(revision) = revision.filter(IndexRevision::is_read) else {
            return false;
        };
        let mut of_cluster = self
            .streams
            .iter()
            .filter(|(stream, _)| stream.store == *store && stream.unit.cluster == *cluster);
        revision.live
            || of_cluster.all(|(stream, progress)| {
                progress.state() != UnitState::Synced
                    || revision.shows(&ResourceName::from(&stream.unit.resource))
            })
    }

    /// The clusters whose queries are answered from documents of another shape than the plan's,
    /// until the next revision is complete.
    pub(super) fn rebuilding(self) -> BTreeSet<(StoreName, ClusterName)> {
        let pairs: BTreeSet<(&StoreName, &ClusterName)> = self
            .streams
            .iter()
            .map(|(stream, _)| (&stream.store, &stream.unit.cluster))
            .collect();
        pairs
            .into_iter()
            .filter(|(store, cluster)| self.is_rebuilding(store, cluster))
            .map(|(store, cluster)| (store.clone(), cluster.clone()))
            .collect()
    }

    fn is_rebuilding(self, store: &StoreName, cluster: &ClusterName) -> bool {
        let Some(running) = self.stores.get(store) else {
            return false;
        };
        match running.pipeline.revisions.of_cluster(cluster) {
            Some(revision) => revision.replaces.is_some() && !revision.live,
            // The revision is about to be opened.
            None => running.is_reshaped,
        }
    }
}
