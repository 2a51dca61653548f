//! The parts of a catalog that a request or a caller sees.

use std::collections::BTreeSet;

use fleetdex_core::{model::ClusterName, query::ResourceName};

use super::{
    Catalog,
    registered_resource::{CatalogEntry, ResourceSource},
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
        let of_cluster = |name: &ClusterName| clusters.contains(name);
        let mut part = Self {
            stores: self.stores.clone(),
            registries: self.registries.clone(),
            is_local: self.is_local,
            clusters: self.clusters.intersection(clusters).cloned().collect(),
            is_restricted: self.is_restricted,
            ..Self::default()
        };
        part.stale.extend(
            self.stale
                .iter()
                .filter(|(name, _)| of_cluster(name))
                .map(|(name, stale)| (name.clone(), stale.clone())),
        );
        part.peer_clusters.extend(
            self.peer_clusters
                .iter()
                .filter(|(name, _)| of_cluster(name))
                .map(|(name, replica)| (name.clone(), replica.clone())),
        );
        part.undiscovered.extend(
            self.undiscovered
                .iter()
                .filter(|(name, _)| of_cluster(name))
                .map(|(name, reason)| (name.clone(), reason.clone())),
        );
        for (of, scopes) in self
            .gaps
            .iter()
            .filter(|(of, _)| resource.is_none_or(|only| only == *of))
        {
            for ((name, namespace), sentence) in
                scopes.iter().filter(|((name, _), _)| of_cluster(name))
            {
                part.add_gap(
                    (name.clone(), namespace.clone()),
                    of.clone(),
                    sentence.clone(),
                );
            }
        }
        part.incomplete.extend(
            self.incomplete
                .iter()
                .filter(|(name, _)| of_cluster(name))
                .cloned(),
        );
        let coverages = self
            .coverages
            .iter()
            .filter(|((_, _, cluster), _)| of_cluster(cluster));
        part.coverages
            .extend(coverages.map(|(key, coverage)| (key.clone(), coverage.clone())));
        for registered in self
            .resources
            .values()
            .filter(|registered| resource.is_none_or(|only| registered.name == *only))
        {
            for ResourceSource {
                served,
                store,
                fields,
                any_path,
                clusters: serving,
            } in &registered.sources
            {
                for cluster in serving.intersection(clusters) {
                    part.add(CatalogEntry {
                        served,
                        cluster,
                        store,
                        fields,
                        any_path: *any_path,
                    });
                }
            }
            for (version, known) in &registered.columns {
                for (columns, giving) in known {
                    for cluster in giving.intersection(clusters) {
                        part.add_columns(cluster, &registered.name, version, columns);
                    }
                }
            }
        }
        part
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
