//! The store locations that registries have left: recorded before any document goes to a new
//! location, and forgotten when nothing is left in them.

use std::{collections::BTreeMap, sync::Arc};

use fleetdex_core::model::{IndexPrefix, StoreName};
use fleetdex_crds::registry::{
    ORPHAN_ANNOTATION, ResourceRegistry, ResourceRegistryStatus, StoreStatus,
};
use fleetdex_interpreter::rules::RuleSet;
use fleetdex_replicas::{Assignment, ReplicaName};
use kube::ResourceExt;

use super::{
    reconciler::{ControllerState, PatchedStatus, ReconcileError, Reconciler},
    unopened_locations::{records_nothing_opened, was_never_opened},
};
use crate::{
    RegistryView,
    plan::{RegistryPlan, plan, store_location},
    registry_status::FormerLocation,
    stream_supervisor::StreamSupervisor,
};

/// Whether the store of a registry that is being deleted contains only what other registries
/// select, as far as the clusters of this replica are concerned. A location that was never opened
/// for it need not be reached for that.
pub(super) fn is_cleaned_up(state: &ControllerState, registry: &ResourceRegistry) -> bool {
    let alone = plan(&[RegistryView::from(registry)], &[], &RuleSet::default());
    let locations = state
        .locations
        .get(&registry.uid().unwrap_or_default())
        .into_iter()
        .flatten();
    let earlier: Vec<StoreName> = locations
        .filter_map(|location| location.name.parse().ok())
        .filter(|name| !alone.stores.contains_key(name))
        .collect();
    alone.stores.keys().all(|store| {
        was_never_opened(registry, store.as_str()) || state.supervisor.locations().is_gc_done(store)
    }) && earlier.iter().all(|location| {
        was_never_opened(registry, location.as_str())
            || state
                .supervisor
                .locations()
                .hold_nothing_unselected(location)
    })
}

/// Whether documents that cannot be deleted are abandoned, by the annotation.
pub(super) fn is_orphaned(registry: &ResourceRegistry) -> bool {
    registry
        .annotations()
        .get(ORPHAN_ANNOTATION)
        .is_some_and(|value| value == "true")
}

/// The state of a location that a registry has named before; `None` for the one that it names now.
pub(super) fn former_location(
    supervisor: &StreamSupervisor,
    plan: &RegistryPlan,
    registry: &str,
    location: &StoreStatus,
) -> Option<FormerLocation> {
    let name: StoreName = location
        .name
        .parse()
        .ok()
        .filter(|name| plan.store.as_ref() != Some(name))?;
    let prefix: IndexPrefix = location.index_prefix.parse().ok()?;
    let unavailable = supervisor.availability(&name).and_then(Result::err);
    let problem = unavailable.map(|unavailable| unavailable.message);
    Some(FormerLocation {
        indices: plan
            .clusters
            .keys()
            .map(|cluster| prefix.revisions(cluster).to_string())
            .collect(),
        awaited_clusters: supervisor
            .locations()
            .awaited_clusters(&name, registry)
            .into_iter()
            .map(String::from)
            .collect(),
        name: location.name.clone(),
        problem,
    })
}

impl Reconciler {
    /// Updates which locations may have documents of each registry: the one that it names now, and
    /// those that it named before until nothing is left there.
    pub(super) fn update_locations(
        &self,
        state: &mut ControllerState,
        registries: &[Arc<ResourceRegistry>],
        is_leader: bool,
    ) {
        let is_only_replica = self.context.replicas.assignment() == Assignment::SingleReplica;
        let mut locations = BTreeMap::new();
        for registry in registries {
            let uid = registry.uid().unwrap_or_default();
            let known = state
                .locations
                .get(&uid)
                .filter(|_| is_leader && state.was_leader)
                .cloned();
            let recorded_locations = || {
                registry
                    .status
                    .as_ref()
                    .map(|status| status.stores.clone())
                    .unwrap_or_default()
            };
            let mut known = known.unwrap_or_else(recorded_locations);
            let mut current = store_location(&registry.spec);
            if let Some(location) = &mut current {
                location.never_opened = if is_leader {
                    is_only_replica && self.is_never_opened(state, registry, &known, location)
                } else {
                    records_nothing_opened(registry)
                };
            }
            let is_current =
                |name: &str| current.as_ref().is_some_and(|current| current.name == name);
            known.retain(|location| {
                !is_current(&location.name) && !self.can_forget_location(state, registry, location)
            });
            known.extend(current.clone());
            known.sort_by(|left, right| left.name.cmp(&right.name));
            locations.insert(uid, known);
        }
        state
            .recorded_locations
            .retain(|uid, _| locations.contains_key(uid));
        state.locations = locations;
        state.was_leader = is_leader;
    }

