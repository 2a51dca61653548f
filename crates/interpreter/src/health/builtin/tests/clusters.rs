use super::{
    Health::{Degraded, Healthy, Progressing, Suspended},
    assess, check, object,
};

const V1BETA1: &str = "cluster.x-k8s.io/v1beta1";

#[test]
fn clusters_are_judged() {
    check(
        V1BETA1,
        "Cluster",
        &[
            (
                "provisioned",
                "{status: {phase: Provisioned, conditions: [{type: Ready, status: 'True'}]}}",
                Healthy,
                "",
                "",
            ),
            (
                "provisioning",
                "{status: {phase: Provisioning, conditions: [{type: Ready, status: 'False', severity: Info, reason: WaitingForInfrastructure, message: waiting}]}}",
                Progressing,
                "Provisioning",
                "waiting",
            ),
            (
                "failed",
                "{status: {phase: Failed}}",
                Degraded,
                "Failed",
                "Failed",
            ),
            (
                "failed with a cause",
                "{status: {phase: Failed, failureReason: CreateError, failureMessage: no quota}}",
                Degraded,
                "CreateError",
                "no quota",
            ),
            (
                "not ready",
                "{status: {phase: Provisioned, conditions: [{type: Ready, status: 'False', severity: Error, reason: VCenterUnreachable, message: thumbprint}]}}",
                Degraded,
                "VCenterUnreachable",
                "thumbprint",
            ),
            (
                "not ready, no severity",
                "{status: {phase: Provisioned, conditions: [{type: Ready, status: 'False'}]}}",
                Degraded,
                "NotReady",
                "",
            ),
            (
                "not ready for a while",
                "{status: {phase: Provisioned, conditions: [{type: Ready, status: 'False', severity: Info}]}}",
                Healthy,
                "",
                "",
            ),
            (
                "paused",
                "{spec: {paused: true}, status: {phase: Failed}}",
                Suspended,
                "Paused",
                "",
            ),
            (
                "paused by an annotation",
                "{metadata: {annotations: {cluster.x-k8s.io/paused: ''}}, status: {phase: Provisioned}}",
                Suspended,
                "Paused",
                "",
            ),
            ("no status", "{spec: {}}", Progressing, "NoStatus", ""),
        ],
    );
}

#[test]
fn clusters_of_the_newer_contract_are_judged() {
    let newer = "cluster.x-k8s.io/v1beta2";
    check(
        newer,
        "Cluster",
        &[
            (
                "available",
                "{status: {phase: Provisioned, conditions: [{type: Available, status: 'True'}, {type: ScalingUp, status: 'True'}]}}",
                Healthy,
                "",
                "",
            ),
            (
                "being deleted",
                "{status: {phase: Deleting, conditions: [{type: Available, status: 'False'}]}}",
                Progressing,
                "Deleting",
                "",
            ),
            (
                "says that it is being deleted",
                "{status: {conditions: [{type: Deleting, status: 'True', reason: WaitingForWorkers}]}}",
                Progressing,
                "WaitingForWorkers",
                "",
            ),
            ("paused", "{spec: {paused: true}}", Suspended, "Paused", ""),
        ],
    );
    let unavailable =
        "{status: {conditions: [{type: Available, status: 'False', reason: NotAvailable}]}}";
    for api_version in [newer, V1BETA1] {
        assert_eq!(
            assess(&(&object(api_version, "Cluster", unavailable)).into()),
            None
        );
    }
}

