use fleetdex_core::{fuel::Fuel, json_path::JsonPath, model::Json, query::HeldMemory};
use jiff::Timestamp;
use serde_json::{Value, json, value::to_raw_value};

use super::*;

const NOW: &str = "2026-02-03T10:00:00Z";

fn cells(group: &str, kind: &str, object: &Value) -> Value {
    row(
        &TablePrinter::of(&Gvk::new(group, "v1", kind), None),
        object,
    )["cells"]
        .clone()
}

/// The row of an ordinary object, which takes no more than a tenth of the steps that it adds.
fn row(table: &TablePrinter, object: &Value) -> Value {
    let printed = any_row(table, object);
    let added = STEPS_PER_OBJECT + STEPS_PER_BYTE * object.to_string().len();
    let taken = table.fuel.used();
    assert!(taken * 10 <= added as u64, "{taken} of {added}");
    table.fuel.refill(usize::MAX);
    printed
}

fn any_row(table: &TablePrinter, object: &Value) -> Value {
    let now: Timestamp = NOW.parse().unwrap();
    let mut out = b"{".to_vec();
    let hit = Hit {
        interpretation: None,
        cluster: "member1".parse().unwrap(),
        object: to_raw_value(object).unwrap().into(),
        memory: HeldMemory::default(),
    };
    table.write_cells(&mut out, &hit, now);
    out.push(b'}');
    serde_json::from_slice(&out).unwrap()
}

#[test]
fn every_kind_has_one_table() {
    let mut kinds: Vec<(&str, &str)> = KINDS
        .iter()
        .copied()
        .flatten()
        .map(|kind| (kind.group, kind.name))
        .collect();
    kinds.extend(CREATED_AT_KINDS);
    let count = kinds.len();
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds.len(), count);
}

#[test]
fn every_built_in_kind_has_a_table_of_its_own() {
    for entry in fleetdex_core::kinds::all() {
        let has_columns = KINDS
            .iter()
            .copied()
            .flatten()
            .any(|kind| kind.group == entry.group && kind.name == entry.kind);
        assert!(
            has_columns || CREATED_AT_KINDS.contains(&(entry.group, entry.kind)),
            "{}",
            entry.gvk()
        );
    }
}

/// A pod with containers of these states; `more` is merged over it.
fn pod(statuses: &Value, more: &Value) -> Value {
    let names: Vec<Value> = statuses
        .as_array()
        .unwrap()
        .iter()
        .map(|status| json!({ "name": status["name"] }))
        .collect();
    let mut pod = json!({
        "metadata": { "name": "p", "creationTimestamp": "2026-02-03T09:00:00Z" },
        "spec": { "containers": names, "nodeName": "n1" },
        "status": { "phase": "Running", "containerStatuses": statuses, "podIPs": [{ "ip": "10.0.0.1" }, { "ip": "fd00::1" }] },
    });
    merge(&mut pod, more);
    pod
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}

