use super::{
    Health::{Degraded, Healthy, Progressing, Suspended, Unknown},
    check,
};

#[test]
fn pods_are_judged() {
    check(
        "v1",
        "Pod",
        &[
            (
                "ready",
                "{status: {phase: Running, conditions: [{type: Ready, status: 'True'}]}}",
                Healthy,
                "",
                "",
            ),
            (
                "ready after a crash",
                "{status: {phase: Running, conditions: [{type: Ready, status: 'True'}], \
            containerStatuses: [{name: app, restartCount: 3, lastState: {terminated: {exitCode: 1}}}]}}",
                Healthy,
                "",
                "",
            ),
            (
                "ready, restart policy never",
                "{spec: {restartPolicy: Never}, status: {phase: Running, conditions: [{type: Ready, status: 'True'}]}}",
                Healthy,
                "",
                "",
            ),
            (
                "ready, of a job",
                "{metadata: {ownerReferences: [{apiVersion: batch/v1, kind: Job}]}, status: {phase: Running, conditions: [{type: Ready, status: 'True'}]}}",
                Progressing,
                "JobRunning",
                "",
            ),
            (
                "ready, of another job",
                "{metadata: {ownerReferences: [{apiVersion: batch.volcano.sh/v1alpha1, kind: Job}]}, status: {phase: Running, conditions: [{type: Ready, status: 'True'}]}}",
                Healthy,
                "",
                "",
            ),
            (
                "succeeded",
                "{status: {phase: Succeeded, conditions: [{type: Ready, status: 'False', reason: PodCompleted}]}}",
                Healthy,
                "",
                "",
            ),
            (
                "not ready, without a reason",
                "{status: {phase: Running, conditions: [{type: Ready, status: 'False'}]}}",
                Progressing,
                "NotReady",
                "",
            ),
            (
                "on a node that is lost",
                "{status: {phase: Running, reason: NodeLost, message: Node n1 is unresponsive, conditions: [{type: Ready, status: 'False'}]}}",
                Progressing,
                "NodeLost",
                "n1",
            ),
            (
                "on a node that is lost, without a message",
                "{status: {phase: Running, reason: NodeLost, conditions: [{type: Ready, status: 'False', message: Node n2 is silent}]}}",
                Progressing,
                "NodeLost",
                "n2",
            ),
            (
                "scheduler failed",
                "{status: {phase: Pending, conditions: [{type: PodScheduled, status: 'False', reason: SchedulerError, message: running PreBind plugin}]}}",
                Progressing,
                "SchedulerError",
                "PreBind",
            ),
            ("no status", "{}", Progressing, "NoStatus", ""),
            (
                "phase of an odd type",
                "{status: {phase: 1}}",
                Progressing,
                "NoStatus",
                "",
            ),
            (
                "unheard-of phase",
                "{status: {phase: Dreaming}}",
                Unknown,
                "UnknownPhase",
                "Dreaming",
            ),
            (
                "node lost",
                "{status: {phase: Unknown, reason: NodeLost}}",
                Unknown,
                "NodeLost",
                "node",
            ),
            (
                "pending",
                "{status: {phase: Pending}}",
                Progressing,
                "Pending",
                "",
            ),
            (
                "creating",
                "{status: {phase: Pending, containerStatuses: [{name: app, state: {waiting: {reason: ContainerCreating}}}]}}",
                Progressing,
                "ContainerCreating",
                "app",
            ),
            (
                "not ready",
                "{status: {phase: Running, conditions: [{type: Ready, status: 'False', reason: ContainersNotReady, message: 'containers with unready status: [main]'}], \
            containerStatuses: [{name: main, restartCount: 0, state: {running: {}}}]}}",
                Progressing,
                "ContainersNotReady",
                "[main]",
            ),
            (
                "running without conditions",
                "{status: {phase: Running}}",
                Progressing,
                "ContainersNotReady",
                "",
            ),
        ],
    );
}

#[test]
fn failed_pods_are_judged() {
    check(
        "v1",
        "Pod",
        &[
            (
                "evicted",
                "{status: {phase: Failed, reason: Evicted, message: 'The node was low on resource: memory.', \
            containerStatuses: [{state: {terminated: {exitCode: 137, reason: OOMKilled}}}]}}",
                Degraded,
                "Evicted",
                "low on resource",
            ),
            (
                "out of memory",
                "{status: {phase: Failed, containerStatuses: [{name: app, state: {terminated: {exitCode: 137, reason: OOMKilled}}}]}}",
                Degraded,
                "OOMKilled",
                "container \"app\": last exit code 137 (OOMKilled)",
            ),
            (
                "error",
                "{status: {phase: Failed, containerStatuses: [{name: done, state: {terminated: {exitCode: 0, reason: Completed}}}, \
            {name: app, state: {terminated: {exitCode: 2, reason: Error}}}]}}",
                Degraded,
                "Error",
                "container \"app\": last exit code 2",
            ),
            (
                "the container says why",
                "{status: {phase: Failed, containerStatuses: [{name: app, state: {terminated: {exitCode: 1, message: no such database}}}]}}",
                Degraded,
                "Error",
                "no such database",
            ),
            (
                "init container first",
                "{status: {phase: Failed, initContainerStatuses: [{name: init, state: {terminated: {exitCode: 3, reason: Error}}}], \
            containerStatuses: [{name: app, state: {terminated: {exitCode: 4}}}]}}",
                Degraded,
                "Error",
                "\"init\"",
            ),
            (
                "without a cause",
                "{status: {phase: Failed}}",
                Degraded,
                "PodFailed",
                "",
            ),
        ],
    );
}

