//! Writes the statuses of registries, their finalizers and their Events.

use std::{borrow::Cow, collections::BTreeSet, sync::Arc, time::Duration};

use fleetdex_core::model::causes;
use fleetdex_crds::{
    cluster::Cluster,
    registry::{FINALIZER, ResourceRegistry, ResourceRegistryStatus},
};
use fleetdex_interpreter::rules::RuleSet;
use fleetdex_replicas::Assignment;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Api, Resource as _, ResourceExt,
    api::{Patch, PatchParams},
    runtime::{
        controller::Action,
        events::{Event, EventType},
    },
};
use serde_json::json;

use super::{
    former_locations::former_location,
    observed_registry::{ObservedRegistry, unread_sources},
    reconciler::{ControllerState, PatchedStatus, ReconcileError, Reconciler, STATUS_INTERVAL},
};
use crate::{
    FIELD_MANAGER, RegistryView,
    members::MemberStates,
    plan::{Plan, RegistryPlan, plan},
    registry_status::{
        RegistryEvent, ReportedEvents, StatusInputs, bounded, has_new_conditions, needs_write,
        status, write_interval,
    },
};

/// How long the control plane may take to write an Event. Statuses do not wait longer for one.
const EVENT_TIMEOUT: Duration = Duration::from_secs(5);

/// The plan of a registry, also of one that was created after the plan was made.
fn registry_plan<'p>(
    applied: &'p Plan,
    registry: &ResourceRegistry,
) -> Option<Cow<'p, RegistryPlan>> {
    let name = registry.name_any();
    if let Some(plan) = applied.registries.get(&name) {
        return Some(Cow::Borrowed(plan));
    }
    let mut alone = plan(&[RegistryView::from(registry)], &[], &RuleSet::default());
    alone.registries.remove(&name).map(Cow::Owned)
}

pub(super) fn phases(
    status: &ResourceRegistryStatus,
) -> BTreeSet<(&str, fleetdex_crds::registry::Phase, &str)> {
    status
        .clusters
        .iter()
        .map(|cluster| {
            (
                cluster.name.as_str(),
                cluster.phase,
                cluster.message.as_str(),
            )
        })
        .collect()
}

impl Reconciler {
    pub(super) async fn set_finalizer(
        &self,
        registry: &ResourceRegistry,
        present: bool,
    ) -> Result<(), ReconcileError> {
        let name = registry.name_any();
        let others = registry
            .finalizers()
            .iter()
            .filter(|finalizer| *finalizer != FINALIZER)
            .cloned();
        let finalizers: Vec<String> = others
            .chain(present.then(|| FINALIZER.to_owned()))
            .collect();
        // The resource version makes the write fail if another client has changed the finalizers
        // meanwhile.
        let patch = json!({ "metadata": { "finalizers": finalizers, "resourceVersion": registry.resource_version() } });
        let api = Api::<ResourceRegistry>::all(self.context.control_plane.clone());
        match api
            .patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
        {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            // The newer version is about to arrive here.
            Err(kube::Error::Api(status)) if status.is_conflict() => Ok(()),
            Err(source) => Err(ReconcileError::Write {
                name,
                source: Box::new(source),
            }),
        }
    }

    pub(super) async fn write_status(
        &self,
        state: &mut ControllerState,
        registry: &ResourceRegistry,
        members: &MemberStates,
    ) -> Result<Action, ReconcileError> {
        let before = registry.status.clone().unwrap_or_default();
        match self.current_status(state, registry, members, &before) {
            Some(current) => self.write_if_new(state, registry, &before, current).await,
            None => Ok(Action::await_change()),
        }
    }

    /// The status of a registry now; `None` before the first plan is applied.
    fn current_status(
        &self,
        state: &ControllerState,
        registry: &ResourceRegistry,
        members: &MemberStates,
        before: &ResourceRegistryStatus,
    ) -> Option<ResourceRegistryStatus> {
        let name = registry.name_any();
        let supervisor = &state.supervisor;
        let applied = supervisor.plan()?;
        let registry_plan = registry_plan(applied, registry)?;
        let registry_plan = &*registry_plan;
        let store = registry_plan.store.as_ref();
        let observed = ObservedRegistry {
            name: &name,
            plan: registry_plan,
            applied,
            supervisor,
            members,
            assignment: store.map_or(Assignment::SingleReplica, |store| {
                supervisor.assignment_for(store)
            }),
            peer_reports: Arc::clone(&self.peer_reports.lock()),
        };
        let locations = state
            .locations
            .get(&registry.uid().unwrap_or_default())
            .cloned()
            .unwrap_or_default();
        let former_locations = locations
            .iter()
            .filter_map(|location| former_location(supervisor, registry_plan, &name, location))
            .collect();
        let is_deleting = registry.metadata.deletion_timestamp.is_some();
        Some(status(&StatusInputs {
            deleting: is_deleting.then_some(name.as_str()),
            stores: locations,
            former_locations,
            plan: registry_plan,
            store: observed.availability(),
            shards: observed.shard_use(),
            store_access: observed.store_access(),
            health: &|cluster| observed.health(cluster),
            unread_sources: unread_sources(members, registry, registry_plan),
            live: &|cluster| observed.is_live(cluster),
            progress: &|unit| observed.progress(unit),
            selector_paths: &|unit| observed.selector_paths(unit),
            generation: registry.metadata.generation,
            before: &before.conditions,
            now: Timestamp::now(),
        }))
    }