#[test]
#[allow(clippy::too_many_lines, reason = "one scenario")]
fn the_status_of_a_pod_is_one_word() {
    let running =
        json!({ "name": "a", "ready": true, "restartCount": 0, "state": { "running": {} } });
    let one = json!([running.clone()]);
    let ended =
        |exit: i64, reason: &str| json!({ "terminated": { "exitCode": exit, "reason": reason } });
    let init = |statuses: Value| {
        json!({ "spec": { "initContainers": [{ "name": "i" }, { "name": "j" }, { "name": "side", "restartPolicy": "Always" }] },
            "status": { "phase": "Pending", "initContainerStatuses": statuses } })
    };
    let deleted = json!({ "metadata": { "deletionTimestamp": "2026-02-03T10:00:00Z" } });
    let crashing = json!([{ "name": "a", "ready": false, "restartCount": 3, "state": { "waiting": { "reason": "CrashLoopBackOff" } },
        "lastState": { "terminated": { "exitCode": 1, "finishedAt": "2026-02-03T09:55:00Z" } } }]);
    let completed =
        json!([{ "name": "a", "ready": false, "restartCount": 0, "state": ended(0, "Completed") }]);
    let mixed = json!([{ "name": "a", "state": ended(0, "Completed") }, { "name": "b", "ready": true, "state": { "running": {} } }]);
    let waiting = json!([{ "name": "a", "ready": false, "restartCount": 0, "state": { "waiting": { "reason": "PodInitializing" } } }]);
    let cases = [
        ("running", pod(&one, &json!({}))),
        (
            "pending",
            pod(
                &json!([]),
                &json!({ "status": { "phase": "Pending", "podIPs": null }, "spec": { "nodeName": null } }),
            ),
        ),
        ("crashing", pod(&crashing, &json!({}))),
        (
            "completed",
            pod(&completed, &json!({ "status": { "phase": "Succeeded" } })),
        ),
        ("one of two completed", pod(&mixed, &json!({}))),
        (
            "the other one ready",
            pod(
                &mixed,
                &json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }] } }),
            ),
        ),
        (
            "failed",
            pod(
                &json!([{ "name": "a", "state": ended(137, "OOMKilled") }]),
                &json!({ "status": { "phase": "Failed" } }),
            ),
        ),
        (
            "evicted",
            pod(
                &json!([]),
                &json!({ "status": { "phase": "Failed", "reason": "Evicted" } }),
            ),
        ),
        (
            "killed",
            pod(
                &json!([{ "name": "a", "state": { "terminated": { "exitCode": 0, "signal": 9 } } }]),
                &json!({}),
            ),
        ),
        (
            "first init container",
            pod(
                &waiting,
                &init(json!([{ "name": "i", "state": { "running": {} } }])),
            ),
        ),
        (
            "second init container",
            pod(
                &waiting,
                &init(
                    json!([{ "name": "i", "restartCount": 2, "state": ended(0, "Completed") },
                { "name": "j", "restartCount": 1, "state": { "waiting": { "reason": "PodInitializing" } } }]),
                ),
            ),
        ),
        (
            "init error",
            pod(
                &waiting,
                &init(json!([{ "name": "i", "state": ended(1, "Error") }])),
            ),
        ),
        (
            "init image",
            pod(
                &waiting,
                &init(
                    json!([{ "name": "i", "state": { "waiting": { "reason": "ImagePullBackOff" } } }]),
                ),
            ),
        ),
        (
            "init exit code",
            pod(
                &waiting,
                &init(json!([{ "name": "i", "state": ended(2, "") }])),
            ),
        ),
        (
            "sidecar",
            pod(
                &one,
                &json!({ "spec": { "initContainers": [{ "name": "i" }, { "name": "side", "restartPolicy": "Always" }] },
                "status": { "initContainerStatuses": [{ "name": "i", "restartCount": 5, "state": ended(0, "Completed") },
                    { "name": "side", "ready": true, "started": true, "restartCount": 1, "state": { "running": {} },
                      "lastState": { "terminated": { "finishedAt": "2026-02-01T10:00:00Z" } } }] } }),
            ),
        ),
        ("being deleted", pod(&one, &deleted)),
        (
            "lost",
            pod(
                &one,
                &json!({ "metadata": deleted["metadata"], "status": { "reason": "NodeLost" } }),
            ),
        ),
        (
            "gated",
            pod(
                &json!([]),
                &json!({ "spec": { "readinessGates": [{ "conditionType": "x" }, { "conditionType": "y" }] },
                "status": { "phase": "Pending", "conditions": [{ "type": "PodScheduled", "status": "False", "reason": "SchedulingGated" },
                    { "type": "x", "status": "True" }] } }),
            ),
        ),
    ];
    let lines: Vec<String> = cases
        .iter()
        .map(|(name, pod)| format!("{name}: {}", cells("", "Pod", pod)))
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    running: ["member1","p","1/1","Running","0","60m","10.0.0.1","n1","<none>","<none>"]
    pending: ["member1","p","0/0","Pending","0","60m","<none>","<none>","<none>","<none>"]
    crashing: ["member1","p","0/1","CrashLoopBackOff","3 (5m ago)","60m","10.0.0.1","n1","<none>","<none>"]
    completed: ["member1","p","0/1","Completed","0","60m","10.0.0.1","n1","<none>","<none>"]
    one of two completed: ["member1","p","1/2","NotReady","0","60m","10.0.0.1","n1","<none>","<none>"]
    the other one ready: ["member1","p","1/2","Running","0","60m","10.0.0.1","n1","<none>","<none>"]
    failed: ["member1","p","0/1","OOMKilled","0","60m","10.0.0.1","n1","<none>","<none>"]
    evicted: ["member1","p","0/0","Evicted","0","60m","10.0.0.1","n1","<none>","<none>"]
    killed: ["member1","p","0/1","Signal:9","0","60m","10.0.0.1","n1","<none>","<none>"]
    first init container: ["member1","p","0/2","Init:0/3","0","60m","10.0.0.1","n1","<none>","<none>"]
    second init container: ["member1","p","0/2","Init:1/3","3","60m","10.0.0.1","n1","<none>","<none>"]
    init error: ["member1","p","0/2","Init:Error","0","60m","10.0.0.1","n1","<none>","<none>"]
    init image: ["member1","p","0/2","Init:ImagePullBackOff","0","60m","10.0.0.1","n1","<none>","<none>"]
    init exit code: ["member1","p","0/2","Init:ExitCode:2","0","60m","10.0.0.1","n1","<none>","<none>"]
    sidecar: ["member1","p","2/2","Running","1 (2d ago)","60m","10.0.0.1","n1","<none>","<none>"]
    being deleted: ["member1","p","1/1","Terminating","0","60m","10.0.0.1","n1","<none>","<none>"]
    lost: ["member1","p","1/1","Unknown","0","60m","10.0.0.1","n1","<none>","<none>"]
    gated: ["member1","p","0/0","SchedulingGated","0","60m","10.0.0.1","n1","<none>","1/2"]
    "#);
}

