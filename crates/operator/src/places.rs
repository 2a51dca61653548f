//! Places that registries have written to, also before they named another one.

use std::collections::{BTreeMap, BTreeSet};

use fleetdex_api::registry::StoreStatus;
use fleetdex_core::model::StoreName;

use super::plan::StorePlan;

/// Places by name, and the registries that have named each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Places(BTreeMap<StoreName, Place>);

#[derive(Clone, Debug, PartialEq)]
struct Place {
    plan: StorePlan,
    registries: BTreeSet<String>,
}

impl Places {
    /// Adds a place that some registries have named.
    pub fn add(
        &mut self,
        name: StoreName,
        plan: StorePlan,
        registries: impl IntoIterator<Item = String>,
    ) {
        let place = self.0.entry(name).or_insert_with(|| Place {
            plan,
            registries: BTreeSet::new(),
        });
        place.registries.extend(registries);
    }

    /// Adds a place from the status of a registry.
    pub fn remember(&mut self, place: &StoreStatus, registry: &str) {
        if let Some((name, plan)) = StorePlan::of_place(place) {
            self.add(name, plan, [registry.to_owned()]);
        }
    }

    /// Adds others.
    pub fn extend(&mut self, others: Self) {
        for (name, Place { plan, registries }) in others.0 {
            self.add(name, plan, registries);
        }
    }

    /// Forgets a place.
    pub fn remove(&mut self, name: &StoreName) {
        self.0.remove(name);
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The names of all.
    pub fn names(&self) -> impl Iterator<Item = &StoreName> {
        self.0.keys()
    }

    /// How a place is reached.
    pub fn plan(&self, name: &StoreName) -> Option<&StorePlan> {
        self.0.get(name).map(|place| &place.plan)
    }

    /// How all of them are reached.
    pub fn plans(&self) -> BTreeMap<StoreName, StorePlan> {
        self.0
            .iter()
            .map(|(name, place)| (name.clone(), place.plan.clone()))
            .collect()
    }

    /// The registries that have named a place.
    pub fn registries(&self, name: &StoreName) -> impl Iterator<Item = &str> {
        self.0
            .get(name)
            .into_iter()
            .flat_map(|place| place.registries.iter().map(String::as_str))
    }

    /// The places that a registry has named.
    pub fn of_registry(&self, registry: &str) -> impl Iterator<Item = &StoreName> {
        self.0
            .iter()
            .filter(move |(_, place)| place.registries.contains(registry))
            .map(|(name, _)| name)
    }
}
