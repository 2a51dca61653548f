//! Removes documents that no registry wants any more: of kinds and namespaces that were left out, and of whole clusters.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, OnceLock},
    time::Duration,
};

use backon::{BackoffBuilder, ExponentialBuilder};
use fleetdex_core::model::{ClusterName, StoreName, Version};
use fleetdex_store::{
    Checkpoints, Extent, Generation, KindExtent, Store, StoreError, Stored, bulk::Write,
};
use fleetdex_sync::{checkpoints::UnitKey, pipeline::Pipeline, progress::Progress};
use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::replicas::Share;

/// What may exist in a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// By cluster. `None`: not known, because the cluster could not be asked what it serves; its documents stay.
    pub clusters: BTreeMap<ClusterName, Option<Kept>>,
    /// Whether documents of other clusters stay, because not every source of clusters has been read. Otherwise there should be none.
    pub others_stay: bool,
    /// Of a place that no registry names any more: the stores in use that might be the same place under another address.
    pub neighbours: Option<BTreeSet<StoreName>>,
}

impl Wanted {
    /// Whether documents stay only because it is not known whether anything else answers in their stead.
    pub fn is_waiting(&self) -> bool {
        self.others_stay || self.clusters.values().any(Option::is_none)
    }
}

/// What of a cluster may exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Its documents.
    pub kinds: Vec<KindExtent>,
    /// Its checkpoints.
    pub units: BTreeSet<UnitKey>,
}

/// One sweep over a store.
pub struct Sweep {
    /// The store's writer.
    pub pipeline: Pipeline,
    /// What may stay.
    pub wanted: Wanted,
    /// The writers of [`Wanted::neighbours`].
    pub neighbours: Vec<Pipeline>,
    /// Which clusters are this replica's to look after.
    pub share: Share,
    /// Streams that have ended, but whose writes may still be under way.
    pub after: Vec<Arc<Progress>>,
    /// Notified at the end.
    pub changed: Arc<Notify>,
    /// When it ended.
    pub done: Arc<OnceLock<Instant>>,
    /// Its deletes, of one cluster each.
    pub deletes: Deletes,
}

/// The deletes of a sweep. They go on when it is given up, and streams that begin then have to wait for them.
pub type Deletes = Arc<Mutex<Vec<Arc<Progress>>>>;

impl Sweep {
    /// Sweeps until it has succeeded or is cancelled.
    pub async fn run(self, cancel: CancellationToken) {
        tokio::select! {
            biased;
            () = cancel.cancelled() => {}
            () = self.sweep() => {
                self.done.get_or_init(Instant::now);
                self.changed.notify_one();
            }
        }
    }

    async fn sweep(&self) {
        for progress in &self.after {
            progress.drained().await;
        }
        let schedule = ExponentialBuilder::default()
            .with_min_delay(Duration::from_millis(500))
            .with_max_delay(Duration::from_secs(15))
            .with_jitter()
            .without_max_times();
        let mut delays = schedule.build();
        while let Err(error) = self.attempt().await {
            tracing::debug!(store = %self.pipeline.name(), %error, "a sweep failed and is repeated");
            tokio::time::sleep(delays.next().unwrap_or(Duration::from_secs(15))).await;
        }
    }

    async fn attempt(&self) -> Result<(), StoreError> {
        let store = self.pipeline.opened().await;
        let mut generations: BTreeMap<ClusterName, Vec<Generation>> = BTreeMap::new();
        for generation in store.generations().await? {
            generations
                .entry(generation.cluster.clone())
                .or_default()
                .push(generation);
        }
        let neighbours = self.ids_of_neighbours().await?;
        let is_shared = |generations: &[Generation]| {
            generations
                .iter()
                .any(|generation| neighbours.contains(&generation.id))
        };
        generations.retain(|_, generations| !is_shared(generations));
        // One cluster whose indices are in trouble does not keep the others from being swept.
        let mut outcome = Ok(());
        let own = generations
            .into_iter()
            .filter(|(cluster, _)| self.share.may_begin(cluster));
        for (cluster, generations) in own {
            let swept = match self.wanted.clusters.get(&cluster) {
                None if self.wanted.others_stay => Ok(()),
                None => {
                    self.pipeline.forget(&cluster);
                    store.drop_cluster(&cluster).await
                }
                Some(None) => Ok(()),
                Some(Some(kept)) => self.delete_outside(&*store, &generations, kept).await,
            };
            let swept = swept.and(self.drop_left_over(&*store, &generations).await);
            outcome = outcome.and(swept);
        }
        if self
            .wanted
            .neighbours
            .as_ref()
            .is_some_and(BTreeSet::is_empty)
            && outcome.is_ok()
            && !self.wanted.is_waiting()
        {
            store.retire().await?;
        }
        outcome
    }