#[test]
fn a_completed_pod_has_a_row_condition() {
    let table = TablePrinter::of(&Gvk::new("", "v1", "Pod"), None);
    let succeeded = row(&table, &json!({ "status": { "phase": "Succeeded" } }));
    assert_eq!(succeeded["conditions"][0]["reason"], "Succeeded");
    assert_eq!(
        row(&table, &json!({ "status": { "phase": "Running" } })).get("conditions"),
        None
    );
}

#[test]
fn a_node_shows_its_condition_roles_and_addresses() {
    let node = json!({
        "metadata": { "name": "n1", "creationTimestamp": "2025-11-03T10:00:00Z",
            "labels": { "node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/control-plane": "", "kubernetes.io/role": "worker", "a": "b" } },
        "spec": { "unschedulable": true },
        "status": { "conditions": [{ "type": "DiskPressure", "status": "False" }, { "type": "Ready", "status": "Unknown" }],
            "addresses": [{ "type": "Hostname", "address": "n1" }, { "type": "InternalIP", "address": "10.0.0.1" }],
            "nodeInfo": { "kubeletVersion": "v1.36.3", "kernelVersion": "6.1", "architecture": "amd64", "osImage": "" } },
    });
    assert_eq!(
        cells("", "Node", &node),
        json!([
            "member1",
            "n1",
            "NotReady,SchedulingDisabled",
            "control-plane,worker",
            "92d",
            "v1.36.3",
            "10.0.0.1",
            "<none>",
            "<unknown>",
            "6.1 (amd64)",
            "<unknown>"
        ])
    );
    assert_eq!(
        cells("", "Node", &json!({ "metadata": { "name": "new" } }))[2],
        "Unknown"
    );
}

