use super::{
    Health::{Degraded, Healthy, Progressing, Suspended},
    check,
};

#[test]
fn deployments_are_judged() {
    check(
        "apps/v1",
        "Deployment",
        &[
            (
                "rolled out",
                "{metadata: {generation: 2}, spec: {replicas: 3}, status: {observedGeneration: 2, replicas: 3, updatedReplicas: 3, availableReplicas: 3}}",
                Healthy,
                "",
                "",
            ),
            (
                "observed generation is ahead",
                "{metadata: {generation: 2}, spec: {replicas: 0}, status: {observedGeneration: 3}}",
                Healthy,
                "",
                "",
            ),
            (
                "scaled to zero",
                "{metadata: {generation: 1}, spec: {replicas: 0}, status: {observedGeneration: 1}}",
                Healthy,
                "",
                "",
            ),
            (
                "replicas unset",
                "{metadata: {generation: 1}, spec: {}, status: {observedGeneration: 1}}",
                Healthy,
                "",
                "",
            ),
            (
                "paused",
                "{metadata: {generation: 2}, spec: {paused: true, replicas: 3}, status: {observedGeneration: 1, \
            conditions: [{type: Progressing, status: 'False', reason: ProgressDeadlineExceeded}]}}",
                Suspended,
                "Paused",
                "paused",
            ),
            (
                "pause of an odd type",
                "{spec: {paused: 'true'}}",
                Healthy,
                "",
                "",
            ),
            (
                "not observed",
                "{metadata: {generation: 2}, spec: {replicas: 1}, status: {observedGeneration: 1, updatedReplicas: 1, availableReplicas: 1}}",
                Progressing,
                "GenerationNotObserved",
                "generation 2",
            ),
            (
                "no status yet",
                "{metadata: {generation: 1}, spec: {replicas: 1}}",
                Progressing,
                "GenerationNotObserved",
                "",
            ),
            (
                "deadline exceeded",
                "{spec: {replicas: 1}, status: {replicas: 2, updatedReplicas: 1, availableReplicas: 1, conditions: [\
            {type: Available, status: 'True', reason: MinimumReplicasAvailable}, \
            {type: Progressing, status: 'False', reason: ProgressDeadlineExceeded, message: ReplicaSet web has timed out.}]}}",
                Degraded,
                "ProgressDeadlineExceeded",
                "ReplicaSet web has timed out. (1 of 1 replicas are updated, 1 available)",
            ),
            (
                "deadline exceeded, whatever the status",
                "{status: {conditions: [{type: Progressing, reason: ProgressDeadlineExceeded}]}}",
                Degraded,
                "ProgressDeadlineExceeded",
                "",
            ),
            (
                "quota",
                "{spec: {replicas: 3}, status: {conditions: [{type: ReplicaFailure, status: 'True', reason: FailedCreate, message: exceeded quota}]}}",
                Degraded,
                "FailedCreate",
                "exceeded quota (0 of 3",
            ),
            (
                "no quota trouble",
                "{spec: {replicas: 3}, status: {conditions: [{type: ReplicaFailure, status: 'False', reason: FailedCreate}]}}",
                Progressing,
                "RolloutInProgress",
                "",
            ),
            (
                "updating",
                "{spec: {replicas: 3}, status: {replicas: 4, updatedReplicas: 2, availableReplicas: 4}}",
                Progressing,
                "RolloutInProgress",
                "2 of 3 replicas are updated, 4 available",
            ),
            (
                "old replicas",
                "{spec: {replicas: 3}, status: {replicas: 5, updatedReplicas: 3, availableReplicas: 5}}",
                Progressing,
                "RolloutInProgress",
                "pending termination: 2",
            ),
            (
                "old replicas, replicas unset",
                "{spec: {}, status: {replicas: 2, updatedReplicas: 1, availableReplicas: 2}}",
                Progressing,
                "RolloutInProgress",
                "",
            ),
            (
                "starting",
                "{spec: {replicas: 3}, status: {replicas: 3, updatedReplicas: 3, availableReplicas: 1, conditions: [\
            {type: Available, status: 'False', reason: MinimumReplicasUnavailable}, {type: Progressing, status: 'True', reason: ReplicaSetUpdated}]}}",
                Progressing,
                "MinimumReplicasUnavailable",
                "1 available",
            ),
            (
                "one of three is away",
                "{spec: {replicas: 3}, status: {replicas: 3, updatedReplicas: 3, availableReplicas: 2, conditions: [\
            {type: Available, status: 'True'}, {type: Progressing, status: 'True', reason: NewReplicaSetAvailable}]}}",
                Progressing,
                "ReplicasUnavailable",
                "2 available",
            ),
            (
                "outage after the rollout",
                "{spec: {replicas: 3}, status: {replicas: 3, updatedReplicas: 3, availableReplicas: 0, conditions: [\
            {type: Available, status: 'False', reason: MinimumReplicasUnavailable, message: Deployment does not have minimum availability.}, \
            {type: Progressing, status: 'True', reason: NewReplicaSetAvailable}]}}",
                Degraded,
                "MinimumReplicasUnavailable",
                "minimum availability. (3 of 3",
            ),
            (
                "scaled up after the rollout",
                "{spec: {replicas: 9}, status: {replicas: 3, updatedReplicas: 3, availableReplicas: 3, conditions: [\
            {type: Available, status: 'False', reason: MinimumReplicasUnavailable}, {type: Progressing, status: 'True', reason: NewReplicaSetAvailable}]}}",
                Progressing,
                "RolloutInProgress",
                "",
            ),
            (
                "counts with a fraction of zero",
                "{spec: {replicas: 2.0}, status: {updatedReplicas: 2.0, availableReplicas: 2}}",
                Healthy,
                "",
                "",
            ),
            (
                "counts of odd types",
                "{spec: {replicas: 2}, status: {updatedReplicas: '2', availableReplicas: [2]}}",
                Progressing,
                "RolloutInProgress",
                "0 of 2",
            ),
        ],
    );
}

