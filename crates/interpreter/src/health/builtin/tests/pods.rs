use super::check;

#[test]
fn pods_are_judged() {
    let cases = r"
        ready | Healthy | | | {status: {phase: Running, conditions: [{type: Ready,
            status: 'True'}]}}
        ready after a crash | Healthy | | | {status: {phase: Running, conditions: [{type: Ready,
            status: 'True'}], containerStatuses: [{name: app, restartCount: 3,
            lastState: {terminated: {exitCode: 1}}}]}}
        ready, restart policy never | Healthy | | | {spec: {restartPolicy: Never},
            status: {phase: Running, conditions: [{type: Ready, status: 'True'}]}}
        ready, of a job | Progressing | JobRunning | | {metadata: {ownerReferences: [{apiVersion:
            batch/v1, kind: Job}]}, status: {phase: Running, conditions: [{type: Ready,
            status: 'True'}]}}
        ready, of another job | Healthy | | | {metadata: {ownerReferences: [{apiVersion:
            batch.volcano.sh/v1alpha1, kind: Job}]}, status: {phase: Running,
            conditions: [{type: Ready, status: 'True'}]}}
        succeeded | Healthy | | | {status: {phase: Succeeded, conditions: [{type: Ready,
            status: 'False', reason: PodCompleted}]}}
        not ready, without a reason | Progressing | NotReady |
            | {status: {phase: Running, conditions: [{type: Ready, status: 'False'}]}}
        on a node that is lost | Progressing | NodeLost | n1 | {status: {phase: Running,
            reason: NodeLost, message: Node n1 is unresponsive, conditions: [{type: Ready,
            status: 'False'}]}}
        on a node that is lost, without a message | Progressing | NodeLost | n2
            | {status: {phase: Running, reason: NodeLost, conditions: [{type: Ready,
            status: 'False', message: Node n2 is silent}]}}
        scheduler failed | Progressing | SchedulerError | PreBind | {status: {phase: Pending,
            conditions: [{type: PodScheduled, status: 'False', reason: SchedulerError,
            message: running PreBind plugin}]}}
        no status | Progressing | NoStatus | | {}
        phase of an odd type | Progressing | NoStatus | | {status: {phase: 1}}
        unheard-of phase | Unknown | UnknownPhase | Dreaming | {status: {phase: Dreaming}}
        node lost | Unknown | NodeLost | node | {status: {phase: Unknown, reason: NodeLost}}
        pending | Progressing | Pending | | {status: {phase: Pending}}
        creating | Progressing | ContainerCreating | app | {status: {phase: Pending,
            containerStatuses: [{name: app, state: {waiting: {reason: ContainerCreating}}}]}}
        not ready | Progressing | ContainersNotReady | [main] | {status: {phase: Running,
            conditions: [{type: Ready, status: 'False', reason: ContainersNotReady,
            message: 'containers with unready status: [main]'}], containerStatuses: [{name: main,
            restartCount: 0, state: {running: {}}}]}}
        running without conditions | Progressing | ContainersNotReady | | {status: {phase: Running}}
    ";
    check("v1", "Pod", cases);
}

#[test]
fn failed_pods_are_judged() {
    let cases = r#"
        evicted | Degraded | Evicted | low on resource | {status: {phase: Failed,
            reason: Evicted, message: 'The node was low on resource: memory.',
            containerStatuses: [{state: {terminated: {exitCode: 137, reason: OOMKilled}}}]}}
        out of memory | Degraded | OOMKilled | container "app": last exit code 137 (OOMKilled)
            | {status: {phase: Failed, containerStatuses: [{name: app, state: {terminated:
            {exitCode: 137, reason: OOMKilled}}}]}}
        error | Degraded | Error | container "app": last exit code 2 | {status: {phase: Failed,
            containerStatuses: [{name: done, state: {terminated: {exitCode: 0,
            reason: Completed}}}, {name: app, state: {terminated: {exitCode: 2, reason: Error}}}]}}
        the container says why | Degraded | Error | no such database | {status: {phase: Failed,
            containerStatuses: [{name: app, state: {terminated: {exitCode: 1,
            message: no such database}}}]}}
        init container first | Degraded | Error | "init" | {status: {phase: Failed,
            initContainerStatuses: [{name: init, state: {terminated: {exitCode: 3,
            reason: Error}}}], containerStatuses: [{name: app, state: {terminated: {exitCode:
            4}}}]}}
        without a cause | Degraded | PodFailed | | {status: {phase: Failed}}
    "#;
    check("v1", "Pod", cases);
}

