//! What runs, as the status, the query API and the audits see it.

use std::{collections::BTreeSet, sync::Arc};

use fleetdex_core::{
    model::{ClusterName, StoreName},
    query::ResourceName,
};
use fleetdex_store::IndexRevision;
use fleetdex_sync::{
    audit::Audit,
    progress::{Progress, UnitState},
};

use super::{RunningUnit, StreamSupervisor};
use crate::plan::StreamKey;

impl StreamSupervisor {
    /// The clusters whose queries are answered from documents of another shape than the plan's,
    /// until the next revision is complete.
    pub fn rebuilding(&self) -> BTreeSet<(StoreName, ClusterName)> {
        let pairs = self
            .units
            .keys()
            .map(|stream| (&stream.store, &stream.unit.cluster))
            .collect::<BTreeSet<_>>();
        let rebuilding = pairs
            .into_iter()
            .filter(|(store, cluster)| self.is_rebuilding(store, cluster));
        rebuilding
            .map(|(store, cluster)| (store.clone(), cluster.clone()))
            .collect()
    }

    pub(super) fn is_rebuilding(&self, store: &StoreName, cluster: &ClusterName) -> bool {
        let Some(running) = self.stores.get(store) else {
            return false;
        };
        match running.pipeline.open_revision_of(cluster) {
            Some(revision) => revision.replaces.is_some() && !revision.live,
            // The revision is about to be opened.
            None => running.is_reshaped,
        }
    }

    /// Whether queries of a cluster are answered from the revision that its streams write to, as
    /// far as these are in sync.
    pub fn is_live(&self, store: &StoreName, cluster: &ClusterName) -> bool {
        let revision = self
            .stores
            .get(store)
            .and_then(|running| running.pipeline.open_revision_of(cluster));
        let Some(revision) = revision.filter(IndexRevision::is_read) else {
            return false;
        };
        let of_cluster = |(stream, _): &(&StreamKey, &RunningUnit)| {
            stream.store == *store && stream.unit.cluster == *cluster
        };
        let is_shown = |(stream, unit): (&StreamKey, &RunningUnit)| {
            unit.progress.state() != UnitState::Synced
                || revision.shows(&ResourceName::from(&stream.unit.resource))
        };
        revision.live || self.units.iter().filter(of_cluster).all(is_shown)
    }

    /// The progress of a stream that runs, or that ran until its member was disconnected.
    pub fn progress(&self, stream: &StreamKey) -> Option<&Progress> {
        let running = self.units.get(stream).map(|running| &*running.progress);
        running.or_else(|| {
            self.disconnected
                .get(stream)
                .map(|disconnected| &*disconnected.progress)
        })
    }

    /// The streams whose objects have not all been written yet with the fields of their
    /// definitions. Queries cannot select by those fields yet.
    pub fn streams_missing_fields(&self) -> BTreeSet<StreamKey> {
        let running = self
            .units
            .iter()
            .map(|(stream, unit)| (stream, &unit.plan, &unit.progress));
        let disconnected = self
            .disconnected
            .iter()
            .map(|(stream, unit)| (stream, &unit.plan, &unit.progress));
        let missing = running
            .chain(disconnected)
            .filter(|(_, plan, progress)| !plan.fields.is_empty() && !progress.has_been_synced());
        missing.map(|(stream, ..)| stream.clone()).collect()
    }

    /// The audit of a running stream.
    pub fn audit(&self, stream: &StreamKey) -> Option<&Arc<Audit>> {
        self.units.get(stream).map(|running| &running.audit)
    }

    /// Every running stream.
    pub fn streams(&self) -> impl Iterator<Item = (&StreamKey, &Progress)> {
        self.units
            .iter()
            .map(|(stream, running)| (stream, &*running.progress))
    }
}
