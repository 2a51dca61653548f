use fleetdex_crds::cluster::Cluster;
use fleetdex_interpreter::native;
use serde_json::json;
use std::sync::Arc;

use super::*;
use crate::{
    claim::Policy, object_text::ObjectText, template_name::NameParts,
    templates::CONTROL_PLANE_LABEL,
};

mod alone;
mod failover;
mod sets;
mod template_waves;

struct BuiltIn;

impl Operations for BuiltIn {
    fn run(&self, request: &Request<'_>) -> Result<Option<Response>, String> {
        native::interpret(request).map_err(|error| error.0)
    }
}

fn cluster(name: &str, labels: &Value) -> TargetCluster {
    let cluster: Cluster = serde_json::from_value(json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "metadata": {"name": name, "labels": labels}, "spec": {},
    }))
    .unwrap();
    TargetCluster::from(&cluster)
}

fn policy(name: &str, spec: Value) -> Policy {
    Policy {
        namespace: Some("shop".to_owned()),
        name: name.to_owned(),
        created: None,
        spec: std::sync::Arc::new(serde_json::from_value(spec).unwrap()),
    }
}

fn selecting(kind: &str, placement: &Value) -> Value {
    let api_version = if kind == "Deployment" {
        "apps/v1"
    } else {
        "v1"
    };
    json!({"resourceSelectors": [{"apiVersion": api_version, "kind": kind}], "placement": placement})
}

fn deployment(name: &str, replicas: i64, cpu: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": "shop", "uid": "", "resourceVersion": "7"},
        "spec": {"replicas": replicas, "template": {"spec": {
            "containers": [{"name": "a", "image": "a", "resources": {"requests": {"cpu": cpu}}}],
            "volumes": [{"name": "c", "configMap": {"name": "settings"}}],
        }}},
        "status": {"readyReplicas": 1},
    })
}

fn inputs(policies: Vec<Policy>, templates: Vec<Value>) -> DistributionInputs {
    DistributionInputs {
        clusters: vec![cluster("m2", &json!({})), cluster("m1", &json!({}))],
        policies,
        templates: templates.into_iter().map(NamedTemplate::from).collect(),
        ..DistributionInputs::default()
    }
}

fn shares(plan: &DistributionPlan, name: &str) -> String {
    let binding = plan
        .bindings
        .iter()
        .find(|one| one.resource.name == name)
        .unwrap();
    let shown = binding
        .clusters
        .iter()
        .map(|one| format!("{}={}", one.name, one.replicas));
    shown.collect::<Vec<_>>().join(" ")
}

fn weighted() -> Value {
    json!({"replicaScheduling": {"replicaSchedulingType": "Divided", "weightPreference": {"staticWeightList": [
        {"targetCluster": {"clusterNames": ["m1"]}, "weight": 2},
        {"targetCluster": {"clusterNames": ["m2"]}, "weight": 1},
    ]}}})
}

fn by_room() -> Value {
    json!({"replicaScheduling": {"replicaSchedulingType": "Divided",
        "replicaDivisionPreference": "Aggregated"}})
}

#[test]
fn a_workload_is_divided_and_pruned() {
    let inputs = inputs(
        vec![policy("web", selecting("Deployment", &weighted()))],
        vec![deployment("web", 3, "1")],
    );
    let plan = plan(&inputs, &BuiltIn);
    assert_eq!(shares(&plan, "web"), "m1=2 m2=1");
    assert_eq!(plan.conflicts, []);
    let written: Vec<(&str, String)> = plan
        .objects
        .iter()
        .map(|one| {
            let kind = one.resource.kind.as_str();
            (
                one.cluster.as_str(),
                format!("{kind} {}", one.object.value()["spec"]["replicas"]),
            )
        })
        .collect();
    let (namespace, two, one) = ("Namespace null", "Deployment 2", "Deployment 1");
    assert_eq!(
        written,
        [
            ("m1", namespace.to_owned()),
            ("m1", two.to_owned()),
            ("m2", namespace.to_owned()),
            ("m2", one.to_owned()),
        ]
    );
    let object = plan.objects[1].object.value();
    assert_eq!(object.get("status"), None);
    assert_eq!(object["metadata"].get("resourceVersion"), None);
}

