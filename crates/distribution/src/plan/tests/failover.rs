//! When objects leave clusters that their policies select.

use std::collections::BTreeMap;

use fleetdex_crds::binding::GracefulEvictionTask;
use jiff::Timestamp;

use super::*;
use crate::{failover::CopyHealth, plan::PlannedBinding, template_name::TemplateName};

const BEGUN: &str = "2026-11-30T00:00:00Z";

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(BEGUN.parse::<Timestamp>().unwrap().as_second() + seconds).unwrap()
}

/// A workload on m1, and what is known of it at a time.
struct Case {
    placement: Value,
    failover: Value,
    clusters: Vec<Value>,
    previous: Value,
    tasks: Value,
    /// The clusters that report that it is healthy, and since when others report that it is not.
    health: Vec<(&'static str, Option<i64>)>,
    now: i64,
}

impl Default for Case {
    fn default() -> Self {
        Self {
            placement: json!({"replicaScheduling": {
                "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
            }}),
            failover: json!({"application": {"decisionConditions": {"tolerationSeconds": 60}}}),
            clusters: vec![json!({"name": "m1"}), json!({"name": "m2"})],
            previous: json!({"m1": 2}),
            tasks: json!([]),
            health: vec![("m1", Some(0))],
            now: 60,
        }
    }
}

impl Case {
    fn inputs(&self) -> DistributionInputs {
        let mut spec = selecting("Deployment", &self.placement);
        spec["propagateDeps"] = true.into();
        spec["failover"] = self.failover.clone();
        let template = deployment("web", 2, "1");
        let name = TemplateName::of(&template);
        let tasks: Vec<GracefulEvictionTask> = serde_json::from_value(self.tasks.clone()).unwrap();
        let previous = PreviousPlacement {
            clusters: serde_json::from_value(self.previous.clone()).unwrap(),
            placement: Some(serde_json::from_value(self.placement.clone()).unwrap()),
            evictions: tasks,
            ..PreviousPlacement::default()
        };
        let health = self.health.iter().map(|(cluster, unhealthy)| {
            let health = CopyHealth {
                is_healthy: unhealthy.is_none(),
                unhealthy_since: unhealthy.map(at),
                status: Some(json!({"job": {"points": [{"id": "p-7"}]}, "replicas": 2})),
            };
            ((*cluster).to_owned(), health)
        });
        DistributionInputs {
            clusters: self.clusters.iter().map(tainted).collect(),
            previous: BTreeMap::from([(name.clone(), Arc::new(previous))]),
            health: BTreeMap::from([(name, health.collect())]),
            now: Some(at(self.now)),
            ..inputs(vec![policy("web", spec)], vec![template])
        }
    }

    /// The clusters with their replicas, the binding, and the fate of what is in `m1`.
    fn planned(&self) -> (String, PlannedBinding, LeftoverFate) {
        let inputs = self.inputs();
        let plan = plan(&inputs, &BuiltIn);
        let name = inputs.templates[0].name.clone();
        let fate = Leftovers::of(&plan, &inputs).fate("m1", &name);
        (shares(&plan, "web"), plan.bindings[0].clone(), fate)
    }

    fn shown(&self) -> String {
        let (shares, binding, fate) = self.planned();
        let tasks: Vec<String> = binding
            .evictions
            .iter()
            .map(|task| {
                let mode = task.purge_mode.clone().unwrap_or_default();
                format!(" -{} {} {mode}", task.from_cluster, task.reason)
            })
            .collect();
        let blocked = binding.blocked.iter();
        let blocked: Vec<String> = blocked.map(|one| format!(" !{}", one.cluster)).collect();
        format!("{shares}{} {fate:?}{}", tasks.join(""), blocked.join(""))
    }
}

fn tainted(cluster: &Value) -> TargetCluster {
    let spec = json!({"taints": cluster.get("taints").cloned().unwrap_or_else(|| json!([]))});
    let cluster: Cluster = serde_json::from_value(json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "metadata": {"name": cluster["name"]}, "spec": spec,
    }))
    .unwrap();
    TargetCluster::from(&cluster)
}

