//! Opens the generations that documents are written to, and begins them anew when they are lost.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use fleetdex_core::{
    model::{ClusterName, IndexName},
    query::ResourceName,
};
use fleetdex_store::{Generation, StoreError};
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use super::{Pipeline, generations::Slot};

impl Pipeline {
    /// The generation that a cluster's documents are written to. `uid` is that of its namespace kube-system, if that is known.
    pub async fn generation(
        &self,
        cluster: &ClusterName,
        uid: Option<&str>,
    ) -> Result<Generation, StoreError> {
        let slot = self.slot(cluster, uid);
        let opened = slot
            .generation
            .get_or_try_init(|| self.open_generation(cluster, uid, &slot))
            .await?;
        Ok(opened.clone())
    }

    fn slot(&self, cluster: &ClusterName, uid: Option<&str>) -> Arc<Slot> {
        let mut generations = self.0.generations.lock();
        let slot = generations
            .open
            .get(cluster)
            .filter(|slot| slot.uid.as_deref() == uid);
        if let Some(slot) = slot {
            return Arc::clone(slot);
        }
        if let Some(uid) = uid {
            generations.identify(cluster, uid);
        }
        let uid = uid.map(str::to_owned);
        let slot = Arc::new(Slot {
            uid,
            generation: OnceCell::new(),
            is_live: AtomicBool::new(false),
            shown: Mutex::default(),
        });
        generations.open.insert(cluster.clone(), Arc::clone(&slot));
        slot
    }

    async fn open_generation(
        &self,
        cluster: &ClusterName,
        uid: Option<&str>,
        slot: &Slot,
    ) -> Result<Generation, StoreError> {
        let above = self
            .0
            .generations
            .lock()
            .above
            .get(cluster)
            .copied()
            .unwrap_or_default();
        let store = self.opened().await;
        let generation = store.open(cluster, uid, above).await?;
        let checkpoints = store.checkpoints(cluster).await?;
        self.0.book.open(&generation, checkpoints);
        slot.is_live.store(generation.live, Ordering::Release);
        slot.shown.lock().clone_from(&generation.shown);
        self.0.changed.notify_one();
        Ok(generation)
    }

    /// Every generation that is open.
    pub fn generations(&self) -> Vec<Generation> {
        self.0
            .generations
            .lock()
            .open
            .values()
            .filter_map(|slot| slot.generation())
            .collect()
    }

    /// Every cluster that has a generation, or is about to open one.
    pub fn open_clusters(&self) -> Vec<ClusterName> {
        self.0.generations.lock().open.keys().cloned().collect()
    }

    /// The open generation of a cluster.
    pub fn open_generation_of(&self, cluster: &ClusterName) -> Option<Generation> {
        self.0.generations.lock().open.get(cluster)?.generation()
    }

    /// Lets queries be answered from a generation that is complete.
    pub async fn activate(&self, generation: &Generation) -> Result<(), StoreError> {
        self.opened().await.activate(generation).await?;
        if let Some(slot) = self.slot_of(&generation.target) {
            slot.is_live.store(true, Ordering::Release);
        }
        self.0.changed.notify_one();
        Ok(())
    }

    /// Lets queries about resources that are complete be answered from a first generation.
    pub async fn show(
        &self,
        generation: &Generation,
        resources: &BTreeSet<ResourceName>,
    ) -> Result<(), StoreError> {
        self.opened().await.show(generation, resources).await?;
        if let Some(slot) = self.slot_of(&generation.target) {
            slot.shown.lock().extend(resources.iter().cloned());
        }
        self.0.changed.notify_one();
        Ok(())
    }

    fn slot_of(&self, target: &IndexName) -> Option<Arc<Slot>> {
        let generations = self.0.generations.lock();
        let is_target = |slot: &&Arc<Slot>| {
            slot.generation
                .get()
                .is_some_and(|generation| generation.target == *target)
        };
        generations.open.values().find(is_target).cloned()
    }

    /// Forgets the generation of a cluster, because it is about to be dropped.
    pub fn forget(&self, cluster: &ClusterName) {
        self.0.generations.lock().open.remove(cluster);
        self.0.book.drop_cluster(cluster);
    }

    /// Forgets the generation of a cluster, because another replica fills it from now on.
    pub fn hand_over(&self, cluster: &ClusterName) {
        self.forget(cluster);
        if let Some(store) = self.store() {
            store.hand_over(cluster);
        }
    }

    /// Whether a generation has been asked about like that before.
    pub fn was_stray(&self, generation: &Generation) -> bool {
        !self
            .0
            .generations
            .lock()
            .strays
            .insert(Arc::clone(&generation.id))
    }

    /// The index behind a write alias is gone: it is made and filled again. One that is not in use any more is no loss.
    pub(super) fn note_lost(&self, target: &IndexName, message: &str) {
        let Some(generation) = self.slot_of(target).and_then(|slot| slot.generation()) else {
            return;
        };
        tracing::warn!(cluster = %generation.cluster, index = %generation.index, message, "an index is lost; its cluster is read anew");
        self.begin_anew(generation.cluster);
    }

    /// How long a cluster whose history went back has to wait for its next generation: not at all at first, then longer and longer.
    pub fn renewal_delay(&self, cluster: &ClusterName) -> Duration {
        self.0.generations.lock().renewal_delay(cluster)
    }

    /// The same for a cluster that has become another one if its UID is this one now. Without that, a member that shows another UID at every look would have an
    /// index made at every look.
    pub fn identity_delay(&self, cluster: &ClusterName, uid: &str) -> Duration {
        let generations = self.0.generations.lock();
        if generations.is_another(cluster, uid) {
            generations.renewal_delay(cluster)
        } else {
            Duration::ZERO
        }
    }

    /// A generation holds what cannot be brought up to date: the next one takes its place.
    pub fn renew(&self, generation: &Generation, reason: &str) {
        if self.slot_of(&generation.target).is_none() {
            return;
        }
        tracing::warn!(cluster = %generation.cluster, index = %generation.index, reason, "the cluster's history went back; a new generation is made");
        let mut generations = self.0.generations.lock();
        generations
            .above
            .insert(generation.cluster.clone(), generation.number);
        generations.note_renewal(&generation.cluster);
        drop(generations);
        self.0.metrics.renewed.inc();
        self.begin_anew(generation.cluster.clone());
    }

    fn begin_anew(&self, cluster: ClusterName) {
        let mut generations = self.0.generations.lock();
        generations.open.remove(&cluster);
        generations.lost.insert(cluster);
        drop(generations);
        self.0.changed.notify_one();
    }

    /// Takes the clusters whose units have to begin anew.
    pub fn take_lost(&self) -> BTreeSet<ClusterName> {
        std::mem::take(&mut self.0.generations.lock().lost)
    }

    /// Whether there are such clusters.
    pub fn has_lost(&self) -> bool {
        !self.0.generations.lock().lost.is_empty()
    }
}