#[test]
fn two_templates_do_not_take_the_same_room() {
    let mut inputs = inputs(
        vec![policy("all", selecting("Deployment", &by_room()))],
        vec![deployment("b", 3, "1"), deployment("a", 3, "1")],
    );
    for (name, replicas) in [("m1", 4), ("m2", 3)] {
        inputs
            .room
            .insert(name.to_owned(), ClusterRoom::of_replicas(replicas));
    }
    let found = plan(&inputs, &BuiltIn);
    assert_eq!(shares(&found, "a"), "m1=3");
    assert_eq!(shares(&found, "b"), "m2=3");
    // Whatever the order of the inputs.
    inputs.templates.reverse();
    inputs.clusters.reverse();
    assert_eq!(plan(&inputs, &BuiltIn), found);
}

#[test]
fn what_an_object_needs_goes_with_it() {
    let mut spec = selecting(
        "Deployment",
        &json!({"clusterAffinity": {"clusterNames": ["m2"]}}),
    );
    spec["propagateDeps"] = true.into();
    let settings = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "settings", "namespace": "shop"}, "data": {"a": "b"}});
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "other", "namespace": "shop"}});
    let inputs = inputs(
        vec![policy("web", spec)],
        vec![settings.clone(), other, deployment("web", 1, "1")],
    );
    let plan = plan(&inputs, &BuiltIn);
    assert_eq!(shares(&plan, "settings"), "m2=0");
    let binding = &plan.bindings[1];
    assert_eq!(binding.required_by[0].name, "web");
    let kinds: Vec<&str> = plan
        .objects
        .iter()
        .map(|one| one.resource.kind.as_str())
        .collect();
    assert_eq!(kinds, ["Namespace", "ConfigMap", "Deployment"]);
    assert_eq!(plan.objects[1].object.value(), settings);
}

#[test]
fn an_object_of_others_is_a_conflict_unless_it_may_be_overwritten() {
    let mut found = deployment("web", 9, "1");
    let name = TemplateName::of(&found);
    for (label, resolution, annotation, is_written) in [
        (None, None, None, false),
        (None, Some("Overwrite"), None, true),
        (None, Some("Overwrite"), Some("abort"), false),
        (None, None, Some("overwrite"), true),
        (Some(CONTROL_PLANE_LABEL), None, None, true),
    ] {
        found["metadata"]["labels"] = label.map_or(json!({}), |label| json!({label: "uid"}));
        let mut spec = selecting(
            "Deployment",
            &json!({"clusterAffinity": {"clusterNames": ["m1"]}}),
        );
        if let Some(resolution) = resolution {
            spec["conflictResolution"] = resolution.into();
        }
        let mut template = deployment("web", 1, "1");
        if let Some(annotation) = annotation {
            template["metadata"]["annotations"] =
                json!({"work.karmada.io/conflict-resolution": annotation});
        }
        let mut inputs = inputs(vec![policy("web", spec)], vec![template]);
        let observed = [(name.clone(), found.clone())].into();
        inputs.observed.insert("m1".to_owned(), observed);
        let plan = plan(&inputs, &BuiltIn);
        let is_found = plan
            .objects
            .iter()
            .any(|one| one.resource.kind == "Deployment");
        assert_eq!(
            is_found, is_written,
            "{label:?} {resolution:?} {annotation:?}"
        );
        assert_eq!(plan.conflicts.is_empty(), is_written);
    }
}

