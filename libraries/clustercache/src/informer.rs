//! The informer of one kind of one member over one connection: fills the indexer, and passes
//! changes to event handlers.
//!
//! It runs on `kube::runtime::watcher`, but not on its `reflector`, whose store has no indexes and
//! reports no old objects. An expired version that comes as an HTTP status restarts the watcher
//! here, as the watcher itself would retry it forever.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use fleetdex_core::model::{ClusterName, causes};
use futures::{StreamExt, pin_mut};
use kube::{
    Api, Client,
    runtime::{WatchStreamExt, watcher},
};
use parking_lot::RwLock;
use tokio::{sync::watch, time::sleep};
use tokio_util::task::AbortOnDropHandle;

use super::{
    indexer::{Indexer, ObjectChange, ObjectKey},
    options::{KindOptions, Transform},
    resource::CacheableResource,
};

/// Pause before a list that replaces an expired watch.
const RELIST_PAUSE: Duration = Duration::from_secs(1);

/// Receives the changes of a kind. It must not block.
pub(super) type EventHandler<K> = Arc<dyn Fn(&ObjectChange<K>) + Send + Sync>;

/// Event handlers are called under the lock of this state. They do not panic.
struct InformerState<K> {
    indexer: Indexer<K>,
    handlers: Vec<EventHandler<K>>,
}

/// The informer of one kind of one member. Dropping it ends the watch.
pub(super) struct Informer<K> {
    state: Arc<RwLock<InformerState<K>>>,
    synced: watch::Receiver<bool>,
    _task: AbortOnDropHandle<()>,
}

struct InformerTask<K> {
    cluster: ClusterName,
    state: Arc<RwLock<InformerState<K>>>,
    synced: watch::Sender<bool>,
    transform: Transform<K>,
    /// The list that is being read.
    list: BTreeMap<ObjectKey, K>,
}

impl<K: CacheableResource> Informer<K> {
    pub(super) fn start(
        cluster: &ClusterName,
        client: Client,
        options: &KindOptions<K>,
        resync: Option<Duration>,
    ) -> Self {
        let state = Arc::new(RwLock::new(InformerState {
            indexer: Indexer::new(&options.indexes),
            handlers: Vec::new(),
        }));
        let (sender, synced) = watch::channel(false);
        let informer_task = InformerTask {
            cluster: cluster.clone(),
            state: state.clone(),
            synced: sender,
            transform: options.transform.clone(),
            list: BTreeMap::new(),
        };
        let selectors = &options.selectors;
        let api = (options.api)(client);
        let config = watcher::Config {
            label_selector: selectors.label_selector.clone(),
            field_selector: selectors.field_selector.clone(),
            ..watcher::Config::default()
        };
        let task = tokio::spawn(informer_task.run(api, config, resync));
        Self {
            state,
            synced,
            _task: AbortOnDropHandle::new(task),
        }
    }

    /// Waits for the first complete list; returns `false` if the informer ended before.
    pub(super) async fn synced(&self) -> bool {
        self.synced.clone().wait_for(|synced| *synced).await.is_ok()
    }

    pub(super) fn read<T>(&self, read: impl FnOnce(&Indexer<K>) -> T) -> T {
        read(&self.state.read().indexer)
    }

    /// Passes all existing objects to the handler as added, and from then on all changes.
    pub(super) fn add_event_handler(&self, handler: EventHandler<K>) {
        let mut state = self.state.write();
        for object in state.indexer.all() {
            handler(&ObjectChange::Added(object.clone()));
        }
        state.handlers.push(handler);
    }
}

impl<K: CacheableResource> InformerTask<K> {
    async fn run(mut self, api: Api<K>, config: watcher::Config, resync: Option<Duration>) {
        let state = self.state.clone();
        tokio::select! {
            () = self.watch(api, config) => {}
            () = resync_periodically(&state, resync) => {}
        }
    }

    async fn watch(&mut self, api: Api<K>, config: watcher::Config) {
        loop {
            let events = watcher(api.clone(), config.clone()).default_backoff();
            pin_mut!(events);
            while let Some(event) = events.next().await {
                match event {
                    Ok(event) => self.handle(event),
                    Err(error) => {
                        tracing::debug!(cluster = %self.cluster, kind = %K::kind(&()), error = %causes(&error), "a watch failed");
                        // kube's watcher would retry the same version forever.
                        if is_expired(&error) {
                            break;
                        }
                    }
                }
            }
            sleep(RELIST_PAUSE).await;
        }
    }

    fn handle(&mut self, event: watcher::Event<K>) {
        match event {
            watcher::Event::Init => self.list.clear(),
            watcher::Event::InitApply(object) => {
                let object = self.transformed(object);
                self.list.insert(ObjectKey::of(&object), object);
            }
            watcher::Event::InitDone => {
                let list = std::mem::take(&mut self.list);
                self.change(|indexer| indexer.replace(list));
                self.synced.send_replace(true);
            }
            watcher::Event::Apply(object) => {
                let object = self.transformed(object);
                self.change(|indexer| indexer.apply(object).into_iter().collect());
            }
            watcher::Event::Delete(object) => {
                self.change(|indexer| {
                    indexer
                        .delete(&ObjectKey::of(&object))
                        .into_iter()
                        .collect()
                });
            }
        }
    }

    fn transformed(&self, mut object: K) -> K {
        (self.transform)(&mut object);
        object
    }

    fn change(&self, change: impl FnOnce(&mut Indexer<K>) -> Vec<ObjectChange<K>>) {
        let mut state = self.state.write();
        let changes = change(&mut state.indexer);
        for change in &changes {
            notify(&state.handlers, change);
        }
    }
}

fn notify<K>(handlers: &[EventHandler<K>], change: &ObjectChange<K>) {
    for handler in handlers {
        handler(change);
    }
}

/// Passes all objects to the handlers every `period`.
async fn resync_periodically<K: CacheableResource>(
    state: &RwLock<InformerState<K>>,
    period: Option<Duration>,
) {
    let Some(period) = period else {
        return std::future::pending().await;
    };
    loop {
        sleep(period).await;
        let state = state.read();
        for object in state.indexer.all() {
            notify(&state.handlers, &ObjectChange::Resync(object.clone()));
        }
    }
}

/// Whether a watch was refused because its version has expired.
fn is_expired(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::WatchStartFailed(kube::Error::Api(status)) if status.code == 410)
}
