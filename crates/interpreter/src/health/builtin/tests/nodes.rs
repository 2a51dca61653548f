use super::{
    Health::{Degraded, Healthy, Progressing, Suspended},
    check,
};

#[test]
fn nodes_are_judged() {
    check(
        "v1",
        "Node",
        &[
            (
                "ready",
                "{status: {conditions: [{type: MemoryPressure, status: 'False'}, {type: Ready, status: 'True', reason: KubeletReady}]}}",
                Healthy,
                "",
                "",
            ),
            (
                "cordoned",
                "{spec: {unschedulable: true}, status: {conditions: [{type: Ready, status: 'True'}]}}",
                Suspended,
                "Unschedulable",
                "cordoned",
            ),
            (
                "not ready",
                "{status: {conditions: [{type: Ready, status: 'False', reason: KubeletNotReady, message: cni is not ready}]}}",
                Degraded,
                "KubeletNotReady",
                "cni is not ready",
            ),
            (
                "silent",
                "{spec: {unschedulable: true}, status: {conditions: [{type: Ready, status: Unknown, reason: NodeStatusUnknown}]}}",
                Degraded,
                "NodeStatusUnknown",
                "kubelet is silent",
            ),
            (
                "under pressure",
                "{status: {conditions: [{type: Ready, status: 'True'}, {type: DiskPressure, status: 'True', reason: KubeletHasDiskPressure, message: disk is full}]}}",
                Degraded,
                "DiskPressure",
                "disk is full",
            ),
            (
                "cordoned under pressure",
                "{spec: {unschedulable: true}, status: {conditions: [{type: Ready, status: 'True'}, {type: PIDPressure, status: 'True'}]}}",
                Degraded,
                "PIDPressure",
                "",
            ),
            (
                "memory",
                "{status: {conditions: [{type: Ready, status: 'True'}, {type: MemoryPressure, status: 'True'}]}}",
                Degraded,
                "MemoryPressure",
                "",
            ),
            (
                "network",
                "{status: {conditions: [{type: Ready, status: 'True'}, {type: NetworkUnavailable, status: 'True'}]}}",
                Degraded,
                "NetworkUnavailable",
                "",
            ),
            (
                "pressure unknown",
                "{status: {conditions: [{type: Ready, status: 'True'}, {type: DiskPressure, status: Unknown}]}}",
                Healthy,
                "",
                "",
            ),
            (
                "no Ready condition",
                "{status: {conditions: [{type: MemoryPressure, status: 'False'}]}}",
                Degraded,
                "NodeStatusUnknown",
                "",
            ),
            ("no status", "{}", Progressing, "NoStatus", ""),
        ],
    );
}
