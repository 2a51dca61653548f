//! Follows one kind of one member over one connection: fills its objects, and tells watches of changes.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use fleetdex_core::model::{ClusterName, causes};
use futures::{StreamExt, pin_mut};
use kube::{
    Api, Client, ResourceExt,
    runtime::{WatchStreamExt, watcher},
};
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::{sync::watch, time::sleep};
use tokio_util::task::AbortOnDropHandle;

use super::{
    kind::Kind,
    objects::{Change, Key, Objects},
    options::{KindOptions, Transform},
};

/// Before a list that takes the place of an expired watch.
const RELIST_PAUSE: Duration = Duration::from_secs(1);

/// Where the changes of a kind go. It must not block.
pub(super) type Sink<K> = Arc<dyn Fn(&Change<K>) + Send + Sync>;

struct State<K> {
    objects: Objects<K>,
    sinks: Vec<Sink<K>>,
}

/// One kind of one member. It ends with its last clone.
pub(super) struct Informer<K> {
    state: Arc<RwLock<State<K>>>,
    filled: watch::Receiver<bool>,
    _task: AbortOnDropHandle<()>,
}

/// What an informer works with.
struct Follower<K> {
    cluster: ClusterName,
    state: Arc<RwLock<State<K>>>,
    filled: watch::Sender<bool>,
    transform: Transform<K>,
    /// The list under way.
    list: BTreeMap<Key, K>,
}

impl<K: Kind> Informer<K> {
    /// Begins to follow.
    pub(super) fn start(
        cluster: &ClusterName,
        client: Client,
        options: &KindOptions<K>,
        resync: Option<Duration>,
    ) -> Self {
        let state = Arc::new(RwLock::new(State {
            objects: Objects::new(&options.indexes),
            sinks: Vec::new(),
        }));
        let (sender, filled) = watch::channel(false);
        let follower = Follower {
            cluster: cluster.clone(),
            state: state.clone(),
            filled: sender,
            transform: options.transform.clone(),
            list: BTreeMap::new(),
        };
        let restriction = &options.restriction;
        let api = (options.api)(client);
        let config = watcher::Config {
            label_selector: restriction.label_selector.clone(),
            field_selector: restriction.field_selector.clone(),
            ..watcher::Config::default()
        };
        let task = tokio::spawn(follower.run(api, config, resync));
        Self {
            state,
            filled,
            _task: AbortOnDropHandle::new(task),
        }
    }

    /// Returns once there is a complete list; `false` if there never will be one.
    pub(super) async fn filled(&self) -> bool {
        self.filled.clone().wait_for(|filled| *filled).await.is_ok()
    }

    pub(super) fn read<T>(&self, read: impl FnOnce(&Objects<K>) -> T) -> T {
        read(&shared(&self.state).objects)
    }

    /// Tells of all objects that there are, and from then on of all changes.
    pub(super) fn add_sink(&self, sink: Sink<K>) {
        let mut state = exclusive(&self.state);
        for object in state.objects.all() {
            sink(&Change::Added(object.clone()));
        }
        state.sinks.push(sink);
    }
}

impl<K: Kind> Follower<K> {
    async fn run(mut self, api: Api<K>, config: watcher::Config, resync: Option<Duration>) {
        let state = self.state.clone();
        tokio::select! {
            () = self.follow(api, config) => {}
            () = tell_again(&state, resync) => {}
        }
    }

    async fn follow(&mut self, api: Api<K>, config: watcher::Config) {
        loop {
            let events = watcher(api.clone(), config.clone()).default_backoff();
            pin_mut!(events);
            while let Some(event) = events.next().await {
                match event {
                    Ok(event) => self.take(event),
                    Err(error) => {
                        tracing::debug!(cluster = %self.cluster, kind = %K::kind(&()), error = %causes(&error), "a watch failed");
                        // kube's watcher would ask for the same version for ever.
                        if is_expired(&error) {
                            break;
                        }
                    }
                }
            }
            sleep(RELIST_PAUSE).await;
        }
    }

    fn take(&mut self, event: watcher::Event<K>) {
        match event {
            watcher::Event::Init => self.list.clear(),
            watcher::Event::InitApply(object) => {
                let object = self.transformed(object);
                self.list.insert(Key::of(&object), object);
            }
            watcher::Event::InitDone => {
                let list = std::mem::take(&mut self.list);
                self.change(|objects| objects.replace(list));
                self.filled.send_replace(true);
            }
            watcher::Event::Apply(object) => {
                let object = self.transformed(object);
                self.change(|objects| objects.apply(object).into_iter().collect());
            }
            watcher::Event::Delete(object) => {
                self.change(|objects| objects.delete(&Key::of(&object)).into_iter().collect());
            }
        }
    }

    fn transformed(&self, mut object: K) -> K {
        (self.transform)(&mut object);
        object
    }

    fn change(&self, change: impl FnOnce(&mut Objects<K>) -> Vec<Change<K>>) {
        let mut state = exclusive(&self.state);
        let changes = change(&mut state.objects);
        for change in &changes {
            tell(&state.sinks, change);
        }
    }
}

fn tell<K>(sinks: &[Sink<K>], change: &Change<K>) {
    for sink in sinks {
        sink(change);
    }
}

/// Tells sinks of everything each time that `period` has passed.
async fn tell_again<K: Kind>(state: &RwLock<State<K>>, period: Option<Duration>) {
    let Some(period) = period else {
        return std::future::pending().await;
    };
    loop {
        sleep(period).await;
        let state = shared(state);
        for object in state.objects.all() {
            tell(&state.sinks, &Change::Resync(object.clone()));
        }
    }
}

/// Whether a watch was refused because its version is no longer there.
fn is_expired(error: &watcher::Error) -> bool {
    let refused = match error {
        watcher::Error::WatchStartFailed(kube::Error::Api(status)) => Some(status.code),
        _ => None,
    };
    refused == Some(410)
}

/// Sinks do not panic, and nothing else runs under the lock.
fn shared<K>(state: &RwLock<State<K>>) -> RwLockReadGuard<'_, State<K>> {
    state.read()
}

fn exclusive<K>(state: &RwLock<State<K>>) -> RwLockWriteGuard<'_, State<K>> {
    state.write()
}

/// What a reconciler needs to find an object again.
pub(super) fn request<K: Kind>(cluster: &ClusterName, object: &K) -> super::Request {
    super::Request {
        cluster: cluster.clone(),
        kind: K::kind(&()).into_owned(),
        namespace: object.namespace(),
        name: object.name_any(),
    }
}
