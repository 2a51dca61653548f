use serde_json::json;

use super::*;

/// The cells of an object's row, `-o wide` ones after a bar.
fn row(group: &str, kind: &str, value: &Value) -> String {
    let object = Object { value, now: "2026-02-03T10:00:00Z".parse().unwrap() };
    let cells = |wide: bool| {
        let shown = columns(group, kind).iter().filter(|column| column.wide == wide);
        shown.map(|column| format!("{}={}", column.header, column.cell(&object))).collect::<Vec<_>>().join(" ")
    };
    match cells(true) {
        wide if wide.is_empty() => cells(false),
        wide => format!("{} | {wide}", cells(false)),
    }
}

fn pod_status(spec: &Value, status: &Value) -> String {
    let value = json!({ "metadata": {}, "spec": spec, "status": status });
    let object = Object { value: &value, now: Timestamp::UNIX_EPOCH };
    let column = columns("", "Pod").iter().find(|column| column.header == "STATUS").unwrap();
    column.cell(&object)
}

#[test]
fn a_pod_shows_what_is_ready_and_how_often_it_restarted() {
    let pod = json!({
        "metadata": { "creationTimestamp": "2026-02-03T09:00:00Z" },
        "spec": { "nodeName": "n1", "containers": [{ "name": "a" }, { "name": "b" }], "initContainers": [{ "name": "side", "restartPolicy": "Always" }] },
        "status": {
            "phase": "Running",
            "podIP": "10.0.0.1",
            "containerStatuses": [
                { "name": "a", "ready": true, "restartCount": 2, "state": { "running": {} } },
                { "name": "b", "ready": false, "restartCount": 1, "state": { "running": {} } },
            ],
            "initContainerStatuses": [{ "name": "side", "ready": true, "started": true, "restartCount": 4, "state": { "running": {} } }],
        },
    });
    assert_eq!(
        row("", "Pod", &pod),
        "READY=2/3 STATUS=Running RESTARTS=7 AGE=60m | IP=10.0.0.1 NODE=n1 NOMINATED NODE=<none> READINESS GATES=<none>"
    );
}

#[test]
fn the_status_of_a_pod_is_what_keeps_it_from_running() {
    let one = json!({ "containers": [{ "name": "a" }] });
    let container = |state: Value| json!({ "phase": "Running", "containerStatuses": [{ "name": "a", "state": state }] });
    assert_eq!(pod_status(&one, &json!({ "phase": "Pending" })), "Pending");
    assert_eq!(pod_status(&one, &json!({ "phase": "Failed", "reason": "Evicted" })), "Evicted");
    assert_eq!(pod_status(&one, &container(json!({ "waiting": { "reason": "CrashLoopBackOff" } }))), "CrashLoopBackOff");
    assert_eq!(pod_status(&one, &container(json!({ "terminated": { "exitCode": 3 } }))), "ExitCode:3");
    assert_eq!(pod_status(&one, &container(json!({ "terminated": { "signal": 9, "exitCode": 137 } }))), "Signal:9");
    let init = json!({ "containers": [{ "name": "a" }], "initContainers": [{ "name": "i" }, { "name": "j" }] });
    let done = json!({ "name": "i", "state": { "terminated": { "exitCode": 0 } } });
    let second = |state: Value| json!({ "phase": "Pending", "initContainerStatuses": [done, { "name": "j", "state": state }] });
    assert_eq!(pod_status(&init, &second(json!({ "running": {} }))), "Init:1/2");
    assert_eq!(pod_status(&init, &second(json!({ "waiting": { "reason": "PodInitializing" } }))), "Init:1/2");
    assert_eq!(pod_status(&init, &second(json!({ "waiting": { "reason": "ImagePullBackOff" } }))), "Init:ImagePullBackOff");
    let two = json!({ "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }], "containerStatuses": [
        { "name": "a", "ready": true, "state": { "running": {} } },
        { "name": "b", "state": { "terminated": { "exitCode": 0, "reason": "Completed" } } },
    ] });
    assert_eq!(pod_status(&one, &two), "Running");
}

#[test]
fn a_pod_that_is_being_deleted_is_terminating() {
    let value = json!({ "metadata": { "deletionTimestamp": "2026-02-03T09:00:00Z" }, "status": { "phase": "Running" } });
    assert!(row("", "Pod", &value).contains("STATUS=Terminating"));
}

