use super::{karmada_healthy, object};

fn check(api_version: &str, kind: &str, cases: &[(&str, bool)]) {
    for (members, healthy) in cases {
        let object = object(api_version, kind, members);
        assert_eq!(
            karmada_healthy(&(&object).into()),
            Some(*healthy),
            "{kind}: {members}"
        );
    }
}

#[test]
fn deployments_are_healthy_when_observed_updated_and_available() {
    check(
        "apps/v1",
        "Deployment",
        &[
            (
                "{metadata: {generation: 1}, spec: {replicas: 3}, status: {observedGeneration: 1, updatedReplicas: 3, availableReplicas: 3}}",
                true,
            ),
            (
                "{metadata: {generation: 1}, spec: {replicas: 3, paused: true}, status: {observedGeneration: 1, updatedReplicas: 3, availableReplicas: 4, replicas: 9}}",
                true,
            ),
            (
                "{metadata: {generation: 1}, spec: {replicas: 3}, status: {observedGeneration: 2, updatedReplicas: 3, availableReplicas: 3}}",
                false,
            ),
            (
                "{metadata: {generation: 2}, spec: {replicas: 3}, status: {observedGeneration: 1, updatedReplicas: 3, availableReplicas: 3}}",
                false,
            ),
            (
                "{metadata: {generation: 1}, spec: {replicas: 3}, status: {observedGeneration: 1, updatedReplicas: 2, availableReplicas: 3}}",
                false,
            ),
            (
                "{metadata: {generation: 1}, spec: {replicas: 3}, status: {observedGeneration: 1, updatedReplicas: 3, availableReplicas: 2}}",
                false,
            ),
            (
                "{metadata: {generation: 1}, status: {observedGeneration: 1}}",
                true,
            ),
            (
                "{metadata: {generation: 1}, status: {observedGeneration: 1, updatedReplicas: 1}}",
                false,
            ),
            ("{metadata: {generation: 1}}", false),
            ("{}", true),
        ],
    );
}

#[test]
fn stateful_sets_may_keep_old_pods() {
    check(
        "apps/v1",
        "StatefulSet",
        &[
            (
                "{spec: {replicas: 3}, status: {updatedReplicas: 3, availableReplicas: 3}}",
                true,
            ),
            (
                "{spec: {replicas: 3}, status: {updatedReplicas: 2, availableReplicas: 3}}",
                false,
            ),
            (
                "{spec: {replicas: 3}, status: {updatedReplicas: 3, availableReplicas: 2}}",
                false,
            ),
            (
                "{spec: {replicas: 3, updateStrategy: {type: OnDelete}}, status: {availableReplicas: 3}}",
                true,
            ),
            (
                "{spec: {replicas: 3, updateStrategy: {type: OnDelete}}, status: {updatedReplicas: 3, availableReplicas: 2}}",
                false,
            ),
            (
                "{metadata: {generation: 1}, spec: {updateStrategy: {type: OnDelete}}}",
                false,
            ),
            (
                "{spec: {replicas: 3, updateStrategy: {rollingUpdate: {partition: 2}}}, status: {updatedReplicas: 1, availableReplicas: 3}}",
                true,
            ),
            (
                "{spec: {replicas: 3, updateStrategy: {rollingUpdate: {partition: 1}}}, status: {updatedReplicas: 1, availableReplicas: 3}}",
                false,
            ),
            (
                "{spec: {replicas: 3, updateStrategy: {rollingUpdate: {partition: 9}}}, status: {availableReplicas: 3}}",
                true,
            ),
            (
                "{spec: {replicas: 3, updateStrategy: {rollingUpdate: {partition: 2}}}, status: {updatedReplicas: 1, availableReplicas: 0}}",
                false,
            ),
            ("{metadata: {generation: 1}, spec: {replicas: 0}}", false),
        ],
    );
}

#[test]
fn replica_sets_and_daemon_sets_are_healthy_when_observed_and_available() {
    check(
        "apps/v1",
        "ReplicaSet",
        &[
            (
                "{metadata: {generation: 1}, spec: {replicas: 2}, status: {observedGeneration: 1, availableReplicas: 2}}",
                true,
            ),
            (
                "{metadata: {generation: 1}, spec: {replicas: 2}, status: {observedGeneration: 1, availableReplicas: 1}}",
                false,
            ),
            (
                "{metadata: {generation: 1}, spec: {replicas: 2}, status: {availableReplicas: 2}}",
                false,
            ),
            (
                "{metadata: {generation: 1}, status: {observedGeneration: 1}}",
                true,
            ),
        ],
    );
    check(
        "apps/v1",
        "DaemonSet",
        &[
            (
                "{metadata: {generation: 1}, status: {observedGeneration: 1, desiredNumberScheduled: 2, updatedNumberScheduled: 2, numberAvailable: 2}}",
                true,
            ),
            (
                "{status: {desiredNumberScheduled: 2, updatedNumberScheduled: 1, numberAvailable: 2}}",
                false,
            ),
            (
                "{status: {desiredNumberScheduled: 2, updatedNumberScheduled: 2, numberAvailable: 1}}",
                false,
            ),
            (
                "{spec: {updateStrategy: {type: OnDelete}}, status: {desiredNumberScheduled: 2, numberAvailable: 2}}",
                true,
            ),
            (
                "{spec: {updateStrategy: {type: OnDelete}}, status: {desiredNumberScheduled: 2, numberAvailable: 1}}",
                false,
            ),
            ("{metadata: {generation: 1}}", false),
        ],
    );
}

#[test]
fn services_and_ingresses_are_healthy_with_an_address() {
    let address =
        "{spec: {type: LoadBalancer}, status: {loadBalancer: {ingress: [{}, {ip: 10.0.0.1}]}}}";
    let host = "{spec: {type: LoadBalancer}, status: {loadBalancer: {ingress: [{hostname: a}]}}}";
    let none = "{spec: {type: LoadBalancer}, status: {loadBalancer: {ingress: [{}]}}}";
    check(
        "v1",
        "Service",
        &[
            (address, true),
            (host, true),
            (none, false),
            ("{}", true),
            ("{spec: {type: NodePort}}", true),
        ],
    );
    check(
        "networking.k8s.io/v1",
        "Ingress",
        &[(address, true), (host, true), (none, false), ("{}", false)],
    );
}

#[test]
fn claims_pods_and_budgets_are_healthy_by_phase_and_counts() {
    check(
        "v1",
        "PersistentVolumeClaim",
        &[
            ("{status: {phase: Bound}}", true),
            ("{status: {phase: Pending}}", false),
            ("{}", false),
        ],
    );
    check(
        "v1",
        "Pod",
        &[
            ("{status: {phase: Succeeded}}", true),
            (
                "{status: {phase: Running, conditions: [{type: Ready, status: 'True'}]}}",
                true,
            ),
            (
                "{status: {phase: Running, conditions: [{type: Ready, status: 'False'}]}}",
                false,
            ),
            ("{status: {phase: Running}}", false),
            (
                "{status: {phase: Failed, conditions: [{type: Ready, status: 'True'}]}}",
                false,
            ),
            ("{}", false),
        ],
    );
    check(
        "policy/v1",
        "PodDisruptionBudget",
        &[
            (
                "{metadata: {generation: 5}, status: {currentHealthy: 2, desiredHealthy: 2}}",
                true,
            ),
            ("{status: {currentHealthy: 1, desiredHealthy: 2}}", false),
            ("{}", true),
        ],
    );
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
