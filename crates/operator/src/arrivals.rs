//! Since when queries of a cluster are answered from the store that its registry names by now, instead of an earlier one. The stores themselves are asked,
//! because another replica may be the one that fills them.

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

/// How often to look.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How long an earlier place stays as it is although another one answers: twice as long as it takes every replica to notice
/// ([`LOOK_INTERVAL`], and the five seconds of the controller), so that no question is asked of a place that is being emptied.
pub(super) const LINGER: Duration = Duration::from_secs(12);

/// How long a store may take to say what is in it, so that one does not hold up the others for long.
const TIMEOUT: Duration = Duration::from_secs(5);

type Seen = Arc<Mutex<State>>;

#[derive(Default)]
struct State {
    live: BTreeMap<(StoreName, ClusterName), Instant>,
    /// Whether every store has been asked.
    has_looked: bool,
}

/// What has been seen of the stores that are watched.
pub(super) struct Arrivals {
    seen: Seen,
    stores: BTreeSet<StoreName>,
    task: Option<AbortOnDropHandle<()>>,
    changed: Arc<Notify>,
}

impl Arrivals {
    pub(super) fn new(changed: Arc<Notify>) -> Self {
        Self {
            seen: Seen::default(),
            stores: BTreeSet::new(),
            task: None,
            changed,
        }
    }

    /// Looks at these stores from now on, and at no others.
    pub(super) fn watch(&mut self, pipelines: BTreeMap<StoreName, Pipeline>) {
        let stores: BTreeSet<StoreName> = pipelines.keys().cloned().collect();
        // A store that is opened anew has another pipeline.
        if stores.is_empty() && self.stores.is_empty() {
            return;
        }
        if self.stores != stores {
            let mut state = self.seen.lock();
            state.live.retain(|(store, _), _| stores.contains(store));
            state.has_looked = stores.is_empty();
        }
        self.stores = stores;
        let looks = look(pipelines, Arc::clone(&self.seen), Arc::clone(&self.changed));
        self.task = (!self.stores.is_empty()).then(|| AbortOnDropHandle::new(tokio::spawn(looks)));
    }

    /// Whether queries of a cluster are answered from a store.
    pub(super) fn have(&self, store: &StoreName, cluster: &ClusterName) -> bool {
        self.seen
            .lock()
            .live
            .contains_key(&(store.clone(), cluster.clone()))
    }

    /// Whether that has been so for a while.
    pub(super) fn have_lasted(&self, store: &StoreName, cluster: &ClusterName) -> bool {
        self.seen
            .lock()
            .live
            .get(&(store.clone(), cluster.clone()))
            .is_some_and(|since| since.elapsed() >= LINGER)
    }

    /// Everything that has been seen; nothing until every store has been asked.
    pub(super) fn all(&self) -> Option<BTreeSet<(StoreName, ClusterName)>> {
        let state = self.seen.lock();
        state
            .has_looked
            .then(|| state.live.keys().cloned().collect())
    }
}

async fn look(pipelines: BTreeMap<StoreName, Pipeline>, seen: Seen, changed: Arc<Notify>) {
    loop {
        for (name, pipeline) in &pipelines {
            let Some(store) = pipeline.store() else {
                continue;
            };
            // What cannot be read now is read the next time.
            let Ok(Ok(generations)) = timeout(TIMEOUT, store.generations()).await else {
                continue;
            };
            let live = generations
                .into_iter()
                .filter(|generation| generation.live)
                .map(|generation| generation.cluster)
                .collect();
            if note(&seen, name, live) {
                changed.notify_one();
            }
        }
        if !std::mem::replace(&mut seen.lock().has_looked, true) {
            changed.notify_one();
        }
        sleep(LOOK_INTERVAL).await;
    }
}

/// Takes down what queries are answered from in a store. Whether that has changed.
fn note(seen: &Seen, name: &StoreName, live: BTreeSet<ClusterName>) -> bool {
    let mut state = seen.lock();
    let before: BTreeSet<ClusterName> = state
        .live
        .keys()
        .filter(|(store, _)| store == name)
        .map(|(_, cluster)| cluster.clone())
        .collect();
    state
        .live
        .retain(|(store, cluster), _| store != name || live.contains(cluster));
    let is_other = before != live;
    for cluster in live {
        state
            .live
            .entry((name.clone(), cluster))
            .or_insert_with(Instant::now);
    }
    is_other
}
