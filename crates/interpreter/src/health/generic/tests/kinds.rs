//! Objects as the operators of well-known kinds write them.

use super::*;

/// Judges objects of a kind: each is what follows `kind`.
#[track_caller]
fn expect(kind: &str, cases: &[(&str, Health)]) {
    for (rest, expected) in cases {
        let object = object(&format!("{{kind: {kind}, {rest}}}"));
        let assessment = assess(&(&object).into(), KnownStatus::Unknown);
        assert_eq!(
            assessment.health, *expected,
            "{kind} {rest}: {assessment:?}"
        );
    }
}

#[test]
fn cert_manager() {
    expect(
        "Certificate",
        &[
            ("spec: {secretName: tls}", Health::Progressing),
            (
                "status: {conditions: [{type: Ready, status: 'True', reason: Ready, message: Certificate is up to date and has not expired}], revision: 1}",
                Health::Healthy,
            ),
            (
                "status: {conditions: [{type: Issuing, status: 'True', reason: DoesNotExist}, {type: Ready, status: 'False', reason: DoesNotExist}]}",
                Health::Progressing,
            ),
            (
                "status: {conditions: [{type: Ready, status: 'False', reason: Failed, message: the ACME order was rejected}]}",
                Health::Degraded,
            ),
        ],
    );
    expect(
        "Issuer",
        &[(
            "status: {conditions: [{type: Ready, status: 'False', reason: ErrRegisterACMEAccount}]}",
            Health::Degraded,
        )],
    );
    expect(
        "Order",
        &[
            ("status: {state: pending}", Health::Progressing),
            ("status: {state: valid}", Health::Healthy),
            ("status: {state: errored}", Health::Degraded),
        ],
    );
}

#[test]
fn argo() {
    expect(
        "Rollout",
        &[
            (
                "spec: {replicas: 3}, status: {phase: Healthy, replicas: 3, readyReplicas: 3, updatedReplicas: 3}",
                Health::Healthy,
            ),
            (
                "spec: {replicas: 3}, status: {phase: Progressing, message: more replicas need to be updated, readyReplicas: 3, updatedReplicas: 1}",
                Health::Progressing,
            ),
            (
                "spec: {replicas: 3}, status: {phase: Paused, message: CanaryPauseStep, readyReplicas: 3}",
                Health::Suspended,
            ),
            (
                "status: {phase: Degraded, conditions: [{type: Progressing, status: 'False', reason: ProgressDeadlineExceeded}]}",
                Health::Degraded,
            ),
        ],
    );
    expect(
        "Application",
        &[
            (
                "status: {health: {status: Healthy}, sync: {status: Synced}}",
                Health::Healthy,
            ),
            (
                "status: {health: {status: Degraded}, sync: {status: OutOfSync}}",
                Health::Degraded,
            ),
        ],
    );
}

#[test]
fn crossplane() {
    let claim = |ready: &str| {
        format!(
            "status: {{conditions: [{{type: Synced, status: 'True', reason: ReconcileSuccess}}, {ready}]}}"
        )
    };
    expect(
        "Bucket",
        &[
            (
                &claim("{type: Ready, status: 'True', reason: Available}"),
                Health::Healthy,
            ),
            (
                &claim("{type: Ready, status: 'False', reason: Creating}"),
                Health::Progressing,
            ),
            (
                &claim("{type: Ready, status: 'False', reason: ReconcileError}"),
                Health::Degraded,
            ),
            (
                "status: {conditions: [{type: Synced, status: 'False', reason: ReconcilePaused}]}",
                Health::Suspended,
            ),
        ],
    );
}

#[test]
fn strimzi() {
    expect(
        "Kafka",
        &[
            (
                "metadata: {generation: 2}, status: {observedGeneration: 2, conditions: [{type: Warning, status: 'True', reason: DeprecatedFields}, {type: Ready, status: 'True'}]}",
                Health::Healthy,
            ),
            (
                "status: {conditions: [{type: NotReady, status: 'True', reason: Creating}]}",
                Health::Progressing,
            ),
            (
                "status: {conditions: [{type: NotReady, status: 'True', reason: InvalidResourceException}]}",
                Health::Degraded,
            ),
            (
                "status: {conditions: [{type: ReconciliationPaused, status: 'True'}]}",
                Health::Suspended,
            ),
        ],
    );
}

