//! Updates what runs when registries, members or replicas change.

use std::sync::Arc;

use fleetdex_core::model::causes;
use fleetdex_crds::registry::ResourceRegistry;
use fleetdex_replicas::Assignment;
use kube::ResourceExt;

use super::{
    reconciler::{ControllerState, PlanInputs, Reconciler, RegistryVersion},
    unopened_locations::unopened_locations,
};
use crate::{
    RegistryView, members::MemberStates, store_locations::StoreLocations,
    stream_supervisor::Desired,
};

/// Every location that a registry may have written to.
fn recorded_locations(
    state: &ControllerState,
    registries: &[Arc<ResourceRegistry>],
) -> StoreLocations {
    let mut locations = StoreLocations::default();
    for registry in registries {
        for location in state
            .locations
            .get(&registry.uid().unwrap_or_default())
            .into_iter()
            .flatten()
        {
            locations.add_recorded(location, &registry.name_any());
        }
    }
    locations
}

impl Reconciler {
    /// Makes what runs match the registries, the clusters and what these serve.
    pub(super) async fn update_streams(&self, state: &mut ControllerState) -> MemberStates {
        // Planning needs complete inputs: what is not planned is deleted. A source of clusters that
        // cannot be read differs from one without clusters.
        self.context.sources.wait_for_initial_sync().await;
        self.registries_read().await;
        self.interpreter_configurations.wait_until_read().await;
        let is_leader = self.context.replicas.assignment().is_leader();
        // A registry that arrives from here on is planned by the next update, which records its
        // location first.
        let registries = self.registries.state();
        self.update_locations(state, &registries, is_leader);
        // Documents go to a new location only after the status records it; otherwise a restart
        // would forget it.
        if is_leader {
            match self.record_locations(state, &registries).await {
                Ok(true) => {}
                // The newer version of a registry is about to arrive here.
                Ok(false) => return state.members.clone(),
                Err(error) => {
                    let error = causes(&error);
                    if self.failures.is_due(&error) {
                        tracing::warn!(%error, "cannot record the store locations of registries; changes of the registries take effect once that succeeds");
                    }
                    return state.members.clone();
                }
            }
        }
        // A store opens after the streams of the registries that were deleted before it opened are
        // stopped.
        let unopened = unopened_locations(state, &registries);
        self.opening_gate.close(&unopened);
        let members = self
            .update_planned_streams(state, &registries, is_leader)
            .await;
        self.opening_gate.open_others(&unopened);
        members
    }

    /// Makes what runs match the registries, whose store locations are recorded.
    async fn update_planned_streams(
        &self,
        state: &mut ControllerState,
        registries: &[Arc<ResourceRegistry>],
        is_leader: bool,
    ) -> MemberStates {
        let peer_completeness = Arc::clone(&self.peer_completeness.lock());
        let plan_inputs = self.plan_inputs(state, registries);
        self.context
            .metrics
            .set_replicas(plan_inputs.assignment.alive_count());
        if state.inputs.as_ref() == Some(&plan_inputs) && !state.supervisor.needs_reapply() {
            state.supervisor.maintain(&peer_completeness);
            self.publish_completeness(state);
            self.count_units(state);
            return state.members.clone();
        }
        let indexed = state.supervisor.identities();
        let planned = state.supervisor.planned_clusters();
        let members = state
            .member_reconciler
            .update(
                plan_inputs.assignment.is_leader(),
                indexed.as_ref(),
                &planned,
            )
            .await;
        let (live, leaving) = self.registry_views(registries, is_leader);
        let desired = Desired {
            registries: &live,
            leaving: &leaving,
            members: &members.states,
            knows_all_members: members.unread_sources.is_empty(),
            assignment: plan_inputs.assignment.clone(),
            rules: self.interpreter_configurations.rules(),
            recorded_locations: recorded_locations(state, registries),
            peer_completeness,
        };
        state.supervisor.reconcile(desired).await;
        self.publish(state, &members.states);
        state.inputs = Some(plan_inputs);
        state.members.clone_from(&members);
        self.count_units(state);
        members
    }

    fn plan_inputs(
        &self,
        state: &ControllerState,
        registries: &[Arc<ResourceRegistry>],
    ) -> PlanInputs {
        let registry = |registry: &Arc<ResourceRegistry>| {
            (
                registry.name_any(),
                RegistryVersion {
                    generation: registry.metadata.generation,
                    is_leaving: registry.metadata.deletion_timestamp.is_some(),
                    is_recorded: registry.status.is_some(),
                },
            )
        };
        PlanInputs {
            members: *self.context.clusters.changed().borrow(),
            sources: self.context.sources.version(),
            compared: state.member_reconciler.duplicates.version(),
            registries: registries.iter().map(registry).collect(),
            caches: self.caches.generations(),
            rules: self.interpreter_configurations.version(),
            observed: state.supervisor.observed(),
            locations: state.locations.clone(),
            assignment: self.context.replicas.assignment(),
        }
    }

    /// The registries that are planned, and those that are being deleted.
    fn registry_views(
        &self,
        registries: &[Arc<ResourceRegistry>],
        is_leader: bool,
    ) -> (Vec<RegistryView>, Vec<RegistryView>) {
        let (leaving, live): (Vec<_>, Vec<_>) = registries
            .iter()
            .partition(|registry| registry.metadata.deletion_timestamp.is_some());
        // The leader records the location of a new registry; before that no replica may write to
        // it.
        let recorded = live
            .into_iter()
            .filter(|registry| is_leader || registry.status.is_some());
        let live = recorded
            .map(|registry| RegistryView::from(&**registry))
            .chain(self.caches.views());
        let leaving = leaving
            .into_iter()
            .map(|registry| RegistryView::from(&**registry));
        (live.collect(), leaving.collect())
    }

    /// Hands over the clusters that are assigned to other replicas now, and announces to them when
    /// nothing of these clusters is in flight any more. Returns whether that is done.
    pub(super) async fn hand_over(&self, state: &mut ControllerState) -> bool {
        if let Some(PlanInputs {
            assignment: Assignment::SingleReplica,
            ..
        }) = &state.inputs
        {
            return true;
        }
        let is_done = state.supervisor.hand_over().await;
        if let Some(plan_inputs) = state.inputs.as_ref().filter(|_| is_done) {
            self.context
                .replicas
                .announce_released(&plan_inputs.assignment);
        }
        is_done
    }
}
