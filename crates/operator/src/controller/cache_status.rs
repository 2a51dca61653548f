//! Writes the statuses of `ClusterCache`s.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use fleetdex_api::cluster_cache::{Cache, ClusterCacheStatus};
use fleetdex_clusters::{MemberState, Phase};
use fleetdex_core::model::ClusterName;
use jiff::Timestamp;
use kube::ResourceExt;

use super::{
    caches::{CacheName, Group},
    reconciler::{Reconciler, State},
};
use crate::{
    cache::{self, Inputs, MISSED_PERIODS, status::status},
    plan::{RegistryPlan, Stream},
};

/// How often it is looked which status is due.
const TICK: Duration = Duration::from_secs(1);

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