#[test]
fn a_definition_goes_before_its_objects() {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "apps.example.com"},
        "spec": {"group": "example.com", "names": {"kind": "App"}, "versions": [{"name": "v1"}]},
    });
    let app = json!({"apiVersion": "example.com/v1", "kind": "App", "metadata": {"name": "a", "namespace": "shop"}});
    let of_app = json!({"resourceSelectors": [{"apiVersion": "example.com/v1", "kind": "App"}]});
    let mut of_definition = policy(
        "definitions",
        json!({"resourceSelectors": [
            {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}],
            "placement": {"clusterAffinity": {"clusterNames": ["m1"]}}}),
    );
    of_definition.namespace = None;
    let mut inputs = inputs(
        vec![policy("apps", of_app), of_definition],
        vec![app, definition],
    );
    for cluster in &mut inputs.clusters {
        let definitions = (
            "apiextensions.k8s.io/v1".to_owned(),
            "CustomResourceDefinition".to_owned(),
        );
        cluster.served = Some(Arc::new(BTreeSet::from([definitions])));
    }
    let plan = plan(&inputs, &BuiltIn);
    assert_eq!(shares(&plan, "a"), "m1=0");
    let binding = plan
        .bindings
        .iter()
        .find(|one| one.resource.name == "a")
        .unwrap();
    assert_eq!(
        binding.not_chosen[0].reason,
        "it does not serve App of example.com/v1"
    );
    let kinds: Vec<&str> = plan
        .objects
        .iter()
        .map(|one| one.resource.kind.as_str())
        .collect();
    assert_eq!(kinds, ["Namespace", "CustomResourceDefinition", "App"]);
}

#[test]
fn what_is_left_to_others_stays_where_it_is() {
    let previous = PreviousPlacement {
        clusters: [("m2".to_owned(), 3)].into(),
        ..PreviousPlacement::default()
    };
    for (member, value, reason) in [
        (
            "schedulerName",
            json!("volcano"),
            "schedulerName leaves it to the scheduler volcano",
        ),
        (
            "dependentOverrides",
            json!(["eu", "us"]),
            "it waits for the override policies eu, us (dependentOverrides)",
        ),
    ] {
        let mut spec = selecting("Deployment", &json!({}));
        spec[member] = value;
        let template = deployment("web", 3, "1");
        let name = TemplateName::of(&template);
        let mut inputs = inputs(vec![policy("web", spec)], vec![template]);
        inputs.previous.insert(name, Arc::new(previous.clone()));
        let plan = plan(&inputs, &BuiltIn);
        assert_eq!(shares(&plan, "web"), "m2=3");
        assert_eq!(plan.bindings[0].unschedulable.as_deref(), Some(reason));
        assert_eq!(plan.bindings[0].not_chosen[0].reason, reason);
        // Another scheduler places it, and this writes it; without its overrides it is not written.
        let written = plan
            .objects
            .iter()
            .filter(|one| one.resource.kind == "Deployment");
        assert_eq!(written.count(), usize::from(member == "schedulerName"));
    }
}

#[test]
fn replicas_that_another_scheduler_has_divided_stay_divided() {
    let mut spec = selecting("Deployment", &weighted());
    spec["schedulerName"] = "volcano".into();
    let template = deployment("web", 3, "1");
    let name = TemplateName::of(&template);
    let mut inputs = inputs(vec![policy("web", spec)], vec![template]);
    let previous = PreviousPlacement {
        clusters: [("m1".to_owned(), 1), ("m2".to_owned(), 2)].into(),
        ..PreviousPlacement::default()
    };
    inputs.previous.insert(name, Arc::new(previous));
    let plan = plan(&inputs, &BuiltIn);
    let objects = plan.objects.iter().map(|one| one.object.value());
    let replicas = objects.filter_map(|object| object["spec"].get("replicas").cloned());
    assert_eq!(replicas.collect::<Vec<_>>(), [json!(1), json!(2)]);
}

