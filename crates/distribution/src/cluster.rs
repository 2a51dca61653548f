//! Member clusters as placement sees them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetdex_crds::{affinity::ClusterProperties, cluster::Cluster};
use k8s_openapi::api::core::v1::{Taint, Toleration};

use crate::template_name::KindName;

/// A member cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TargetCluster {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its provider; empty when it is not known.
    pub provider: String,
    /// Its region; empty when it is not known.
    pub region: String,
    /// Its zones.
    pub zones: Vec<String>,
    /// Its taints.
    pub taints: Vec<Taint>,
    /// The kinds that it serves; `None` when they are not known.
    pub served: Option<Arc<BTreeSet<KindName>>>,
    /// Whether the `Cluster` object is being deleted.
    pub is_terminating: bool,
}

impl From<&Cluster> for TargetCluster {
    fn from(cluster: &Cluster) -> Self {
        let spec = &cluster.spec;
        let enablements = cluster
            .status
            .as_ref()
            .and_then(|status| status.api_enablements.as_ref());
        let kinds = enablements.map(|groups| {
            let kinds = groups.iter().flat_map(|group| {
                let resources = group.resources.iter().flatten();
                resources.map(|resource| (group.group_version.clone(), resource.kind.clone()))
            });
            Arc::new(kinds.collect())
        });
        Self {
            name: cluster.metadata.name.clone().unwrap_or_default(),
            labels: cluster.metadata.labels.clone().unwrap_or_default(),
            provider: spec.provider.clone().unwrap_or_default(),
            region: spec.region.clone().unwrap_or_default(),
            zones: spec.all_zones(),
            taints: spec.taints.clone().unwrap_or_default(),
            served: kinds,
            is_terminating: cluster.metadata.deletion_timestamp.is_some(),
        }
    }
}

impl TargetCluster {
    /// What affinities look at.
    pub fn properties(&self) -> ClusterProperties<'_> {
        ClusterProperties {
            name: &self.name,
            labels: &self.labels,
            provider: &self.provider,
            region: &self.region,
            zones: &self.zones,
        }
    }

    /// Whether the cluster serves a kind, if that is known.
    pub fn serves(&self, kind: &KindName) -> Option<bool> {
        let served = self.served.as_ref()?;
        Some(served.contains(kind))
    }

    /// The first taint that keeps new objects away.
    pub fn untolerated_taint(&self, tolerations: &[Toleration]) -> Option<&Taint> {
        self.taints
            .iter()
            .filter(|taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute"))
            .find(|taint| !tolerations.iter().any(|one| tolerates(one, taint)))
    }
}

/// Whether a toleration tolerates a taint, as
/// [Kubernetes](https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/) has
/// it.
pub fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let (key, effect) = (text(&toleration.key), text(&toleration.effect));
    if !effect.is_empty() && effect != taint.effect {
        return false;
    }
    if !key.is_empty() && key != taint.key {
        return false;
    }
    match toleration.operator.as_deref().unwrap_or_default() {
        "Exists" => true,
        "" | "Equal" => {
            !key.is_empty() && text(&toleration.value) == taint.value.clone().unwrap_or_default()
        }
        _ => false,
    }
}

/// A taint as kubectl writes it.
pub fn taint_text(taint: &Taint) -> String {
    match taint.value.as_deref().filter(|value| !value.is_empty()) {
        Some(value) => format!("{}={value}:{}", taint.key, taint.effect),
        None => format!("{}:{}", taint.key, taint.effect),
    }
}