    /// Writes a status that has changed: at once if a condition has, otherwise the less often the
    /// larger it is, and one in which only counts have changed at most once a second.
    async fn write_if_new(
        &self,
        state: &mut ControllerState,
        registry: &ResourceRegistry,
        before: &ResourceRegistryStatus,
        observed: ResourceRegistryStatus,
    ) -> Result<Action, ReconcileError> {
        let name = registry.name_any();
        let new = bounded(observed.clone());
        let written = state.written.get(&name).map(std::time::Instant::elapsed);
        if !needs_write(&new, before) {
            if written.is_some_and(|elapsed| elapsed >= write_interval(&new)) {
                state.written.remove(&name);
            }
            return Ok(Action::await_change());
        }
        if let Some(elapsed) = written
            && !has_new_conditions(&new, before)
        {
            let least = if phases(&new) == phases(before) {
                STATUS_INTERVAL
            } else {
                Duration::ZERO
            };
            let interval = write_interval(&new).max(least);
            if let Some(wait) = interval.checked_sub(elapsed)
                && !wait.is_zero()
            {
                return Ok(Action::requeue(wait));
            }
        }
        if self.patch_status(registry, &new).await? == PatchedStatus::Outdated {
            return Ok(Action::await_change());
        }
        self.emit_events(state, registry, before, &observed).await;
        state.written.insert(name, std::time::Instant::now());
        Ok(Action::await_change())
    }

    /// Writes a status. One that records a location as never opened replaces only the version that
    /// it is made from: another process may have opened the location since.
    pub(super) async fn patch_status(
        &self,
        registry: &ResourceRegistry,
        status: &ResourceRegistryStatus,
    ) -> Result<PatchedStatus, ReconcileError> {
        let name = registry.name_any();
        let mut metadata = json!({ "name": name });
        if status.stores.iter().any(|location| location.never_opened) {
            metadata["resourceVersion"] = json!(registry.resource_version());
        }
        let patch = json!({
            "apiVersion": ResourceRegistry::api_version(&()),
            "kind": ResourceRegistry::kind(&()),
            "metadata": metadata,
            "status": status,
        });
        let api = Api::<ResourceRegistry>::all(self.context.control_plane.clone());
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        match api
            .patch_status(&name, &parameters, &Patch::Apply(&patch))
            .await
        {
            Ok(_) => Ok(PatchedStatus::Written),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(PatchedStatus::Gone),
            Err(kube::Error::Api(status)) if status.is_conflict() => Ok(PatchedStatus::Outdated),
            Err(source) => Err(ReconcileError::Write {
                name,
                source: Box::new(source),
            }),
        }
    }

    /// Emits an Event for each change that people have to see.
    async fn emit_events(
        &self,
        state: &mut ControllerState,
        registry: &ResourceRegistry,
        before: &ResourceRegistryStatus,
        after: &ResourceRegistryStatus,
    ) {
        let name = registry.name_any();
        if !state.reported_events.contains_key(&name) {
            let existing: BTreeSet<String> = self
                .registries
                .state()
                .iter()
                .map(|known| known.name_any())
                .collect();
            state
                .reported_events
                .retain(|known, _| existing.contains(known));
        }
        let reported = state.reported_events.entry(name);
        let reported = reported.or_insert_with(|| ReportedEvents::of(before));
        let events = reported.of_change(before, after, std::time::Instant::now());
        let reference: ObjectReference = registry.object_ref(&());
        for event in events {
            let written =
                tokio::time::timeout(EVENT_TIMEOUT, self.publish_event(event, &reference));
            match written.await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(error = %causes(&error), "cannot write an Event"),
                Err(_) => tracing::debug!("timed out writing an Event"),
            }
        }
    }

    async fn publish_event(
        &self,
        event: RegistryEvent,
        registry: &ObjectReference,
    ) -> Result<(), kube::Error> {
        let cluster = event.cluster.map(|name| ObjectReference {
            api_version: Some(Cluster::api_version(&()).into_owned()),
            kind: Some(Cluster::kind(&()).into_owned()),
            name: Some(name),
            ..ObjectReference::default()
        });
        let event = Event {
            type_: if event.is_warning {
                EventType::Warning
            } else {
                EventType::Normal
            },
            reason: event.reason,
            note: Some(event.note),
            action: "Reconcile".to_owned(),
            secondary: cluster,
        };
        self.recorder.publish(&event, registry).await
    }
}
