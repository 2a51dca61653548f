use std::collections::BTreeMap;

use fleetdex_distribution::{
    placing::{NotChosen, PlacedReplicas},
    plan::PlannedBinding,
    template_name::{NameParts, TemplateName},
};
use serde_json::json;

use super::*;

fn time(second: i8) -> Timestamp {
    format!("2026-11-30T00:00:{second:02}Z").parse().unwrap()
}

fn target(name: &str) -> PlacedReplicas {
    PlacedReplicas {
        name: name.to_owned(),
        replicas: 1,
    }
}

fn report(targets: &[&str], clusters: BTreeMap<String, CopyReport>) -> BindingReport {
    let name = TemplateName::from(NameParts {
        kind: "Deployment".to_owned(),
        ..NameParts::default()
    });
    BindingReport {
        planned: PlannedBinding {
            clusters: targets.iter().map(|name| target(name)).collect(),
            not_chosen: ["m8", "m9"]
                .map(|cluster| NotChosen {
                    cluster: cluster.to_owned(),
                    reason: "its taint a:NoSchedule is not tolerated".to_owned(),
                })
                .into(),
            ..PlannedBinding::of_dependency(name)
        },
        placed_at: time(0),
        clusters,
    }
}

fn applied_report(size: usize) -> CopyReport {
    CopyReport {
        is_applied: true,
        status: Some(json!({"text": "a".repeat(size)})),
        health: "Healthy",
        ..CopyReport::default()
    }
}

fn status_of(report: &BindingReport, before: &Value, now: Timestamp) -> Value {
    binding_status(&ReportedBinding {
        report,
        held: &[],
        before,
        now,
    })
}

fn message(status: &Value, kind: &str) -> (String, String) {
    let mut conditions = status["conditions"].as_array().unwrap().iter();
    let found = conditions.find(|one| one["type"] == kind).unwrap();
    (
        found["status"].as_str().unwrap().to_owned(),
        found["message"].as_str().unwrap().to_owned(),
    )
}

#[test]
fn conditions_name_each_cluster_and_keep_their_time() {
    let refused = CopyReport {
        message: "PATCH was answered 403".to_owned(),
        ..CopyReport::default()
    };
    let clusters = [
        ("m1".to_owned(), applied_report(1)),
        ("m2".to_owned(), refused),
    ];
    let report = report(&["m1", "m2", "m3"], clusters.into());
    let status = status_of(&report, &Value::Null, time(1));
    assert_eq!(
        message(&status, "Scheduled"),
        (
            "True".to_owned(),
            "not chosen: m8, m9: its taint a:NoSchedule is not tolerated".to_owned()
        )
    );
    assert_eq!(
        message(&status, "FullyApplied"),
        (
            "False".to_owned(),
            "m2: PATCH was answered 403; m3: not written yet".to_owned()
        )
    );
    assert_eq!(
        status["aggregatedStatus"][0]["status"],
        json!({"text": "a"})
    );
    assert_eq!(status["aggregatedStatus"][1]["applied"], false);
    let later = status_of(&report, &status, time(9));
    assert_eq!(later, status, "nothing has changed, the time neither");
}

#[test]
fn a_cluster_that_others_do_not_take_over_from_is_named() {
    let mut report = report(&["m1"], BTreeMap::new());
    assert!(
        !status_of(&report, &json!({}), time(0))
            .to_string()
            .contains("FailoverBlocked")
    );
    report.planned.blocked = vec![BlockedEviction {
        cluster: "m1".to_owned(),
        reason: "its taint down:NoExecute is not tolerated".to_owned(),
    }];
    let (status, text) = message(&status_of(&report, &json!({}), time(0)), "FailoverBlocked");
    assert_eq!(status, "True");
    let expected = "no other one takes over; m1: its taint down:NoExecute is not tolerated";
    assert!(text.ends_with(expected), "{text}");
}

#[test]
fn held_deletions_are_a_condition_of_their_own() {
    let before = json!({"conditions": [{"type": "Scheduled", "status": "True"}]});
    let mut status = before.clone();
    set_held(&mut status, &["m1".to_owned()], time(1));
    let (is_held, text) = message(&status, "DeletionHeld");
    assert_eq!(is_held, "True");
    assert!(text.contains("at once in m1; set the annotation"), "{text}");
    let held = status.clone();
    set_held(&mut status, &["m1".to_owned()], time(5));
    assert_eq!(status, held);
    set_held(&mut status, &[], time(6));
    assert_eq!(status, before);
}

#[test]
fn a_thousand_clusters_are_summed_up() {
    for (size, has_status) in [(8, true), (512, false)] {
        let names: Vec<String> = (0..1_000).map(|number| format!("m{number:04}")).collect();
        let mut clusters: BTreeMap<String, CopyReport> = names
            .iter()
            .map(|name| (name.clone(), applied_report(size)))
            .collect();
        let broken = CopyReport {
            is_applied: false,
            message: "refused".to_owned(),
            ..applied_report(size)
        };
        clusters.insert("m0007".to_owned(), broken);
        let targets: Vec<&str> = names.iter().map(String::as_str).collect();
        let count = if has_status { 100 } else { 1_000 };
        let report = report(&targets[..count], clusters);
        let status = status_of(&report, &Value::Null, time(1));
        assert!(status.to_string().len() < 48 << 10, "{size}");
        let items = status["aggregatedStatus"].as_array().unwrap();
        let of = |name: &str| items.iter().find(|item| item["clusterName"] == name);
        let broken = of("m0007").unwrap();
        assert_eq!(broken["appliedMessage"], "refused");
        assert!(broken["status"].is_object() || !has_status);
        let well = of("m0001");
        assert_eq!(
            well.is_some_and(|item| item["status"].is_object()),
            has_status
        );
    }
}
