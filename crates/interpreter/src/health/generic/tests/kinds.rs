//! Objects as the operators of well-known kinds write them.

use super::*;

/// Judges objects: each is a kind, the health, and what follows the kind.
#[track_caller]
fn expect(cases: &str) {
    for [kind, health, rest] in rows(cases) {
        let object = object(&format!("{{kind: {kind}, {rest}}}"));
        let found = assess(&(&object).into(), KnownStatus::Unknown);
        assert_eq!(
            format!("{:?}", found.health),
            health,
            "{kind} {rest}: {found:?}"
        );
    }
}

#[test]
fn cert_manager() {
    let cases = r"
        Certificate | Progressing | spec: {secretName: tls}
        Certificate | Healthy | status: {conditions: [{type: Ready, status: 'True',
            reason: Ready, message: Certificate is up to date and has not expired}], revision: 1}
        Certificate | Progressing | status: {conditions: [{type: Issuing, status: 'True',
            reason: DoesNotExist}, {type: Ready, status: 'False', reason: DoesNotExist}]}
        Certificate | Degraded | status: {conditions: [{type: Ready, status: 'False',
            reason: Failed, message: the ACME order was rejected}]}
        Issuer | Degraded | status: {conditions: [{type: Ready, status: 'False',
            reason: ErrRegisterACMEAccount}]}
        Order | Progressing | status: {state: pending}
        Order | Healthy | status: {state: valid}
        Order | Degraded | status: {state: errored}
    ";
    expect(cases);
}

#[test]
fn argo() {
    let cases = r"
        Rollout | Healthy | spec: {replicas: 3}, status: {phase: Healthy, replicas: 3,
            readyReplicas: 3, updatedReplicas: 3}
        Rollout | Progressing | spec: {replicas: 3}, status: {phase: Progressing,
            message: more replicas need to be updated, readyReplicas: 3, updatedReplicas: 1}
        Rollout | Suspended | spec: {replicas: 3}, status: {phase: Paused,
            message: CanaryPauseStep, readyReplicas: 3}
        Rollout | Degraded | status: {phase: Degraded, conditions: [{type: Progressing,
            status: 'False', reason: ProgressDeadlineExceeded}]}
        Application | Healthy | status: {health: {status: Healthy}, sync: {status: Synced}}
        Application | Degraded | status: {health: {status: Degraded}, sync: {status: OutOfSync}}
    ";
    expect(cases);
}

#[test]
fn crossplane() {
    let cases = r"
        Bucket | Healthy | status: {conditions: [{type: Synced, status: 'True',
            reason: ReconcileSuccess}, {type: Ready, status: 'True', reason: Available}]}
        Bucket | Progressing | status: {conditions: [{type: Synced, status: 'True',
            reason: ReconcileSuccess}, {type: Ready, status: 'False', reason: Creating}]}
        Bucket | Degraded | status: {conditions: [{type: Synced, status: 'True',
            reason: ReconcileSuccess}, {type: Ready, status: 'False', reason: ReconcileError}]}
        Bucket | Suspended | status: {conditions: [{type: Synced, status: 'False',
            reason: ReconcilePaused}]}
    ";
    expect(cases);
}

#[test]
fn strimzi() {
    let cases = r"
        Kafka | Healthy | metadata: {generation: 2}, status: {observedGeneration: 2,
            conditions: [{type: Warning, status: 'True', reason: DeprecatedFields},
            {type: Ready, status: 'True'}]}
        Kafka | Progressing | status: {conditions: [{type: NotReady, status: 'True',
            reason: Creating}]}
        Kafka | Degraded | status: {conditions: [{type: NotReady, status: 'True',
            reason: InvalidResourceException}]}
        Kafka | Suspended | status: {conditions: [{type: ReconciliationPaused, status: 'True'}]}
    ";
    expect(cases);
}

#[test]
fn knative() {
    let cases = r"
        Service | Progressing | metadata: {generation: 2}, status: {observedGeneration: 1,
            conditions: [{type: Ready, status: 'True'}]}
        Service | Progressing | status: {conditions: [{type: ConfigurationsReady,
            status: 'True'}, {type: Ready, status: Unknown, reason: RolloutInProgress}]}
        Service | Degraded | status: {conditions: [{type: Ready, status: 'False',
            reason: RevisionFailed, message: the image cannot be pulled}]}
    ";
    expect(cases);
}

#[test]
fn flux() {
    let cases = r"
        Kustomization | Healthy | status: {conditions: [{type: Ready, status: 'True',
            reason: ReconciliationSucceeded}]}
        Kustomization | Progressing | status: {conditions: [{type: Reconciling,
            status: 'True', reason: Progressing}, {type: Ready, status: Unknown,
            reason: Progressing}]}
        Kustomization | Degraded | status: {conditions: [{type: Ready, status: 'False',
            reason: BuildFailed, message: the path is not there}]}
        Kustomization | Suspended
            | spec: {suspend: true}, status: {conditions: [{type: Ready, status: 'True'}]}
        HelmRelease | Degraded | status: {conditions: [{type: Ready, status: 'False',
            reason: RollbackSucceeded}, {type: Released, status: 'False', reason: UpgradeFailed}]}
    ";
    expect(cases);
}

