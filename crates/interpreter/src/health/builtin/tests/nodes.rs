use super::check;

#[test]
fn nodes_are_judged() {
    let cases = r"
        ready | Healthy | | | {status: {conditions: [{type: MemoryPressure, status: 'False'},
            {type: Ready, status: 'True', reason: KubeletReady}]}}
        cordoned | Suspended | Unschedulable | cordoned
            | {spec: {unschedulable: true}, status: {conditions: [{type: Ready, status: 'True'}]}}
        not ready | Degraded | KubeletNotReady | cni is not ready | {status: {conditions: [{type:
            Ready, status: 'False', reason: KubeletNotReady, message: cni is not ready}]}}
        silent | Degraded | NodeStatusUnknown | kubelet is silent | {spec: {unschedulable: true},
            status: {conditions: [{type: Ready, status: Unknown, reason: NodeStatusUnknown}]}}
        under pressure | Degraded | DiskPressure | disk is full | {status: {conditions: [{type:
            Ready, status: 'True'}, {type: DiskPressure, status: 'True', reason:
            KubeletHasDiskPressure, message: disk is full}]}}
        cordoned under pressure | Degraded | PIDPressure | | {spec: {unschedulable: true},
            status: {conditions: [{type: Ready, status: 'True'}, {type: PIDPressure,
            status: 'True'}]}}
        memory | Degraded | MemoryPressure | | {status: {conditions: [{type: Ready,
            status: 'True'}, {type: MemoryPressure, status: 'True'}]}}
        network | Degraded | NetworkUnavailable | | {status: {conditions: [{type: Ready,
            status: 'True'}, {type: NetworkUnavailable, status: 'True'}]}}
        pressure unknown | Healthy | | | {status: {conditions: [{type: Ready,
            status: 'True'}, {type: DiskPressure, status: Unknown}]}}
        no Ready condition | Degraded | NodeStatusUnknown |
            | {status: {conditions: [{type: MemoryPressure, status: 'False'}]}}
        no status | Progressing | NoStatus | | {}
    ";
    check("v1", "Node", cases);
}