    /// The ids of all indices of the neighbours, read after those of this place: an index that both show is one and the same, and in use.
    async fn ids_of_neighbours(&self) -> Result<BTreeSet<Arc<str>>, StoreError> {
        let mut ids = BTreeSet::new();
        for neighbour in &self.neighbours {
            ids.extend(
                neighbour
                    .opened()
                    .await
                    .generations()
                    .await?
                    .into_iter()
                    .map(|generation| generation.id),
            );
        }
        Ok(ids)
    }

    async fn drop_left_over(
        &self,
        store: &dyn Store,
        generations: &[Generation],
    ) -> Result<(), StoreError> {
        for generation in generations {
            let Some(current) = self.pipeline.open_generation_of(&generation.cluster) else {
                continue;
            };
            if is_left_over(generation, &current, generations, || {
                self.pipeline.was_stray(generation)
            }) {
                store.drop_generation(generation).await?;
            }
        }
        Ok(())
    }

    async fn delete_outside(
        &self,
        store: &dyn Store,
        generations: &[Generation],
        kept: &Kept,
    ) -> Result<(), StoreError> {
        let extent = Extent::Outside(kept.kinds.clone());
        for generation in generations {
            let cluster = &generation.cluster;
            let mut unwanted: Vec<(Arc<str>, Version)> = Vec::new();
            let mut is_replaced = false;
            let visit = &mut |stored: Stored<'_>| {
                is_replaced |= kept
                    .kinds
                    .iter()
                    .any(|kind| is_other_version(stored.id, kind));
                unwanted.push((Arc::from(stored.id), stored.version));
            };
            store.visit_versions(generation, &extent, visit).await?;
            if unwanted.is_empty() {
                continue;
            }
            self.forget_checkpoints(store, cluster, kept).await?;
            tracing::info!(%cluster, documents = unwanted.len(), "deleting documents that no registry wants any more");
            let progress = Progress::new(cluster.clone(), Arc::clone(&self.changed));
            self.deletes.lock().push(Arc::clone(&progress));
            for (id, version) in unwanted {
                let write = Write {
                    index: generation.target.clone(),
                    id,
                    version,
                    body: None,
                };
                self.pipeline.room().await;
                self.pipeline.submit(write, None, progress.ticket());
            }
            progress.drained().await;
            if is_replaced {
                // Who holds objects by their names has lost those that are stored in another version.
                store.expire_changes();
            }
            if progress.is_broken() {
                let reason = format!(
                    "deletes of documents of cluster {cluster} were given up: its index or alias is gone"
                );
                return Err(StoreError::Busy {
                    status: 503,
                    reason,
                });
            }
        }
        Ok(())
    }

    /// A unit whose documents are deleted must not go on from where it was, should it be wanted again.
    async fn forget_checkpoints(
        &self,
        store: &dyn Store,
        cluster: &ClusterName,
        kept: &Kept,
    ) -> Result<(), StoreError> {
        let book = self.pipeline.checkpoints();
        if book.is_open(cluster) {
            book.retain(cluster, &kept.units);
            return self.pipeline.save_checkpoints().await;
        }
        if !kept.units.is_empty() {
            let reason = format!("the streams of cluster {cluster} have not begun yet");
            return Err(StoreError::Busy {
                status: 503,
                reason,
            });
        }
        match store.checkpoints(cluster).await? {
            Some(stored) => {
                store
                    .save_checkpoints(&[Checkpoints {
                        units: BTreeMap::new(),
                        ..stored
                    }])
                    .await
            }
            None => Ok(()),
        }
    }
}

/// Whether the document of an id is one of a kind, in another version of its group.
fn is_other_version(id: &str, kind: &KindExtent) -> bool {
    let group_of = |api_version: &str| {
        api_version
            .rsplit_once('/')
            .map_or(String::new(), |(group, _)| group.to_owned())
    };
    let Some((api_version, stored_kind)) = id
        .rsplit_once('/')
        .and_then(|(rest, _uid)| rest.rsplit_once('/'))
    else {
        return false;
    };
    stored_kind == kind.kind
        && api_version != kind.api_version
        && group_of(api_version) == group_of(&kind.api_version)
}