/// What Fleetdex has written is deleted only where that is certain.
#[test]
fn copies_stay_where_an_object_is_not_placed_or_a_cluster_is_not_known() {
    let nowhere = json!({"clusterAffinity": {"clusterNames": ["m9"]}});
    let elsewhere = json!({"clusterAffinity": {"clusterNames": ["m2"]}});
    let web = deployment("web", 3, "1");
    let negative = deployment("web", -1, "1");
    for (placement, templates, cluster, preserves, is_deleted) in [
        (&elsewhere, vec![web.clone()], "m1", false, true),
        (&elsewhere, vec![web.clone()], "m2", false, false),
        (&elsewhere, vec![web.clone()], "m9", false, false),
        (&elsewhere, vec![], "m1", false, true),
        (&elsewhere, vec![], "m1", true, false),
        (&nowhere, vec![web.clone()], "m1", false, false),
        (&elsewhere, vec![negative], "m1", false, false),
    ] {
        let mut copy = web.clone();
        copy["metadata"]["labels"] = json!({CONTROL_PLANE_LABEL: "uid"});
        let name = TemplateName::of(&copy);
        let policies = vec![policy("web", selecting("Deployment", placement))];
        let mut inputs = inputs(policies, templates.clone());
        let objects = [(name.clone(), copy)].into();
        inputs.observed.insert(cluster.to_owned(), objects);
        let previous = PreviousPlacement {
            preserves,
            ..PreviousPlacement::default()
        };
        inputs.previous.insert(name, Arc::new(previous));
        let plan = plan(&inputs, &BuiltIn);
        assert_eq!(
            !plan.deletions.is_empty(),
            is_deleted,
            "{placement} {templates:?} {cluster} {preserves}"
        );
    }
}

#[test]
fn what_an_object_needs_may_be_overwritten_as_the_object_is() {
    let settings = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "settings", "namespace": "shop"}});
    for (resolution, is_written) in [("Abort", false), ("Overwrite", true)] {
        let mut spec = selecting(
            "Deployment",
            &json!({"clusterAffinity": {"clusterNames": ["m1"]}}),
        );
        spec["propagateDeps"] = true.into();
        spec["conflictResolution"] = resolution.into();
        let templates = vec![settings.clone(), deployment("web", 1, "1")];
        let mut inputs = inputs(vec![policy("web", spec)], templates);
        let objects = [(TemplateName::of(&settings), settings.clone())].into();
        inputs.observed.insert("m1".to_owned(), objects);
        let plan = plan(&inputs, &BuiltIn);
        assert_eq!(plan.conflicts.is_empty(), is_written, "{resolution}");
    }
}

#[test]
fn what_members_add_is_no_difference() {
    let wanted =
        json!({"spec": {"containers": [{"name": "a", "image": "x"}], "ports": [1], "gone": null}});
    for (found, is_contained) in [
        (
            json!({"spec": {"containers": [{"name": "side"}, {"name": "a", "image": "x", "tty": true}], "ports": [1]}}),
            true,
        ),
        (
            json!({"spec": {"containers": [{"name": "a", "image": "y"}], "ports": [1]}}),
            false,
        ),
        (
            json!({"spec": {"containers": [{"name": "a", "image": "x"}], "ports": [1, 2]}}),
            false,
        ),
        (json!({"spec": {"ports": [1]}}), false),
    ] {
        let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": wanted["spec"]});
        let mut observed = object.clone();
        observed["spec"] = found["spec"].clone();
        let plan = DistributionPlan {
            objects: vec![PlannedObject {
                cluster: "m1".to_owned(),
                resource: TemplateName::of(&object),
                object: ObjectText::from(&object),
                overwrites: false,
                is_only_needed: false,
            }],
            ..DistributionPlan::default()
        };
        let objects = [(TemplateName::of(&object), observed)].into();
        assert_eq!(
            plan.has_changes(&[("m1".to_owned(), objects)].into()),
            !is_contained,
            "{found}"
        );
    }
}

#[test]
fn nothing_is_written_where_it_is_suspended() {
    for (suspension, expected) in [
        (json!({"dispatching": true}), vec![]),
        (
            json!({"dispatchingOnClusters": {"clusterNames": ["m1"]}}),
            vec!["m2"],
        ),
        (json!({}), vec!["m1", "m2"]),
    ] {
        let mut spec = selecting("Deployment", &json!({}));
        spec["suspension"] = suspension.clone();
        let inputs = inputs(vec![policy("web", spec)], vec![deployment("web", 1, "1")]);
        let plan = plan(&inputs, &BuiltIn);
        assert_eq!(shares(&plan, "web"), "m1=1 m2=1");
        let workloads = plan
            .objects
            .iter()
            .filter(|one| one.resource.kind == "Deployment");
        let written: Vec<&str> = workloads.map(|one| one.cluster.as_str()).collect();
        assert_eq!(written, expected, "{suspension}");
    }
}

