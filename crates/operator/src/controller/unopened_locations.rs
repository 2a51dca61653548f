//! The store locations that were never opened for a registry. Its status records that, and the
//! record is removed before the first document is written, so that it proves also after a restart
//! that nothing of the registry is stored there.
//!
//! Only a replica that is the only one makes such a record: it knows which stores it has opened.

use std::{collections::BTreeSet, sync::Arc};

use fleetdex_core::model::StoreName;
use fleetdex_crds::registry::{ResourceRegistry, StoreStatus};
use kube::ResourceExt;

use super::reconciler::{ControllerState, Reconciler};

/// Whether the status of a registry proves that a location was never opened for it.
pub(super) fn was_never_opened(registry: &ResourceRegistry, location: &str) -> bool {
    let recorded = registry.status.iter().flat_map(|status| &status.stores);
    recorded
        .filter(|recorded| recorded.name == location)
        .any(|recorded| recorded.never_opened)
}

/// Whether the status of a registry records locations, and that none of them was ever opened.
pub(super) fn records_nothing_opened(registry: &ResourceRegistry) -> bool {
    registry
        .status
        .as_ref()
        .is_some_and(|status| !status.stores.is_empty() && none_opened(&status.stores))
}

fn none_opened(locations: &[StoreStatus]) -> bool {
    locations.iter().all(|location| location.never_opened)
}

/// Whether nothing of a registry was ever stored: neither its status nor `known`, the locations
/// that this replica knows, have one that was opened. A registry without a status is new.
fn has_stored_nothing(registry: &ResourceRegistry, known: &[StoreStatus]) -> bool {
    none_opened(known) && (registry.status.is_none() || records_nothing_opened(registry))
}

impl Reconciler {
    /// Whether the location that a registry names now was never opened for it. This replica is the
    /// only one.
    pub(super) fn is_never_opened(
        &self,
        state: &ControllerState,
        registry: &ResourceRegistry,
        known: &[StoreStatus],
        location: &StoreStatus,
    ) -> bool {
        let Ok(name) = location.name.parse::<StoreName>() else {
            return false;
        };
        let is_recorded = || known.iter().any(|known| known.name == location.name);
        let is_closed_here =
            || state.supervisor.pipeline(&name).is_none() || self.opening_gate.is_closed(&name);
        let is_opened_for_others = || {
            let mut others = state.locations.values().flatten();
            others.any(|other| other.name == location.name && !other.never_opened)
        };
        has_stored_nothing(registry, known)
            && !self.opening_gate.is_answering(&name)
            && (is_recorded() || is_closed_here() && !is_opened_for_others())
    }
}

/// The locations that may not be opened yet, because the status of a registry that names one
/// records that it was never opened. A registry that is being deleted has no streams any more.
pub(super) fn unopened_locations(
    state: &ControllerState,
    registries: &[Arc<ResourceRegistry>],
) -> BTreeSet<StoreName> {
    let live = registries
        .iter()
        .filter(|registry| registry.metadata.deletion_timestamp.is_none());
    live.filter_map(|registry| state.locations.get(&registry.uid()?))
        .flatten()
        .filter(|location| location.never_opened)
        .filter_map(|location| location.name.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use fleetdex_crds::registry::{ResourceRegistrySpec, ResourceRegistryStatus};

    use super::*;

    fn location(name: &str, never_opened: bool) -> StoreStatus {
        StoreStatus {
            name: name.to_owned(),
            never_opened,
            ..StoreStatus::default()
        }
    }

    fn registry(stores: Option<&[StoreStatus]>) -> ResourceRegistry {
        let mut registry = ResourceRegistry::new("demo", ResourceRegistrySpec::default());
        registry.status = stores.map(|stores| ResourceRegistryStatus {
            stores: stores.to_vec(),
            ..ResourceRegistryStatus::default()
        });
        registry
    }

    #[test]
    fn only_a_record_of_the_same_location_proves_that_it_was_never_opened() {
        for (stores, expected) in [
            (None, false),
            (Some(vec![]), false),
            (Some(vec![location("other", true)]), false),
            // As a version without this record writes it, too.
            (Some(vec![location("main", false)]), false),
            (Some(vec![location("main", true)]), true),
        ] {
            let registry = registry(stores.as_deref());
            assert_eq!(
                was_never_opened(&registry, "main"),
                expected,
                "{:?}",
                registry.status
            );
        }
    }

    #[test]
    fn a_registry_has_stored_nothing_only_while_neither_status_nor_memory_has_an_opened_location() {
        let (opened, unopened) = (location("main", false), location("main", true));
        for (recorded, known, expected) in [
            (None, vec![], true),
            (None, vec![unopened.clone()], true),
            // Opened here, but the status that was written then has not arrived.
            (None, vec![opened.clone()], false),
            (Some(vec![unopened.clone()]), vec![opened.clone()], false),
            (Some(vec![unopened.clone()]), vec![unopened.clone()], true),
            // Opened by another process.
            (Some(vec![opened]), vec![unopened.clone()], false),
            // The registry had an embedded store, or its documents were moved away.
            (Some(vec![]), vec![], false),
        ] {
            let registry = registry(recorded.as_deref());
            assert_eq!(
                has_stored_nothing(&registry, &known),
                expected,
                "{:?} {known:?}",
                registry.status
            );
        }
    }
}