#[test]
fn stateful_sets_are_judged() {
    check(
        "apps/v1",
        "StatefulSet",
        &[
            (
                "rolled out",
                "{metadata: {generation: 1}, spec: {replicas: 2, updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 0}}}, \
            status: {observedGeneration: 1, readyReplicas: 2, updatedReplicas: 2, currentRevision: a, updateRevision: a}}",
                Healthy,
                "",
                "",
            ),
            (
                "rolled out, no strategy",
                "{spec: {replicas: 1}, status: {observedGeneration: 1, readyReplicas: 1, updatedReplicas: 1, currentRevision: a, updateRevision: a}}",
                Healthy,
                "",
                "",
            ),
            (
                "no status",
                "{spec: {replicas: 0}}",
                Progressing,
                "GenerationNotObserved",
                "",
            ),
            (
                "not observed",
                "{metadata: {generation: 3}, spec: {replicas: 0}, status: {observedGeneration: 2}}",
                Progressing,
                "GenerationNotObserved",
                "generation 3",
            ),
            (
                "starting",
                "{spec: {replicas: 3}, status: {observedGeneration: 1, readyReplicas: 1, updatedReplicas: 3}}",
                Progressing,
                "ReplicasNotReady",
                "1 of 3 replicas are ready",
            ),
            (
                "ready but not long enough",
                "{spec: {replicas: 3, minReadySeconds: 30}, status: {observedGeneration: 1, readyReplicas: 3, availableReplicas: 2, updatedReplicas: 3}}",
                Progressing,
                "ReplicasNotReady",
                "2 of 3 replicas are available",
            ),
            (
                "available does not matter without a time",
                "{spec: {replicas: 3, minReadySeconds: 0}, status: {observedGeneration: 1, readyReplicas: 3, updatedReplicas: 3}}",
                Healthy,
                "",
                "",
            ),
            (
                "updating",
                "{spec: {replicas: 3, updateStrategy: {type: RollingUpdate, rollingUpdate: {}}}, \
            status: {observedGeneration: 1, readyReplicas: 3, updatedReplicas: 1, currentRevision: a, updateRevision: b}}",
                Progressing,
                "RolloutInProgress",
                "1 replicas are updated, 2 run the old revision",
            ),
            (
                "updated, revisions not compared",
                "{spec: {replicas: 3, updateStrategy: {type: RollingUpdate, rollingUpdate: {}}}, \
            status: {observedGeneration: 1, readyReplicas: 3, updatedReplicas: 3, currentRevision: a, updateRevision: b}}",
                Healthy,
                "",
                "",
            ),
            (
                "updated, revisions compared",
                "{spec: {replicas: 3}, status: {observedGeneration: 1, readyReplicas: 3, updatedReplicas: 3, currentRevision: a, updateRevision: b}}",
                Progressing,
                "RolloutInProgress",
                "revision",
            ),
            (
                "held by a partition",
                "{spec: {replicas: 3, updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 2}}}, \
            status: {observedGeneration: 1, readyReplicas: 3, updatedReplicas: 1, currentRevision: a, updateRevision: b}}",
                Healthy,
                "",
                "",
            ),
            (
                "partition not reached",
                "{spec: {replicas: 3, updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 1}}}, \
            status: {observedGeneration: 1, readyReplicas: 3, updatedReplicas: 1, currentRevision: a, updateRevision: b}}",
                Progressing,
                "RolloutInProgress",
                "",
            ),
            (
                "partition beyond all replicas",
                "{spec: {replicas: 3, updateStrategy: {rollingUpdate: {partition: 9}}}, \
            status: {observedGeneration: 1, readyReplicas: 3, currentRevision: a, updateRevision: b}}",
                Healthy,
                "",
                "",
            ),
            (
                "on delete, old pods",
                "{spec: {replicas: 3, updateStrategy: {type: OnDelete}}, \
            status: {observedGeneration: 1, readyReplicas: 3, updatedReplicas: 1, currentRevision: a, updateRevision: b}}",
                Healthy,
                "",
                "2 pods run the old revision",
            ),
            (
                "on delete, no pod is counted as updated",
                "{spec: {replicas: 1, updateStrategy: {type: OnDelete}}, \
            status: {observedGeneration: 1, readyReplicas: 1, currentRevision: a, updateRevision: a}}",
                Healthy,
                "",
                "",
            ),
            (
                "on delete, not ready",
                "{spec: {replicas: 3, updateStrategy: {type: OnDelete}}, status: {observedGeneration: 1, readyReplicas: 2}}",
                Progressing,
                "ReplicasNotReady",
                "",
            ),
            (
                "replicas unset",
                "{status: {observedGeneration: 1}}",
                Healthy,
                "",
                "",
            ),
        ],
    );
}

