//! Places that registries have left: written down before anything goes to a new place, and forgotten when nothing is left in them.

use std::collections::BTreeMap;

use fleetdex_api::registry::{
    ORPHAN_ANNOTATION, ResourceRegistry, ResourceRegistryStatus, StoreStatus,
};
use fleetdex_core::model::{IndexPrefix, StoreName};
use fleetdex_sync::pipeline::Pipeline;
use kube::ResourceExt;

use super::reconciler::{ReconcileError, Reconciler, State, registry_view};
use crate::{
    fleet::Fleet,
    plan::{RegistryPlan, place, plan},
    replicas::ReplicaName,
    status::OldPlace,
};

/// Whether the store of a registry that is being deleted holds nothing of this replica's share that nobody wants.
pub(super) fn is_swept(state: &State, registry: &ResourceRegistry) -> bool {
    let alone = plan(&[registry_view(registry)], &[]);
    let places = state
        .places
        .get(&registry.uid().unwrap_or_default())
        .into_iter()
        .flatten();
    let earlier: Vec<StoreName> = places
        .filter_map(|place| place.name.parse().ok())
        .filter(|name| !alone.stores.contains_key(name))
        .collect();
    alone.stores.keys().all(|store| state.fleet.is_swept(store))
        && earlier.iter().all(|place| state.fleet.is_left(place))
}

/// Whether documents that cannot be deleted are to be left where they are.
pub(super) fn is_given_up(registry: &ResourceRegistry) -> bool {
    registry
        .annotations()
        .get(ORPHAN_ANNOTATION)
        .is_some_and(|value| value == "true")
}

/// A place that a registry has named before, and why it is not empty yet; nothing if it is the one that it names.
pub(super) fn old_place(
    fleet: &Fleet,
    plan: &RegistryPlan,
    registry: &str,
    place: &StoreStatus,
) -> Option<OldPlace> {
    let name: StoreName = place
        .name
        .parse()
        .ok()
        .filter(|name| plan.store.as_ref() != Some(name))?;
    let prefix: IndexPrefix = place.index_prefix.parse().ok()?;
    let problem = match fleet.pipeline(&name).and_then(Pipeline::availability) {
        Some(Err(unavailable)) => Some(unavailable.message),
        Some(Ok(())) | None => None,
    };
    Some(OldPlace {
        indices: plan
            .clusters
            .keys()
            .map(|cluster| prefix.generations(cluster).to_string())
            .collect(),
        waits_for: fleet
            .waits_for(&name, registry)
            .into_iter()
            .map(String::from)
            .collect(),
        name: place.name.clone(),
        problem,
    })
}

impl Reconciler {
    /// Brings up to date where documents of each registry may be: where it says now, and where it said before until nothing is left there.
    pub(super) fn note_places(&self, state: &mut State, leads: bool) {
        let mut places = BTreeMap::new();
        for registry in self.registries.state() {
            let uid = registry.uid().unwrap_or_default();
            let known = state
                .places
                .get(&uid)
                .filter(|_| leads && state.led)
                .cloned();
            let recorded = || {
                registry
                    .status
                    .as_ref()
                    .map(|status| status.stores.clone())
                    .unwrap_or_default()
            };
            let mut known = known.unwrap_or_else(recorded);
            let current = place(&registry.spec);
            let is_current =
                |name: &str| current.as_ref().is_some_and(|current| current.name == name);
            known.retain(|place| {
                !is_current(&place.name) && !self.is_done_with(state, &registry, place)
            });
            known.extend(current.clone());
            known.sort_by(|left, right| left.name.cmp(&right.name));
            places.insert(uid, known);
        }
        state.recorded.retain(|uid, _| places.contains_key(uid));
        state.places = places;
        state.led = leads;
    }

    /// Whether a place that a registry names no more holds nothing of it, for all replicas, or is given up because it cannot be reached.
    pub(super) fn is_done_with(
        &self,
        state: &State,
        registry: &ResourceRegistry,
        place: &StoreStatus,
    ) -> bool {
        let Ok(name) = place.name.parse::<StoreName>() else {
            return true;
        };
        let is_unreachable = || {
            matches!(
                state.fleet.pipeline(&name).and_then(Pipeline::availability),
                Some(Err(_))
            )
        };
        if is_given_up(registry) && is_unreachable() {
            tracing::warn!(registry = %registry.name_any(), store = %name, "documents that cannot be deleted are given up");
            return true;
        }
        if !state.fleet.has_left(&registry.name_any(), &name) {
            return false;
        }
        state.fleet.is_in_use(&name) || self.have_others_swept(state, place.name.as_str())
    }

    /// Whether all other replicas have reported that something is swept.
    pub(super) fn have_others_swept(&self, state: &State, what: &str) -> bool {
        let Some(group) = state
            .inputs
            .as_ref()
            .and_then(|seen| seen.share.settled_group())
        else {
            return false;
        };
        let reports = self.reports.lock();
        let is_swept_by = |name: &ReplicaName| {
            reports
                .get(name)
                .is_some_and(|report| report.group == group && report.swept.contains(what))
        };
        self.context.replicas.others().iter().all(is_swept_by)
    }

    /// Writes into the status of each registry where its documents may be, unless it is there.
    pub(super) async fn record_places(&self, state: &mut State) -> Result<(), ReconcileError> {
        for registry in self
            .registries
            .state()
            .iter()
            .filter(|registry| registry.metadata.deletion_timestamp.is_none())
        {
            let uid = registry.uid().unwrap_or_default();
            let Some(places) = state.places.get(&uid) else {
                continue;
            };
            let before = registry.status.clone().unwrap_or_default();
            let is_new = |place: &StoreStatus| !before.stores.contains(place);
            let is_recorded = || {
                state
                    .recorded
                    .get(&uid)
                    .is_some_and(|recorded| places.iter().all(|place| recorded.contains(place)))
            };
            if !places.iter().any(is_new) || is_recorded() {
                continue;
            }
            let places = places.clone();
            self.patch_status(
                registry,
                &ResourceRegistryStatus {
                    stores: places.clone(),
                    ..before
                },
            )
            .await?;
            state.recorded.insert(uid, places);
        }
        Ok(())
    }

    /// Whether a registry that is being deleted has nothing left to clean up, here and in the shares of the others.
    pub(super) fn may_go(&self, state: &State, registry: &ResourceRegistry) -> bool {
        let uid = registry.uid().unwrap_or_default();
        is_given_up(registry) || is_swept(state, registry) && self.have_others_swept(state, &uid)
    }
}
