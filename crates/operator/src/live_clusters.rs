//! Which clusters queries are answered of, by the new and the former locations of registries that
//! moved, and since when. The stores themselves are read, because another replica may be the one
//! that writes to them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use fleetdex_core::model::{ClusterName, StoreName};
use fleetdex_sync::pipeline::Pipeline;
use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, sleep, timeout},
};
use tokio_util::task::AbortOnDropHandle;

/// How often the stores are read.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How long a former location keeps its documents although another one answers: twice as long as it
/// takes every replica to notice ([`POLL_INTERVAL`], and the five seconds of the controller), so
/// that no query reaches a location that is being emptied.
pub(super) const LINGER: Duration = Duration::from_secs(12);

/// How long a store may take to list its revisions, so that one store does not delay the others for
/// long.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Since when each cluster of each store has had a live revision, as observed here.
#[derive(Default)]
struct LiveSince {
    clusters: BTreeMap<(StoreName, ClusterName), Instant>,
    /// Whether every store has been read.
    is_complete: bool,
}

/// The live clusters of the watched stores.
pub(super) struct LiveClusters {
    since: Arc<Mutex<LiveSince>>,
    stores: BTreeSet<StoreName>,
    task: Option<AbortOnDropHandle<()>>,
    changed: Arc<Notify>,
}

impl LiveClusters {
    pub(super) fn new(changed: Arc<Notify>) -> Self {
        Self {
            since: Arc::default(),
            stores: BTreeSet::new(),
            task: None,
            changed,
        }
    }

    /// Watches these stores from now on, and no others.
    pub(super) fn watch(&mut self, pipelines: BTreeMap<StoreName, Pipeline>) {
        let stores: BTreeSet<StoreName> = pipelines.keys().cloned().collect();
        if stores.is_empty() && self.stores.is_empty() {
            return;
        }
        if self.stores != stores {
            let mut since = self.since.lock();
            since
                .clusters
                .retain(|(store, _), _| stores.contains(store));
            since.is_complete = stores.is_empty();
        }
        self.stores = stores;
        // Restarts even if the stores are the same: one that was reopened has another pipeline.
        let polling = poll(
            pipelines,
            Arc::clone(&self.since),
            Arc::clone(&self.changed),
        );
        self.task =
            (!self.stores.is_empty()).then(|| AbortOnDropHandle::new(tokio::spawn(polling)));
    }

    /// Whether queries of a cluster are answered from a store.
    pub(super) fn contains(&self, store: &StoreName, cluster: &ClusterName) -> bool {
        self.since
            .lock()
            .clusters
            .contains_key(&(store.clone(), cluster.clone()))
    }

    /// Whether that has been so for [`LINGER`].
    pub(super) fn contains_stably(&self, store: &StoreName, cluster: &ClusterName) -> bool {
        self.since
            .lock()
            .clusters
            .get(&(store.clone(), cluster.clone()))
            .is_some_and(|since| since.elapsed() >= LINGER)
    }

    /// Every live cluster; `None` until every store has been read.
    pub(super) fn all(&self) -> Option<BTreeSet<(StoreName, ClusterName)>> {
        let since = self.since.lock();
        since
            .is_complete
            .then(|| since.clusters.keys().cloned().collect())
    }
}

async fn poll(
    pipelines: BTreeMap<StoreName, Pipeline>,
    since: Arc<Mutex<LiveSince>>,
    changed: Arc<Notify>,
) {
    loop {
        for (name, pipeline) in &pipelines {
            let Some(store) = pipeline.store.writer() else {
                continue;
            };
            // A store that cannot be read now is read in the next round.
            let Ok(Ok(revisions)) = timeout(TIMEOUT, store.revisions()).await else {
                continue;
            };
            let live = revisions
                .into_iter()
                .filter(|revision| revision.live)
                .map(|revision| revision.cluster)
                .collect();
            if since.lock().update(name, live, Instant::now()) {
                changed.notify_one();
            }
        }
        if !std::mem::replace(&mut since.lock().is_complete, true) {
            changed.notify_one();
        }
        sleep(POLL_INTERVAL).await;
    }
}

impl LiveSince {
    /// Sets the live clusters of a store. Returns whether they have changed.
    fn update(&mut self, name: &StoreName, live: BTreeSet<ClusterName>, now: Instant) -> bool {
        let before: BTreeSet<ClusterName> = self
            .clusters
            .keys()
            .filter(|(store, _)| store == name)
            .map(|(_, cluster)| cluster.clone())
            .collect();
        self.clusters
            .retain(|(store, cluster), _| store != name || live.contains(cluster));
        let has_changed = before != live;
        for cluster in live {
            self.clusters.entry((name.clone(), cluster)).or_insert(now);
        }
        has_changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_keeps_its_time_while_it_is_live_and_starts_again_after_it_was_not() {
        let start = Instant::now();
        let (new, former): (StoreName, StoreName) =
            ("new".parse().unwrap(), "former".parse().unwrap());
        let mut since = LiveSince::default();
        for (second, store, live, has_changed, expected) in [
            (0, &new, &[][..], false, &[][..]),
            (1, &former, &["a"], true, &[("former", "a", 1)]),
            (
                2,
                &new,
                &["a"],
                true,
                &[("former", "a", 1), ("new", "a", 2)],
            ),
            (
                3,
                &new,
                &["a"],
                false,
                &[("former", "a", 1), ("new", "a", 2)],
            ),
            (4, &former, &[], true, &[("new", "a", 2)]),
            (5, &new, &["b"], true, &[("new", "b", 5)]),
            (
                6,
                &new,
                &["a", "b"],
                true,
                &[("new", "a", 6), ("new", "b", 5)],
            ),
        ] {
            let names = live.iter().map(|name| name.parse().unwrap()).collect();
            let now = start + Duration::from_secs(second);
            assert_eq!(since.update(store, names, now), has_changed, "{second} s");
            let found: Vec<(&str, &str, u64)> = since
                .clusters
                .iter()
                .map(|((store, cluster), since)| {
                    let seconds = since.duration_since(start).as_secs();
                    (store.as_str(), cluster.as_str(), seconds)
                })
                .collect();
            assert_eq!(found, expected, "{second} s");
        }
    }
}
