use super::check;

#[test]
fn deployments_are_judged() {
    let cases = r"
        rolled out | Healthy | | | {metadata: {generation: 2}, spec: {replicas: 3},
            status: {observedGeneration: 2, replicas: 3, updatedReplicas: 3, availableReplicas: 3}}
        observed generation is ahead | Healthy | |
            | {metadata: {generation: 2}, spec: {replicas: 0}, status: {observedGeneration: 3}}
        scaled to zero | Healthy | |
            | {metadata: {generation: 1}, spec: {replicas: 0}, status: {observedGeneration: 1}}
        replicas unset | Healthy | |
            | {metadata: {generation: 1}, spec: {}, status: {observedGeneration: 1}}
        paused | Suspended | Paused | paused | {metadata: {generation: 2},
            spec: {paused: true, replicas: 3}, status: {observedGeneration: 1,
            conditions: [{type: Progressing, status: 'False', reason: ProgressDeadlineExceeded}]}}
        pause of an odd type | Healthy | | | {spec: {paused: 'true'}}
        not observed | Progressing | GenerationNotObserved | generation 2 | {metadata: {generation:
            2}, spec: {replicas: 1}, status: {observedGeneration: 1, updatedReplicas: 1,
            availableReplicas: 1}}
        no status yet | Progressing | GenerationNotObserved |
            | {metadata: {generation: 1}, spec: {replicas: 1}}
        deadline exceeded | Degraded | ProgressDeadlineExceeded
            | ReplicaSet web has timed out. (1 of 1 replicas are updated, 1 available)
            | {spec: {replicas: 1}, status: {replicas: 2, updatedReplicas: 1,
            availableReplicas: 1, conditions: [{type: Available, status: 'True',
            reason: MinimumReplicasAvailable}, {type: Progressing, status: 'False',
            reason: ProgressDeadlineExceeded, message: ReplicaSet web has timed out.}]}}
        deadline exceeded, whatever the status | Degraded | ProgressDeadlineExceeded |
            | {status: {conditions: [{type: Progressing, reason: ProgressDeadlineExceeded}]}}
        quota | Degraded | FailedCreate | exceeded quota (0 of 3 | {spec: {replicas: 3},
            status: {conditions: [{type: ReplicaFailure, status: 'True', reason: FailedCreate,
            message: exceeded quota}]}}
        no quota trouble | Progressing | RolloutInProgress | | {spec: {replicas: 3},
            status: {conditions: [{type: ReplicaFailure, status: 'False', reason: FailedCreate}]}}
        updating | Progressing | RolloutInProgress | 2 of 3 replicas are updated, 4 available
            | {spec: {replicas: 3}, status: {replicas: 4, updatedReplicas: 2, availableReplicas: 4}}
        old replicas | Progressing | RolloutInProgress | pending termination: 2
            | {spec: {replicas: 3}, status: {replicas: 5, updatedReplicas: 3, availableReplicas: 5}}
        old replicas, replicas unset | Progressing | RolloutInProgress |
            | {spec: {}, status: {replicas: 2, updatedReplicas: 1, availableReplicas: 2}}
        starting | Progressing | MinimumReplicasUnavailable | 1 available | {spec: {replicas: 3},
            status: {replicas: 3, updatedReplicas: 3, availableReplicas: 1,
            conditions: [{type: Available, status: 'False', reason: MinimumReplicasUnavailable},
            {type: Progressing, status: 'True', reason: ReplicaSetUpdated}]}}
        one of three is away | Progressing | ReplicasUnavailable | 2 available
            | {spec: {replicas: 3}, status: {replicas: 3, updatedReplicas: 3,
            availableReplicas: 2, conditions: [{type: Available, status: 'True'},
            {type: Progressing, status: 'True', reason: NewReplicaSetAvailable}]}}
        outage after the rollout | Degraded | MinimumReplicasUnavailable
            | minimum availability. (3 of 3 | {spec: {replicas: 3}, status: {replicas: 3,
            updatedReplicas: 3, availableReplicas: 0, conditions: [{type: Available,
            status: 'False', reason: MinimumReplicasUnavailable, message: Deployment does not have
            minimum availability.}, {type: Progressing, status: 'True', reason:
            NewReplicaSetAvailable}]}}
        scaled up after the rollout | Progressing | RolloutInProgress | | {spec: {replicas: 9},
            status: {replicas: 3, updatedReplicas: 3, availableReplicas: 3,
            conditions: [{type: Available, status: 'False', reason: MinimumReplicasUnavailable},
            {type: Progressing, status: 'True', reason: NewReplicaSetAvailable}]}}
        counts with a fraction of zero | Healthy | |
            | {spec: {replicas: 2.0}, status: {updatedReplicas: 2.0, availableReplicas: 2}}
        counts of odd types | Progressing | RolloutInProgress | 0 of 2
            | {spec: {replicas: 2}, status: {updatedReplicas: '2', availableReplicas: [2]}}
    ";
    check("apps/v1", "Deployment", cases);
}

#[test]
fn stateful_sets_are_judged() {
    let cases = r"
        rolled out | Healthy | | | {metadata: {generation: 1}, spec: {replicas: 2,
            updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 0}}},
            status: {observedGeneration: 1, readyReplicas: 2, updatedReplicas: 2,
            currentRevision: a, updateRevision: a}}
        rolled out, no strategy | Healthy | | | {spec: {replicas: 1}, status: {observedGeneration:
            1, readyReplicas: 1, updatedReplicas: 1, currentRevision: a, updateRevision: a}}
        no status | Progressing | GenerationNotObserved | | {spec: {replicas: 0}}
        not observed | Progressing | GenerationNotObserved | generation 3
            | {metadata: {generation: 3}, spec: {replicas: 0}, status: {observedGeneration: 2}}
        starting | Progressing | ReplicasNotReady | 1 of 3 replicas are ready
            | {spec: {replicas: 3}, status: {observedGeneration: 1, readyReplicas: 1,
            updatedReplicas: 3}}
        ready but not long enough | Progressing | ReplicasNotReady | 2 of 3 replicas are available
            | {spec: {replicas: 3, minReadySeconds: 30}, status: {observedGeneration: 1,
            readyReplicas: 3, availableReplicas: 2, updatedReplicas: 3}}
        available does not matter without a time | Healthy | | | {spec: {replicas: 3,
            minReadySeconds: 0}, status: {observedGeneration: 1, readyReplicas: 3,
            updatedReplicas: 3}}
        updating | Progressing | RolloutInProgress | 1 replicas are updated,
            2 run the old revision | {spec: {replicas: 3, updateStrategy: {type: RollingUpdate,
            rollingUpdate: {}}}, status: {observedGeneration: 1, readyReplicas: 3,
            updatedReplicas: 1, currentRevision: a, updateRevision: b}}
        updated, revisions not compared | Healthy | | | {spec: {replicas: 3,
            updateStrategy: {type: RollingUpdate, rollingUpdate: {}}}, status: {observedGeneration:
            1, readyReplicas: 3, updatedReplicas: 3, currentRevision: a, updateRevision: b}}
        updated, revisions compared | Progressing | RolloutInProgress | revision
            | {spec: {replicas: 3}, status: {observedGeneration: 1, readyReplicas: 3,
            updatedReplicas: 3, currentRevision: a, updateRevision: b}}
        held by a partition | Healthy | | | {spec: {replicas: 3, updateStrategy: {type:
            RollingUpdate, rollingUpdate: {partition: 2}}}, status: {observedGeneration: 1,
            readyReplicas: 3, updatedReplicas: 1, currentRevision: a, updateRevision: b}}
        partition not reached | Progressing | RolloutInProgress | | {spec: {replicas: 3,
            updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 1}}},
            status: {observedGeneration: 1, readyReplicas: 3, updatedReplicas: 1,
            currentRevision: a, updateRevision: b}}
        partition beyond all replicas | Healthy | | | {spec: {replicas: 3,
            updateStrategy: {rollingUpdate: {partition: 9}}}, status: {observedGeneration: 1,
            readyReplicas: 3, currentRevision: a, updateRevision: b}}
        on delete, old pods | Healthy | | 2 pods run the old revision | {spec: {replicas: 3,
            updateStrategy: {type: OnDelete}}, status: {observedGeneration: 1,
            readyReplicas: 3, updatedReplicas: 1, currentRevision: a, updateRevision: b}}
        on delete, no pod is counted as updated | Healthy | | | {spec: {replicas: 1,
            updateStrategy: {type: OnDelete}}, status: {observedGeneration: 1,
            readyReplicas: 1, currentRevision: a, updateRevision: a}}
        on delete, not ready | Progressing | ReplicasNotReady | | {spec: {replicas: 3,
            updateStrategy: {type: OnDelete}}, status: {observedGeneration: 1, readyReplicas: 2}}
        replicas unset | Healthy | | | {status: {observedGeneration: 1}}
    ";
    check("apps/v1", "StatefulSet", cases);
}

