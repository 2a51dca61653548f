use serde_json::json;

use super::{ready::ready_replicas, *};
use crate::template_name::NameParts;

/// A binding of the Deployment `shop/web` with this spec and status.
fn binding(spec: &Value, status: &Value) -> Value {
    let mut object = json!({
        "metadata": {
            "name": "web-deployment", "namespace": "shop",
            "annotations": {
                "propagationpolicy.karmada.io/namespace": "shop",
                "propagationpolicy.karmada.io/name": "everywhere",
            },
        },
        "spec": {"resource": {
            "apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web",
        }},
        "status": status,
    });
    let members = object["spec"].as_object_mut().unwrap();
    members.extend(spec.as_object().unwrap().clone());
    object
}

fn condition(kind: &str, status: &str, message: &str) -> Value {
    json!({
        "type": kind, "status": status, "message": message, "reason": "R",
        "lastTransitionTime": "2026-11-30T00:00:00Z",
    })
}

/// The rows as lines: cluster, desired, actual, applied, health, message.
fn lines(report: &PlacementReport) -> Vec<String> {
    let number = |number: Option<i64>| number.map_or_else(|| "-".to_owned(), |it| it.to_string());
    let rows = report.clusters.iter().map(|row| {
        let columns = [
            &row.cluster,
            &number(row.desired),
            &number(row.actual),
            row.applied.as_str(),
            &row.health,
            &row.message,
        ];
        columns.join(" | ")
    });
    rows.collect()
}

#[test]
fn each_cluster_has_what_it_shall_have_and_what_it_has() {
    let spec = json!({
        "replicas": 5,
        "clusters": [{"name": "m2", "replicas": 2}, {"name": "m1", "replicas": 3}, {"name": "m4"}],
        "gracefulEvictionTasks": [
            {"fromCluster": "m3", "reason": "Moved", "purgeMode": "Directly"},
            {"fromCluster": "m0", "reason": "ApplicationFailure", "message": "not healthy",
             "purgeMode": "Gracefully"},
        ],
    });
    let status = json!({
        "conditions": [
            condition("Scheduled", "True", "not chosen: m5, m6: its taint a is not tolerated; \
                                            it does not serve Deployment of apps/v1; m7: no room"),
            condition("FullyApplied", "False", "m2: the cluster has this object already"),
        ],
        "aggregatedStatus": [
            {"clusterName": "m1", "applied": true, "health": "Healthy",
             "status": {"replicas": 3, "readyReplicas": 2}},
            {"clusterName": "m2", "applied": false, "health": "Unknown",
             "appliedMessage": "the cluster has this object already, which helm manages"},
            {"clusterName": "m3", "applied": true, "health": "Healthy", "status": {"replicas": 1}},
        ],
    });
    let report = PlacementReport::of(&binding(&spec, &status));
    assert_eq!(
        lines(&report),
        [
            "m1 | 3 | 2 | yes | Healthy | ",
            "m2 | 2 | - | no | Unknown | the cluster has this object already, which helm manages",
            "m4 | 0 | - | unknown |  | not reported yet",
            "m0 | - | - | leaving |  | ApplicationFailure: not healthy; its copy stays until the \
             object is healthy elsewhere",
            "m3 | - | 0 | leaving | Healthy | Moved",
        ]
    );
    assert!(!report.is_applied() && !report.is_ignored);
    assert_eq!(report.policy.as_deref(), Some("shop/everywhere"));
    assert_eq!(report.object_word(), "deployment.apps/web");
    assert_eq!(report.remark(), "");
    assert_eq!(report.conditions.len(), 2);
    let others = json!(report.not_chosen);
    let reason = "its taint a is not tolerated; it does not serve Deployment of apps/v1";
    assert_eq!(
        others,
        json!([
            {"clusters": ["m5", "m6"], "reason": reason},
            {"clusters": ["m7"], "reason": "no room"},
        ])
    );
}

#[test]
fn an_object_without_replicas_that_all_clusters_have_is_applied() {
    let spec = json!({
        "resource": {"apiVersion": "v1", "kind": "ConfigMap", "name": "web"},
        "clusters": [{"name": "m1"}],
    });
    let status = json!({
        "conditions": [condition("FullyApplied", "True", "")],
        "aggregatedStatus": [{"clusterName": "m1", "applied": true, "health": "Healthy"}],
    });
    let mut object = binding(&spec, &status);
    object["metadata"]["name"] = "web-configmap".into();
    let report = PlacementReport::of(&object);
    assert_eq!(lines(&report), ["m1 | - | - | yes | Healthy | "]);
    assert!(report.is_applied());
    assert_eq!(report.object.namespace, "shop");
    assert_eq!(report.object_word(), "configmap/web");

    // Its clusters are known, and it does not leave them yet.
    object["spec"]["gracefulEvictionTasks"] = json!([{"fromCluster": "m2", "reason": "Moved"}]);
    object["status"]["conditions"] = json!([condition("DeletionHeld", "True", "too much")]);
    let report = PlacementReport::of(&object);
    let leaving = "m2 | - | - | leaving |  | Moved; deletions of this object are held: \
                   DeletionHeld says where";
    assert_eq!(lines(&report)[1], leaving);
    assert!(report.is_applied());
}