#[test]
fn pods_that_cannot_start_are_judged() {
    check(
        "v1",
        "Pod",
        &[
            (
                "crash loop",
                "{status: {phase: Running, conditions: [{type: Ready, status: 'False'}], containerStatuses: [{name: app, restartCount: 7, \
            state: {waiting: {reason: CrashLoopBackOff, message: back-off 5m0s restarting failed container}}, lastState: {terminated: {exitCode: 137, reason: OOMKilled}}}]}}",
                Degraded,
                "CrashLoopBackOff",
                "container \"app\": back-off 5m0s restarting failed container, last exit code 137 (OOMKilled)",
            ),
            (
                "image",
                "{status: {phase: Pending, containerStatuses: [{name: app, state: {waiting: {reason: ImagePullBackOff, message: Back-off pulling image}}}]}}",
                Degraded,
                "ImagePullBackOff",
                "Back-off pulling image",
            ),
            (
                "image of an init container",
                "{spec: {restartPolicy: Never}, status: {phase: Pending, initContainerStatuses: [{name: init, state: {waiting: {reason: ErrImagePull}}}], \
            containerStatuses: [{name: app, state: {waiting: {reason: PodInitializing}}}]}}",
                Degraded,
                "ErrImagePull",
                "container \"init\": ErrImagePull",
            ),
            (
                "image name",
                "{status: {phase: Pending, containerStatuses: [{state: {waiting: {reason: InvalidImageName}}}]}}",
                Degraded,
                "InvalidImageName",
                "",
            ),
            (
                "configuration",
                "{status: {phase: Pending, containerStatuses: [{state: {waiting: {reason: CreateContainerConfigError, message: secret not found}}}]}}",
                Degraded,
                "CreateContainerConfigError",
                "secret not found",
            ),
            (
                "two of them",
                "{status: {phase: Pending, containerStatuses: [{name: a, state: {waiting: {reason: ImagePullBackOff}}}, {name: b, state: {waiting: {reason: CrashLoopBackOff}}}]}}",
                Degraded,
                "ImagePullBackOff",
                "container \"a\": ImagePullBackOff; container \"b\": CrashLoopBackOff",
            ),
            (
                "no node fits",
                "{status: {phase: Pending, conditions: [{type: PodScheduled, status: 'False', reason: Unschedulable, message: '0/3 nodes are available'}]}}",
                Degraded,
                "FailedScheduling",
                "0/3 nodes are available",
            ),
            (
                "gated",
                "{status: {phase: Pending, conditions: [{type: PodScheduled, status: 'False', reason: SchedulingGated, message: gated}]}}",
                Suspended,
                "SchedulingGated",
                "gated",
            ),
            (
                "scheduled",
                "{status: {phase: Pending, conditions: [{type: PodScheduled, status: 'True', reason: Unschedulable}]}}",
                Progressing,
                "Pending",
                "",
            ),
            (
                "out of memory, restarted",
                "{status: {phase: Running, conditions: [{type: Ready, status: 'False'}], containerStatuses: [{name: app, restartCount: 2, \
            state: {running: {}}, lastState: {terminated: {exitCode: 137, reason: OOMKilled}}}]}}",
                Degraded,
                "OOMKilled",
                "container \"app\" was restarted 2 times, last exit code 137",
            ),
            (
                "failed, restarted",
                "{status: {phase: Running, containerStatuses: [{restartCount: 1, lastState: {terminated: {exitCode: 1}}}]}}",
                Degraded,
                "Error",
                "",
            ),
            (
                "ended well, restarted",
                "{status: {phase: Running, conditions: [{type: Ready, status: 'False', reason: ContainersNotReady}], \
            containerStatuses: [{restartCount: 1, lastState: {terminated: {exitCode: 0, reason: Completed}}}]}}",
                Progressing,
                "ContainersNotReady",
                "",
            ),
            (
                "never restarted",
                "{status: {phase: Running, containerStatuses: [{restartCount: 0, lastState: {terminated: {exitCode: 1}}}]}}",
                Progressing,
                "ContainersNotReady",
                "",
            ),
            (
                "sidecar that fails",
                "{status: {phase: Running, initContainerStatuses: [{name: proxy, restartCount: 4, state: {running: {}}, lastState: {terminated: {exitCode: 1}}}]}}",
                Degraded,
                "Error",
                "proxy",
            ),
            (
                "init container that has passed",
                "{status: {phase: Running, initContainerStatuses: [{name: init, restartCount: 1, state: {terminated: {exitCode: 0}}, lastState: {terminated: {exitCode: 1}}}]}}",
                Progressing,
                "ContainersNotReady",
                "",
            ),
        ],
    );
}
