//! What changes for one registry.

use std::collections::{BTreeMap, BTreeSet};

use fleetdex_core::model::ClusterName;
use fleetdex_crds::{
    cluster::Cluster,
    registry::{ResourceRegistry, ResourceSelector},
    validation::invalid_fields,
};
use fleetdex_operator::plan::RegistryPlan;
use serde_json::Value;

use fleetdex_checks::result::Checks;

/// What each cluster serves, as Karmada has written it into its status: group and kind.
#[derive(Clone, Debug, Default)]
pub struct ServedKinds(BTreeMap<ClusterName, BTreeSet<(String, String)>>);

impl ServedKinds {
    /// Adds a cluster; one without that status is not known.
    pub fn add(&mut self, name: &ClusterName, cluster: &Cluster) {
        let status = cluster.status.as_ref();
        let groups = status.and_then(|status| status.api_enablements.as_deref());
        let mut kinds = BTreeSet::new();
        for enabled in groups.unwrap_or_default() {
            let group = group_of(&enabled.group_version);
            for resource in enabled.resources.iter().flatten() {
                kinds.insert((group.to_owned(), resource.kind.clone()));
            }
        }
        if !kinds.is_empty() {
            self.0.insert(name.clone(), kinds);
        }
    }

    /// Whether a cluster certainly does not have what a selector names.
    fn lacks(&self, cluster: &ClusterName, selector: &ResourceSelector) -> bool {
        let Some(kinds) = self.0.get(cluster) else {
            return false;
        };
        let group = selector.api_version().map(group_of);
        !selector.every_kind()
            && !kinds.iter().any(|(of_kind, kind)| {
                *kind == selector.kind && group.is_none_or(|group| group == of_kind)
            })
    }
}

fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// A registry, and what is known about it.
pub struct RegistryCheck<'r> {
    /// As it is served.
    pub object: &'r Value,
    /// The same as a type.
    pub registry: &'r ResourceRegistry,
    /// What Fleetdex would do with it.
    pub planned: Option<&'r RegistryPlan>,
    /// How many clusters there are.
    pub clusters: usize,
    /// What they serve.
    pub served: &'r ServedKinds,
}

impl RegistryCheck<'_> {
    /// Adds what was found.
    pub fn add_to(&self, checks: &mut Checks) {
        self.check_deletion(checks);
        self.check_validity(checks);
        self.check_clusters(checks);
        self.check_selectors(checks);
        self.check_store(checks);
    }

    fn check_deletion(&self, checks: &mut Checks) {
        let metadata = &self.registry.metadata;
        let finalizers = metadata
            .finalizers
            .as_deref()
            .unwrap_or_default()
            .join(", ");
        if metadata.deletion_timestamp.is_some() {
            checks.error(
                "deletion",
                format!("it is being deleted, and waits for its finalizers: {finalizers}"),
                "wait until it is gone, or remove the finalizers, then try again",
            );
        } else if !finalizers.is_empty() {
            checks.warning(
                "finalizers",
                format!(
                    "{finalizers}: they stay, and a deletion waits until their programs remove them"
                ),
                "remove those whose program is not used any more",
            );
        }
    }

    fn check_validity(&self, checks: &mut Checks) {
        let problems = invalid_fields(&self.registry.spec);
        if problems.is_empty() {
            checks.ok("validation", "the CRD accepts it");
            if let Some(problem) = self.planned.and_then(|planned| planned.invalid.as_ref()) {
                let message = format!("{problem}; the registry is not Ready until then");
                checks.warning(
                    "validation",
                    message,
                    "correct it before or after the migration",
                );
            }
        }
        for problem in problems {
            checks.error(
                "validation",
                problem.to_string(),
                "correct it in karmada-search, which accepts anything, then try again",
            );
        }
    }

    fn check_clusters(&self, checks: &mut Checks) {
        let Some(planned) = self.planned else {
            return;
        };
        let message = format!(
            "{} of {} are selected, by the same rules",
            planned.clusters.len(),
            self.clusters
        );
        if planned.clusters.is_empty() {
            checks.warning(
                "clusters",
                message,
                "correct targetCluster, or register clusters",
            );
        } else {
            checks.ok("clusters", message);
        }
        if !planned.not_found.is_empty() {
            let names: Vec<&str> = planned.not_found.iter().map(String::as_str).collect();
            checks.warning(
                "clusters",
                format!(
                    "no cluster has the name {}; the registry will have the condition reason ClustersNotFound",
                    names.join(", ")
                ),
                "register these clusters, or take them out of targetCluster.clusterNames",
            );
        }
    }

    fn check_selectors(&self, checks: &mut Checks) {
        let selectors = &self.registry.spec.resource_selectors;
        if selectors.is_empty() {
            checks.warning(
                "selectors",
                "resourceSelectors is empty: nothing is indexed, as before",
                "name resources, or delete the registry",
            );
        }
        for selector in selectors {
            let api_version = selector.api_version().unwrap_or("any version");
            let title = format!("{} ({api_version})", selector.kind);
            if !selector.namespace.is_empty() {
                checks.warning(
                    "selectors",
                    format!(
                        "{title}: only namespace {} is indexed; the index of karmada-search ignored the namespace and had all of them",
                        selector.namespace
                    ),
                    "leave the namespace out where all of them are wanted",
                );
            }
            let clusters = self
                .planned
                .iter()
                .flat_map(|planned| planned.clusters.keys());
            let lacking: Vec<&str> = clusters
                .filter(|cluster| self.served.lacks(cluster, selector))
                .map(ClusterName::as_str)
                .collect();
            if !lacking.is_empty() {
                checks.warning(
                    "selectors",
                    format!(
                        "{title}: not served by {}, by the status that Karmada has written; it is reported, and indexed once it is served",
                        lacking.join(", ")
                    ),
                    "install the kind there, or leave these clusters out",
                );
            }
        }
    }

    fn check_store(&self, checks: &mut Checks) {
        if let Some(conflict) = self.planned.and_then(|planned| planned.conflict.as_ref()) {
            checks.warning(
                "store",
                conflict,
                "give the registries different stores, or the same settings",
            );
        }
        let store = self.registry.spec.backend_store.as_ref();
        match store.and_then(|store| store.open_search.as_ref()) {
            Some(_) if self.object["spec"]["backendStore"]["openSearch"]["secretRef"].is_null() => {
                checks.ok("store", "OpenSearch, without credentials");
            }
            Some(_) => checks.ok("store", "OpenSearch, with the same Secret"),
            None => checks.ok(
                "store",
                "none: the embedded store of Fleetdex, in memory as before",
            ),
        }
    }
}