    /// Whether a location that a registry does not name any more can be forgotten: it contains none
    /// of its documents, for all replicas, or it cannot be reached and is abandoned.
    pub(super) fn can_forget_location(
        &self,
        state: &ControllerState,
        registry: &ResourceRegistry,
        location: &StoreStatus,
    ) -> bool {
        let Ok(name) = location.name.parse::<StoreName>() else {
            return true;
        };
        if was_never_opened(registry, &location.name) {
            return true;
        }
        let is_unreachable = || matches!(state.supervisor.availability(&name), Some(Err(_)));
        if is_orphaned(registry) && is_unreachable() {
            tracing::warn!(registry = %registry.name_any(), store = %name, "abandoning documents that cannot be deleted");
            return true;
        }
        let locations = state.supervisor.locations();
        if !locations.hold_nothing_of(&registry.name_any(), &name) {
            return false;
        }
        locations.is_in_use(&name) || self.have_peers_cleaned_up(state, location.name.as_str())
    }

    /// Whether all other replicas have reported that something is cleaned up: a location, or a
    /// registry by its UID.
    pub(super) fn have_peers_cleaned_up(&self, state: &ControllerState, what: &str) -> bool {
        let Some(replicas) = state
            .inputs
            .as_ref()
            .and_then(|plan_inputs| plan_inputs.assignment.agreed_replicas())
        else {
            return false;
        };
        let reports = self.peer_reports.lock();
        let is_swept_by = |name: &ReplicaName| {
            reports.get(name).is_some_and(|report| {
                report.replicas == replicas && report.cleaned_up.contains(what)
            })
        };
        self.context.replicas.peer_names().iter().all(is_swept_by)
    }

    /// Records the locations of each registry in its status, unless they are there. Returns false
    /// if a registry has a newer version, which is about to arrive here.
    pub(super) async fn record_locations(
        &self,
        state: &mut ControllerState,
        registries: &[Arc<ResourceRegistry>],
    ) -> Result<bool, ReconcileError> {
        for registry in registries
            .iter()
            .filter(|registry| registry.metadata.deletion_timestamp.is_none())
        {
            let uid = registry.uid().unwrap_or_default();
            let Some(locations) = state.locations.get(&uid) else {
                continue;
            };
            let before = registry.status.clone().unwrap_or_default();
            let is_new = |location: &StoreStatus| !before.stores.contains(location);
            let is_recorded = || {
                state
                    .recorded_locations
                    .get(&uid)
                    .is_some_and(|recorded_locations| {
                        locations
                            .iter()
                            .all(|location| recorded_locations.contains(location))
                    })
            };
            if !locations.iter().any(is_new) || is_recorded() {
                continue;
            }
            let locations = locations.clone();
            let recorded = ResourceRegistryStatus {
                stores: locations.clone(),
                ..before
            };
            if self.patch_status(registry, &recorded).await? == PatchedStatus::Outdated {
                return Ok(false);
            }
            state.recorded_locations.insert(uid, locations);
        }
        Ok(true)
    }

    /// Whether a registry that is being deleted has nothing left to clean up, here and at the other
    /// replicas.
    pub(super) fn may_remove_finalizer(
        &self,
        state: &ControllerState,
        registry: &ResourceRegistry,
    ) -> bool {
        let uid = registry.uid().unwrap_or_default();
        is_orphaned(registry)
            || is_cleaned_up(state, registry) && self.have_peers_cleaned_up(state, &uid)
    }
}