/// Whether a generation will never be the live one, `current` being the one that is filled or was filled last.
///
/// What was under way for long may make a generation after its successor has taken its place, and another instance may die while it fills a later one. Such a
/// later one is given the time from one sweep to the next to become the live one. An earlier one never will; while the present one is not complete it goes
/// if no query was answered from it at this sweep and the one before, as it may be taking its predecessor's place right now. So a member that is another
/// cluster again and again, and never complete, has no more than the one that answers and three others. Where none of `all` seems to answer, though the present
/// one replaces one that does, an alias of that one is missing, and it cannot be distinguished from the rest: all stay.
fn is_left_over(
    generation: &Generation,
    current: &Generation,
    all: &[Generation],
    was_stray: impl FnOnce() -> bool,
) -> bool {
    if generation.live || generation.id == current.id {
        return false;
    }
    let is_earlier = generation.number < current.number;
    if current.live {
        return is_earlier || was_stray();
    }
    is_earlier
        && !generation.is_read()
        && (current.replaces.is_none() || all.iter().any(Generation::is_read))
        && was_stray()
}

#[cfg(test)]
mod tests {
    use fleetdex_core::{model::IndexPrefix, query::ResourceName};

    use super::*;

    fn generation(number: u64, live: bool) -> Generation {
        let first = Generation::first(&IndexPrefix::default(), &"member1".parse().unwrap());
        Generation {
            number,
            id: number.to_string().as_str().into(),
            live,
            ..first
        }
    }

    #[test]
    fn documents_of_another_version_of_a_kind_that_stays_are_known() {
        let widgets = KindExtent {
            api_version: "a.example/v2".to_owned(),
            kind: "Widget".to_owned(),
            namespace: None,
        };
        let pods = KindExtent {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            namespace: None,
        };
        for (id, kind, expected) in [
            ("a.example/v1/Widget/u", &widgets, true),
            ("a.example/v2/Widget/u", &widgets, false),
            ("b.example/v1/Widget/u", &widgets, false),
            ("a.example/v1/Gadget/u", &widgets, false),
            ("v1/Pod/u", &pods, false),
            ("metrics.k8s.io/v1/Pod/u", &pods, false),
        ] {
            assert_eq!(is_other_version(id, kind), expected, "{id}");
        }
    }

    #[test]
    fn earlier_generations_go_although_the_present_one_is_never_complete() {
        let partly = |number| Generation {
            shown: [ResourceName::new("", "pods")].into(),
            ..generation(number, false)
        };
        for (current_is_live, other, is_stray, expected) in [
            (false, generation(2, false), false, false),
            (false, generation(2, false), true, true),
            (true, generation(2, false), false, true),
            (false, partly(2), true, false),
            (true, partly(2), false, true),
            (false, generation(2, true), true, false),
            (false, generation(4, false), true, false),
            (true, generation(4, false), false, false),
            (true, generation(4, false), true, true),
            (true, generation(4, true), true, false),
            (false, generation(3, false), true, false),
        ] {
            let current = generation(3, current_is_live);
            let all = [other.clone(), current.clone()];
            assert_eq!(
                is_left_over(&other, &current, &all, || is_stray),
                expected,
                "{current_is_live} {other:?} {is_stray}"
            );
        }
    }

    #[test]
    fn one_that_answers_through_one_of_its_aliases_stays_until_the_next_is_complete() {
        let damaged = generation(1, false);
        let all = [damaged.clone(), generation(2, false)];
        let filling = Generation {
            replaces: Some(Box::new(damaged.clone())),
            ..generation(2, false)
        };
        assert!(!is_left_over(&damaged, &filling, &all, || true));
        let complete = Generation {
            live: true,
            ..filling.clone()
        };
        assert!(is_left_over(&damaged, &complete, &all, || false));
        // Begun later than the one that answers, and never complete.
        let all = [
            generation(1, true),
            generation(2, false),
            generation(3, false),
        ];
        let filling = Generation {
            replaces: Some(Box::new(all[0].clone())),
            ..generation(3, false)
        };
        assert!(is_left_over(&all[1], &filling, &all, || true));
    }
}