#[test]
fn clusters_that_are_left_out_because_they_are_well_are_applied() {
    let spec = json!({"replicas": 1, "clusters": [{"name": "m1", "replicas": 1}, {"name": "m2"}]});
    let applied = |conditions: Value, items: Value| {
        let status = json!({"conditions": conditions, "aggregatedStatus": items});
        let report = PlacementReport::of(&binding(&spec, &status));
        report
            .clusters
            .iter()
            .map(|row| row.applied.as_str())
            .collect::<Vec<_>>()
            .join(" ")
    };
    let fully = |status: &str, message: &str| json!([condition("FullyApplied", status, message)]);
    let broken = json!([{"clusterName": "m2", "applied": false}]);
    let well = json!([{"clusterName": "m2", "applied": true}]);
    for (conditions, items, expected) in [
        (fully("True", ""), json!([]), "yes yes"),
        (fully("False", "m2: no"), broken.clone(), "yes no"),
        (fully("False", "m2: no; and more"), json!([]), "yes no"),
        (
            fully("False", "m2: … (9000 bytes in all)"),
            broken,
            "unknown no",
        ),
        // One that is well is there: the other one has not reported.
        (fully("True", ""), well, "unknown yes"),
        (json!([]), json!([]), "unknown unknown"),
    ] {
        assert_eq!(applied(conditions.clone(), items), expected, "{conditions}");
    }
}

#[test]
fn what_is_suspended_is_not_applied() {
    let mut spec = json!({"clusters": [{"name": "m1"}, {"name": "m2"}]});
    let status = json!({"aggregatedStatus": [
        {"clusterName": "m1", "applied": true}, {"clusterName": "m2", "applied": true},
    ]});
    for (suspension, expected) in [
        (json!({"dispatching": true}), ["no", "no"]),
        (
            json!({"dispatchingOnClusters": {"clusterNames": ["m2"]}}),
            ["yes", "no"],
        ),
        (json!({}), ["yes", "yes"]),
    ] {
        spec["suspension"] = suspension;
        let report = PlacementReport::of(&binding(&spec, &status));
        let applied = report.clusters.iter().map(|row| row.applied.as_str());
        assert_eq!(applied.collect::<Vec<_>>(), expected);
    }
}

#[test]
fn an_object_that_is_not_placed_says_why() {
    let with = |message: &str| {
        let status = json!({"conditions": [condition("Scheduled", "False", message)]});
        let report = PlacementReport::of(&binding(&json!({}), &status));
        assert!(!report.is_applied());
        (report.remark(), json!(report.not_chosen))
    };
    let why = "no cluster fits: 1 of 2: its taint a. b is not tolerated";
    let (remark, others) = with(&format!("{why}. m1, m2: {why}; m3: no room"));
    assert_eq!(remark, format!("not placed: {why}"));
    assert_eq!(others[0], json!({"clusters": ["m1", "m2"], "reason": why}));
    assert_eq!(others[1]["clusters"], json!(["m3"]));
    let (remark, others) = with("there is no cluster. ");
    assert_eq!(remark, "not placed: there is no cluster");
    assert_eq!(others, json!([]));

    let new = PlacementReport::of(&binding(&json!({}), &json!({})));
    assert_eq!(new.remark(), "no cluster is chosen yet");
}

#[test]
fn a_binding_of_another_name_is_ignored() {
    let mut object = binding(&json!({"clusters": [{"name": "m1"}]}), &json!({}));
    object["metadata"]["name"] = "web".into();
    let report = PlacementReport::of(&object);
    assert!(report.is_ignored);
    assert_eq!(
        report.remark(),
        "Fleetdex ignores this binding: that of the object is the ResourceBinding web-deployment"
    );
    // Nothing of it has the type that it should have.
    let odd = json!({"metadata": 1, "spec": {"clusters": "m1"}, "status": {"conditions": {}}});
    let report = PlacementReport::of(&odd);
    assert!(report.is_ignored && report.clusters.is_empty());
}

#[test]
fn a_report_is_cut_where_it_is_too_long() {
    let clusters: Vec<Value> = (0..100)
        .map(|number| json!({"name": number.to_string()}))
        .collect();
    let status = json!({"conditions": [condition("Scheduled", "True", "not chosen: a, b: no")]});
    let mut report = PlacementReport::of(&binding(&json!({"clusters": clusters}), &status));
    let whole = report.size();
    report.keep_within(whole);
    assert_eq!(report.left_out, 0);
    report.keep_within(whole / 2);
    assert!(report.size() <= whole / 2);
    assert!(report.not_chosen.is_empty());
    assert_eq!(report.clusters.len() + report.left_out, 102);
}

#[test]
fn ready_replicas_are_read_of_kinds_that_count_them() {
    for (api_version, status, expected) in [
        ("apps/v1", json!({"readyReplicas": 2}), Some(2)),
        ("apps/v1", json!({}), Some(0)),
        ("apps/v1", json!({"numberReady": 4}), Some(4)),
        ("batch/v1", json!({"ready": 1}), Some(1)),
        ("example.io/v1", json!({"replicas": 3}), Some(0)),
        ("example.io/v1", json!({"conditions": []}), None),
        ("example.io/v1", json!({"availableReplicas": -1}), Some(0)),
        ("apps/v1", Value::Null, None),
        ("apps/v1", json!("ready"), None),
    ] {
        let object = TemplateName::from(NameParts {
            api_version: api_version.to_owned(),
            ..NameParts::default()
        });
        let found = ready_replicas(&object, &status, true);
        assert_eq!(found, expected, "{api_version} {status}");
    }
}
