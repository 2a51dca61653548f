//! `AggregateStatus` of workloads.

use serde_json::{Value, json};

use super::{aggregated, aggregated_status, object};
use crate::test_rows::typed;

/// A workload of generation 5 with a status.
fn workload(kind: &str, status: &Value) -> Value {
    let mut workload = object("apps/v1", kind, json!({"spec": {"replicas": 4}}));
    workload["metadata"]["generation"] = 5.into();
    if !status.is_null() {
        workload["status"] = status.clone();
    }
    workload
}

/// What a member reports that has observed generation 3 of its own object, made of a generation of
/// the template.
fn report(template_generation: i64, counters: &Value) -> Value {
    let mut report = json!({
        "generation": 3,
        "observedGeneration": 3,
        "resourceTemplateGeneration": template_generation,
    });
    report
        .as_object_mut()
        .unwrap()
        .extend(counters.as_object().unwrap().clone());
    report
}

#[test]
fn counters_add_up_and_the_generation_is_observed_when_all_members_have() {
    let cases = r#"
        Deployment | {"replicas": 3, "updatedReplicas": 2, "readyReplicas": 1,
            "availableReplicas": 1, "unavailableReplicas": 2} | {"replicas": 6,
            "updatedReplicas": 4, "readyReplicas": 2, "availableReplicas": 2,
            "unavailableReplicas": 4}
        ReplicaSet | {"replicas": 3, "readyReplicas": 1, "availableReplicas": 1}
            | {"replicas": 6, "readyReplicas": 2, "availableReplicas": 2}
        StatefulSet | {"replicas": 3, "readyReplicas": 2, "currentReplicas": 1,
            "updatedReplicas": 3, "availableReplicas": 2} | {"replicas": 6,
            "readyReplicas": 4, "currentReplicas": 2, "updatedReplicas": 6, "availableReplicas": 4}
        DaemonSet | {"currentNumberScheduled": 1, "desiredNumberScheduled": 2,
            "numberAvailable": 3, "numberMisscheduled": 4, "numberReady": 5,
            "updatedNumberScheduled": 6, "numberUnavailable": 7} | {"currentNumberScheduled": 2,
            "desiredNumberScheduled": 4, "numberAvailable": 6, "numberMisscheduled": 8,
            "numberReady": 10, "updatedNumberScheduled": 12, "numberUnavailable": 14}
    "#;
    for (kind, counters, twice) in typed::<(&str, Value, Value)>(cases) {
        let of = |observed: i64| {
            let mut status = twice.clone();
            status["observedGeneration"] = observed.into();
            status
        };
        let before = json!({"observedGeneration": 4, "conditions": [{"type": "Mine"}]});
        let with_conditions = |mut status: Value| {
            status["conditions"] = json!([{"type": "Mine"}]);
            status
        };
        let latest = report(5, &counters);
        let both = [latest.clone(), latest.clone()];
        assert_eq!(
            aggregated_status(&workload(kind, &Value::Null), &both),
            of(5),
            "{kind}"
        );
        assert_eq!(
            aggregated_status(&workload(kind, &before), &both),
            with_conditions(of(5)),
            "{kind}"
        );
        for late in [
            vec![latest.clone(), report(4, &counters)],
            vec![latest.clone(), latest.clone(), Value::Null],
            vec![latest.clone(), {
                let mut unseen = latest.clone();
                unseen["generation"] = 4.into();
                unseen
            }],
            vec![latest.clone(), counters.clone()],
        ] {
            assert_eq!(
                aggregated_status(&workload(kind, &before), &late),
                with_conditions(of(4)),
                "{kind} {late:?}"
            );
        }
    }
}

#[test]
fn nothing_reported_is_zero_of_everything() {
    let cases = r#"
        Deployment | {"observedGeneration": 5}
        ReplicaSet | {"observedGeneration": 5, "replicas": 0}
        StatefulSet | {"observedGeneration": 5, "replicas": 0, "availableReplicas": 0}
        DaemonSet | {"observedGeneration": 5, "currentNumberScheduled": 0,
            "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0}
    "#;
    for (kind, expected) in typed::<(&str, Value)>(cases) {
        let before = json!({"replicas": 3, "numberReady": 3, "readyReplicas": 3});
        let mut status = aggregated_status(&workload(kind, &before), &[]);
        if kind == "DaemonSet" {
            // These are no counters of a DaemonSet, so that they stay.
            assert_eq!(status["replicas"], 3);
            status.as_object_mut().unwrap().remove("replicas");
            status.as_object_mut().unwrap().remove("readyReplicas");
        } else {
            status.as_object_mut().unwrap().remove("numberReady");
        }
        assert_eq!(status, expected, "{kind}");
    }
}

#[test]
fn an_equal_result_leaves_the_object_as_it_is() {
    let same = workload(
        "Deployment",
        &json!({"observedGeneration": 5, "replicas": 2, "readyReplicas": 0}),
    );
    assert_eq!(
        aggregated(&same, &[report(5, &json!({"replicas": 2}))]),
        same
    );
    let without = object("apps/v1", "StatefulSet", json!({}));
    assert_eq!(aggregated(&without, &[]), without);
}

#[test]
fn reports_of_odd_types_count_as_zero_and_sums_do_not_overflow() {
    let reports = [
        json!({"replicas": "3", "readyReplicas": 1.5, "updatedReplicas": null}),
        json!("odd"),
        json!({"replicas": i64::MAX}),
        json!({"replicas": i64::MAX, "readyReplicas": 2.0}),
    ];
    assert_eq!(
        aggregated_status(&workload("Deployment", &json!("odd")), &reports),
        json!({"replicas": i64::MAX, "readyReplicas": 2})
    );
}
