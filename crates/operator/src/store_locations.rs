//! Store locations: where registries have documents stored, or had before they named another
//! location.

use std::collections::{BTreeMap, BTreeSet};

use fleetdex_core::model::StoreName;
use fleetdex_crds::registry::StoreStatus;

use super::plan::StorePlan;

/// Store locations by name, and the registries that have named each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoreLocations(BTreeMap<StoreName, StoreLocation>);

#[derive(Clone, Debug, PartialEq)]
struct StoreLocation {
    plan: StorePlan,
    registries: BTreeSet<String>,
}

impl StoreLocations {
    /// Adds a location that some registries have named.
    pub fn add(
        &mut self,
        name: StoreName,
        plan: StorePlan,
        registries: impl IntoIterator<Item = String>,
    ) {
        let location = self.0.entry(name).or_insert_with(|| StoreLocation {
            plan,
            registries: BTreeSet::new(),
        });
        location.registries.extend(registries);
    }

    /// Adds a location that the status of a registry records.
    pub fn add_recorded(&mut self, location: &StoreStatus, registry: &str) {
        if let Some((name, plan)) = StorePlan::of_recorded_location(location) {
            self.add(name, plan, [registry.to_owned()]);
        }
    }

    /// Adds all of another set.
    pub fn extend(&mut self, others: Self) {
        for (name, StoreLocation { plan, registries }) in others.0 {
            self.add(name, plan, registries);
        }
    }

    /// Removes the other locations.
    pub fn retain(&mut self, stays: impl Fn(&StoreName) -> bool) {
        self.0.retain(|name, _| stays(name));
    }

    /// Whether there are no locations.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The names of all locations.
    pub fn names(&self) -> impl Iterator<Item = &StoreName> {
        self.0.keys()
    }

    /// How a location is reached.
    pub fn plan(&self, name: &StoreName) -> Option<&StorePlan> {
        self.0.get(name).map(|location| &location.plan)
    }

    /// How each location is reached.
    pub fn plans(&self) -> BTreeMap<StoreName, StorePlan> {
        self.0
            .iter()
            .map(|(name, location)| (name.clone(), location.plan.clone()))
            .collect()
    }

    /// The registries that have named a location.
    pub fn registries(&self, name: &StoreName) -> impl Iterator<Item = &str> {
        self.0
            .get(name)
            .into_iter()
            .flat_map(|location| location.registries.iter().map(String::as_str))
    }

    /// The locations that a registry has named.
    pub fn of_registry(&self, registry: &str) -> impl Iterator<Item = &StoreName> {
        self.0
            .iter()
            .filter(move |(_, location)| location.registries.contains(registry))
            .map(|(name, _)| name)
    }
}