/// Case 50: completions of a Job are divided as its parallelism is.
#[test]
fn completions_of_a_job_are_divided() {
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "sum", "namespace": "shop"},
        "spec": {"parallelism": 3, "completions": 6, "template": {"spec": {"containers": [{"name": "a"}]}}}});
    let mut spec = selecting("Deployment", &weighted());
    spec["resourceSelectors"] = json!([{"apiVersion": "batch/v1", "kind": "Job"}]);
    let inputs = inputs(vec![policy("jobs", spec)], vec![job]);
    let plan = plan(&inputs, &BuiltIn);
    let jobs = plan.objects.iter().filter(|one| one.resource.kind == "Job");
    let divided: Vec<String> = jobs
        .map(|one| {
            format!(
                "{}/{}",
                one.object.value()["spec"]["parallelism"],
                one.object.value()["spec"]["completions"]
            )
        })
        .collect();
    assert_eq!(divided, ["2/4", "1/2"]);
}

#[test]
fn an_override_that_cannot_be_made_keeps_the_object_from_that_cluster_only() {
    let spec = json!({"overrideRules": [{"targetCluster": {"clusterNames": ["m1"]},
        "overriders": {"plaintext": [{"path": "/spec/none", "operator": "remove"}]}}]});
    let mut inputs = inputs(
        vec![policy("web", selecting("Deployment", &json!({})))],
        vec![deployment("web", 1, "1")],
    );
    inputs.overrides.push(ObjectOverrides {
        namespace: Some("shop".to_owned()),
        name: "odd".to_owned(),
        spec: std::sync::Arc::new(serde_json::from_value(spec).unwrap()),
    });
    let plan = plan(&inputs, &BuiltIn);
    assert_eq!(plan.conflicts[0].cluster, "m1");
    assert!(
        plan.conflicts[0]
            .reason
            .starts_with("OverridePolicy shop/odd: plaintext[0]: remove /spec/none: ")
    );
    let written: Vec<&str> = plan
        .objects
        .iter()
        .map(|one| one.cluster.as_str())
        .collect();
    assert_eq!(written, ["m2", "m2"]);
}

#[test]
fn workloads_with_a_label_run_together_or_apart() {
    let labelled = |name: &str| {
        let mut object = deployment(name, 1, "1");
        object["metadata"]["labels"] = json!({"group": "a"});
        object
    };
    let by = json!({"groupByLabelKey": "group"});
    for (kind, expected, reason) in [
        (
            "affinity",
            "m1=1",
            "workloads with group=a run in other clusters",
        ),
        ("antiAffinity", "m2=1", "a workload with group=a runs there"),
    ] {
        let mut placement = by_room();
        placement["workloadAffinity"] = json!({ kind: by });
        let policies = vec![policy("all", selecting("Deployment", &placement))];
        let mut inputs = inputs(policies, vec![labelled("b"), labelled("a")]);
        for (name, replicas) in [("m1", 1), ("m2", 1)] {
            inputs
                .room
                .insert(name.to_owned(), ClusterRoom::of_replicas(replicas));
        }
        if kind == "affinity" {
            inputs
                .room
                .insert("m1".to_owned(), ClusterRoom::of_replicas(2));
        }
        let plan = plan(&inputs, &BuiltIn);
        assert_eq!(shares(&plan, "a"), "m1=1");
        assert_eq!(shares(&plan, "b"), expected);
        let binding = plan.bindings.iter().find(|one| one.resource.name == "b");
        assert_eq!(binding.unwrap().not_chosen[0].reason, reason);
    }
}

