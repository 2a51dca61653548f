//! Writes the statuses of `ClusterCache` objects.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use fleetdex_clusters::{ConnectionPhase, MemberState};
use fleetdex_core::model::ClusterName;
use fleetdex_crds::cluster_cache::{Cache, ClusterCacheStatus};
use jiff::Timestamp;
use kube::ResourceExt;

use super::{
    cluster_caches::{CacheGroup, ClusterCacheName},
    reconciler::{ControllerState, Reconciler},
};
use crate::{
    cluster_cache::{self, MISSED_PERIODS, RowInputs, status::status},
    plan::{RegistryPlan, StreamKey},
};

/// How often to check which statuses are due.
const TICK: Duration = Duration::from_secs(1);

/// When each member was last reached, and when each status was last evaluated.
#[derive(Default)]
struct StatusSchedule {
    contacts: BTreeMap<ClusterName, Instant>,
    last_evaluated: BTreeMap<ClusterCacheName, Instant>,
}

impl StatusSchedule {
    fn note_contacts(&mut self, members: &BTreeMap<ClusterName, MemberState>, now: Instant) {
        self.contacts.retain(|name, _| members.contains_key(name));
        for (name, _) in members
            .iter()
            .filter(|(_, member)| member.phase == ConnectionPhase::Ready)
        {
            self.contacts.insert(name.clone(), now);
        }
    }

    /// Why a member has not been reached for too long; `None` if it has.
    fn disconnected_reason(
        &self,
        name: &ClusterName,
        member: Option<&MemberState>,
        period: Duration,
        now: Instant,
    ) -> Option<String> {
        let MemberState {
            reason, message, ..
        } = member.filter(|_| self.is_unreached(name, period, now))?;
        Some(format!("{reason}: {message}"))
    }

    /// Whether a member has not been reached for [`MISSED_PERIODS`].
    fn is_unreached(&self, name: &ClusterName, period: Duration, now: Instant) -> bool {
        self.contacts
            .get(name)
            .is_none_or(|contact| now.duration_since(*contact) > period * MISSED_PERIODS)
    }

    fn is_due(&self, name: &ClusterCacheName, period: Duration, now: Instant) -> bool {
        self.last_evaluated
            .get(name)
            .is_none_or(|last_evaluated| now.duration_since(*last_evaluated) >= period)
    }
}

impl Reconciler {
    /// Keeps every status up to date: evaluates each once in its period, and writes it if it has
    /// changed.
    pub(super) async fn write_cache_statuses(self: Arc<Self>) {
        let mut schedule = StatusSchedule::default();
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if !self.context.replicas.assignment().is_leader() {
                continue;
            }
            for (group, cache, status) in self.due(&mut schedule).await {
                group
                    .write(&self.context.control_plane, &cache.name_any(), &status)
                    .await;
            }
        }
    }

    /// The statuses that have to be written now.
    async fn due(
        &self,
        schedule: &mut StatusSchedule,
    ) -> Vec<(&CacheGroup, Arc<Cache>, ClusterCacheStatus)> {
        let state = self.state.lock().await;
        let now = Instant::now();
        schedule.note_contacts(&state.members.states, now);
        let live: Vec<_> = self.caches.live().collect();
        let names: BTreeSet<ClusterCacheName> = live
            .iter()
            .map(|(group, cache)| (group.name, cache.name_any()))
            .collect();
        schedule
            .last_evaluated
            .retain(|name, _| names.contains(name));
        let mut due = Vec::new();
        for (group, cache) in live {
            let name = (group.name, cache.name_any());
            if !schedule.is_due(&name, cache.spec.period(), now) {
                continue;
            }
            let Some(status) = status_of(group, &cache, &state, schedule, now) else {
                continue;
            };
            schedule.last_evaluated.insert(name, now);
            if cache.status.as_ref() != Some(&status) {
                due.push((group, cache, status));
            }
        }
        due
    }
}

/// The status of a cache; `None` until it has been planned.
fn status_of(
    group: &CacheGroup,
    cache: &Cache,
    state: &ControllerState,
    schedule: &StatusSchedule,
    now: Instant,
) -> Option<ClusterCacheStatus> {
    let applied = state.supervisor.plan()?;
    let views = (0..cache.spec.cluster_selectors.len())
        .map(|index| cluster_cache::view_name(group.name, &cache.name_any(), index));
    let plans: Vec<&RegistryPlan> = views
        .map(|view| applied.registries.get(&view))
        .collect::<Option<_>>()?;
    let store = plans.iter().find_map(|plan| plan.store.as_ref());
    let period = cache.spec.period();
    let rows = cluster_cache::rows(&RowInputs {
        resources: &cache.spec.resource_selectors,
        plans: &plans,
        unread: &state.members.unread_sources,
        disconnected_reason: &|cluster| {
            let member = state.members.states.get(cluster);
            schedule.disconnected_reason(cluster, member, period, now)
        },
        progress: &|unit| {
            state.supervisor.progress(&StreamKey {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_unreached_after_three_periods_without_a_contact() {
        let start = Instant::now();
        let name: ClusterName = "member1".parse().unwrap();
        let period = Duration::from_secs(10);
        let schedule = StatusSchedule {
            contacts: BTreeMap::from([(name.clone(), start)]),
            ..StatusSchedule::default()
        };
        for (seconds, expected) in [(0, false), (30, false), (31, true)] {
            let now = start + Duration::from_secs(seconds);
            assert_eq!(
                schedule.is_unreached(&name, period, now),
                expected,
                "{seconds} s"
            );
        }
        assert!(schedule.is_unreached(&"member2".parse().unwrap(), period, start));
    }

    #[test]
    fn a_status_is_due_once_in_its_period() {
        let start = Instant::now();
        let name = ("cluster.karmada.io", "sample".to_owned());
        let other = ("clustercaches.karmada.io", "sample".to_owned());
        let period = Duration::from_secs(10);
        let schedule = StatusSchedule {
            last_evaluated: BTreeMap::from([(name.clone(), start)]),
            ..StatusSchedule::default()
        };
        let after = |seconds| start + Duration::from_secs(seconds);
        assert!(!schedule.is_due(&name, period, after(9)));
        assert!(schedule.is_due(&name, period, after(10)));
        assert!(schedule.is_due(&other, period, start));
    }
}