#[test]
fn a_service_shows_its_addresses_and_ports() {
    let service = |spec: Value, status: Value| {
        let cells = cells(
            "",
            "Service",
            &json!({ "metadata": { "name": "s" }, "spec": spec, "status": status }),
        );
        format!(
            "{} {} {} {} {}",
            cells[2], cells[3], cells[4], cells[5], cells[7]
        )
    };
    let ports = json!([{ "port": 80, "protocol": "TCP" }, { "port": 53, "protocol": "UDP", "nodePort": 30053 }]);
    let lines = [
        service(
            json!({ "type": "ClusterIP", "clusterIPs": ["10.1.0.1", "fd00::1"], "ports": ports, "selector": { "b": "2", "a": "1" } }),
            json!({}),
        ),
        service(
            json!({ "type": "NodePort", "clusterIPs": ["None"], "externalIPs": ["1.1.1.1", "2.2.2.2"] }),
            json!({}),
        ),
        service(
            json!({ "type": "LoadBalancer", "clusterIPs": ["10.1.0.2"] }),
            json!({}),
        ),
        service(
            json!({ "type": "LoadBalancer", "clusterIPs": ["10.1.0.2"], "externalIPs": ["9.9.9.9"] }),
            json!({ "loadBalancer": { "ingress": [{ "hostname": "lb.example.com" }, { "ip": "4.4.4.4" }] } }),
        ),
        service(
            json!({ "type": "ExternalName", "externalName": "example.com" }),
            json!({}),
        ),
    ];
    insta::assert_snapshot!(lines.join("\n"), @r#"
    "ClusterIP" "10.1.0.1" "<none>" "80/TCP,53:30053/UDP" "a=1,b=2"
    "NodePort" "None" "1.1.1.1,2.2.2.2" "<none>" "<none>"
    "LoadBalancer" "10.1.0.2" "<pending>" "<none>" "<none>"
    "LoadBalancer" "10.1.0.2" "4.4.4.4,lb.example.com,9.9.9.9" "<none>" "<none>"
    "ExternalName" "<none>" "example.com" "<none>" "<none>"
    "#);
}

#[test]
fn controllers_show_their_progress() {
    let template = json!({ "spec": { "containers": [{ "name": "a", "image": "img:1" }, { "name": "b", "image": "img:2" }] } });
    let selector = json!({ "matchLabels": { "app": "web" }, "matchExpressions": [{ "key": "tier", "operator": "In", "values": ["y", "x"] },
        { "key": "old", "operator": "DoesNotExist" }, { "key": "env", "operator": "Exists" }] });
    let spec = json!({ "replicas": 3, "selector": selector, "template": template });
    let deployment = json!({ "metadata": { "name": "d", "creationTimestamp": "2026-02-03T09:59:30Z" }, "spec": spec,
        "status": { "readyReplicas": 2, "updatedReplicas": 1, "availableReplicas": 2 } });
    assert_eq!(
        cells("apps", "Deployment", &deployment),
        json!([
            "member1",
            "d",
            "2/3",
            1,
            2,
            "30s",
            "a,b",
            "img:1,img:2",
            "app=web,env,!old,tier in (x,y)"
        ])
    );
    let job = |status: Value, spec: Value| {
        let cells = cells(
            "batch",
            "Job",
            &json!({ "metadata": { "name": "j" }, "spec": spec, "status": status }),
        );
        json!([cells[2], cells[3], cells[4], cells[8]])
    };
    let ended = json!({ "succeeded": 2, "startTime": "2026-02-03T09:00:00Z", "completionTime": "2026-02-03T09:01:40Z",
        "conditions": [{ "type": "SuccessCriteriaMet", "status": "True" }, { "type": "Complete", "status": "True" }] });
    assert_eq!(
        job(ended, json!({ "completions": 2 })),
        json!(["Complete", "2/2", "100s", "<none>"])
    );
    let started = json!({ "startTime": "2026-02-03T09:00:00Z" });
    assert_eq!(
        job(started, json!({ "parallelism": 3 })),
        json!(["Running", "0/1 of 3", "60m", "<none>"])
    );
    let suspended = json!({ "conditions": [{ "type": "Suspended", "status": "True" }, { "type": "Failed", "status": "False" }] });
    assert_eq!(
        job(suspended, json!({})),
        json!(["Suspended", "0/1", "", "<none>"])
    );
}

#[test]
fn events_of_both_groups_have_the_same_cells() {
    let core = json!({ "metadata": { "name": "e" }, "type": "Warning", "reason": "BackOff", "message": " again\n", "count": 4,
        "involvedObject": { "kind": "Pod", "name": "p", "fieldPath": "spec.containers{a}" }, "source": { "component": "kubelet", "host": "n1" },
        "firstTimestamp": "2026-02-03T09:00:00Z", "lastTimestamp": "2026-02-03T09:59:00Z" });
    let other = json!({ "metadata": { "name": "e" }, "type": "Warning", "reason": "BackOff", "note": " again\n", "deprecatedCount": 4,
        "regarding": { "kind": "Pod", "name": "p", "fieldPath": "spec.containers{a}" },
        "deprecatedSource": { "component": "kubelet", "host": "n1" },
        "deprecatedFirstTimestamp": "2026-02-03T09:00:00Z", "deprecatedLastTimestamp": "2026-02-03T09:59:00Z" });
    let expected = json!([
        "member1",
        "60s",
        "Warning",
        "BackOff",
        "pod/p",
        "spec.containers{a}",
        "kubelet, n1",
        "again",
        "60m",
        4,
        "e"
    ]);
    assert_eq!(cells("", "Event", &core), expected);
    assert_eq!(cells("events.k8s.io", "Event", &other), expected);
    let series = json!({ "metadata": { "name": "e" }, "regarding": { "kind": "Node" }, "eventTime": "2026-02-03T09:00:00.000001Z",
        "series": { "count": 9, "lastObservedTime": "2026-02-03T09:50:00.000001Z" }, "reportingController": "c", "reportingInstance": "c-1" });
    let cells = cells("events.k8s.io", "Event", &series);
    assert_eq!(
        json!([cells[1], cells[4], cells[6], cells[8], cells[9]]),
        json!(["9m59s", "node", "c, c-1", "59m", 9])
    );
}

#[test]
fn autoscalers_show_current_and_target_metrics() {
    let targets = |spec: Value, status: Value| {
        cells(
            "autoscaling",
            "HorizontalPodAutoscaler",
            &json!({ "spec": spec, "status": status }),
        )[3]
        .clone()
    };
    let metrics = json!([
        { "type": "Resource", "resource": { "name": "cpu", "target": { "averageUtilization": 80 } } },
        { "type": "Pods", "pods": { "target": { "averageValue": "10" } } },
        { "type": "External", "external": { "target": { "value": "5" } } },
    ]);
    let current =
        json!([{ "type": "Resource", "resource": { "current": { "averageUtilization": 42 } } }]);
    assert_eq!(
        targets(
            json!({ "metrics": metrics }),
            json!({ "currentMetrics": current })
        ),
        "cpu: 42%/80%, <unknown>/10 + 1 more..."
    );
    assert_eq!(
        targets(json!({ "targetCPUUtilizationPercentage": 50 }), json!({})),
        "cpu: <unknown>/50%"
    );
    assert_eq!(targets(json!({}), json!({})), "<none>");
}

fn column(name: &str, kind: &str, json_path: &str) -> PrinterColumn {
    PrinterColumn {
        name: name.into(),
        kind: kind.into(),
        json_path: json_path.into(),
        ..PrinterColumn::default()
    }
}

#[test]
fn a_custom_resource_has_the_columns_of_its_definition() {
    let columns = [
        column("Text", "string", ".spec.text"),
        column("Map", "string", ".spec.map"),
        column("Count", "integer", ".spec.count"),
        column("Cut", "integer", ".spec.ratio"),
        column("Ratio", "number", ".spec.ratio"),
        column("Whole", "number", ".spec.count"),
        column("On", "boolean", ".spec.on"),
        column("Since", "date", ".spec.since"),
        column("Odd", "date", ".spec.text"),
        column("Wrong", "integer", ".spec.text"),
        column("Absent", "string", ".spec.absent"),
        column(
            "Ready",
            "string",
            r#".status.conditions[?(@.type=="Ready")].status"#,
        ),
        column("Age", "date", ".metadata.creationTimestamp"),
    ];
    let object = json!({ "metadata": { "name": "w", "creationTimestamp": "2026-02-03T09:58:00Z" },
        "spec": { "text": "t", "map": { "b": [1, true], "a": null }, "count": 3, "ratio": 2.75, "on": true, "since": "2026-02-01T10:00:00Z" },
        "status": { "conditions": [{ "type": "Synced", "status": "False" }, { "type": "Ready", "status": "True" }] } });
    let table = TablePrinter::of(&Gvk::new("example.com", "v1", "Widget"), Some(&columns));
    assert_eq!(
        row(&table, &object)["cells"],
        json!([
            "member1",
            "w",
            "t",
            r#"{"a":null,"b":[1,true]}"#,
            3,
            2,
            2.75,
            3,
            true,
            "2d",
            "<invalid>",
            null,
            null,
            "True",
            "2m"
        ])
    );
}

#[test]
fn cells_that_take_too_many_steps_say_so_and_all_rows_have_one_bound() {
    let union = |levels| "['a','a','a']".repeat(levels);
    let (many, filter) = (
        format!(".spec{}", union(8)),
        format!(".list[?(@{})]", union(7)),
    );
    let mut columns = vec![column("Text", "string", ".text")];
    for _ in 0..32 {
        columns.push(column("Union", "integer", &many));
        columns.push(column("Filter", "string", &filter));
    }
    let mut spec = json!([1]);
    for _ in 0..8 {
        spec = json!({ "a": spec });
    }
    let object = json!({ "metadata": { "name": "w" }, "text": "t", "spec": spec, "list": [spec] });
    let bytes = object.to_string().len();
    assert!(bytes < 506, "{bytes}");
    let table = TablePrinter::of(&Gvk::new("example.com", "v1", "Widget"), Some(&columns));
    let added = (STEPS_PER_OBJECT + STEPS_PER_BYTE * bytes) as u64;
    let mut taken = 0;
    for number in 0..40 {
        let before = table.fuel.used().saturating_sub(added);
        let cells = any_row(&table, &object)["cells"].clone();
        taken += table.fuel.used() - before;
        assert_eq!((&cells[1], &cells[2]), (&json!("w"), &json!("t")));
        let cells = cells.as_array().unwrap()[3..].iter();
        let complex = cells.filter(|cell| *cell == "<too complex>").count();
        // The first object has the steps that are there at the beginning; any other may have some
        // that one before it has left.
        let expected = if number == 0 { 10 } else { 62 };
        assert!(complex >= expected, "{number}: {complex}");
    }
    assert!(taken <= STEPS + 40 * added, "{taken}");
}

#[test]
fn a_pod_of_very_many_containers_takes_steps_in_proportion() {
    const COUNT: usize = 20_000;
    let list = |item: &dyn Fn(usize) -> Value| (0..COUNT).map(item).collect::<Value>();
    let pod = json!({ "metadata": { "name": "p" },
        "spec": {
            "containers": [{ "name": "c" }],
            "initContainers": list(&|number| json!({ "name": format!("i{number}"), "restartPolicy": "Always" })),
            "readinessGates": list(&|number| json!({ "conditionType": format!("g{number}") })),
        },
        "status": {
            "phase": "Running",
            "initContainerStatuses": list(&|number| json!({ "name": format!("i{}", COUNT - number), "started": true, "ready": true })),
            "conditions": list(&|number| json!({ "type": format!("g{}", COUNT - number), "status": "True" })),
        } });
    let table = TablePrinter::of(&Gvk::new("", "v1", "Pod"), None);
    let cells = any_row(&table, &pod)["cells"].clone();
    // One status is of no container and ends the list, as one container has no status.
    assert_eq!(
        (&cells[2], &cells[3]),
        (&json!("0/20001"), &json!("Init:0/20000"))
    );
    assert_eq!(cells[9], "19999/20000");
    let taken = table.fuel.used();
    assert!(taken < 50 * COUNT as u64, "{taken}");
}

#[test]
fn a_custom_resource_without_columns_shows_its_age() {
    let kind = Gvk::new("example.com", "v1", "Widget");
    let object =
        json!({ "metadata": { "name": "w", "creationTimestamp": "2026-02-03T09:58:00Z" } });
    for printed in [None, Some([].as_slice())] {
        assert_eq!(
            row(&TablePrinter::of(&kind, printed), &object)["cells"],
            json!(["member1", "w", "2m"])
        );
    }
    let broken = [column("A", "string", ".spec[")];
    assert_eq!(
        row(&TablePrinter::of(&kind, Some(&broken)), &object)["cells"],
        json!(["member1", "w", "2026-02-03T09:58:00Z"])
    );
}

#[test]
fn an_object_that_cannot_be_parsed_has_an_empty_row() {
    let mut out = Vec::new();
    let hit = Hit {
        interpretation: None,
        cluster: "m".parse().unwrap(),
        object: Json::known("no JSON"),
        memory: HeldMemory::default(),
    };
    TablePrinter::of(&Gvk::new("", "v1", "Namespace"), None).write_cells(
        &mut out,
        &hit,
        NOW.parse().unwrap(),
    );
    assert_eq!(
        String::from_utf8(out).unwrap(),
        r#""cells":["m","","","<unknown>"]"#
    );
}

#[test]
fn the_health_is_in_the_last_columns_of_wide_tables_of_every_kind() {
    let printer_columns = [column("Text", "string", ".spec.text")];
    let kinds = [
        (Gvk::new("apps", "v1", "Deployment"), None),
        (
            Gvk::new("example.com", "v1", "Widget"),
            Some(&printer_columns[..]),
        ),
        (Gvk::new("example.com", "v1", "Gadget"), None),
    ];
    let hit = |interpretation: Option<Interpretation>| Hit {
        interpretation: interpretation.map(Box::new),
        cluster: "member1".parse().unwrap(),
        object: Json::known(r#"{"metadata":{"name":"web"}}"#),
        memory: HeldMemory::default(),
    };
    let degraded = hit(Some(Interpretation {
        health: "Degraded",
        health_reason: "ProgressDeadlineExceeded".to_owned(),
        ..Interpretation::default()
    }));
    for (kind, columns) in kinds {
        let plain = TablePrinter::of(&kind, columns);
        let with_health = plain.clone().with_health(true);
        let definitions = |table: &TablePrinter| {
            let mut out = Vec::new();
            table.write_definitions(&mut out);
            serde_json::from_slice::<Vec<Value>>(&out).unwrap()
        };
        let (of_kind, all) = (definitions(&plain), definitions(&with_health));
        let (first, last) = all.split_at(of_kind.len());
        assert_eq!(first, of_kind);
        let last = last.iter().map(|column| {
            let [name, kind, format, priority] =
                ["name", "type", "format", "priority"].map(|key| column[key].clone());
            json!([name, kind, format, priority])
        });
        assert_eq!(
            last.collect::<Value>(),
            json!([
                ["Health", "string", "", 1],
                ["Health Reason", "string", "", 1]
            ])
        );
        for (hit, expected) in [
            (&degraded, ["Degraded", "ProgressDeadlineExceeded"]),
            (&hit(None), ["", ""]),
        ] {
            let mut out = b"{".to_vec();
            with_health.write_cells(&mut out, hit, NOW.parse().unwrap());
            out.push(b'}');
            let row: Value = serde_json::from_slice(&out).unwrap();
            let cells = row["cells"].as_array().unwrap();
            assert_eq!(cells.len(), all.len());
            assert_eq!(cells[of_kind.len()..], expected);
        }
    }
}

#[test]
fn a_path_finds_the_same_in_a_node_as_in_its_json() {
    let object = json!({ "a": { "list": [{ "n": "x", "v": 1 }, { "n": "y", "v": 2.5, "w": { "v": null } }], "f": true } });
    let text = object.to_string();
    let root = JsonNode::parse(&text, MemberMask::everything()).unwrap();
    for path in [
        ".a.list[0].n",
        ".a.list[*].v",
        ".a..v",
        ".a.*",
        ".a.list[?(@.v>2.0)].n",
        ".a.list[?(@.w)]",
        ".a.list[9]",
        ".a[0]",
        ".b",
    ] {
        let path: JsonPath = path.parse().unwrap();
        let found = path
            .find(&root, &Fuel::unbounded())
            .map(|found| json!(found));
        assert_eq!(
            found,
            path.find(&object, &Fuel::unbounded())
                .map(|found| json!(found)),
            "{path:?}"
        );
    }
}