#[test]
fn the_greatest_priority_is_placed_first() {
    let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": "high"}, "value": 1000});
    let mut high = selecting("Deployment", &by_room());
    high["resourceSelectors"][0]["name"] = "b".into();
    high["schedulePriority"] =
        json!({"priorityClassSource": "KubePriorityClass", "priorityClassName": "high"});
    let policies = vec![
        policy("all", selecting("Deployment", &by_room())),
        policy("high", high),
    ];
    let templates = vec![class, deployment("a", 3, "1"), deployment("b", 3, "1")];
    let mut inputs = inputs(policies, templates);
    inputs
        .room
        .insert("m1".to_owned(), ClusterRoom::of_replicas(4));
    let plan = plan(&inputs, &BuiltIn);
    assert_eq!(shares(&plan, "b"), "m1=3");
    assert_eq!(shares(&plan, "a"), "");
}

/// Knows nothing of what objects need.
struct WithoutDependencies;

impl Operations for WithoutDependencies {
    fn run(&self, request: &Request<'_>) -> Result<Option<Response>, String> {
        match request {
            Request::Dependency { .. } => Err("no answer".to_owned()),
            other => BuiltIn.run(other),
        }
    }
}

#[test]
fn nothing_is_written_or_deleted_where_it_is_not_known_what_an_object_needs() {
    let mut spec = selecting(
        "Deployment",
        &json!({"clusterAffinity": {"clusterNames": ["m1"]}}),
    );
    spec["propagateDeps"] = true.into();
    let mut inputs = inputs(vec![policy("web", spec)], vec![deployment("web", 1, "1")]);
    let mut copy = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "settings", "namespace": "shop"}});
    copy["metadata"]["labels"] = json!({CONTROL_PLANE_LABEL: "uid"});
    let objects = [(TemplateName::of(&copy), copy)].into();
    inputs.observed.insert("m2".to_owned(), objects);
    let found = plan(&inputs, &WithoutDependencies);
    assert_eq!(found.objects, []);
    assert_eq!(found.deletions, []);
    assert_eq!(
        found.bindings[0].unschedulable.as_deref(),
        Some("what it needs is not known: no answer")
    );
    assert_eq!(plan(&inputs, &BuiltIn).deletions.len(), 1);
}

#[test]
fn a_policy_reaches_only_the_clusters_that_its_namespace_allows() {
    let web = deployment("web", 1, "1");
    let name = TemplateName::of(&web);
    let mut inputs = inputs(
        vec![policy("web", selecting("Deployment", &json!({})))],
        vec![web],
    );
    let everywhere = plan(&inputs, &BuiltIn);
    assert_eq!(shares(&everywhere, "web"), "m1=1 m2=1");
    // A binding that says otherwise does not help.
    let previous = PreviousPlacement {
        clusters: [("m1".to_owned(), 1)].into(),
        ..PreviousPlacement::default()
    };
    inputs.previous.insert(name, Arc::new(previous));
    for (allowed, expected) in [(vec!["m2"], "m2=1"), (vec![], "")] {
        let allowed = allowed.into_iter().map(str::to_owned).collect();
        inputs.allowed_clusters.insert("shop".to_owned(), allowed);
        let plan = plan(&inputs, &BuiltIn);
        assert_eq!(shares(&plan, "web"), expected);
        let reason = &plan.bindings[0].not_chosen[0].reason;
        assert!(reason.contains("does not allow it"), "{reason}");
    }
}