#[test]
fn keda() {
    let cases = r"
        ScaledObject | Healthy | status: {conditions: [{type: Ready, status: 'True',
            reason: ScaledObjectReady}, {type: Active, status: 'False', reason: ScalerNotActive},
            {type: Fallback, status: 'False'}, {type: Paused, status: Unknown}], hpaName: hpa}
        ScaledObject | Suspended | status: {conditions: [{type: Ready, status: 'True',
            reason: ScaledObjectReady}, {type: Active, status: 'False', reason: ScalerNotActive},
            {type: Fallback, status: 'False'}, {type: Paused, status: 'True'}], hpaName: hpa}
        ScaledObject | Degraded | status: {conditions: [{type: Ready, status: 'False',
            reason: ScaledObjectCheckFailed}]}
    ";
    expect(cases);
}

#[test]
fn velero() {
    let cases = r"
        Backup | Progressing | status: {phase: New}
        Backup | Progressing | status: {phase: InProgress, progress: {itemsBackedUp: 3}}
        Backup | Healthy | status: {phase: Completed, warnings: 2}
        Backup | Degraded | status: {phase: PartiallyFailed, errors: 1}
        Backup | Degraded | status: {phase: Failed, failureReason: the bucket does not exist}
    ";
    expect(cases);
}

#[test]
fn karpenter() {
    let cases = r"
        NodeClaim | Progressing | status: {conditions: [{type: Launched, status: 'True'},
            {type: Initialized, status: Unknown, reason: AwaitingReconciliation},
            {type: Ready, status: Unknown, reason: ReconcilingDependents}]}
        NodeClaim | Healthy | status: {conditions: [{type: Launched, status: 'True'},
            {type: Ready, status: 'True', reason: Ready}]}
        NodeClaim | Degraded | status: {conditions: [{type: Launched, status: 'False',
            reason: InsufficientCapacity}, {type: Ready, status: 'False', reason:
            UnhealthyDependents}]}
    ";
    expect(cases);
}

#[test]
fn istio() {
    let cases = r"
        IstioOperator | Healthy | status: {status: HEALTHY, componentStatus: {Base: {status:
            HEALTHY}, Pilot: {status: HEALTHY}}}
        IstioOperator | Progressing | status: {status: RECONCILING, componentStatus: {Base: {status:
            HEALTHY}, Pilot: {status: RECONCILING}}}
        IstioOperator | Degraded | status: {status: HEALTHY, componentStatus: {Base: {status:
            HEALTHY}, Pilot: {status: ERROR}}}
        Istio | Healthy | status: {state: Healthy, conditions: [{type: Reconciled,
            status: 'True'}, {type: Ready, status: 'True'}]}
    ";
    expect(cases);
}

#[test]
fn external_secrets() {
    let cases = r"
        ExternalSecret | Healthy | status: {conditions: [{type: Ready, status: 'True',
            reason: SecretSynced, message: secret synced}]}
        ExternalSecret | Degraded | status: {conditions: [{type: Ready, status: 'False',
            reason: SecretSyncedError, message: could not get the secret}]}
        SealedSecret | Degraded | status: {conditions: [{type: Synced, status: 'False',
            message: no key to decrypt with}]}
    ";
    expect(cases);
}

#[test]
fn postgres_operators() {
    let cases = r"
        postgresql | Healthy | status: {PostgresClusterStatus: Running}
        postgresql | Progressing | status: {PostgresClusterStatus: Creating}
        postgresql | Degraded | status: {PostgresClusterStatus: SyncFailed}
        Cluster | Healthy | spec: {instances: 3}, status: {phase: Cluster in healthy state,
            instances: 3, readyInstances: 3, conditions: [{type: Ready, status: 'True'}]}
        Cluster | Degraded | spec: {instances: 3}, status: {phase: Failing over,
            readyInstances: 2, conditions: [{type: Ready, status: 'False',
            reason: ClusterIsNotReady}]}
        Cluster | Suspended | metadata: {annotations: {cnpg.io/hibernation: 'on'}},
            status: {phase: Cluster in healthy state}
    ";
    expect(cases);
}

#[test]
fn tekton() {
    let cases = r"
        PipelineRun | Progressing | status: {conditions: [{type: Succeeded, status: Unknown,
            reason: Running, message: 'Tasks completed: 1 (Failed: 0), Incomplete: 2'}]}
        PipelineRun | Healthy | status: {conditions: [{type: Succeeded, status: 'True',
            reason: Succeeded}]}
        PipelineRun | Degraded | status: {conditions: [{type: Succeeded, status: 'False',
            reason: PipelineRunTimeout}]}
        PipelineRun | Degraded | status: {conditions: [{type: Succeeded, status: 'False',
            reason: Cancelled}]}
    ";
    expect(cases);
}

