//! The parts of a catalog that a request or a caller sees.

use std::collections::{BTreeMap, BTreeSet};

use fleetdex_core::{
    model::{ClusterName, StoreName},
    query::ResourceName,
};

use super::{
    Catalog, ClusterNamespace,
    coverage::StoreCoverage,
    registered_resource::{CatalogEntry, RegisteredResource, ResourceSource},
};

impl Catalog {
    /// The part about these clusters, without the streams. With `resource`, without other
    /// resources.
    #[must_use]
    pub fn of_clusters(
        &self,
        clusters: &BTreeSet<ClusterName>,
        resource: Option<&ResourceName>,
    ) -> Self {
        let mut part = Self {
            stores: self.stores.clone(),
            stale: of_these(&self.stale, clusters),
            delayed: of_these(&self.delayed, clusters),
            registries: self.registries.clone(),
            is_local: self.is_local,
            incomplete: self
                .incomplete
                .iter()
                .filter(|(name, _)| clusters.contains(name))
                .cloned()
                .collect(),
            peer_clusters: of_these(&self.peer_clusters, clusters),
            gaps: self.gaps_of(clusters, resource),
            undiscovered: of_these(&self.undiscovered, clusters),
            clusters: self.clusters.intersection(clusters).cloned().collect(),
            is_restricted: self.is_restricted,
            coverages: self.coverages_of(clusters),
            ..Self::default()
        };
        let is_included =
            |registered: &&RegisteredResource| resource.is_none_or(|only| registered.name == *only);
        for registered in self.resources.values().filter(is_included) {
            part.add_sources(registered, clusters);
            part.add_columns_of(registered, clusters);
        }
        part
    }

    fn gaps_of(
        &self,
        clusters: &BTreeSet<ClusterName>,
        resource: Option<&ResourceName>,
    ) -> BTreeMap<ResourceName, BTreeMap<ClusterNamespace, String>> {
        let is_included = |of: &ResourceName| resource.is_none_or(|only| only == of);
        let of_resource = |(of, gaps): (&ResourceName, &BTreeMap<ClusterNamespace, String>)| {
            let gaps: BTreeMap<ClusterNamespace, String> = gaps
                .iter()
                .filter(|((name, _), _)| clusters.contains(name))
                .map(|(scope, sentence)| (scope.clone(), sentence.clone()))
                .collect();
            (is_included(of) && !gaps.is_empty()).then(|| (of.clone(), gaps))
        };
        self.gaps.iter().filter_map(of_resource).collect()
    }

    fn coverages_of(
        &self,
        clusters: &BTreeSet<ClusterName>,
    ) -> BTreeMap<(ResourceName, StoreName, ClusterName), StoreCoverage> {
        self.coverages
            .iter()
            .filter(|((_, _, cluster), _)| clusters.contains(cluster))
            .map(|(key, coverage)| (key.clone(), coverage.clone()))
            .collect()
    }

    /// Adds the stores that hold the resource of these clusters.
    fn add_sources(&mut self, registered: &RegisteredResource, clusters: &BTreeSet<ClusterName>) {
        for ResourceSource {
            served,
            store,
            fields,
            any_path,
            clusters: serving,
        } in &registered.sources
        {
            for cluster in serving.intersection(clusters) {
                self.add(CatalogEntry {
                    served,
                    cluster,
                    store,
                    fields,
                    any_path: *any_path,
                });
            }
        }
    }

    /// Adds the columns that these clusters define for the resource.
    fn add_columns_of(
        &mut self,
        registered: &RegisteredResource,
        clusters: &BTreeSet<ClusterName>,
    ) {
        for (version, known) in &registered.columns {
            for (columns, defining) in known {
                for cluster in defining.intersection(clusters) {
                    self.add_columns(cluster, &registered.name, version, columns);
                }
            }
        }
    }

    /// The part that a caller sees who can see only these clusters. Nothing in it depends on
    /// others.
    #[must_use]
    pub fn visible_to(
        &self,
        visible: &BTreeSet<ClusterName>,
        resource: Option<&ResourceName>,
    ) -> Self {
        Self {
            is_restricted: true,
            registries: BTreeSet::new(),
            ..self.of_clusters(visible, resource)
        }
    }
}

/// The entries about these clusters.
fn of_these<V: Clone>(
    all: &BTreeMap<ClusterName, V>,
    clusters: &BTreeSet<ClusterName>,
) -> BTreeMap<ClusterName, V> {
    all.iter()
        .filter(|(name, _)| clusters.contains(*name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}