#[test]
fn machines_are_judged() {
    check(
        V1BETA1,
        "Machine",
        &[
            (
                "running",
                "{metadata: {generation: 3}, status: {phase: Running, observedGeneration: 3}}",
                Healthy,
                "",
                "",
            ),
            (
                "provisioning",
                "{status: {phase: Provisioning}}",
                Progressing,
                "Provisioning",
                "",
            ),
            (
                "failed",
                "{status: {phase: Failed}}",
                Degraded,
                "Failed",
                "",
            ),
            (
                "failure",
                "{status: {phase: Running, failureReason: UpdateError, failureMessage: gone}}",
                Degraded,
                "UpdateError",
                "gone",
            ),
            (
                "failure without a reason",
                "{status: {phase: Running, failureMessage: gone}}",
                Degraded,
                "Failed",
                "gone",
            ),
            (
                "not observed",
                "{metadata: {generation: 4}, status: {phase: Running, observedGeneration: 3}}",
                Progressing,
                "GenerationNotObserved",
                "",
            ),
            (
                "paused",
                "{metadata: {generation: 4, annotations: {cluster.x-k8s.io/paused: 'false'}}, status: {phase: Failed}}",
                Suspended,
                "Paused",
                "",
            ),
            ("no status", "{}", Progressing, "NoStatus", ""),
        ],
    );
}

#[test]
fn machine_deployments_are_judged() {
    check(
        V1BETA1,
        "MachineDeployment",
        &[
            (
                "running",
                "{status: {phase: Running, replicas: 5, updatedReplicas: 5, readyReplicas: 5}}",
                Healthy,
                "",
                "",
            ),
            (
                "running, newer contract",
                "{status: {phase: Running, replicas: 5, upToDateReplicas: 5, readyReplicas: 5}}",
                Healthy,
                "",
                "",
            ),
            ("no counts", "{status: {phase: Running}}", Healthy, "", ""),
            (
                "fewer ready",
                "{status: {phase: Running, replicas: 5, updatedReplicas: 5, readyReplicas: 4}}",
                Progressing,
                "RolloutInProgress",
                "4 ready",
            ),
            (
                "fewer updated",
                "{status: {phase: Running, replicas: 5, updatedReplicas: 1, readyReplicas: 5}}",
                Progressing,
                "RolloutInProgress",
                "1 of 5",
            ),
            (
                "scaling",
                "{status: {phase: ScalingUp, replicas: 1}}",
                Progressing,
                "ScalingUp",
                "",
            ),
            (
                "failed",
                "{status: {phase: Failed}}",
                Degraded,
                "Failed",
                "",
            ),
            (
                "paused",
                "{spec: {paused: true}, status: {phase: Running}}",
                Suspended,
                "Paused",
                "",
            ),
            ("no status", "{}", Progressing, "NoStatus", ""),
        ],
    );
}

#[test]
fn machine_pools_are_judged() {
    check(
        V1BETA1,
        "MachinePool",
        &[
            ("running", "{status: {phase: Running}}", Healthy, "", ""),
            ("scaling", "{status: {phase: Scaling}}", Healthy, "", ""),
            (
                "provisioning",
                "{status: {phase: Provisioning, conditions: [{type: Ready, status: 'False', message: no bootstrap data}]}}",
                Progressing,
                "Provisioning",
                "no bootstrap data",
            ),
            (
                "unknown",
                "{status: {phase: Unknown}}",
                Degraded,
                "Unknown",
                "",
            ),
            (
                "failed",
                "{status: {phase: Failed}}",
                Degraded,
                "Failed",
                "",
            ),
            ("no status", "{}", Progressing, "NoStatus", ""),
        ],
    );
}

#[test]
fn machine_health_checks_are_judged() {
    check(
        V1BETA1,
        "MachineHealthCheck",
        &[
            (
                "all",
                "{status: {currentHealthy: 3, expectedMachines: 3}}",
                Healthy,
                "",
                "",
            ),
            (
                "none expected",
                "{status: {currentHealthy: 0}}",
                Healthy,
                "",
                "",
            ),
            (
                "one is missing",
                "{status: {currentHealthy: 2, expectedMachines: 3}}",
                Degraded,
                "UnhealthyMachines",
                "2 of 3",
            ),
            ("no status", "{}", Progressing, "NoStatus", ""),
        ],
    );
}
