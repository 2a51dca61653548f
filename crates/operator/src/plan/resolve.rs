//! Which resources of one member a registry selects, and the routes of their objects.

use std::{collections::BTreeMap, sync::Arc};

use fleetdex_core::{
    kinds,
    model::{ClusterName, Gvk, Resource, StoreName},
};
use fleetdex_crds::registry::ResourceSelector;
use fleetdex_sync::filter::ObjectFilter;

use super::model::{ClusterPlan, Coverage, KindProblem, NamespaceExtent, RegistryPlan, Route};
use crate::{MemberView, RegistryView, selection};

/// The routes of every resource of every cluster into every store.
#[derive(Default)]
pub(super) struct DesiredRoutes {
    pub(super) routes: BTreeMap<RouteKey, Vec<Route>>,
    /// The version in which a store takes a kind of a cluster: the first one that was selected. All
    /// versions show the same objects, and a store has each object once.
    versions: BTreeMap<(ClusterName, StoreName, GroupKind), Resource>,
}

/// Group and kind, which all versions of a kind have in common.
type GroupKind = (Arc<str>, Arc<str>);

pub(super) fn group_kind(gvk: &Gvk) -> GroupKind {
    (Arc::clone(&gvk.group), Arc::clone(&gvk.kind))
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RouteKey {
    pub(super) cluster: ClusterName,
    pub(super) resource: Resource,
    pub(super) store: StoreName,
}

/// One registry on one member.
pub(super) struct RegistryOnMember<'a> {
    pub(super) registry: &'a RegistryView,
    pub(super) member: &'a MemberView,
    pub(super) outcome: ClusterPlan,
}

impl RegistryOnMember<'_> {
    /// Adds the routes and the coverage of the registry on the member, and sets the outcome.
    pub(super) fn resolve(
        &mut self,
        registry: &RegistryPlan,
        scopes: &mut BTreeMap<(StoreName, ClusterName), Coverage>,
        desired: &mut DesiredRoutes,
    ) {
        self.outcome.discovered = self.member.discovery.is_some();
        self.outcome.notes.extend(
            self.member
                .discovery
                .as_ref()
                .and_then(|discovery| discovery.note()),
        );
        if self.member.is_duplicate {
            return;
        }
        let Some(store) = &registry.store else {
            return;
        };
        let complete = Coverage {
            certain: true,
            ..Coverage::default()
        };
        let coverage = scopes
            .entry((store.clone(), self.member.name.clone()))
            .or_insert(complete);
        coverage.certain &= self.outcome.discovered && registry.invalid.is_none();
        if registry.invalid.is_some() {
            return;
        }
        for selector in &self.registry.spec.resource_selectors {
            for resource in self.resources(selector, coverage) {
                self.add_route(selector, &resource, store, coverage, desired);
            }
        }
    }

    /// The selected resources. Custom resources wait until their definitions are known.
    fn resources(&mut self, selector: &ResourceSelector, coverage: &mut Coverage) -> Vec<Resource> {
        let Some(discovery) = &self.member.discovery else {
            return Vec::new();
        };
        let mut selection = selection::resolve(selector, discovery);
        if self.member.definitions.is_none() {
            let selected = selection.resources.len();
            selection
                .resources
                .retain(|resource| kinds::is_built_in(&resource.gvk));
            let is_complete = selection.resources.len() == selected;
            self.outcome.discovered &= is_complete;
            coverage.certain &= is_complete;
        }
        if let Some(problem) = selection.problem {
            coverage.certain &= problem.is_certain();
            let (api_version, kind) = (selector.api_version.clone(), selector.kind.clone());
            self.outcome.problems.push(KindProblem {
                api_version,
                kind,
                problem,
            });
        }
        selection.resources
    }

    /// Adds the route of one selected resource.
    fn add_route(
        &mut self,
        selector: &ResourceSelector,
        found: &Resource,
        store: &StoreName,
        coverage: &mut Coverage,
        desired: &mut DesiredRoutes,
    ) {
        let key = (
            self.member.name.clone(),
            store.clone(),
            group_kind(&found.gvk),
        );
        let resource = desired
            .versions
            .get(&key)
            .cloned()
            .unwrap_or_else(|| found.clone());
        let names_namespaces = !selector.namespace.is_empty() || !selector.namespaces.is_empty();
        if names_namespaces && !resource.namespaced {
            if selector.every_kind() {
                return;
            }
            self.outcome.notes.insert(format!(
                "{} is cluster-scoped: all of it is indexed",
                resource.gvk
            ));
        }
        // That every selector can be parsed was checked when the registry joined its store.
        let Ok(Some(filter)) = ObjectFilter::new(selector, &self.registry.spec, &resource) else {
            return;
        };
        if resource != *found {
            let (gvk, version) = (&found.gvk, &resource.gvk.version);
            self.outcome
                .notes
                .insert(format!("{gvk} is stored in version {version}, which was selected before: an object is stored once"));
        }
        desired
            .versions
            .entry(key)
            .or_insert_with(|| resource.clone());
        let extent = NamespaceExtent::of(&filter);
        coverage
            .kinds
            .entry(resource.gvk.clone())
            .and_modify(|known| known.extend(&extent))
            .or_insert(extent);
        let route = Route {
            store: store.clone(),
            registry: self.registry.name.clone(),
            filter,
        };
        let key = RouteKey {
            cluster: self.member.name.clone(),
            resource,
            store: store.clone(),
        };
        let routes = desired.routes.entry(key).or_default();
        if !routes.contains(&route) {
            routes.push(route);
        }
    }
}
