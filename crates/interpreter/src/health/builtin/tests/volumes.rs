use super::check;

#[test]
fn persistent_volumes_are_judged() {
    let cases = r"
        available | Healthy | | | {status: {phase: Available}}
        bound | Healthy | | | {status: {phase: Bound}}
        pending | Progressing | Pending | | {status: {phase: Pending}}
        released, retained | Suspended | Released | administrator
            | {spec: {persistentVolumeReclaimPolicy: Retain}, status: {phase: Released}}
        released, deleted | Progressing | Released |
            | {spec: {persistentVolumeReclaimPolicy: Delete}, status: {phase: Released}}
        failed | Degraded | VolumeFailed | no deleter: x
            | {status: {phase: Failed, message: 'no deleter: x'}}
        failed with a reason | Degraded | RecyclerFailed |
            | {status: {phase: Failed, reason: RecyclerFailed}}
        no status | Progressing | NoStatus | | {}
        unheard-of phase | Unknown | UnknownPhase | Gone | {status: {phase: Gone}}
    ";
    check("v1", "PersistentVolume", cases);
}

#[test]
fn persistent_volume_claims_are_judged() {
    let cases = r"
        bound | Healthy | | | {status: {phase: Bound}}
        pending | Progressing | Pending | | {status: {phase: Pending}}
        lost | Degraded | Lost | | {status: {phase: Lost, conditions: [{type: Resizing,
            status: 'True'}]}}
        no status | Progressing | NoStatus | | {}
        unheard-of phase | Unknown | UnknownPhase | Gone | {status: {phase: Gone}}
        growing | Progressing | Resizing |
            | {status: {phase: Bound, conditions: [{type: Resizing, status: 'True'}]}}
        waiting for the node | Progressing | FileSystemResizePending | Waiting
            | {status: {phase: Bound, conditions: [{type: FileSystemResizePending,
            status: 'True', message: Waiting for user}]}}
        grown | Healthy | | | {status: {phase: Bound, conditions: [{type: Resizing,
            status: 'False'}]}}
        controller cannot grow it | Degraded | ControllerResizeError | quota
            | {status: {phase: Bound, conditions: [{type: Resizing, status: 'True'},
            {type: ControllerResizeError, status: 'True', message: quota}]}}
        node cannot grow it | Degraded | ResizeFailed | | {status: {phase: Bound,
            conditions: [{type: NodeResizeError, status: 'True', reason: ResizeFailed}]}}
        cannot modify it | Degraded | ModifyVolumeError |
            | {status: {phase: Bound, conditions: [{type: ModifyVolumeError, status: 'True'}]}}
        infeasible | Degraded | NodeResizeInfeasible | storage
            | {status: {phase: Bound, allocatedResourceStatuses: {storage: NodeResizeInfeasible}}}
        feasible | Healthy | | | {status: {phase: Bound, allocatedResourceStatuses: {storage:
            NodeResizeInProgress, odd: 1}}}
    ";
    check("v1", "PersistentVolumeClaim", cases);
}
