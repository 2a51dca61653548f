use super::{karmada_healthy, object};
use crate::test_rows::rows;

/// A case is a boolean, and an object's members without `apiVersion` and `kind`.
fn check(api_version: &str, kind: &str, cases: &str) {
    for [healthy, members] in rows(cases) {
        let found = karmada_healthy(&(&object(api_version, kind, members)).into());
        assert_eq!(found, Some(healthy.parse().unwrap()), "{kind}: {members}");
    }
}

#[test]
fn deployments_are_healthy_when_observed_updated_and_available() {
    let cases = r"
        true | {metadata: {generation: 1}, spec: {replicas: 3}, status: {observedGeneration: 1,
            updatedReplicas: 3, availableReplicas: 3}}
        true | {metadata: {generation: 1}, spec: {replicas: 3, paused: true},
            status: {observedGeneration: 1, updatedReplicas: 3, availableReplicas: 4, replicas: 9}}
        false | {metadata: {generation: 1}, spec: {replicas: 3}, status: {observedGeneration: 2,
            updatedReplicas: 3, availableReplicas: 3}}
        false | {metadata: {generation: 2}, spec: {replicas: 3}, status: {observedGeneration: 1,
            updatedReplicas: 3, availableReplicas: 3}}
        false | {metadata: {generation: 1}, spec: {replicas: 3}, status: {observedGeneration: 1,
            updatedReplicas: 2, availableReplicas: 3}}
        false | {metadata: {generation: 1}, spec: {replicas: 3}, status: {observedGeneration: 1,
            updatedReplicas: 3, availableReplicas: 2}}
        true | {metadata: {generation: 1}, status: {observedGeneration: 1}}
        false | {metadata: {generation: 1}, status: {observedGeneration: 1, updatedReplicas: 1}}
        false | {metadata: {generation: 1}}
        true | {}
    ";
    check("apps/v1", "Deployment", cases);
}

#[test]
fn stateful_sets_may_keep_old_pods() {
    let cases = r"
        true | {spec: {replicas: 3}, status: {updatedReplicas: 3, availableReplicas: 3}}
        false | {spec: {replicas: 3}, status: {updatedReplicas: 2, availableReplicas: 3}}
        false | {spec: {replicas: 3}, status: {updatedReplicas: 3, availableReplicas: 2}}
        true | {spec: {replicas: 3, updateStrategy: {type: OnDelete}}, status: {availableReplicas:
            3}}
        false | {spec: {replicas: 3, updateStrategy: {type: OnDelete}}, status: {updatedReplicas: 3,
            availableReplicas: 2}}
        false | {metadata: {generation: 1}, spec: {updateStrategy: {type: OnDelete}}}
        true | {spec: {replicas: 3, updateStrategy: {rollingUpdate: {partition: 2}}},
            status: {updatedReplicas: 1, availableReplicas: 3}}
        false | {spec: {replicas: 3, updateStrategy: {rollingUpdate: {partition: 1}}},
            status: {updatedReplicas: 1, availableReplicas: 3}}
        true | {spec: {replicas: 3, updateStrategy: {rollingUpdate: {partition: 9}}},
            status: {availableReplicas: 3}}
        false | {spec: {replicas: 3, updateStrategy: {rollingUpdate: {partition: 2}}},
            status: {updatedReplicas: 1, availableReplicas: 0}}
        false | {metadata: {generation: 1}, spec: {replicas: 0}}
    ";
    check("apps/v1", "StatefulSet", cases);
}

#[test]
fn replica_sets_and_daemon_sets_are_healthy_when_observed_and_available() {
    let replica_set = r"
        true | {metadata: {generation: 1}, spec: {replicas: 2}, status: {observedGeneration: 1,
            availableReplicas: 2}}
        false | {metadata: {generation: 1}, spec: {replicas: 2}, status: {observedGeneration: 1,
            availableReplicas: 1}}
        false | {metadata: {generation: 1}, spec: {replicas: 2}, status: {availableReplicas: 2}}
        true | {metadata: {generation: 1}, status: {observedGeneration: 1}}
    ";
    check("apps/v1", "ReplicaSet", replica_set);
    let daemon_set = r"
        true | {metadata: {generation: 1}, status: {observedGeneration: 1,
            desiredNumberScheduled: 2, updatedNumberScheduled: 2, numberAvailable: 2}}
        false | {status: {desiredNumberScheduled: 2, updatedNumberScheduled: 1, numberAvailable: 2}}
        false | {status: {desiredNumberScheduled: 2, updatedNumberScheduled: 2, numberAvailable: 1}}
        true | {spec: {updateStrategy: {type: OnDelete}}, status: {desiredNumberScheduled: 2,
            numberAvailable: 2}}
        false | {spec: {updateStrategy: {type: OnDelete}}, status: {desiredNumberScheduled: 2,
            numberAvailable: 1}}
        false | {metadata: {generation: 1}}
    ";
    check("apps/v1", "DaemonSet", daemon_set);
}

#[test]
fn services_and_ingresses_are_healthy_with_an_address() {
    let service = r"
        true | {spec: {type: LoadBalancer}, status: {loadBalancer: {ingress: [{}, {ip: 10.0.0.1}]}}}
        true | {spec: {type: LoadBalancer}, status: {loadBalancer: {ingress: [{hostname: a}]}}}
        false | {spec: {type: LoadBalancer}, status: {loadBalancer: {ingress: [{}]}}}
        true | {}
        true | {spec: {type: NodePort}}
    ";
    check("v1", "Service", service);
    let ingress = r"
        true | {spec: {type: LoadBalancer}, status: {loadBalancer: {ingress: [{}, {ip: 10.0.0.1}]}}}
        true | {spec: {type: LoadBalancer}, status: {loadBalancer: {ingress: [{hostname: a}]}}}
        false | {spec: {type: LoadBalancer}, status: {loadBalancer: {ingress: [{}]}}}
        false | {}
    ";
    check("networking.k8s.io/v1", "Ingress", ingress);
}

#[test]
fn claims_pods_and_budgets_are_healthy_by_phase_and_counts() {
    let persistent_volume_claim = r"
        true | {status: {phase: Bound}}
        false | {status: {phase: Pending}}
        false | {}
    ";
    check("v1", "PersistentVolumeClaim", persistent_volume_claim);
    let pod = r"
        true | {status: {phase: Succeeded}}
        true | {status: {phase: Running, conditions: [{type: Ready, status: 'True'}]}}
        false | {status: {phase: Running, conditions: [{type: Ready, status: 'False'}]}}
        false | {status: {phase: Running}}
        false | {status: {phase: Failed, conditions: [{type: Ready, status: 'True'}]}}
        false | {}
    ";
    check("v1", "Pod", pod);
    let pod_disruption_budget = r"
        true | {metadata: {generation: 5}, status: {currentHealthy: 2, desiredHealthy: 2}}
        false | {status: {currentHealthy: 1, desiredHealthy: 2}}
        true | {}
    ";
    check("policy/v1", "PodDisruptionBudget", pod_disruption_budget);
}

#[test]
fn other_kinds_and_versions_have_no_boolean() {
    for (api_version, kind) in [
        ("apps/v1beta1", "Deployment"),
        ("extensions/v1beta1", "Ingress"),
        ("policy/v1beta1", "PodDisruptionBudget"),
        ("batch/v1", "Job"),
        ("v1", "PersistentVolume"),
        ("v1", "ReplicationController"),
        ("example.org/v1", "Pod"),
        ("", ""),
    ] {
        assert_eq!(
            karmada_healthy(&(&object(api_version, kind, "{}")).into()),
            None,
            "{kind}"
        );
    }
}
