use super::{
    Health::{Degraded, Healthy, Progressing, Suspended, Unknown},
    check,
};

#[test]
fn persistent_volumes_are_judged() {
    check(
        "v1",
        "PersistentVolume",
        &[
            ("available", "{status: {phase: Available}}", Healthy, "", ""),
            ("bound", "{status: {phase: Bound}}", Healthy, "", ""),
            (
                "pending",
                "{status: {phase: Pending}}",
                Progressing,
                "Pending",
                "",
            ),
            (
                "released, retained",
                "{spec: {persistentVolumeReclaimPolicy: Retain}, status: {phase: Released}}",
                Suspended,
                "Released",
                "administrator",
            ),
            (
                "released, deleted",
                "{spec: {persistentVolumeReclaimPolicy: Delete}, status: {phase: Released}}",
                Progressing,
                "Released",
                "",
            ),
            (
                "failed",
                "{status: {phase: Failed, message: 'no deleter: x'}}",
                Degraded,
                "VolumeFailed",
                "no deleter: x",
            ),
            (
                "failed with a reason",
                "{status: {phase: Failed, reason: RecyclerFailed}}",
                Degraded,
                "RecyclerFailed",
                "",
            ),
            ("no status", "{}", Progressing, "NoStatus", ""),
            (
                "unheard-of phase",
                "{status: {phase: Gone}}",
                Unknown,
                "UnknownPhase",
                "Gone",
            ),
        ],
    );
}

#[test]
fn persistent_volume_claims_are_judged() {
    check(
        "v1",
        "PersistentVolumeClaim",
        &[
            ("bound", "{status: {phase: Bound}}", Healthy, "", ""),
            (
                "pending",
                "{status: {phase: Pending}}",
                Progressing,
                "Pending",
                "",
            ),
            (
                "lost",
                "{status: {phase: Lost, conditions: [{type: Resizing, status: 'True'}]}}",
                Degraded,
                "Lost",
                "",
            ),
            ("no status", "{}", Progressing, "NoStatus", ""),
            (
                "unheard-of phase",
                "{status: {phase: Gone}}",
                Unknown,
                "UnknownPhase",
                "Gone",
            ),
            (
                "growing",
                "{status: {phase: Bound, conditions: [{type: Resizing, status: 'True'}]}}",
                Progressing,
                "Resizing",
                "",
            ),
            (
                "waiting for the node",
                "{status: {phase: Bound, conditions: [{type: FileSystemResizePending, status: 'True', message: Waiting for user}]}}",
                Progressing,
                "FileSystemResizePending",
                "Waiting",
            ),
            (
                "grown",
                "{status: {phase: Bound, conditions: [{type: Resizing, status: 'False'}]}}",
                Healthy,
                "",
                "",
            ),
            (
                "controller cannot grow it",
                "{status: {phase: Bound, conditions: [{type: Resizing, status: 'True'}, {type: ControllerResizeError, status: 'True', message: quota}]}}",
                Degraded,
                "ControllerResizeError",
                "quota",
            ),
            (
                "node cannot grow it",
                "{status: {phase: Bound, conditions: [{type: NodeResizeError, status: 'True', reason: ResizeFailed}]}}",
                Degraded,
                "ResizeFailed",
                "",
            ),
            (
                "cannot modify it",
                "{status: {phase: Bound, conditions: [{type: ModifyVolumeError, status: 'True'}]}}",
                Degraded,
                "ModifyVolumeError",
                "",
            ),
            (
                "infeasible",
                "{status: {phase: Bound, allocatedResourceStatuses: {storage: NodeResizeInfeasible}}}",
                Degraded,
                "NodeResizeInfeasible",
                "storage",
            ),
            (
                "feasible",
                "{status: {phase: Bound, allocatedResourceStatuses: {storage: NodeResizeInProgress, odd: 1}}}",
                Healthy,
                "",
                "",
            ),
        ],
    );
}
