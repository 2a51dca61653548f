use serde_json::json;

use super::*;

#[test]
fn what_controllers_make_in_each_cluster_is_not_propagated() {
    let owned =
        json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "a", "controller": true}]);
    for (api_version, kind, member, is_skipped) in [
        (
            "apps/v1",
            "Deployment",
            json!({"metadata": {"name": "a", "namespace": "shop"}}),
            false,
        ),
        (
            "apps/v1",
            "ReplicaSet",
            json!({"metadata": {"ownerReferences": owned}}),
            true,
        ),
        ("v1", "Event", json!({}), true),
        ("events.k8s.io/v1", "Event", json!({}), true),
        (
            "policy.karmada.io/v1alpha1",
            "PropagationPolicy",
            json!({}),
            true,
        ),
        ("example.com/v1", "Event", json!({}), false),
        ("v1", "Secret", json!({"type": "Opaque"}), false),
        (
            "v1",
            "Secret",
            json!({"type": "kubernetes.io/service-account-token"}),
            true,
        ),
        ("v1", "Secret", json!({"type": "helm.sh/release.v1"}), true),
        (
            "v1",
            "ConfigMap",
            json!({"metadata": {"name": "kube-root-ca.crt"}}),
            true,
        ),
        (
            "v1",
            "ConfigMap",
            json!({"metadata": {"name": "a", "namespace": "kube-system"}}),
            true,
        ),
        (
            "v1",
            "ServiceAccount",
            json!({"metadata": {"name": "default"}}),
            true,
        ),
        (
            "v1",
            "Namespace",
            json!({"metadata": {"name": "default"}}),
            true,
        ),
        (
            "v1",
            "Namespace",
            json!({"metadata": {"name": "kube-public"}}),
            true,
        ),
        (
            "v1",
            "Namespace",
            json!({"metadata": {"name": "shop"}}),
            false,
        ),
        (
            "v1",
            "ConfigMap",
            json!({"metadata": {"labels": {CONTROL_PLANE_LABEL: "uid"}}}),
            true,
        ),
        (
            "v1",
            "ConfigMap",
            json!({"metadata": {"labels": {CLAIMED_BY_LABEL: "other"}}}),
            true,
        ),
    ] {
        let mut object = member.clone();
        object["apiVersion"] = api_version.into();
        object["kind"] = kind.into();
        assert_eq!(never_propagated(&object).is_some(), is_skipped, "{object}");
    }
}