#[test]
fn an_object_that_is_not_healthy_leaves_when_another_cluster_takes_over() {
    let case = Case::default();
    assert_eq!(case.shown(), "m2=2 -m1 ApplicationFailure Gracefully Stays");
    let too_early = Case {
        now: 59,
        ..Case::default()
    };
    assert_eq!(too_early.shown(), "m1=2 Stays");
    let not_asked = Case {
        failover: json!(null),
        ..Case::default()
    };
    assert_eq!(not_asked.shown(), "m1=2 Stays");
    let unknown = Case {
        health: Vec::new(),
        ..Case::default()
    };
    assert_eq!(unknown.shown(), "m1=2 Stays");
    let nowhere = Case {
        clusters: vec![json!({"name": "m1"})],
        ..Case::default()
    };
    assert_eq!(nowhere.shown(), "m1=2 Stays !m1");
    let everywhere = Case {
        placement: json!({}),
        previous: json!({"m1": 2, "m2": 2}),
        ..Case::default()
    };
    assert_eq!(everywhere.shown(), "m1=2 m2=2 Stays !m1");
    let two_of_three = Case {
        placement: json!({"spreadConstraints": [
            {"spreadByField": "cluster", "maxGroups": 2, "minGroups": 1},
        ]}),
        clusters: ["m1", "m2", "m3"].map(|name| json!({"name": name})).into(),
        previous: json!({"m1": 2, "m2": 2}),
        health: vec![("m1", Some(0)), ("m2", Some(0))],
        ..Case::default()
    };
    assert_eq!(
        two_of_three.shown(),
        "m2=2 m3=2 -m1 ApplicationFailure Gracefully Stays !m2",
        "one cluster takes over from one"
    );
    let one_of_two = Case {
        placement: json!({"spreadConstraints": [
            {"spreadByField": "cluster", "maxGroups": 1, "minGroups": 1},
        ]}),
        ..Case::default()
    };
    assert_eq!(
        one_of_two.shown(),
        "m2=2 -m1 ApplicationFailure Gracefully Stays"
    );
}

fn task(more: &Value) -> Value {
    let mut task = json!({"fromCluster": "m1", "reason": "ApplicationFailure", "producer": "fleetdex",
        "creationTimestamp": BEGUN, "clustersBeforeFailover": ["m1"]});
    for (member, value) in more.as_object().unwrap() {
        task[member] = value.clone();
    }
    json!([task])
}

#[test]
fn an_eviction_ends_when_the_object_is_healthy_elsewhere_or_the_time_is_over() {
    let moved = |more: Value, health: Vec<(&'static str, Option<i64>)>, now: i64| Case {
        previous: json!({"m2": 2}),
        tasks: task(&more),
        health,
        now,
        ..Case::default()
    };
    let graceful = || json!({"purgeMode": "Gracefully", "gracePeriodSeconds": 100});
    let fates = [
        (moved(graceful(), vec![], 99), LeftoverFate::Stays),
        (
            moved(graceful(), vec![("m2", Some(0))], 99),
            LeftoverFate::Stays,
        ),
        (
            moved(graceful(), vec![("m2", None)], 1),
            LeftoverFate::Deleted,
        ),
        (moved(graceful(), vec![], 100), LeftoverFate::Deleted),
        (
            moved(json!({"purgeMode": "Directly"}), vec![], 0),
            LeftoverFate::Deleted,
        ),
        (
            moved(
                json!({"purgeMode": "Never", "suppressDeletion": true}),
                vec![("m2", None)],
                9_999,
            ),
            LeftoverFate::Stays,
        ),
        (
            moved(
                json!({"purgeMode": "Never", "suppressDeletion": false}),
                vec![],
                0,
            ),
            LeftoverFate::Deleted,
        ),
        (moved(json!({}), vec![], 599), LeftoverFate::Stays),
        (moved(json!({}), vec![], 600), LeftoverFate::Deleted),
    ];
    for (case, expected) in fates {
        let (shares, binding, fate) = case.planned();
        assert_eq!(shares, "m2=2", "{}", case.tasks);
        assert_eq!(
            binding.evictions.len(),
            1,
            "the task ends with the copy: {}",
            case.tasks
        );
        assert_eq!(fate, expected, "{} at {}", case.tasks, case.now);
    }
}

#[test]
fn a_task_of_somebody_else_moves_the_object() {
    let case = Case {
        failover: json!(null),
        tasks: json!([{"fromCluster": "m1", "reason": "Maintenance", "producer": "ops"}]),
        ..Case::default()
    };
    assert_eq!(case.shown(), "m2=2 -m1 Maintenance  Stays");
}