#[test]
fn what_objects_need_goes_with_the_last_of_them_and_never_with_a_policy() {
    let settings = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "settings", "namespace": "shop"},
    });
    let web = deployment("web", 1, "1");
    let (needed, requirer) = (TemplateName::of(&settings), TemplateName::of(&web));
    let both: crate::division::Shares = [("m1".to_owned(), 1), ("m2".to_owned(), 1)].into();
    let mut inputs = inputs(Vec::new(), vec![settings, web]);
    let of_settings = PreviousPlacement {
        clusters: both.clone(),
        required_by: vec![("shop".to_owned(), "web-deployment".to_owned())],
        is_needed_only: true,
        ..PreviousPlacement::default()
    };
    inputs
        .previous
        .insert(needed.clone(), Arc::new(of_settings));
    let of_web = PreviousPlacement {
        clusters: both,
        ..PreviousPlacement::default()
    };
    inputs.previous.insert(requirer.clone(), Arc::new(of_web));
    let fate = |inputs: &DistributionInputs| {
        let plan = plan(inputs, &BuiltIn);
        Leftovers::of(&plan, inputs).fate("m1", &needed)
    };
    // Its policy is gone, and it may still run.
    assert_eq!(fate(&inputs), LeftoverFate::Stays);
    // It is placed elsewhere, and does not need the settings any more.
    let mut spec = selecting(
        "Deployment",
        &json!({"clusterAffinity": {"clusterNames": ["m2"]}}),
    );
    inputs.policies.push(policy("web", spec.clone()));
    assert_eq!(fate(&inputs), LeftoverFate::Deleted);
    spec["propagateDeps"] = true.into();
    inputs.policies = vec![policy("web", spec)];
    assert_eq!(fate(&inputs), LeftoverFate::Deleted);
    // The object itself is gone.
    inputs.policies.clear();
    inputs.templates.retain(|one| one.name != requirer);
    assert_eq!(fate(&inputs), LeftoverFate::Deleted);
}

#[test]
fn copies_that_hold_the_things_of_others_are_released() {
    for (kind, expected) in [
        ("Namespace", LeftoverFate::Released),
        ("PersistentVolumeClaim", LeftoverFate::Released),
        ("ConfigMap", LeftoverFate::Deleted),
    ] {
        let name = TemplateName::from(NameParts {
            api_version: "v1".to_owned(),
            kind: kind.to_owned(),
            ..NameParts::default()
        });
        let inputs = inputs(Vec::new(), Vec::new());
        let leftovers = Leftovers::of(&plan(&inputs, &BuiltIn), &inputs);
        assert_eq!(leftovers.fate("m1", &name), expected, "{kind}");
        assert_eq!(leftovers.fate("unknown", &name), LeftoverFate::Stays);
    }
}

/// A release of Flux with its source and the Secret of that, and a Secret of another namespace.
fn release_with_needs() -> [Value; 4] {
    let object = |api_version: &str, kind: &str, namespace: &str, name: &str| {
        json!({"apiVersion": api_version, "kind": kind,
            "metadata": {"name": name, "namespace": namespace}})
    };
    let source = "source.toolkit.fluxcd.io/v1";
    let mut release = object("helm.toolkit.fluxcd.io/v2", "HelmRelease", "shop", "web");
    let source_reference = json!({"kind": "HelmRepository", "name": "charts"});
    release["spec"] = json!({"chart": {"spec": {"sourceRef": source_reference}},
        "dependsOn": [{"name": "db", "namespace": "data"}]});
    let mut repository = object(source, "HelmRepository", "shop", "charts");
    repository["spec"] = json!({"secretRef": {"name": "login"}});
    let mut other = object("helm.toolkit.fluxcd.io/v2", "HelmRelease", "data", "db");
    other["spec"] = json!({"dependsOn": [{"name": "web", "namespace": "shop"}]});
    let secret = object("v1", "Secret", "shop", "login");
    [release, repository, secret, other]
}

/// A policy that places the release in a cluster, with what it needs.
fn of_release(cluster: &str) -> Policy {
    let spec = json!({
        "resourceSelectors": [{"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
            "name": "web"}],
        "propagateDeps": true,
        "placement": {"clusterAffinity": {"clusterNames": [cluster]}},
    });
    policy("web", spec)
}