#[test]
fn daemon_sets_are_judged() {
    let cases = r"
        rolled out | Healthy | | | {metadata: {generation: 1}, status: {observedGeneration: 1,
            desiredNumberScheduled: 3, updatedNumberScheduled: 3, numberAvailable: 3}}
        no node wanted | Healthy | | | {metadata: {generation: 1}, status: {observedGeneration: 1}}
        misscheduled | Healthy | | 2 run on a wrong node | {status: {desiredNumberScheduled: 1,
            updatedNumberScheduled: 1, numberAvailable: 1, numberMisscheduled: 2}}
        not observed | Progressing | GenerationNotObserved |
            | {metadata: {generation: 2}, status: {observedGeneration: 1}}
        updating | Progressing | RolloutInProgress | of 3 pods, 1 are updated and 3 available
            | {status: {desiredNumberScheduled: 3, updatedNumberScheduled: 1, numberAvailable: 3}}
        unavailable | Progressing | PodsUnavailable |
            | {status: {desiredNumberScheduled: 3, updatedNumberScheduled: 3, numberAvailable: 2}}
        on delete, old pods | Healthy | | | {spec: {updateStrategy: {type: OnDelete}},
            status: {desiredNumberScheduled: 3, numberAvailable: 3}}
        on delete, unavailable | Progressing | PodsUnavailable | | {spec: {updateStrategy: {type:
            OnDelete}}, status: {desiredNumberScheduled: 3, numberAvailable: 2}}
        odd counts | Healthy | | | {status: {desiredNumberScheduled: many}}
    ";
    check("apps/v1", "DaemonSet", cases);
}

#[test]
fn replica_sets_and_replication_controllers_are_judged() {
    for (api_version, kind) in [("apps/v1", "ReplicaSet"), ("v1", "ReplicationController")] {
        let cases = r"
            up | Healthy | | | {metadata: {generation: 1}, spec: {replicas: 2},
                status: {observedGeneration: 1, availableReplicas: 2}}
            old and empty | Healthy | |
                | {metadata: {generation: 1}, spec: {replicas: 0}, status: {observedGeneration: 1}}
            not observed | Progressing | GenerationNotObserved |
                | {metadata: {generation: 1}, spec: {replicas: 2}}
            starting | Progressing | ReplicasUnavailable | 1 of 2
                | {spec: {replicas: 2}, status: {availableReplicas: 1}}
            quota | Degraded | FailedCreate | exceeded quota | {spec: {replicas: 2},
                status: {conditions: [{type: ReplicaFailure, status: 'True',
                reason: FailedCreate, message: exceeded quota}]}}
            failure over | Healthy | | | {spec: {replicas: 1}, status: {availableReplicas: 1,
                conditions: [{type: ReplicaFailure, status: 'False'}]}}
            replicas unset | Healthy | | | {}
        ";
        check(api_version, kind, cases);
    }
}