#[test]
fn knative() {
    expect(
        "Service",
        &[
            (
                "metadata: {generation: 2}, status: {observedGeneration: 1, conditions: [{type: Ready, status: 'True'}]}",
                Health::Progressing,
            ),
            (
                "status: {conditions: [{type: ConfigurationsReady, status: 'True'}, {type: Ready, status: Unknown, reason: RolloutInProgress}]}",
                Health::Progressing,
            ),
            (
                "status: {conditions: [{type: Ready, status: 'False', reason: RevisionFailed, message: the image cannot be pulled}]}",
                Health::Degraded,
            ),
        ],
    );
}

#[test]
fn flux() {
    expect(
        "Kustomization",
        &[
            (
                "status: {conditions: [{type: Ready, status: 'True', reason: ReconciliationSucceeded}]}",
                Health::Healthy,
            ),
            (
                "status: {conditions: [{type: Reconciling, status: 'True', reason: Progressing}, {type: Ready, status: Unknown, reason: Progressing}]}",
                Health::Progressing,
            ),
            (
                "status: {conditions: [{type: Ready, status: 'False', reason: BuildFailed, message: the path is not there}]}",
                Health::Degraded,
            ),
            (
                "spec: {suspend: true}, status: {conditions: [{type: Ready, status: 'True'}]}",
                Health::Suspended,
            ),
        ],
    );
    expect(
        "HelmRelease",
        &[(
            "status: {conditions: [{type: Ready, status: 'False', reason: RollbackSucceeded}, {type: Released, status: 'False', reason: UpgradeFailed}]}",
            Health::Degraded,
        )],
    );
}

#[test]
fn keda() {
    let rest = |paused: &str| {
        format!(
            "status: {{conditions: [{{type: Ready, status: 'True', reason: ScaledObjectReady}}, {{type: Active, status: 'False', reason: ScalerNotActive}}, \
             {{type: Fallback, status: 'False'}}, {{type: Paused, status: {paused}}}], hpaName: hpa}}"
        )
    };
    expect(
        "ScaledObject",
        &[
            (&rest("Unknown"), Health::Healthy),
            (&rest("'True'"), Health::Suspended),
            (
                "status: {conditions: [{type: Ready, status: 'False', reason: ScaledObjectCheckFailed}]}",
                Health::Degraded,
            ),
        ],
    );
}

#[test]
fn velero() {
    expect(
        "Backup",
        &[
            ("status: {phase: New}", Health::Progressing),
            (
                "status: {phase: InProgress, progress: {itemsBackedUp: 3}}",
                Health::Progressing,
            ),
            ("status: {phase: Completed, warnings: 2}", Health::Healthy),
            (
                "status: {phase: PartiallyFailed, errors: 1}",
                Health::Degraded,
            ),
            (
                "status: {phase: Failed, failureReason: the bucket does not exist}",
                Health::Degraded,
            ),
        ],
    );
}

#[test]
fn karpenter() {
    expect(
        "NodeClaim",
        &[
            (
                "status: {conditions: [{type: Launched, status: 'True'}, {type: Initialized, status: Unknown, reason: AwaitingReconciliation}, {type: Ready, status: Unknown, reason: ReconcilingDependents}]}",
                Health::Progressing,
            ),
            (
                "status: {conditions: [{type: Launched, status: 'True'}, {type: Ready, status: 'True', reason: Ready}]}",
                Health::Healthy,
            ),
            (
                "status: {conditions: [{type: Launched, status: 'False', reason: InsufficientCapacity}, {type: Ready, status: 'False', reason: UnhealthyDependents}]}",
                Health::Degraded,
            ),
        ],
    );
}

#[test]
fn istio() {
    expect(
        "IstioOperator",
        &[
            (
                "status: {status: HEALTHY, componentStatus: {Base: {status: HEALTHY}, Pilot: {status: HEALTHY}}}",
                Health::Healthy,
            ),
            (
                "status: {status: RECONCILING, componentStatus: {Base: {status: HEALTHY}, Pilot: {status: RECONCILING}}}",
                Health::Progressing,
            ),
            (
                "status: {status: HEALTHY, componentStatus: {Base: {status: HEALTHY}, Pilot: {status: ERROR}}}",
                Health::Degraded,
            ),
        ],
    );
    expect(
        "Istio",
        &[(
            "status: {state: Healthy, conditions: [{type: Reconciled, status: 'True'}, {type: Ready, status: 'True'}]}",
            Health::Healthy,
        )],
    );
}