#[test]
fn what_an_object_needs_in_turn_goes_with_it_within_the_namespace_of_the_policy() {
    let templates = release_with_needs().to_vec();
    let mut inputs = inputs(vec![of_release("m2")], templates);
    let found = plan(&inputs, &BuiltIn);
    assert_eq!(shares(&found, "charts"), "m2=0");
    assert_eq!(shares(&found, "login"), "m2=0");
    let of_secret = found
        .bindings
        .iter()
        .find(|one| one.resource.name == "login");
    assert_eq!(of_secret.unwrap().required_by[0].name, "charts");
    assert!(!found.bindings.iter().any(|one| one.resource.name == "db"));
    // The source has a policy of its own, and its Secret goes wherever the source is needed.
    let spec = json!({
        "resourceSelectors": [{"apiVersion": "source.toolkit.fluxcd.io/v1",
            "kind": "HelmRepository"}],
        "propagateDeps": true,
        "placement": {"clusterAffinity": {"clusterNames": ["m1"]}},
    });
    inputs.policies.push(policy("charts", spec));
    let both = plan(&inputs, &BuiltIn);
    assert_eq!(shares(&both, "charts"), "m1=0 m2=0");
    assert_eq!(shares(&both, "login"), "m1=0 m2=0");
    // A policy of the cluster may reach other namespaces, in circles too.
    inputs.policies.truncate(1);
    inputs.policies[0].namespace = None;
    let of_cluster = plan(&inputs, &BuiltIn);
    assert_eq!(shares(&of_cluster, "db"), "m2=0");
    assert_eq!(shares(&of_cluster, "login"), "m2=0");
}

#[test]
fn what_is_needed_in_turn_goes_and_stays_with_the_object() {
    let templates = release_with_needs();
    let names = templates.each_ref().map(TemplateName::of);
    let mut inputs = inputs(Vec::new(), templates.to_vec());
    for (name, requirer) in [
        (&names[0], None),
        (&names[1], Some(0)),
        (&names[2], Some(1)),
    ] {
        let binding = |index: usize| {
            let of: &TemplateName = &names[index];
            (of.namespace.clone(), crate::binding_name::binding_name(of))
        };
        let previous = PreviousPlacement {
            clusters: [("m1".to_owned(), 0)].into(),
            required_by: requirer.map(binding).into_iter().collect(),
            is_needed_only: requirer.is_some(),
            ..PreviousPlacement::default()
        };
        inputs.previous.insert(name.clone(), Arc::new(previous));
    }
    let fates = |inputs: &DistributionInputs| {
        let leftovers = Leftovers::of(&plan(inputs, &BuiltIn), inputs);
        names[..3]
            .iter()
            .map(|name| leftovers.fate("m1", name))
            .collect::<Vec<_>>()
    };
    // Its policy is gone, and it may still run.
    assert_eq!(fates(&inputs), [LeftoverFate::Stays; 3]);
    // It is gone itself.
    inputs.templates.retain(|one| one.name != names[0]);
    assert_eq!(fates(&inputs), [LeftoverFate::Deleted; 3]);
}

#[test]
fn a_lazy_policy_counts_when_the_object_changes_and_a_cluster_fits() {
    let lazy = |cluster: &str| {
        let placement = json!({"clusterAffinity": {"clusterNames": [cluster]}});
        let mut spec = selecting("Deployment", &placement);
        spec["activationPreference"] = "Lazy".into();
        policy("web", spec)
    };
    let mut inputs = inputs(vec![lazy("none")], vec![deployment("a", 1, "1")]);
    // The binding of a plan is what the next one knows.
    let planned = |inputs: &mut DistributionInputs| {
        let plan = plan(inputs, &BuiltIn);
        let name = inputs.templates[0].name.clone();
        let before = inputs.previous.get(&name).map(Arc::as_ref);
        let template = &inputs.templates[0].object;
        let none = BTreeSet::new();
        let binding = crate::binding::binding(&plan.bindings[0], template, &none, before);
        let known = crate::binding::KnownBinding::read(&binding).unwrap();
        inputs.previous.insert(name, known.previous);
        shares(&plan, "a")
    };
    assert_eq!(planned(&mut inputs), "");
    inputs.policies = vec![lazy("m1")];
    assert_eq!(planned(&mut inputs), "m1=1");
    inputs.policies = vec![lazy("m2")];
    assert_eq!(planned(&mut inputs), "m1=1");
    inputs.templates = vec![deployment("a", 2, "1").into()];
    assert_eq!(planned(&mut inputs), "m2=2");
}
