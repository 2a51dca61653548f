//! The order in which kinds are installed.

use serde_json::Value;

/// Kinds in the order of helm; others come last, by name. Source: `InstallOrder` of
/// <https://pkg.go.dev/helm.sh/helm/v4/pkg/release/v1/util>
const INSTALL_ORDER: [&str; 38] = [
    "PriorityClass",
    "Namespace",
    "NetworkPolicy",
    "ResourceQuota",
    "LimitRange",
    "PodSecurityPolicy",
    "PodDisruptionBudget",
    "ServiceAccount",
    "Secret",
    "SecretList",
    "ConfigMap",
    "StorageClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleList",
    "ClusterRoleBinding",
    "ClusterRoleBindingList",
    "Role",
    "RoleList",
    "RoleBinding",
    "RoleBindingList",
    "Service",
    "DaemonSet",
    "Pod",
    "ReplicationController",
    "ReplicaSet",
    "Deployment",
    "HorizontalPodAutoscaler",
    "StatefulSet",
    "Job",
    "CronJob",
    "IngressClass",
    "Ingress",
    "APIService",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
];

/// Sorts objects as helm installs them; those of one kind keep their order.
pub fn sort_for_install(objects: &mut [Value]) {
    objects.sort_by(|one, other| install_key(one).cmp(&install_key(other)));
}

/// Where the kind of an object comes in [`sort_for_install`].
pub fn install_key(object: &Value) -> (usize, &str) {
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or("");
    match INSTALL_ORDER.iter().position(|known| *known == kind) {
        Some(position) => (position, ""),
        None => (INSTALL_ORDER.len(), kind),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_are_in_the_order_of_helm() {
        let names = [
            ("Shop", "1"),
            ("Deployment", "2"),
            ("Bakery", "3"),
            ("Service", "4"),
            ("Deployment", "5"),
            ("Namespace", "6"),
            ("CustomResourceDefinition", "7"),
            ("ConfigMap", "8"),
        ];
        let mut objects: Vec<Value> = names
            .iter()
            .map(|(kind, name)| json!({"kind": kind, "name": name}))
            .collect();
        sort_for_install(&mut objects);
        let sorted: Vec<&str> = objects
            .iter()
            .map(|one| one["name"].as_str().unwrap())
            .collect();
        assert_eq!(sorted, ["6", "8", "7", "4", "2", "5", "3", "1"]);
    }
}
