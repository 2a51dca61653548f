//! What the controller publishes: to the query API, to metrics and to the other replicas.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use fleetdex_clusters::MemberState;
use fleetdex_core::model::{ClusterName, StoreName, causes};
use fleetdex_sync::progress::UnitState;
use fleetdex_telemetry::metrics::UnitPhase;
use kube::ResourceExt;
use parking_lot::Mutex as StdMutex;
use tokio::time::Instant;

use super::{
    former_locations::is_cleaned_up,
    observed_registry::member_health,
    reconciler::{COMPLETENESS_INTERVAL, ControllerState, REPORT_INTERVAL, Reconciler},
};
use crate::{
    completeness::IncompleteReason,
    plan::StreamKey,
    replica_report::{PeerReports, ReplicaReport, ReplicaReports, cluster_key, unit_statuses},
};

/// How long no report is made after one, as a multiple of the time that it took.
const REPORT_PAUSE_RATIO: u32 = 20;
/// But not longer than this: the other replicas warn their users by it.
const MAX_REPORT_PAUSE: Duration = Duration::from_secs(5);

/// Exchanges reports with the other replicas: with the leader what statuses need, with all of them
/// the completeness of streams.
pub(super) async fn exchange_reports(reconciler: Arc<Reconciler>, mut reports: ReplicaReports) {
    let mut is_refused = false;
    loop {
        let (report, completeness, spent) = {
            let state = reconciler.state.lock().await;
            let started = Instant::now();
            let report = reconciler.report(&state);
            let completeness = state.supervisor.completeness_report();
            (report, completeness, started.elapsed())
        };
        let was_refused = is_refused;
        is_refused = false;
        if let Err(error) = reports.write(report, completeness).await {
            is_refused = error.is_refusal();
            let error = causes(&error);
            if is_refused && !was_refused {
                tracing::warn!(
                    error,
                    "the report of this replica is refused, so statuses lack its clusters; if it is too large, start more replicas"
                );
            } else {
                tracing::debug!(
                    error,
                    "cannot write the report of this replica; it is retried"
                );
            }
        }
        let read = if reconciler.context.replicas.assignment().is_leader() {
            reports.read().await.map(
                |PeerReports {
                     reports,
                     completeness,
                 }| {
                    reconciler.replace_if_changed(&reconciler.peer_reports, reports);
                    completeness
                },
            )
        } else {
            reports.read_peer_completeness().await
        };
        match read {
            Ok(completeness) => {
                reconciler.replace_if_changed(&reconciler.peer_completeness, completeness);
            }
            Err(error) => {
                tracing::debug!(error = %causes(&error), "cannot read the reports of the other replicas; it is retried");
            }
        }
        let pause = spent.saturating_mul(REPORT_PAUSE_RATIO);
        tokio::time::sleep(pause.clamp(REPORT_INTERVAL, MAX_REPORT_PAUSE)).await;
    }
}

/// The stores with a first list that has not ended.
pub(super) fn first_lists(
    incomplete_streams: &BTreeMap<StreamKey, IncompleteReason>,
) -> BTreeSet<&StoreName> {
    incomplete_streams
        .iter()
        .filter(|(_, incomplete_reason)| **incomplete_reason == IncompleteReason::FirstList)
        .map(|(stream, _)| &stream.store)
        .collect()
}

impl Reconciler {
    pub(super) fn count_units(
        &self,
        ControllerState {
            supervisor,
            members,
            ..
        }: &ControllerState,
    ) {
        // Clusters without streams here count, too.
        let none = members
            .states
            .keys()
            .flat_map(|cluster| UnitPhase::ALL.map(|phase| ((cluster, phase), 0)));
        let mut counts: BTreeMap<(&ClusterName, UnitPhase), usize> = none.collect();
        for (StreamKey { unit, .. }, progress) in supervisor.streams() {
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
        let rejected = supervisor.streams().map(|(stream, progress)| {
            let unit = &stream.unit;
            (&unit.cluster, &unit.resource.gvk, progress.rejected())
        });
        self.context.metrics.set_rejected(rejected);
    }

    pub(super) fn publish(
        &self,
        state: &mut ControllerState,
        members: &BTreeMap<ClusterName, MemberState>,
    ) {
        if let Some(plan) = state.supervisor.plan() {
            self.context
                .publish
                .publish(plan, &state.supervisor, members);
            state.published = Some((
                state.supervisor.incomplete_streams(),
                std::time::Instant::now(),
            ));
            state.publication_is_due = false;
        }
    }

    /// Publishes the completeness of streams if it has changed. It is published at once when the
    /// first lists of a store have ended, so that a registry that is ready has no more warnings,
    /// and otherwise in intervals, so that each kind of a first sync does not publish by itself.
    pub(super) fn publish_completeness(&self, state: &mut ControllerState) {
        let incomplete_streams = state.supervisor.incomplete_streams();
        let Some((published, at)) = &state.published else {
            return;
        };
        let first_lists_ended = || {
            first_lists(published)
                .difference(&first_lists(&incomplete_streams))
                .next()
                .is_some()
        };
        state.publication_is_due = *published != incomplete_streams;
        if state.publication_is_due
            && (at.elapsed() >= COMPLETENESS_INTERVAL || first_lists_ended())
        {
            let members = state.members.states.clone();
            self.publish(state, &members);
        }
    }

    /// The report of this replica about the clusters that are assigned to it.
    pub(super) fn report(&self, state: &ControllerState) -> ReplicaReport {
        let Some(assignment) = state.inputs.as_ref().map(|inputs| &inputs.assignment) else {
            return ReplicaReport::default();
        };
        let supervisor = &state.supervisor;
        let units = unit_statuses(
            supervisor
                .streams()
                .map(|(stream, progress)| (stream, progress.status())),
        );
        let members = &state.members;
        let assigned = || {
            members
                .states
                .keys()
                .filter(|name| assignment.may_keep(name))
        };
        let stores = || {
            supervisor
                .plan()
                .into_iter()
                .flat_map(|plan| plan.stores.keys())
        };
        let live = assigned().flat_map(|name| stores().map(move |store| (store, name)));
        let registries = self.registries.state();
        let leaving = registries
            .iter()
            .filter(|registry| registry.metadata.deletion_timestamp.is_some());
        ReplicaReport {
            units,
            live: live
                .filter(|(store, name)| supervisor.is_live(store, name))
                .map(|(store, name)| cluster_key(store, name))
                .collect(),
            health: assigned()
                .filter_map(|name| Some((name.to_string(), member_health(members, name)?)))
                .collect(),
            replicas: assignment.agreed_replicas().unwrap_or_default(),
            cleaned_up: leaving
                .filter(|registry| is_cleaned_up(state, registry))
                .filter_map(|registry| registry.uid())
                .chain(supervisor.locations().emptied().map(ToString::to_string))
                .collect(),
        }
    }

    /// Replaces what was read from the other replicas before, and notifies the controller if it
    /// differs.
    pub(super) fn replace_if_changed<T: PartialEq>(&self, stored: &StdMutex<Arc<T>>, read: T) {
        let mut stored = stored.lock();
        if **stored != read {
            *stored = Arc::new(read);
            drop(stored);
            self.context.changed.notify_one();
        }
    }
}