#[test]
fn external_secrets() {
    expect(
        "ExternalSecret",
        &[
            (
                "status: {conditions: [{type: Ready, status: 'True', reason: SecretSynced, message: secret synced}]}",
                Health::Healthy,
            ),
            (
                "status: {conditions: [{type: Ready, status: 'False', reason: SecretSyncedError, message: could not get the secret}]}",
                Health::Degraded,
            ),
        ],
    );
    expect(
        "SealedSecret",
        &[(
            "status: {conditions: [{type: Synced, status: 'False', message: no key to decrypt with}]}",
            Health::Degraded,
        )],
    );
}

#[test]
fn postgres_operators() {
    expect(
        "postgresql",
        &[
            ("status: {PostgresClusterStatus: Running}", Health::Healthy),
            (
                "status: {PostgresClusterStatus: Creating}",
                Health::Progressing,
            ),
            (
                "status: {PostgresClusterStatus: SyncFailed}",
                Health::Degraded,
            ),
        ],
    );
    expect(
        "Cluster",
        &[
            (
                "spec: {instances: 3}, status: {phase: Cluster in healthy state, instances: 3, readyInstances: 3, conditions: [{type: Ready, status: 'True'}]}",
                Health::Healthy,
            ),
            (
                "spec: {instances: 3}, status: {phase: Failing over, readyInstances: 2, conditions: [{type: Ready, status: 'False', reason: ClusterIsNotReady}]}",
                Health::Degraded,
            ),
            (
                "metadata: {annotations: {cnpg.io/hibernation: 'on'}}, status: {phase: Cluster in healthy state}",
                Health::Suspended,
            ),
        ],
    );
}

#[test]
fn tekton() {
    expect(
        "PipelineRun",
        &[
            (
                "status: {conditions: [{type: Succeeded, status: Unknown, reason: Running, message: 'Tasks completed: 1 (Failed: 0), Incomplete: 2'}]}",
                Health::Progressing,
            ),
            (
                "status: {conditions: [{type: Succeeded, status: 'True', reason: Succeeded}]}",
                Health::Healthy,
            ),
            (
                "status: {conditions: [{type: Succeeded, status: 'False', reason: PipelineRunTimeout}]}",
                Health::Degraded,
            ),
            (
                "status: {conditions: [{type: Succeeded, status: 'False', reason: Cancelled}]}",
                Health::Degraded,
            ),
        ],
    );
}

#[test]
fn rook() {
    expect(
        "CephCluster",
        &[
            (
                "status: {phase: Ready, state: Created, ceph: {health: HEALTH_OK}, conditions: [{type: Ready, status: 'True', reason: ClusterCreated}]}",
                Health::Healthy,
            ),
            (
                "status: {phase: Ready, ceph: {health: HEALTH_ERR}}",
                Health::Degraded,
            ),
            (
                "status: {phase: Progressing, state: Creating, conditions: [{type: Progressing, status: 'True', reason: ClusterProgressing}]}",
                Health::Progressing,
            ),
        ],
    );
}

#[test]
fn elastic_and_its_relatives() {
    expect(
        "Elasticsearch",
        &[
            ("status: {health: green, phase: Ready}", Health::Healthy),
            (
                "status: {health: yellow, phase: Ready}",
                Health::Progressing,
            ),
            ("status: {health: red, phase: Ready}", Health::Degraded),
            (
                "status: {health: green, phase: ApplyingChanges}",
                Health::Progressing,
            ),
        ],
    );
    expect(
        "Kibana",
        &[(
            "status: {health: green, availableNodes: 1, expectedNodes: 2}",
            Health::Progressing,
        )],
    );
}