#[test]
fn a_taint_no_execute_drives_out_when_its_toleration_is_over() {
    let taint = json!([{"key": "down", "effect": "NoExecute", "timeAdded": BEGUN}]);
    let case = |failover: Value, tolerations: Value, now: i64| Case {
        placement: json!({"clusterTolerations": tolerations}),
        failover,
        clusters: vec![
            json!({"name": "m1", "taints": taint.clone()}),
            json!({"name": "m2"}),
        ],
        previous: json!({"m1": 2, "m2": 2}),
        health: Vec::new(),
        now,
        ..Case::default()
    };
    let cluster = || json!({"cluster": {"purgeMode": "Directly"}});
    let tolerated = |seconds: Value| json!([{"key": "down", "operator": "Exists", "tolerationSeconds": seconds}]);
    let gone = "m2=2 -m1 TaintUntolerated Directly Deleted";
    for (case, expected) in [
        (case(cluster(), json!([]), 0), gone),
        (case(json!(null), json!([]), 0), "m1=2 m2=2 Stays"),
        (case(cluster(), tolerated(json!(30)), 29), "m1=2 m2=2 Stays"),
        (case(cluster(), tolerated(json!(30)), 30), gone),
        (
            case(cluster(), tolerated(json!(null)), 9_999),
            "m1=2 m2=2 Stays",
        ),
    ] {
        assert_eq!(case.shown(), expected, "{} {}", case.placement, case.now);
    }
    // Once it is gone, the cluster does not get it again, although the taint is tolerated for a
    // time.
    let again = Case {
        previous: json!({"m2": 2}),
        ..case(cluster(), tolerated(json!(30)), 60)
    };
    assert_eq!(again.shown(), "m2=2 Deleted");
    let only = Case {
        clusters: vec![json!({"name": "m1", "taints": taint})],
        previous: json!({"m1": 2}),
        ..case(cluster(), json!([]), 0)
    };
    assert_eq!(only.shown(), "m1=2 Stays !m1");
}

#[test]
fn directly_is_written_elsewhere_when_the_copy_is_gone_and_keeps_parts_of_its_status() {
    let case = Case {
        failover: json!({"application": {
            "decisionConditions": {"tolerationSeconds": 60}, "purgeMode": "Directly",
            "statePreservation": {"rules": [
                {"aliasLabelName": "point", "jsonPath": "{.job.points[0].id}"},
                {"aliasLabelName": "count", "jsonPath": "{ .replicas }"},
                {"aliasLabelName": "absent", "jsonPath": "{.nothing}"},
                {"aliasLabelName": "no key", "jsonPath": "{.replicas}"},
                {"aliasLabelName": "whole", "jsonPath": "{.job}"},
            ]},
        }}),
        ..Case::default()
    };
    let (shares, binding, fate) = case.planned();
    assert_eq!((shares.as_str(), fate), ("m2=2", LeftoverFate::Deleted));
    let labels = json!({"count": "2", "point": "p-7"});
    assert_eq!(json!(binding.evictions[0].preserved_label_state), labels);
    let written = |case: &Case| -> Vec<Value> {
        let plan = plan(&case.inputs(), &BuiltIn);
        let objects = plan.objects.iter();
        let workloads = objects.filter(|one| one.resource.kind == "Deployment");
        workloads
            .map(|one| one.object.value()["metadata"]["labels"].clone())
            .collect()
    };
    assert_eq!(written(&case), Vec::<Value>::new(), "m1 still has it");
    let gracefully = Case {
        previous: json!({"m2": 2}),
        tasks: task(&json!({"purgeMode": "Gracefully", "preservedLabelState": labels})),
        ..Case::default()
    };
    assert_eq!(written(&gracefully), [labels]);
}

#[test]
fn what_a_workload_needs_stays_where_it_stays() {
    let case = Case::default();
    let mut inputs = case.inputs();
    let settings = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "settings", "namespace": "shop"}});
    inputs.templates.push(settings.into());
    let plan = plan(&inputs, &BuiltIn);
    assert_eq!(shares(&plan, "web"), "m2=2");
    assert_eq!(shares(&plan, "settings"), "m1=0 m2=0");
}
