//! What a cluster has that charts ask for, by its `Cluster` object.

use fleetdex_clusters::kubernetes_version::version_numbers;
use fleetdex_core::{kinds, model::Gvk};
use fleetdex_crds::cluster::Cluster;
use fleetdex_rendering::source::Capabilities;

/// The version of Kubernetes and the API versions that helm does not know by itself, as the
/// operator has them of a connected cluster; `None`: the status does not say them.
pub fn capabilities_of(cluster: &Cluster) -> Option<Capabilities> {
    let status = cluster.status.as_ref()?;
    let version = status.kubernetes_version.as_deref()?;
    let (major, minor, patch) = version_numbers(version)?;
    let mut api_versions = Vec::new();
    for group in status.api_enablements.as_ref()? {
        for resource in group.resources.iter().flatten() {
            let kind = Gvk::from_api_version(&group.group_version, &resource.kind);
            if kinds::find(&kind).is_none() {
                api_versions.push(group.group_version.clone());
                api_versions.push(format!("{}/{}", group.group_version, resource.kind));
            }
        }
    }
    Some(Capabilities::new(
        &format!("{major}.{minor}.{patch}"),
        api_versions,
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn cluster(status: &Value) -> Cluster {
        serde_json::from_value(json!({
            "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
            "metadata": {"name": "member1"}, "spec": {}, "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn a_cluster_has_what_its_status_says_beside_the_built_in_kinds() {
        let found = capabilities_of(&cluster(&json!({
            "kubernetesVersion": "v1.34.2-gke.100",
            "apiEnablements": [
                {"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]},
                {"groupVersion": "monitoring.coreos.com/v1",
                    "resources": [{"name": "servicemonitors", "kind": "ServiceMonitor"}]},
            ],
        })));
        let found = found.unwrap();
        assert_eq!(found.kubernetes_version(), "1.34.2");
        let versions: Vec<&str> = found.api_versions().collect();
        assert_eq!(
            versions,
            [
                "monitoring.coreos.com/v1",
                "monitoring.coreos.com/v1/ServiceMonitor"
            ]
        );
        for unknown in [
            json!({}),
            json!({"kubernetesVersion": "v1.34.2"}),
            json!({"kubernetesVersion": "main", "apiEnablements": []}),
        ] {
            assert_eq!(capabilities_of(&cluster(&unknown)), None, "{unknown}");
        }
    }
}