#[test]
fn workloads_and_services_show_what_kubectl_shows() {
    let deployment = json!({
        "metadata": { "creationTimestamp": "2026-02-01T10:00:00Z" },
        "spec": { "replicas": 3, "selector": { "matchLabels": { "app": "web" } }, "template": { "spec": { "containers": [{ "name": "c", "image": "nginx:1" }] } } },
        "status": { "readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 2 },
    });
    let load_balancer = json!({ "spec": {
        "type": "LoadBalancer", "clusterIP": "10.0.0.7", "selector": { "b": "2", "a": "1" },
        "ports": [{ "port": 80, "nodePort": 30080, "protocol": "TCP" }, { "port": 53, "protocol": "UDP" }],
    } });
    let job = json!({
        "spec": { "completions": 2 },
        "status": { "succeeded": 2, "startTime": "2026-02-03T09:00:00Z", "completionTime": "2026-02-03T09:00:30Z", "conditions": [{ "type": "Complete", "status": "True" }] },
    });
    let rows = [
        row("apps", "Deployment", &deployment),
        row("", "Service", &load_balancer),
        row("", "Service", &json!({ "spec": { "type": "ExternalName", "externalName": "db.example.com" } })),
        row("batch", "Job", &job),
        row("batch", "CronJob", &json!({ "spec": { "schedule": "* * * * *", "suspend": true } })),
    ];
    insta::assert_snapshot!(rows.join("\n"), @r"
    READY=2/3 UP-TO-DATE=3 AVAILABLE=2 AGE=2d | CONTAINERS=c IMAGES=nginx:1 SELECTOR=app=web
    TYPE=LoadBalancer CLUSTER-IP=10.0.0.7 EXTERNAL-IP=<pending> PORT(S)=80:30080/TCP,53/UDP AGE=<unknown> | SELECTOR=a=1,b=2
    TYPE=ExternalName CLUSTER-IP=<none> EXTERNAL-IP=db.example.com PORT(S)=<none> AGE=<unknown> | SELECTOR=<none>
    STATUS=Complete COMPLETIONS=2/2 DURATION=30s AGE=<unknown> | CONTAINERS= IMAGES=
    SCHEDULE=* * * * * TIMEZONE=<none> SUSPEND=True ACTIVE=0 LAST SCHEDULE=<none> AGE=<unknown>
    ");
}

#[test]
fn cluster_wide_kinds_and_data_show_what_kubectl_shows() {
    let node = json!({
        "metadata": { "labels": { "node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/control-plane": "" } },
        "spec": { "unschedulable": true },
        "status": { "conditions": [{ "type": "Ready", "status": "False" }], "nodeInfo": { "kubeletVersion": "v1.36.3" } },
    });
    let event = json!({
        "lastTimestamp": "2026-02-03T09:59:00Z", "type": "Warning", "reason": "BackOff", "message": "restarting\nagain",
        "involvedObject": { "kind": "Pod", "name": "p" },
    });
    let claim = json!({ "spec": { "storageClassName": "fast" }, "status": { "phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "1Gi" } } });
    let rows = [
        row("", "Node", &node),
        row("", "Namespace", &json!({ "status": { "phase": "Active" } })),
        row("", "ConfigMap", &json!({ "data": { "a": "1" }, "binaryData": { "b": "" } })),
        row("", "Secret", &json!({ "type": "Opaque", "data": { "a": "" } })),
        row("", "PersistentVolumeClaim", &claim),
        row("", "Event", &event),
        row("networking.k8s.io", "Ingress", &json!({ "spec": { "rules": [{ "host": "a.example.com" }], "tls": [{}] } })),
        row("example.com", "Widget", &json!({})),
    ];
    insta::assert_snapshot!(rows.join("\n"), @r"
    STATUS=NotReady,SchedulingDisabled ROLES=control-plane,worker AGE=<unknown> VERSION=v1.36.3 | INTERNAL-IP=<none> EXTERNAL-IP=<none> OS-IMAGE=<unknown> KERNEL-VERSION=<unknown> CONTAINER-RUNTIME=<unknown>
    STATUS=Active AGE=<unknown>
    DATA=2 AGE=<unknown>
    TYPE=Opaque DATA=1 AGE=<unknown>
    STATUS=Bound VOLUME= CAPACITY=1Gi ACCESS MODES=RWO STORAGECLASS=fast AGE=<unknown>
    LAST SEEN=60s TYPE=Warning REASON=BackOff OBJECT=pod/p MESSAGE=restarting again
    CLASS=<none> HOSTS=a.example.com ADDRESS= PORTS=80, 443 AGE=<unknown>
    AGE=<unknown>
    ");
}
