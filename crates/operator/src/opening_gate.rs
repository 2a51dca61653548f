//! Keeps a store closed while the status of a registry records that it was never opened for it.
//!
//! That record is the proof, also after a restart, that nothing of the registry is stored there. So
//! it has to be gone before the first document is written: a store that answers for the first time
//! waits here until the statuses are written.

use std::{collections::BTreeSet, sync::Arc};

use async_trait::async_trait;
use fleetdex_core::model::StoreName;
use fleetdex_sync::pipeline::{OpenStore, OpenedStore, Unavailable};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{plan::store_name, stream_supervisor::Opener};

/// Which stores may not be opened yet. Clones share the gate.
#[derive(Clone)]
pub struct OpeningGate(Arc<GateState>);

struct GateState {
    stores: Mutex<GatedStores>,
    opened: Notify,
    changed: Arc<Notify>,
}

/// There are as many as registries name; a closed one has a registry that names it.
#[derive(Default)]
struct GatedStores {
    closed: BTreeSet<StoreName>,
    /// Those of `closed` that have answered, and wait.
    answering: BTreeSet<StoreName>,
}

impl OpeningGate {
    /// No store is closed. `changed` is notified when a closed store answers.
    pub fn new(changed: Arc<Notify>) -> Self {
        Self(Arc::new(GateState {
            stores: Mutex::default(),
            opened: Notify::new(),
            changed,
        }))
    }

    /// Makes the stores of an opener wait at this gate.
    pub fn guard(&self, opener: Opener) -> Opener {
        let gate = self.clone();
        Arc::new(move |plan| {
            let store = opener(plan);
            let config = plan.config.as_ref();
            match config.and_then(|config| store_name(&config.addresses, &plan.prefix)) {
                Some(name) => Arc::new(GatedStore {
                    name,
                    store,
                    gate: gate.clone(),
                }),
                None => store,
            }
        })
    }

    /// Closes the gate for these stores, if they are not open yet. The others stay as they are.
    pub fn close(&self, stores: &BTreeSet<StoreName>) {
        self.0.stores.lock().closed.extend(stores.iter().cloned());
    }

    /// Opens the gate for all stores but these.
    pub fn open_others(&self, stores: &BTreeSet<StoreName>) {
        let mut gated = self.0.stores.lock();
        gated.closed.retain(|store| stores.contains(store));
        gated.answering.retain(|store| stores.contains(store));
        drop(gated);
        self.0.opened.notify_waiters();
    }

    /// Whether a store may not be opened yet.
    pub fn is_closed(&self, store: &StoreName) -> bool {
        self.0.stores.lock().closed.contains(store)
    }

    /// Whether a store that may not be opened yet has answered.
    pub fn is_answering(&self, store: &StoreName) -> bool {
        self.0.stores.lock().answering.contains(store)
    }

    /// Waits until a store that has answered may be opened.
    async fn pass(&self, store: &StoreName) {
        loop {
            let opened = self.0.opened.notified();
            tokio::pin!(opened);
            opened.as_mut().enable();
            {
                let mut gated = self.0.stores.lock();
                if !gated.closed.contains(store) {
                    return;
                }
                gated.answering.insert(store.clone());
            }
            self.0.changed.notify_one();
            opened.await;
        }
    }
}

/// A store that is opened only when the gate lets it.
struct GatedStore {
    name: StoreName,
    store: Arc<dyn OpenStore>,
    gate: OpeningGate,
}

#[async_trait]
impl OpenStore for GatedStore {
    /// Preparing a store writes index templates and the name of the installation, but no document.
    async fn open(&self) -> Result<OpenedStore, Unavailable> {
        let opened = self.store.open().await?;
        self.gate.pass(&self.name).await;
        Ok(opened)
    }

    async fn changed(&self) -> bool {
        self.store.changed().await
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fleetdex_crds::registry::OpenSearch;
    use fleetdex_store::memory::Memory;

    use super::*;
    use crate::plan::StorePlan;

    struct Answering;

    #[async_trait]
    impl OpenStore for Answering {
        async fn open(&self) -> Result<OpenedStore, Unavailable> {
            Ok(Arc::new(Memory::default()).into())
        }

        async fn changed(&self) -> bool {
            false
        }
    }

    fn store_plan() -> (StoreName, StorePlan) {
        let plan = StorePlan {
            config: Some(OpenSearch {
                addresses: vec!["http://a:9200".to_owned()],
                ..OpenSearch::default()
            }),
            ..StorePlan::default()
        };
        let addresses = &plan.config.as_ref().unwrap().addresses;
        (store_name(addresses, &plan.prefix).unwrap(), plan)
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_answers_is_opened_only_after_the_gate() {
        const SOON: Duration = Duration::from_secs(1);
        let changed = Arc::new(Notify::new());
        let gate = OpeningGate::new(Arc::clone(&changed));
        let (name, plan) = store_plan();
        let closed = BTreeSet::from([name.clone()]);
        let store = gate.guard(Arc::new(|_| Arc::new(Answering)))(&plan);
        gate.close(&closed);
        let mut opening = tokio::spawn(async move { store.open().await.is_ok() });
        changed.notified().await;
        assert!(gate.is_closed(&name) && gate.is_answering(&name));
        gate.open_others(&closed);
        assert!(
            tokio::time::timeout(SOON, &mut opening).await.is_err(),
            "another store was let through"
        );
        gate.open_others(&BTreeSet::new());
        assert!(opening.await.unwrap());
        assert!(!gate.is_closed(&name) && !gate.is_answering(&name));
    }
}
