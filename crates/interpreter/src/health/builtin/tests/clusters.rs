use super::{assess, check, object};

const V1BETA1: &str = "cluster.x-k8s.io/v1beta1";

#[test]
fn clusters_are_judged() {
    let cases = r"
        provisioned | Healthy | |
            | {status: {phase: Provisioned, conditions: [{type: Ready, status: 'True'}]}}
        provisioning | Progressing | Provisioning | waiting | {status: {phase: Provisioning,
            conditions: [{type: Ready, status: 'False', severity: Info, reason:
            WaitingForInfrastructure, message: waiting}]}}
        failed | Degraded | Failed | Failed | {status: {phase: Failed}}
        failed with a cause | Degraded | CreateError | no quota
            | {status: {phase: Failed, failureReason: CreateError, failureMessage: no quota}}
        not ready | Degraded | VCenterUnreachable | thumbprint | {status: {phase: Provisioned,
            conditions: [{type: Ready, status: 'False', severity: Error, reason: VCenterUnreachable,
            message: thumbprint}]}}
        not ready, no severity | Degraded | NotReady |
            | {status: {phase: Provisioned, conditions: [{type: Ready, status: 'False'}]}}
        not ready for a while | Healthy | | | {status: {phase: Provisioned,
            conditions: [{type: Ready, status: 'False', severity: Info}]}}
        paused | Suspended | Paused | | {spec: {paused: true}, status: {phase: Failed}}
        paused by an annotation | Suspended | Paused |
            | {metadata: {annotations: {cluster.x-k8s.io/paused: ''}}, status: {phase: Provisioned}}
        no status | Progressing | NoStatus | | {spec: {}}
    ";
    check(V1BETA1, "Cluster", cases);
}

#[test]
fn clusters_of_the_newer_contract_are_judged() {
    let newer = "cluster.x-k8s.io/v1beta2";
    let cases = r"
        available | Healthy | | | {status: {phase: Provisioned, conditions: [{type: Available,
            status: 'True'}, {type: ScalingUp, status: 'True'}]}}
        being deleted | Progressing | Deleting |
            | {status: {phase: Deleting, conditions: [{type: Available, status: 'False'}]}}
        says that it is being deleted | Progressing | WaitingForWorkers |
            | {status: {conditions: [{type: Deleting, status: 'True', reason: WaitingForWorkers}]}}
        paused | Suspended | Paused | | {spec: {paused: true}}
    ";
    check(newer, "Cluster", cases);
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
    let cases = r"
        running | Healthy | | | {metadata: {generation: 3}, status: {phase: Running,
            observedGeneration: 3}}
        provisioning | Progressing | Provisioning | | {status: {phase: Provisioning}}
        failed | Degraded | Failed | | {status: {phase: Failed}}
        failure | Degraded | UpdateError | gone
            | {status: {phase: Running, failureReason: UpdateError, failureMessage: gone}}
        failure without a reason | Degraded | Failed | gone
            | {status: {phase: Running, failureMessage: gone}}
        not observed | Progressing | GenerationNotObserved |
            | {metadata: {generation: 4}, status: {phase: Running, observedGeneration: 3}}
        paused | Suspended | Paused | | {metadata: {generation: 4, annotations:
            {cluster.x-k8s.io/paused: 'false'}}, status: {phase: Failed}}
        no status | Progressing | NoStatus | | {}
    ";
    check(V1BETA1, "Machine", cases);
}

#[test]
fn machine_deployments_are_judged() {
    let cases = r"
        running | Healthy | | | {status: {phase: Running, replicas: 5, updatedReplicas: 5,
            readyReplicas: 5}}
        running, newer contract | Healthy | |
            | {status: {phase: Running, replicas: 5, upToDateReplicas: 5, readyReplicas: 5}}
        no counts | Healthy | | | {status: {phase: Running}}
        fewer ready | Progressing | RolloutInProgress | 4 ready
            | {status: {phase: Running, replicas: 5, updatedReplicas: 5, readyReplicas: 4}}
        fewer updated | Progressing | RolloutInProgress | 1 of 5
            | {status: {phase: Running, replicas: 5, updatedReplicas: 1, readyReplicas: 5}}
        scaling | Progressing | ScalingUp | | {status: {phase: ScalingUp, replicas: 1}}
        failed | Degraded | Failed | | {status: {phase: Failed}}
        paused | Suspended | Paused | | {spec: {paused: true}, status: {phase: Running}}
        no status | Progressing | NoStatus | | {}
    ";
    check(V1BETA1, "MachineDeployment", cases);
}

#[test]
fn machine_pools_are_judged() {
    let cases = r"
        running | Healthy | | | {status: {phase: Running}}
        scaling | Healthy | | | {status: {phase: Scaling}}
        provisioning | Progressing | Provisioning | no bootstrap data | {status: {phase:
            Provisioning, conditions: [{type: Ready, status: 'False', message: no bootstrap data}]}}
        unknown | Degraded | Unknown | | {status: {phase: Unknown}}
        failed | Degraded | Failed | | {status: {phase: Failed}}
        no status | Progressing | NoStatus | | {}
    ";
    check(V1BETA1, "MachinePool", cases);
}

#[test]
fn machine_health_checks_are_judged() {
    let cases = r"
        all | Healthy | | | {status: {currentHealthy: 3, expectedMachines: 3}}
        none expected | Healthy | | | {status: {currentHealthy: 0}}
        one is missing | Degraded | UnhealthyMachines | 2 of 3
            | {status: {currentHealthy: 2, expectedMachines: 3}}
        no status | Progressing | NoStatus | | {}
    ";
    check(V1BETA1, "MachineHealthCheck", cases);
}