#[test]
fn rook() {
    let cases = r"
        CephCluster | Healthy | status: {phase: Ready, state: Created, ceph: {health: HEALTH_OK},
            conditions: [{type: Ready, status: 'True', reason: ClusterCreated}]}
        CephCluster | Degraded | status: {phase: Ready, ceph: {health: HEALTH_ERR}}
        CephCluster | Progressing | status: {phase: Progressing, state: Creating,
            conditions: [{type: Progressing, status: 'True', reason: ClusterProgressing}]}
    ";
    expect(cases);
}

#[test]
fn elastic_and_its_relatives() {
    let cases = r"
        Elasticsearch | Healthy | status: {health: green, phase: Ready}
        Elasticsearch | Progressing | status: {health: yellow, phase: Ready}
        Elasticsearch | Degraded | status: {health: red, phase: Ready}
        Elasticsearch | Progressing | status: {health: green, phase: ApplyingChanges}
        Kibana | Progressing | status: {health: green, availableNodes: 1, expectedNodes: 2}
    ";
    expect(cases);
}

#[test]
fn virtual_machines() {
    let cases = r"
        VirtualMachine | Healthy | status: {printableStatus: Running, ready: true, created: true}
        VirtualMachine | Suspended | status: {printableStatus: Stopped, conditions: [{type: Ready,
            status: 'False', reason: GuestNotThere, message: it does not exist}]}
        VirtualMachine | Degraded | status: {printableStatus: ErrorUnschedulable, ready: false}
    ";
    expect(cases);
}

#[test]
fn cluster_api() {
    let cases = r"
        AWSManagedControlPlane | Progressing | status: {ready: false, conditions: [{type: Ready,
            status: 'False', severity: Info, reason: EKSControlPlaneCreation}]}
        AWSManagedControlPlane | Degraded | status: {ready: false, conditions: [{type: Ready,
            status: 'False', severity: Error, reason: EKSControlPlaneQuota}]}
        AWSManagedControlPlane | Degraded | status: {ready: true, failureMessage: no permission}
    ";
    expect(cases);
}

#[test]
fn gateways_and_routes_of_others() {
    let cases = r"
        Route | Healthy | status: {ingress: [{host: a, conditions: [{type: Admitted,
            status: 'True'}]}]}
        Route | Degraded | status: {ingress: [{host: a, conditions: [{type: Admitted,
            status: 'False', reason: HostAlreadyClaimed}]}]}
        Route | Progressing | status: {ingress: [{host: a, conditions: []}]}
        HTTPProxy | Progressing | status: {currentStatus: NotReconciled, description: Waiting for
            controller}
        HTTPProxy | Degraded | status: {currentStatus: invalid, conditions: [{type: Valid,
            status: 'False', reason: ErrorPresent}]}
    ";
    expect(cases);
}

#[test]
fn other_kinds() {
    let cases = r"
        VolumeSnapshot | Healthy | status: {readyToUse: true, restoreSize: 1Gi}
        VolumeSnapshot | Progressing | status: {readyToUse: false}
        VolumeSnapshot | Degraded
            | status: {readyToUse: false, error: {message: no driver of this name}}
        SparkApplication | Progressing | status: {applicationState: {state: SUBMITTED}}
        SparkApplication | Healthy
            | status: {applicationState: {state: COMPLETED}, executorState: {a: COMPLETED}}
        RayJob | Progressing | status: {jobStatus: RUNNING, jobDeploymentStatus: Running}
        RayJob | Healthy | status: {jobStatus: SUCCEEDED, jobDeploymentStatus: Complete}
        ManagedCertificate | Degraded | status: {certificateStatus: Provisioning,
            domainStatus: [{domain: a, status: FailedNotVisible}]}
        Policy | Degraded | status: {compliant: NonCompliant, status: [{clustername: a,
            compliant: Compliant}]}
        OpenTelemetryCollector | Progressing | status: {scale: {statusReplicas: 1/3}}
        OpenTelemetryCollector | Healthy | status: {scale: {statusReplicas: 3/3}}
        RabbitmqCluster | Progressing | status: {conditions: [{type: AllReplicasReady,
            status: 'False', reason: NotAllPodsReady}, {type: NoWarnings, status: 'True',
            reason: NoWarnings}]}
        Canary | Progressing | status: {phase: Progressing, conditions: [{type: Promoted,
            status: Unknown, reason: Progressing}]}
        Canary | Healthy | status: {phase: Succeeded, conditions: [{type: Promoted,
            status: 'True', reason: Succeeded}]}
    ";
    expect(cases);
}
