//! How the fleet is read: its clusters, and the statuses of its registries.
//!
//! Guarantee: the report names only clusters that the caller may see. What is in the status of a
//! registry, such as addresses of stores and the kinds that a member refuses, is in the report only
//! of those who may list registries.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use fleetdex_core::{model::ClusterName, query::ResourceName};
use fleetdex_query_api::{
    answer::{ClusterReport, ClusterState, FleetReport, RegistryReport},
    group::{GROUPS, VERSION},
    rbac_attributes::Attributes,
};

use crate::catalog::Catalog;

/// Gaps of a cluster that the report has.
const MAX_GAPS: usize = 20;

/// Why a connected cluster is stale. The gaps name the resources, for those who may see them.
const DELAYED: &str = "read, but changes of it wait for the store";

/// Where the statuses of registries come from.
pub trait RegistrySource: Send + Sync {
    /// Every registry with its status, as it is now.
    fn statuses(&self) -> Vec<RegistryReport>;
}

/// The statuses of the registries; none by default.
#[derive(Clone, Default)]
pub struct Registries(Option<Arc<dyn RegistrySource>>);

impl Registries {
    /// Those of a source.
    pub fn new(source: Arc<dyn RegistrySource>) -> Self {
        Self(Some(source))
    }

    /// Every registry with its status.
    pub fn statuses(&self) -> Vec<RegistryReport> {
        let source = self.0.as_ref();
        source.map(|source| source.statuses()).unwrap_or_default()
    }
}

impl fmt::Debug for Registries {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Registries")
            .field(&self.0.is_some())
            .finish()
    }
}

/// What a caller needs to see the registries: the right that `kubectl get resourceregistries`
/// needs.
pub fn registries_access() -> Attributes {
    let registries = ResourceName::new(GROUPS[1], "resourceregistries");
    Attributes::of_objects("list", &registries, VERSION, None, None)
}

/// The report. `catalog` is what the caller may see, `registries` only there if the caller may list
/// them.
pub fn report(
    catalog: &Catalog,
    lags: &BTreeMap<ClusterName, Duration>,
    registries: Option<Vec<RegistryReport>>,
) -> FleetReport {
    FleetReport::new(clusters(catalog, lags, registries.is_some()), registries)
}

fn clusters(
    catalog: &Catalog,
    lags: &BTreeMap<ClusterName, Duration>,
    with_gaps: bool,
) -> Vec<ClusterReport> {
    let undiscovered: BTreeMap<&ClusterName, &str> = catalog.undiscovered().collect();
    let replicas: BTreeMap<&ClusterName, &str> = catalog.peer_clusters().collect();
    let report = |name: &ClusterName| {
        let delayed = catalog.delayed_since(name, None);
        let (state, message) = match (undiscovered.get(name), catalog.stale(name)) {
            (Some(message), _) => (ClusterState::Unread, *message),
            (None, Some(message)) => (ClusterState::Stale, message),
            (None, None) if delayed.is_some() => (ClusterState::Stale, DELAYED),
            (None, None) => (ClusterState::Current, ""),
        };
        ClusterReport {
            name: name.clone(),
            state,
            message: message.to_owned(),
            since: catalog.stale_since(name).or(delayed),
            // The changes of a disconnected cluster do not arrive at all.
            lag_seconds: lags
                .get(name)
                .filter(|_| state == ClusterState::Current || message == DELAYED)
                .map(|lag| (lag.as_secs_f64() * 1_000.0).trunc() / 1_000.0),
            replica: replicas.get(name).map(|replica| (*replica).to_owned()),
            kinds: catalog
                .resources()
                .filter(|registered| registered.is_stored_for(name))
                .count(),
            gaps: if with_gaps {
                gaps(catalog, name)
            } else {
                BTreeSet::new()
            },
        }
    };
    catalog.clusters().iter().map(report).collect()
}

fn gaps(catalog: &Catalog, cluster: &ClusterName) -> BTreeSet<String> {
    let resources = catalog.resources();
    let sentences = resources.flat_map(|registered| {
        let gaps = catalog.gaps(&registered.name);
        gaps.filter(|((of, _), _)| of == cluster)
            .map(|(_, sentence)| sentence.to_owned())
    });
    sentences.take(MAX_GAPS).collect()
}

#[cfg(test)]
mod tests {
    use fleetdex_store::memory::Memory;
    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::*;
    use crate::fake;

    fn shown(catalog: &Catalog, registries: Option<Vec<RegistryReport>>) -> Value {
        let lags = ["member1", "member2"]
            .map(|name| (fake::cluster(name), Duration::from_micros(1_500_900)));
        serde_json::to_value(report(catalog, &lags.into(), registries)).unwrap()
    }

    fn catalog() -> Catalog {
        let mut catalog = fake::catalog(Arc::new(Memory::new()));
        let at: Timestamp = "2026-02-03T10:00:00Z".parse().unwrap();
        catalog.add_stale(fake::cluster("member2"), at, "disconnected since then");
        catalog.add_undiscovered(fake::cluster("member3"), "not read".to_owned());
        let pods = ResourceName::new("", "pods");
        let sentence = "pods of cluster member1 are not shown (Forbidden)".to_owned();
        catalog.add_gap((fake::cluster("member1"), None), pods, sentence);
        catalog
    }

    #[test]
    fn clusters_have_their_states_and_administrators_see_the_gaps() {
        let seen = shown(&catalog(), Some(Vec::new()));
        let clusters = seen["clusters"].as_array().unwrap();
        let states: Vec<&str> = clusters
            .iter()
            .map(|cluster| cluster["state"].as_str().unwrap())
            .collect();
        assert_eq!(states, ["Current", "Stale", "Unread"]);
        assert_eq!(clusters[0]["kinds"], 3);
        assert_eq!(clusters[0]["lagSeconds"], 1.5);
        assert!(clusters[1].get("lagSeconds").is_none());
        assert_eq!(
            clusters[0]["gaps"][0],
            "pods of cluster member1 are not shown (Forbidden)"
        );
        assert_eq!(clusters[1]["since"], "2026-02-03T10:00:00Z");
        assert_eq!(seen["registries"], json!([]));
    }

    #[test]
    fn others_see_neither_registries_nor_gaps() {
        let seen = shown(&catalog(), None);
        assert!(seen.get("registries").is_none());
        assert!(seen["clusters"][0].get("gaps").is_none());
    }
}
