//! The stores that run, one pipeline each.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetdex_clusters::{MemberState, source::Established};
use fleetdex_core::model::{ClusterName, StoreName};
use fleetdex_sync::{fence::Fence, pipeline::Pipeline};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{ClosingStore, DRAIN, Fleet, RunningStore};
use crate::plan::{Plan, StorePlan, Stream};

/// Whether two plans of a store give the same connection, indices and documents.
fn shapes_like(left: &StorePlan, right: &StorePlan) -> bool {
    left.config == right.config
        && left.prefix == right.prefix
        && left.projection == right.projection
        && left.indexing == right.indexing
}

impl Fleet {
    /// Clusters whose index is gone; their units start from a list again.
    pub(super) fn take_lost(&self) -> BTreeSet<(StoreName, ClusterName)> {
        let lost = |(name, store): (&StoreName, &RunningStore)| {
            let name = name.clone();
            store
                .pipeline
                .take_lost()
                .into_iter()
                .map(move |cluster| (name.clone(), cluster))
                .collect::<Vec<_>>()
        };
        self.stores.iter().flat_map(lost).collect()
    }

    /// Whether the documents of a unit stay where they are.
    pub(super) fn keeps_store(
        &self,
        stream: &Stream,
        epoch: u64,
        stores: &BTreeMap<StoreName, StorePlan>,
        lost: &BTreeSet<(StoreName, ClusterName)>,
    ) -> bool {
        let Some((new, old)) = stores
            .get(&stream.store)
            .zip(self.stores.get(&stream.store))
        else {
            return false;
        };
        let unchanged = shapes_like(new, &old.plan) && old.epoch == epoch;
        unchanged && !lost.contains(&(stream.store.clone(), stream.unit.cluster.clone()))
    }

    pub(super) fn replace_stores(&mut self, wanted: BTreeMap<StoreName, StorePlan>) {
        let gone: Vec<StoreName> = self
            .stores
            .iter()
            .filter(|(name, running)| {
                !wanted
                    .get(*name)
                    .is_some_and(|new| shapes_like(new, &running.plan))
            })
            .map(|(name, _)| name.clone())
            .collect();
        for name in &gone {
            let name = name.clone();
            self.sweeps
                .remove(&name)
                .inspect(|sweep| sweep.stop.cancel());
            if let Some(store) = self.stores.remove(&name) {
                tracing::info!(store = %name, "closing a store");
                if wanted.contains_key(&name) {
                    // What waits is of an earlier plan. An index that is made again meanwhile would take it, with what is no longer to be stored.
                    store.pipeline.discard();
                }
                store.stop.cancel();
                // Its last changes are written in the background: what comes next carries versions, so the order does not matter.
                self.closing.push(ClosingStore {
                    pipeline: store.pipeline,
                    task: store.task,
                });
            }
        }
        self.closing.retain(|store| !store.task.is_finished());
        for (name, plan) in wanted {
            if let Some(running) = self.stores.get_mut(&name) {
                running.plan = plan;
                continue;
            }
            self.last_epoch += 1;
            let fence = if plan.is_embedded() {
                Fence::OPEN
            } else {
                self.fence.clone()
            };
            let pipeline = Pipeline::new(
                name.clone(),
                self.limits,
                fence,
                self.metrics.store(&name),
                Arc::clone(&self.changed),
            );
            let opener = (self.opener)(&plan);
            let stop = CancellationToken::new();
            let task = AbortOnDropHandle::new(tokio::spawn(pipeline.clone().run(
                opener,
                stop.clone(),
                DRAIN,
            )));
            tracing::info!(store = %name, "opening a store");
            let is_reshaped = gone.contains(&name);
            self.stores.insert(
                name,
                RunningStore {
                    pipeline,
                    plan,
                    epoch: self.last_epoch,
                    is_reshaped,
                    stop,
                    task,
                },
            );
        }
    }

    /// Reads what the stores hold of clusters of which nothing else is known, as after a start while a member is down.
    pub(super) fn read_unknown(&self, plan: &Plan, members: &BTreeMap<ClusterName, MemberState>) {
        let is_unknown = |cluster: &ClusterName| {
            members
                .get(cluster)
                .is_some_and(|member| member.discovery.is_none())
        };
        let mut unknown: BTreeMap<&StoreName, BTreeSet<ClusterName>> = BTreeMap::new();
        for (store, cluster) in plan
            .scopes
            .keys()
            .filter(|(_, cluster)| is_unknown(cluster))
        {
            unknown.entry(store).or_default().insert(cluster.clone());
        }
        for (store, clusters) in unknown {
            if let Some(pipeline) = self
                .pipeline(store)
                .filter(|pipeline| pipeline.store().is_some())
            {
                pipeline.remember(&clusters);
            }
        }
    }

    /// How many clusters the stores have been asked about of which nothing else was known.
    pub fn remembered(&self) -> usize {
        self.stores
            .values()
            .map(|store| store.pipeline.remembered_count())
            .sum()
    }

    /// The stores that have been opened and can be read.
    pub fn open_stores(&self) -> BTreeSet<StoreName> {
        let open = self
            .stores
            .iter()
            .filter(|(_, store)| store.pipeline.store().is_some());
        open.map(|(name, _)| name.clone()).collect()
    }

    /// The pipeline of a store.
    pub fn pipeline(&self, store: &StoreName) -> Option<&Pipeline> {
        self.stores.get(store).map(|running| &running.pipeline)
    }

    /// Which clusters the stores hold documents of, by the UIDs of the clusters; nothing before every store of the plan has been opened.
    pub fn identities(&self) -> Option<Established> {
        self.plan()?;
        let mut identities = Established::default();
        for store in self.stores.values() {
            store.pipeline.store()?;
            for (cluster, identity) in store.pipeline.identities() {
                identities.entry(cluster).or_default().insert(identity);
            }
        }
        Some(identities)
    }
}
