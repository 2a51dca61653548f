//! `ClusterCache`s: read from whichever of their groups the control plane serves, planned like registries without a store, and told in their
//! status how that goes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use fleetdex_api::cluster_cache::{self, Cache, ClusterCacheStatus, GROUPS};
use fleetdex_clusters::{MemberState, Phase};
use fleetdex_core::model::{ClusterName, causes};
use futures::{StreamExt, stream};
use k8s_openapi::jiff::Timestamp;
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
    core::ApiResource,
    runtime::{
        WatchStreamExt,
        reflector::{self, Store},
        watcher,
    },
};
use serde_json::json;
use tokio::{sync::Notify, task::JoinSet};

use super::{FIELD_MANAGER, Reconciler, State};
use crate::{
    RegistryView,
    cache::{self, Inputs, MISSED_PERIODS, status::status},
    plan::{RegistryPlan, Stream},
};

/// How often it is looked which status is due.
const TICK: Duration = Duration::from_secs(1);
/// How long the control plane may take for one status.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// The objects of one group.
struct Group {
    name: &'static str,
    resource: ApiResource,
    objects: Store<Cache>,
}

/// The objects of all groups.
pub(super) struct Caches(Vec<Group>);

/// Names a cache: its group and its name.
pub(super) type CacheName = (&'static str, String);

impl Caches {
    /// Keeps copies of all of them.
    pub(super) fn watch(hub: &Client, changed: &Arc<Notify>, tasks: &mut JoinSet<()>) -> Self {
        Self(
            GROUPS
                .into_iter()
                .map(|name| Group::watch(name, hub, changed, tasks))
                .collect(),
        )
    }

    /// Those that are not being deleted.
    fn live(&self) -> impl Iterator<Item = (&Group, Arc<Cache>)> {
        let objects = self.0.iter().flat_map(|group| {
            group
                .objects
                .state()
                .into_iter()
                .map(move |cache| (group, cache))
        });
        objects.filter(|(_, cache)| cache.metadata.deletion_timestamp.is_none())
    }

    /// The generation of each.
    pub(super) fn generations(&self) -> BTreeMap<CacheName, Option<i64>> {
        self.live()
            .map(|(group, cache)| ((group.name, cache.name_any()), cache.metadata.generation))
            .collect()
    }

    /// What is to be planned for them.
    pub(super) fn views(&self) -> Vec<RegistryView> {
        self.live()
            .flat_map(|(group, cache)| cache::views(group.name, &cache))
            .collect()
    }
}

impl Group {
    fn watch(
        name: &'static str,
        hub: &Client,
        changed: &Arc<Notify>,
        tasks: &mut JoinSet<()>,
    ) -> Self {
        let resource = cluster_cache::api_resource(name);
        let writer = reflector::store::Writer::new(resource.clone());
        let objects = writer.as_reader();
        let api = Api::<Cache>::all_with(hub.clone(), &resource);
        let events = watcher(api, watcher::Config::default()).default_backoff();
        let events = reflector::reflector(
            writer,
            events.flat_map(|event| stream::iter(none_where_absent(event))),
        );
        let changed = Arc::clone(changed);
        tasks.spawn(async move {
            let mut events = std::pin::pin!(events);
            while let Some(event) = events.next().await {
                match event {
                    Ok(_) => changed.notify_one(),
                    Err(error) => tracing::warn!(group = name, error = %causes(&error), "cannot watch ClusterCache objects"),
                }
            }
        });
        Self {
            name,
            resource,
            objects,
        }
    }

    async fn write(&self, hub: &Client, name: &str, status: &ClusterCacheStatus) {
        let ApiResource {
            api_version, kind, ..
        } = &self.resource;
        let patch = json!({ "apiVersion": api_version, "kind": kind, "metadata": { "name": name }, "status": status });
        let api = Api::<Cache>::all_with(hub.clone(), &self.resource);
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        let write = async {
            api.patch_status(name, &parameters, &Patch::Apply(&patch))
                .await
        };
        match tokio::time::timeout(WRITE_TIMEOUT, write).await {
            Ok(Ok(_)) => {}
            Ok(Err(kube::Error::Api(answer))) if answer.is_not_found() => {}
            Ok(Err(error)) => {
                tracing::warn!(cache = name, group = self.name, error = %causes(&error), "cannot write the status of a ClusterCache");
            }
            Err(_) => tracing::warn!(
                cache = name,
                group = self.name,
                "the status of a ClusterCache was not written in time"
            ),
        }
    }
}

/// Where the control plane does not serve the group there are no objects: the CRD was removed, or never installed.
fn none_where_absent(
    event: watcher::Result<watcher::Event<Cache>>,
) -> Vec<watcher::Result<watcher::Event<Cache>>> {
    use watcher::{Error, Event};
    match event {
        Err(
            Error::InitialListFailed(kube::Error::Api(answer))
            | Error::WatchStartFailed(kube::Error::Api(answer)),
        ) if answer.is_not_found() => {
            vec![Ok(Event::Init), Ok(Event::InitDone)]
        }
        event => vec![event],
    }
}

/// When each member was last in contact, and when each status was last looked at.
#[derive(Default)]
struct Clock {
    contacts: BTreeMap<ClusterName, Instant>,
    looked: BTreeMap<CacheName, Instant>,
}

impl Clock {
    fn note_contacts(&mut self, members: &BTreeMap<ClusterName, MemberState>, now: Instant) {
        self.contacts.retain(|name, _| members.contains_key(name));
        for (name, _) in members
            .iter()
            .filter(|(_, member)| member.phase == Phase::Ready)
        {
            self.contacts.insert(name.clone(), now);
        }
    }

    /// Why a member has not been reached for too long.
    fn lost(
        &self,
        name: &ClusterName,
        member: Option<&MemberState>,
        period: Duration,
    ) -> Option<String> {
        let is_lost = self
            .contacts
            .get(name)
            .is_none_or(|contact| contact.elapsed() > period * MISSED_PERIODS);
        let MemberState {
            reason, message, ..
        } = member.filter(|_| is_lost)?;
        Some(format!("{reason}: {message}"))
    }

    fn is_due(&self, name: &CacheName, period: Duration, now: Instant) -> bool {
        self.looked
            .get(name)
            .is_none_or(|looked| now.duration_since(*looked) >= period)
    }
}

impl Reconciler {
    /// Keeps every status as it should be: each is looked at once in its period, and written if it says anything new.
    pub(super) async fn write_cache_statuses(self: Arc<Self>) {
        let mut clock = Clock::default();
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if !self.context.replicas.share().leads() {
                continue;
            }
            for (group, cache, status) in self.due(&mut clock).await {
                group
                    .write(&self.context.hub, &cache.name_any(), &status)
                    .await;
            }
        }
    }

    /// The statuses that are to be written now.
    async fn due(&self, clock: &mut Clock) -> Vec<(&Group, Arc<Cache>, ClusterCacheStatus)> {
        let state = self.state.lock().await;
        let now = Instant::now();
        clock.note_contacts(&state.members.states, now);
        let live: Vec<_> = self.caches.live().collect();
        let names: BTreeSet<CacheName> = live
            .iter()
            .map(|(group, cache)| (group.name, cache.name_any()))
            .collect();
        clock.looked.retain(|name, _| names.contains(name));
        let mut due = Vec::new();
        for (group, cache) in live {
            let name = (group.name, cache.name_any());
            if !clock.is_due(&name, cache.spec.period(), now) {
                continue;
            }
            let Some(status) = status_of(group, &cache, &state, clock) else {
                continue;
            };
            clock.looked.insert(name, now);
            if cache.status.as_ref() != Some(&status) {
                due.push((group, cache, status));
            }
        }
        due
    }
}

/// The status of a cache, once it has been planned.
fn status_of(
    group: &Group,
    cache: &Cache,
    state: &State,
    clock: &Clock,
) -> Option<ClusterCacheStatus> {
    let applied = state.fleet.plan()?;
    let views = (0..cache.spec.cluster_selectors.len())
        .map(|index| cache::view_name(group.name, &cache.name_any(), index));
    let plans: Vec<&RegistryPlan> = views
        .map(|view| applied.registries.get(&view))
        .collect::<Option<_>>()?;
    let store = plans.iter().find_map(|plan| plan.store.as_ref());
    let period = cache.spec.period();
    let rows = cache::rows(&Inputs {
        resources: &cache.spec.resource_selectors,
        plans: &plans,
        unread: &state.members.unread,
        lost: &|cluster| clock.lost(cluster, state.members.states.get(cluster), period),
        progress: &|unit| {
            state.fleet.progress(&Stream {
                unit: unit.clone(),
                store: store?.clone(),
            })
        },
        period,
    });
    Some(status(
        &rows,
        cache.status.as_ref(),
        cache.metadata.generation,
        Timestamp::now(),
    ))
}
