use serde_json::{Value, json};

use super::*;

/// Every field that Karmada's type has.
fn upstream() -> Value {
    json!({
        "apiVersion": "work.karmada.io/v1alpha2",
        "kind": "ResourceBinding",
        "metadata": {"name": "nginx-deployment", "namespace": "web"},
        "spec": {
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "web", "name": "nginx",
                "uid": "5f2c5d4e-3a43-4d53-9d4f-0d8ecb5d8c6a", "resourceVersion": "7"},
            "propagateDeps": true,
            "replicaRequirements": {"nodeClaim": {"nodeSelector": {"disk": "ssd"}}, "resourceRequest": {"cpu": "100m"},
                "namespace": "web", "priorityClassName": "high"},
            "replicas": 3,
            "components": [{"name": "driver", "replicas": 1, "replicaRequirements": {"resourceRequest": {"cpu": "1"}}}],
            "clusters": [{"name": "m1", "replicas": 2, "components": [{"name": "driver", "replicas": 1}]}, {"name": "m2"}],
            "placement": {"clusterAffinity": {"clusterNames": ["m1", "m2"]}},
            "gracefulEvictionTasks": [{"fromCluster": "m3", "purgeMode": "Gracefully", "replicas": 1,
                "reason": "TaintUntolerated", "message": "it failed", "producer": "distribution",
                "gracePeriodSeconds": 600, "suppressDeletion": false, "preservedLabelState": {"a": "b"},
                "creationTimestamp": "2026-01-02T03:04:05Z", "clustersBeforeFailover": ["m3"]}],
            "requiredBy": [{"namespace": "web", "name": "shop", "clusters": [{"name": "m1", "replicas": 1}]}],
            "schedulerName": "default-scheduler",
            "failover": {"cluster": {"purgeMode": "Directly"}},
            "conflictResolution": "Overwrite",
            "rescheduleTriggeredAt": "2026-01-02T03:04:05Z",
            "suspension": {"dispatching": true, "dispatchingOnClusters": {"clusterNames": ["m1"]}, "scheduling": true},
            "preserveResourcesOnDeletion": true,
            "schedulePriority": {"priority": 100},
            "workloadAffinityGroups": {"affinityGroup": "a", "antiAffinityGroup": "b"},
        },
        "status": {
            "schedulerObservedGeneration": 4,
            "schedulerObservingAffinityName": "primary",
            "lastScheduledTime": "2026-01-02T03:04:05Z",
            "conditions": [{"type": "Scheduled", "status": "True", "reason": "Success", "message": "",
                "lastTransitionTime": "2026-01-02T03:04:05Z"}],
            "aggregatedStatus": [{"clusterName": "m1", "status": {"readyReplicas": 2}, "applied": true,
                "appliedMessage": "ok", "health": "Healthy"}],
        },
    })
}

#[test]
fn bindings_survive_reading_and_writing() {
    let read: ResourceBinding = serde_json::from_value(upstream()).unwrap();
    assert_eq!(serde_json::to_value(read).unwrap(), upstream());
    let read: BindingObject = serde_json::from_value(upstream()).unwrap();
    assert_eq!(read.spec.clusters[1].replicas, 0);
}

#[test]
fn a_binding_without_any_field_can_be_read() {
    let read: BindingSpec = serde_json::from_value(json!({})).unwrap();
    assert_eq!(read, BindingSpec::default());
}

#[test]
fn both_kinds_have_one_schema_and_a_status() {
    let [cluster, namespaced] = crds().map(|crd| serde_json::to_value(crd).unwrap());
    for (crd, kind, scope) in [
        (&cluster, cluster_resource_bindings(), "Cluster"),
        (&namespaced, resource_bindings(), "Namespaced"),
    ] {
        assert_eq!(crd["spec"]["scope"], scope);
        assert_eq!(crd["spec"]["names"]["kind"], kind.kind);
        assert_eq!(crd["spec"]["names"]["plural"], kind.plural);
        assert_eq!(
            crd["metadata"]["name"],
            format!("{}.{}", kind.plural, kind.group)
        );
        assert_eq!(kind.api_version, "work.karmada.io/v1alpha2");
        let version = &crd["spec"]["versions"][0];
        assert_eq!(version["subresources"], json!({"status": {}}));
        assert!(!crd.to_string().contains("nullable"));
    }
    let properties = "/spec/versions/0/schema/openAPIV3Schema/properties";
    assert_eq!(cluster.pointer(properties), namespaced.pointer(properties));
}
