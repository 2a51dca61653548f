use serde_json::json;

use super::*;

fn node(name: &str, cpu: &str, extra: &Value) -> Value {
    let mut node = json!({
        "metadata": {"name": name, "labels": {"zone": name}},
        "spec": {},
        "status": {
            "allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "10"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    });
    json_patch::merge(&mut node, extra);
    node
}

fn pod(node: &str, cpu: &str, phase: &str) -> Value {
    json!({
        "spec": {"nodeName": node, "containers": [{"name": "a", "resources": {"requests": {"cpu": cpu}}}]},
        "status": {"phase": phase},
    })
}

fn requiring(value: Value) -> ReplicaRequirements {
    serde_json::from_value(value).unwrap()
}

#[test]
fn what_pods_leave_is_counted_by_node() {
    let none = json!({});
    let nodes = [node("a", "2", &none), node("b", "1500m", &none)];
    let pods = [
        pod("a", "500m", "Running"),
        pod("a", "1", "Succeeded"),
        pod("gone", "1", "Running"),
    ];
    let room = ClusterRoom::of_nodes(&nodes, &pods);
    for (request, expected) in [
        (json!({"cpu": "1"}), 2),
        (json!({"cpu": "1500m"}), 2),
        (json!({"cpu": "1600m"}), 0),
        (json!({"cpu": "100m", "memory": "4Gi"}), 4),
        (json!({"nvidia.com/gpu": "1"}), 0),
        (json!({}), 19),
    ] {
        let requirements = requiring(json!({"resourceRequest": request}));
        assert_eq!(room.replicas(Some(&requirements)), expected, "{request}");
    }
    assert_eq!(room.replicas(None), 19);
}

#[test]
fn only_nodes_that_take_the_pods_count() {
    let term = |key: &str, operator: &str, values: Value| {
        json!({"nodeClaim": {"hardNodeAffinity": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": key, "operator": operator, "values": values}]}]}}})
    };
    let taint = json!({"spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}});
    let preferred = json!({"spec": {"taints": [{"key": "old", "effect": "PreferNoSchedule"}]}});
    let nodes = [
        node("a", "1", &json!({})),
        node("b", "1", &taint),
        node("c", "1", &json!({"spec": {"unschedulable": true}})),
        node(
            "d",
            "1",
            &json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}),
        ),
        node("e", "1", &preferred),
    ];
    let room = ClusterRoom::of_nodes(&nodes, []);
    for (requirements, expected) in [
        (json!({}), 2),
        (
            json!({"nodeClaim": {"tolerations": [{"key": "gpu", "operator": "Exists"}]}}),
            3,
        ),
        (json!({"nodeClaim": {"nodeSelector": {"zone": "a"}}}), 1),
        (term("zone", "In", json!(["a", "b"])), 1),
        (term("zone", "NotIn", json!(["a"])), 1),
        (term("zone", "Exists", json!([])), 2),
        (term("zone", "Is", json!([])), 0),
        (
            json!({"nodeClaim": {"hardNodeAffinity": {"nodeSelectorTerms": [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["e"]}]}]}}}),
            1,
        ),
        (
            json!({"nodeClaim": {"hardNodeAffinity": {"nodeSelectorTerms": [{}]}}}),
            0,
        ),
    ] {
        let mut requirements = requiring(requirements);
        requirements
            .resource_request
            .insert("cpu".to_owned(), "1".into());
        assert_eq!(
            room.replicas(Some(&requirements)),
            expected,
            "{requirements:?}"
        );
    }
}

#[test]
fn pods_that_wait_and_replicas_that_were_placed_take_room() {
    let nodes = [node("a", "2", &json!({})), node("b", "2", &json!({}))];
    let one = requiring(json!({"resourceRequest": {"cpu": "1"}}));
    let mut room = ClusterRoom::of_nodes(&nodes, &[pod("", "1", "Pending")]);
    assert_eq!(room.replicas(Some(&one)), 3);
    room.reserve(Some(&one), 2);
    assert_eq!(room.replicas(Some(&one)), 1);
    room.reserve(Some(&one), 5);
    assert_eq!(room.replicas(Some(&one)), 0);
}

#[test]
fn sums_and_given_numbers_count_where_nodes_are_not_known() {
    let summary = serde_json::from_value(json!({
        "allocatable": {"cpu": "4", "pods": 100}, "allocated": {"cpu": "1500m", "pods": "10"}, "allocating": {"cpu": "1"},
    }));
    let mut room = ClusterRoom::of_summary(&summary.unwrap());
    let half = requiring(json!({"resourceRequest": {"cpu": "500m"}}));
    assert_eq!(room.replicas(Some(&half)), 3);
    assert_eq!(room.replicas(None), 90);
    room.reserve(Some(&half), 1);
    assert_eq!(room.replicas(Some(&half)), 2);
    let mut room = ClusterRoom::of_replicas(5);
    room.reserve(None, 7);
    assert_eq!(room.replicas(Some(&half)), 0);
}