#[test]
fn daemon_sets_are_judged() {
    check(
        "apps/v1",
        "DaemonSet",
        &[
            (
                "rolled out",
                "{metadata: {generation: 1}, status: {observedGeneration: 1, desiredNumberScheduled: 3, updatedNumberScheduled: 3, numberAvailable: 3}}",
                Healthy,
                "",
                "",
            ),
            (
                "no node wanted",
                "{metadata: {generation: 1}, status: {observedGeneration: 1}}",
                Healthy,
                "",
                "",
            ),
            (
                "misscheduled",
                "{status: {desiredNumberScheduled: 1, updatedNumberScheduled: 1, numberAvailable: 1, numberMisscheduled: 2}}",
                Healthy,
                "",
                "2 run on a wrong node",
            ),
            (
                "not observed",
                "{metadata: {generation: 2}, status: {observedGeneration: 1}}",
                Progressing,
                "GenerationNotObserved",
                "",
            ),
            (
                "updating",
                "{status: {desiredNumberScheduled: 3, updatedNumberScheduled: 1, numberAvailable: 3}}",
                Progressing,
                "RolloutInProgress",
                "of 3 pods, 1 are updated and 3 available",
            ),
            (
                "unavailable",
                "{status: {desiredNumberScheduled: 3, updatedNumberScheduled: 3, numberAvailable: 2}}",
                Progressing,
                "PodsUnavailable",
                "",
            ),
            (
                "on delete, old pods",
                "{spec: {updateStrategy: {type: OnDelete}}, status: {desiredNumberScheduled: 3, numberAvailable: 3}}",
                Healthy,
                "",
                "",
            ),
            (
                "on delete, unavailable",
                "{spec: {updateStrategy: {type: OnDelete}}, status: {desiredNumberScheduled: 3, numberAvailable: 2}}",
                Progressing,
                "PodsUnavailable",
                "",
            ),
            (
                "odd counts",
                "{status: {desiredNumberScheduled: many}}",
                Healthy,
                "",
                "",
            ),
        ],
    );
}

#[test]
fn replica_sets_and_replication_controllers_are_judged() {
    for (api_version, kind) in [("apps/v1", "ReplicaSet"), ("v1", "ReplicationController")] {
        check(
            api_version,
            kind,
            &[
                (
                    "up",
                    "{metadata: {generation: 1}, spec: {replicas: 2}, status: {observedGeneration: 1, availableReplicas: 2}}",
                    Healthy,
                    "",
                    "",
                ),
                (
                    "old and empty",
                    "{metadata: {generation: 1}, spec: {replicas: 0}, status: {observedGeneration: 1}}",
                    Healthy,
                    "",
                    "",
                ),
                (
                    "not observed",
                    "{metadata: {generation: 1}, spec: {replicas: 2}}",
                    Progressing,
                    "GenerationNotObserved",
                    "",
                ),
                (
                    "starting",
                    "{spec: {replicas: 2}, status: {availableReplicas: 1}}",
                    Progressing,
                    "ReplicasUnavailable",
                    "1 of 2",
                ),
                (
                    "quota",
                    "{spec: {replicas: 2}, status: {conditions: [{type: ReplicaFailure, status: 'True', reason: FailedCreate, message: exceeded quota}]}}",
                    Degraded,
                    "FailedCreate",
                    "exceeded quota",
                ),
                (
                    "failure over",
                    "{spec: {replicas: 1}, status: {availableReplicas: 1, conditions: [{type: ReplicaFailure, status: 'False'}]}}",
                    Healthy,
                    "",
                    "",
                ),
                ("replicas unset", "{}", Healthy, "", ""),
            ],
        );
    }
}