#[test]
fn pods_that_cannot_start_are_judged() {
    let cases = r#"
        crash loop | Degraded | CrashLoopBackOff | container "app": back-off 5m0s restarting failed
            container, last exit code 137 (OOMKilled) | {status: {phase: Running,
            conditions: [{type: Ready, status: 'False'}], containerStatuses: [{name: app,
            restartCount: 7, state: {waiting: {reason: CrashLoopBackOff, message: back-off 5m0s
            restarting failed container}}, lastState: {terminated: {exitCode: 137,
            reason: OOMKilled}}}]}}
        image | Degraded | ImagePullBackOff | Back-off pulling image | {status: {phase: Pending,
            containerStatuses: [{name: app, state: {waiting: {reason: ImagePullBackOff,
            message: Back-off pulling image}}}]}}
        image of an init container | Degraded | ErrImagePull | container "init": ErrImagePull
            | {spec: {restartPolicy: Never}, status: {phase: Pending, initContainerStatuses: [{name:
            init, state: {waiting: {reason: ErrImagePull}}}], containerStatuses: [{name: app,
            state: {waiting: {reason: PodInitializing}}}]}}
        image name | Degraded | InvalidImageName | | {status: {phase: Pending,
            containerStatuses: [{state: {waiting: {reason: InvalidImageName}}}]}}
        configuration | Degraded | CreateContainerConfigError | secret not found
            | {status: {phase: Pending, containerStatuses: [{state: {waiting: {reason:
            CreateContainerConfigError, message: secret not found}}}]}}
        two of them | Degraded | ImagePullBackOff
            | container "a": ImagePullBackOff; container "b": CrashLoopBackOff
            | {status: {phase: Pending, containerStatuses: [{name: a, state: {waiting: {reason:
            ImagePullBackOff}}}, {name: b, state: {waiting: {reason: CrashLoopBackOff}}}]}}
        no node fits | Degraded | FailedScheduling | 0/3 nodes are available
            | {status: {phase: Pending, conditions: [{type: PodScheduled, status: 'False',
            reason: Unschedulable, message: '0/3 nodes are available'}]}}
        gated | Suspended | SchedulingGated | gated | {status: {phase: Pending,
            conditions: [{type: PodScheduled, status: 'False', reason: SchedulingGated,
            message: gated}]}}
        scheduled | Progressing | Pending | | {status: {phase: Pending, conditions: [{type:
            PodScheduled, status: 'True', reason: Unschedulable}]}}
        out of memory, restarted | Degraded | OOMKilled
            | container "app" was restarted 2 times, last exit code 137 | {status: {phase: Running,
            conditions: [{type: Ready, status: 'False'}], containerStatuses: [{name: app,
            restartCount: 2, state: {running: {}}, lastState: {terminated: {exitCode: 137,
            reason: OOMKilled}}}]}}
        failed, restarted | Degraded | Error | | {status: {phase: Running,
            containerStatuses: [{restartCount: 1, lastState: {terminated: {exitCode: 1}}}]}}
        ended well, restarted | Progressing | ContainersNotReady | | {status: {phase: Running,
            conditions: [{type: Ready, status: 'False', reason: ContainersNotReady}],
            containerStatuses: [{restartCount: 1, lastState: {terminated: {exitCode: 0,
            reason: Completed}}}]}}
        never restarted | Progressing | ContainersNotReady | | {status: {phase: Running,
            containerStatuses: [{restartCount: 0, lastState: {terminated: {exitCode: 1}}}]}}
        sidecar that fails | Degraded | Error | proxy | {status: {phase: Running,
            initContainerStatuses: [{name: proxy, restartCount: 4, state: {running: {}},
            lastState: {terminated: {exitCode: 1}}}]}}
        init container that has passed | Progressing | ContainersNotReady |
            | {status: {phase: Running, initContainerStatuses: [{name: init, restartCount: 1,
            state: {terminated: {exitCode: 0}}, lastState: {terminated: {exitCode: 1}}}]}}
    "#;
    check("v1", "Pod", cases);
}
