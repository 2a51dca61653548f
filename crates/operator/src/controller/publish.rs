//! What the controller says to the server, to metrics and to other replicas.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetdex_clusters::MemberState;
use fleetdex_core::model::{ClusterName, StoreName, causes};
use fleetdex_sync::progress::UnitState;
use fleetdex_telemetry::metrics::UnitPhase;
use kube::ResourceExt;
use parking_lot::Mutex as StdMutex;

use super::{
    left_places::is_swept,
    reconciler::{GAPS_INTERVAL, REPORT_INTERVAL, Reconciler, State},
    status::member_health,
};
use crate::{
    gaps::Gap,
    plan::Stream,
    replicas::{
        Report,
        report::{Heard, Reports, cluster_key, unit_views},
    },
};

/// Makes what this replica knows of its share known to the others: to the leader what the status needs, to all of them what answers lack.
pub(super) async fn exchange_reports(reconciler: Arc<Reconciler>, mut reports: Reports) {
    loop {
        let (report, gaps) = {
            let state = reconciler.state.lock().await;
            (reconciler.report(&state), state.fleet.share_gaps())
        };
        if let Err(error) = reports.write(report, gaps).await {
            tracing::debug!(error = %causes(&error), "the report of this replica was not written; the next attempt follows");
        }
        let read = if reconciler.context.replicas.share().leads() {
            reports.read().await.map(|Heard { reports, gaps }| {
                reconciler.take(&reconciler.reports, reports);
                gaps
            })
        } else {
            reports.read_gaps().await
        };
        match read {
            Ok(gaps) => reconciler.take(&reconciler.gaps, gaps),
            Err(error) => {
                tracing::debug!(error = %causes(&error), "the reports of the other replicas were not read");
            }
        }
        tokio::time::sleep(REPORT_INTERVAL).await;
    }
}

/// The stores of which some first list is under way.
pub(super) fn first_lists(gaps: &BTreeMap<Stream, Gap>) -> BTreeSet<&StoreName> {
    gaps.iter()
        .filter(|(_, gap)| **gap == Gap::FirstList)
        .map(|(stream, _)| &stream.store)
        .collect()
}

impl Reconciler {
    pub(super) fn count_units(&self, State { fleet, members, .. }: &State) {
        // Also of clusters that have no stream here any more.
        let none = members
            .states
            .keys()
            .flat_map(|cluster| UnitPhase::ALL.map(|phase| ((cluster, phase), 0)));
        let mut counts: BTreeMap<(&ClusterName, UnitPhase), usize> = none.collect();
        for (Stream { unit, .. }, progress) in fleet.streams() {
            let phase = match progress.state() {
                UnitState::Starting | UnitState::Listing => UnitPhase::Listing,
                UnitState::Synced => UnitPhase::Watching,
                UnitState::Failing { reason, .. }
                    if matches!(&*reason, "Forbidden" | "NotServed" | "NotListable") =>
                {
                    UnitPhase::Failed
                }
                UnitState::Failing { .. } => UnitPhase::Waiting,
            };
            for known in UnitPhase::ALL {
                *counts.entry((&unit.cluster, known)).or_default() += usize::from(known == phase);
            }
        }
        for ((cluster, phase), count) in counts {
            self.context.metrics.set_units(cluster, phase, count);
        }
        let rejected = fleet.streams().map(|(stream, progress)| {
            let unit = &stream.unit;
            (&unit.cluster, &unit.resource.gvk, progress.rejected())
        });
        self.context.metrics.set_rejected(rejected);
    }

    pub(super) fn publish(&self, state: &mut State, members: &BTreeMap<ClusterName, MemberState>) {
        if let Some(plan) = state.fleet.plan() {
            self.context.publish.publish(plan, &state.fleet, members);
            state.published = Some((state.fleet.gaps(), std::time::Instant::now()));
            state.gaps_are_due = false;
        }
    }

    /// Makes known what answers lack if that has changed: at once when the first lists of a store are over, so that a registry that is ready has
    /// no more warnings, and otherwise not for each kind of a first sync by itself.
    pub(super) fn publish_gaps(&self, state: &mut State) {
        let gaps = state.fleet.gaps();
        let Some((published, at)) = &state.published else {
            return;
        };
        let is_over = || {
            first_lists(published)
                .difference(&first_lists(&gaps))
                .next()
                .is_some()
        };
        state.gaps_are_due = *published != gaps;
        if state.gaps_are_due && (at.elapsed() >= GAPS_INTERVAL || is_over()) {
            let members = state.members.states.clone();
            self.publish(state, &members);
        }
    }

    /// What this replica knows of its share.
    pub(super) fn report(&self, state: &State) -> Report {
        let Some(share) = state.inputs.as_ref().map(|seen| &seen.share) else {
            return Report::default();
        };
        let fleet = &state.fleet;
        let units = unit_views(
            fleet
                .streams()
                .map(|(stream, progress)| (stream, progress.view())),
        );
        let members = &state.members;
        let own = || members.states.keys().filter(|name| share.keeps(name));
        let stores = || fleet.plan().into_iter().flat_map(|plan| plan.stores.keys());
        let live = own().flat_map(|name| stores().map(move |store| (store, name)));
        let registries = self.registries.state();
        let leaving = registries
            .iter()
            .filter(|registry| registry.metadata.deletion_timestamp.is_some());
        Report {
            units,
            live: live
                .filter(|(store, name)| fleet.is_live(store, name))
                .map(|(store, name)| cluster_key(store, name))
                .collect(),
            health: own()
                .filter_map(|name| Some((name.to_string(), member_health(members, name)?)))
                .collect(),
            group: share.settled_group().unwrap_or_default(),
            swept: leaving
                .filter(|registry| is_swept(state, registry))
                .filter_map(|registry| registry.uid())
                .chain(fleet.swept_places().map(ToString::to_string))
                .collect(),
        }
    }

    /// Keeps what has been read of the other replicas in place of what was read before.
    pub(super) fn take<T: PartialEq>(&self, kept: &StdMutex<Arc<T>>, read: T) {
        let mut kept = kept.lock();
        if **kept != read {
            *kept = Arc::new(read);
            drop(kept);
            self.context.changed.notify_one();
        }
    }
}