#[test]
fn virtual_machines() {
    expect(
        "VirtualMachine",
        &[
            (
                "status: {printableStatus: Running, ready: true, created: true}",
                Health::Healthy,
            ),
            (
                "status: {printableStatus: Stopped, conditions: [{type: Ready, status: 'False', reason: GuestNotThere, message: it does not exist}]}",
                Health::Suspended,
            ),
            (
                "status: {printableStatus: ErrorUnschedulable, ready: false}",
                Health::Degraded,
            ),
        ],
    );
}

#[test]
fn cluster_api() {
    expect(
        "AWSManagedControlPlane",
        &[
            (
                "status: {ready: false, conditions: [{type: Ready, status: 'False', severity: Info, reason: EKSControlPlaneCreation}]}",
                Health::Progressing,
            ),
            (
                "status: {ready: false, conditions: [{type: Ready, status: 'False', severity: Error, reason: EKSControlPlaneQuota}]}",
                Health::Degraded,
            ),
            (
                "status: {ready: true, failureMessage: no permission}",
                Health::Degraded,
            ),
        ],
    );
}

#[test]
fn gateways_and_routes_of_others() {
    expect(
        "Route",
        &[
            (
                "status: {ingress: [{host: a, conditions: [{type: Admitted, status: 'True'}]}]}",
                Health::Healthy,
            ),
            (
                "status: {ingress: [{host: a, conditions: [{type: Admitted, status: 'False', reason: HostAlreadyClaimed}]}]}",
                Health::Degraded,
            ),
            (
                "status: {ingress: [{host: a, conditions: []}]}",
                Health::Progressing,
            ),
        ],
    );
    expect(
        "HTTPProxy",
        &[
            (
                "status: {currentStatus: NotReconciled, description: Waiting for controller}",
                Health::Progressing,
            ),
            (
                "status: {currentStatus: invalid, conditions: [{type: Valid, status: 'False', reason: ErrorPresent}]}",
                Health::Degraded,
            ),
        ],
    );
}

#[test]
fn other_kinds() {
    expect(
        "VolumeSnapshot",
        &[
            (
                "status: {readyToUse: true, restoreSize: 1Gi}",
                Health::Healthy,
            ),
            ("status: {readyToUse: false}", Health::Progressing),
            (
                "status: {readyToUse: false, error: {message: no driver of this name}}",
                Health::Degraded,
            ),
        ],
    );
    expect(
        "SparkApplication",
        &[
            (
                "status: {applicationState: {state: SUBMITTED}}",
                Health::Progressing,
            ),
            (
                "status: {applicationState: {state: COMPLETED}, executorState: {a: COMPLETED}}",
                Health::Healthy,
            ),
        ],
    );
    expect(
        "RayJob",
        &[
            (
                "status: {jobStatus: RUNNING, jobDeploymentStatus: Running}",
                Health::Progressing,
            ),
            (
                "status: {jobStatus: SUCCEEDED, jobDeploymentStatus: Complete}",
                Health::Healthy,
            ),
        ],
    );
    expect(
        "ManagedCertificate",
        &[(
            "status: {certificateStatus: Provisioning, domainStatus: [{domain: a, status: FailedNotVisible}]}",
            Health::Degraded,
        )],
    );
    expect(
        "Policy",
        &[(
            "status: {compliant: NonCompliant, status: [{clustername: a, compliant: Compliant}]}",
            Health::Degraded,
        )],
    );
    expect(
        "OpenTelemetryCollector",
        &[
            (
                "status: {scale: {statusReplicas: 1/3}}",
                Health::Progressing,
            ),
            ("status: {scale: {statusReplicas: 3/3}}", Health::Healthy),
        ],
    );
    expect(
        "RabbitmqCluster",
        &[(
            "status: {conditions: [{type: AllReplicasReady, status: 'False', reason: NotAllPodsReady}, {type: NoWarnings, status: 'True', reason: NoWarnings}]}",
            Health::Progressing,
        )],
    );
    expect(
        "Canary",
        &[
            (
                "status: {phase: Progressing, conditions: [{type: Promoted, status: Unknown, reason: Progressing}]}",
                Health::Progressing,
            ),
            (
                "status: {phase: Succeeded, conditions: [{type: Promoted, status: 'True', reason: Succeeded}]}",
                Health::Healthy,
            ),
        ],
    );
}
