//! Sets of objects in plans.

use fleetdex_crds::policy::PropagationSpec;

use LeftoverFate::{Deleted, Released, Stays};

use super::*;
use crate::{
    placing::PreviousPlacement,
    sets::{ObjectSet, SetContents, SetName, SetObjects},
};

mod hooks;
mod rollouts;
mod variants;

fn set_name(name: &str) -> SetName {
    SetName {
        namespace: "apps".to_owned(),
        name: name.to_owned(),
        uid: format!("uid-{name}"),
    }
}

fn set(name: &str, created: &str, placement: &Value, objects: Vec<Value>) -> ObjectSet {
    let spec = PropagationSpec {
        placement: serde_json::from_value(placement.clone()).unwrap(),
        ..PropagationSpec::default()
    };
    ObjectSet {
        created: created.to_owned(),
        contents: SetContents::Known(objects.into_iter().map(NamedTemplate::from).collect()),
        ..ObjectSet::new(set_name(name), &spec, true)
    }
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "shop"}})
}

fn with_sets(
    sets: Vec<ObjectSet>,
    policies: Vec<Policy>,
    templates: Vec<Value>,
) -> DistributionInputs {
    DistributionInputs {
        sets,
        knows_sets: true,
        ..inputs(policies, templates)
    }
}

/// An object that was in both clusters, for a set or for a policy.
fn bound(inputs: &mut DistributionInputs, object: &Value, set: Option<&str>, preserves: bool) {
    let previous = PreviousPlacement {
        clusters: [("m1".to_owned(), 0), ("m2".to_owned(), 0)].into(),
        set: set.map(|name| Arc::new(set_name(name))),
        preserves,
        ..PreviousPlacement::default()
    };
    inputs
        .previous
        .insert(TemplateName::of(object), Arc::new(previous));
}

fn found<'p>(plan: &'p DistributionPlan, name: &str) -> &'p PlannedBinding {
    let mut bindings = plan.bindings.iter();
    bindings.find(|one| one.resource.name == name).unwrap()
}

/// The values of the objects of this name, by cluster.
fn written(plan: &DistributionPlan, name: &str, pointer: &str) -> String {
    let objects = plan.objects.iter().filter(|one| one.resource.name == name);
    let values = objects.map(|one| {
        let object = one.object.value();
        format!("{}={}", one.cluster, object.pointer(pointer).unwrap())
    });
    values.collect::<Vec<_>>().join(" ")
}

/// Notes what a plan says as the bindings that the next one finds.
fn bind(inputs: &mut DistributionInputs, plan: &DistributionPlan) {
    for one in &plan.bindings {
        let none = std::collections::BTreeSet::new();
        let binding = crate::binding::binding(one, &Value::Null, &none, None);
        let known = crate::binding::KnownBinding::read(&binding).unwrap();
        inputs.previous.insert(known.name, known.previous);
    }
}

fn fates(inputs: &DistributionInputs, object: &Value) -> [LeftoverFate; 2] {
    let plan = plan(inputs, &BuiltIn);
    let leftovers = Leftovers::of(&plan, inputs);
    ["m1", "m2"].map(|cluster| leftovers.fate(cluster, &TemplateName::of(object)))
}

fn with_value(name: &str, value: &str) -> Value {
    let mut object = config_map(name);
    object["data"] = json!({"value": value});
    object
}

fn autoscaler(version: &str) -> Value {
    json!({"apiVersion": format!("autoscaling/{version}"), "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "shop"}})
}

fn fate(inputs: &DistributionInputs, object: &Value) -> LeftoverFate {
    let plan = plan(inputs, &BuiltIn);
    Leftovers::of(&plan, inputs).fate("m1", &TemplateName::of(object))
}

#[test]
fn the_objects_of_a_set_go_where_the_set_says_and_no_policy_claims_them() {
    let all = policy("all", selecting("Deployment", &json!({})));
    let inputs = with_sets(
        vec![set(
            "web",
            "1",
            &weighted(),
            vec![deployment("web", 3, "1"), config_map("a")],
        )],
        vec![all],
        vec![deployment("other", 2, "1")],
    );
    let plan = plan(&inputs, &BuiltIn);
    assert_eq!(shares(&plan, "web"), "m1=2 m2=1");
    assert_eq!(shares(&plan, "other"), "m1=2 m2=2");
    let of = |name: &str| {
        plan.bindings
            .iter()
            .find(|one| one.resource.name == name)
            .unwrap()
    };
    let web = of("web");
    assert_eq!(web.policy.as_deref(), Some("Distribution apps/web"));
    assert_eq!(web.set.as_deref(), Some(&set_name("web")));
    assert_eq!(web.claimed_by, None);
    assert_eq!(of("other").set, None);
    assert_eq!(plan.refused, []);
}

#[test]
fn a_namespace_bounds_the_clusters_of_its_sets() {
    let mut inputs = with_sets(
        vec![set("web", "1", &json!({}), vec![config_map("a")])],
        Vec::new(),
        Vec::new(),
    );
    inputs
        .allowed_clusters
        .insert("apps".to_owned(), ["m2".to_owned()].into());
    let plan = plan(&inputs, &BuiltIn);
    assert_eq!(shares(&plan, "a"), "m2=0");
}

#[test]
fn what_left_a_set_is_deleted_and_what_is_not_known_stays() {
    let (there, left, other) = (config_map("there"), config_map("left"), config_map("other"));
    let with = |contents: SetContents, knows_sets: bool, preserves: bool| {
        let mut web = set("web", "1", &json!({}), Vec::new());
        web.contents = contents;
        let mut inputs = with_sets(vec![web], Vec::new(), Vec::new());
        inputs.knows_sets = knows_sets;
        for object in [&there, &left] {
            bound(&mut inputs, object, Some("web"), preserves);
        }
        // That of a set that is gone, and that of a template.
        bound(&mut inputs, &other, Some("gone"), preserves);
        bound(&mut inputs, &config_map("template"), None, false);
        inputs
    };
    let known = || SetContents::Known([there.clone().into()].into_iter().collect());
    let unknown = || SetContents::Unknown("it is broken".to_owned());

    for (inputs, of_there, of_left, of_other) in [
        (with(known(), true, false), Stays, Deleted, Deleted),
        (with(known(), true, true), Stays, Released, Released),
        // Neither this one nor any other is kept from being deleted.
        (with(unknown(), true, false), Stays, Stays, Deleted),
        (with(known(), false, false), Stays, Deleted, Stays),
        (
            with(SetContents::Known(SetObjects::default()), true, false),
            Deleted,
            Deleted,
            Deleted,
        ),
    ] {
        assert_eq!(fate(&inputs, &there), of_there);
        assert_eq!(fate(&inputs, &left), of_left);
        assert_eq!(fate(&inputs, &other), of_other);
        assert_eq!(fate(&inputs, &config_map("template")), Deleted);
    }
}

#[test]
fn an_object_has_one_owner_and_it_stays_the_same() {
    let a = || config_map("a");
    let old = || set("old", "1", &json!({}), vec![a()]);
    let new = || set("new", "2", &json!({}), vec![a()]);
    let claims = || policy("all", selecting("ConfigMap", &json!({})));
    let inputs = |policies: Vec<Policy>, holder: Option<Option<&str>>| {
        let templates = vec![a()];
        let mut inputs = with_sets(vec![new(), old()], policies, templates);
        if let Some(holder) = holder {
            bound(&mut inputs, &a(), holder, false);
        }
        inputs
    };
    for (inputs, owner, refused) in [
        (inputs(vec![], None), "Distribution apps/old", 1),
        (
            inputs(vec![], Some(Some("new"))),
            "Distribution apps/new",
            1,
        ),
        (
            inputs(vec![claims()], None),
            "PropagationPolicy shop/all",
            2,
        ),
        (
            inputs(vec![claims()], Some(None)),
            "PropagationPolicy shop/all",
            2,
        ),
        (
            inputs(vec![claims()], Some(Some("new"))),
            "Distribution apps/new",
            1,
        ),
    ] {
        let plan = plan(&inputs, &BuiltIn);
        let owners: Vec<_> = plan
            .bindings
            .iter()
            .filter_map(|one| one.policy.as_deref())
            .collect();
        assert_eq!(owners, [owner]);
        assert_eq!(plan.refused.len(), refused, "{:?}", plan.refused);
        let written = plan
            .objects
            .iter()
            .filter(|one| one.resource.kind == "ConfigMap");
        assert_eq!(written.count(), 2, "once in each cluster");
    }
    // What rests without a policy keeps its name, and so does what is left of a set that is gone.
    for (holder, expected) in [(None, "another binding"), (Some("gone"), "has, or had")] {
        let inputs = inputs(vec![], Some(holder));
        let plan = plan(&inputs, &BuiltIn);
        assert_eq!(plan.bindings, []);
        assert!(
            plan.refused[0].reason.contains(expected),
            "{:?}",
            plan.refused
        );
    }
}

#[test]
fn an_object_is_the_same_one_in_each_version_of_its_kind() {
    let sets = vec![
        set("old", "1", &json!({}), vec![autoscaler("v1")]),
        set("new", "2", &json!({}), vec![autoscaler("v2")]),
    ];
    let found = plan(&with_sets(sets, Vec::new(), Vec::new()), &BuiltIn);
    assert_eq!(found.bindings.len(), 1);
    assert_eq!(found.refused.len(), 1);
    // A chart that has another version now deletes nothing.
    let sets = vec![set("old", "1", &json!({}), vec![autoscaler("v2")])];
    let mut upgraded = with_sets(sets, Vec::new(), Vec::new());
    bound(&mut upgraded, &autoscaler("v1"), Some("old"), false);
    assert_eq!(fate(&upgraded, &autoscaler("v1")), LeftoverFate::Stays);
    assert_eq!(plan(&upgraded, &BuiltIn).refused, []);
}

#[test]
fn what_is_never_propagated_is_refused_by_name() {
    let mut event = config_map("a");
    event["kind"] = "Event".into();
    let sets = vec![set("web", "1", &json!({}), vec![event, config_map("b")])];
    let plan = plan(&with_sets(sets, Vec::new(), Vec::new()), &BuiltIn);
    assert_eq!(plan.bindings.len(), 1);
    assert_eq!(
        plan.refused[0].reason,
        "it is never distributed: objects of its kind belong to one cluster"
    );
}

#[test]
fn only_the_overrides_of_the_set_change_its_objects() {
    let mut web = set(
        "web",
        "1",
        &json!({}),
        vec![deployment("web", 1, "1"), config_map("a")],
    );
    web.overrides = serde_json::from_value(json!([
        {"targetCluster": {"clusterNames": ["m2"]},
         "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}],
         "overriders": {"plaintext": [
            {"path": "/spec/replicas", "operator": "replace", "value": 7}]}},
        {"overriders": {"labelsOverrider": [{"operator": "add", "value": {"env": "test"}}]}},
    ]))
    .unwrap();
    let mut inputs = with_sets(vec![web], Vec::new(), Vec::new());
    inputs.overrides.push(crate::overrides::ObjectOverrides {
        namespace: None,
        name: "all".to_owned(),
        spec: Arc::new(
            serde_json::from_value(
                json!({"overrideRules": [{"overriders": {"labelsOverrider": [
                {"operator": "add", "value": {"env": "other"}}]}}]}),
            )
            .unwrap(),
        ),
    });
    let plan = plan(&inputs, &BuiltIn);
    assert_eq!(plan.conflicts, []);
    let replicas: Vec<Value> = plan
        .objects
        .iter()
        .filter(|one| one.resource.kind == "Deployment")
        .map(|one| one.object.value()["spec"]["replicas"].clone())
        .collect();
    assert_eq!(replicas, [json!(1), json!(7)]);
    for one in plan
        .objects
        .iter()
        .filter(|one| one.resource.kind != "Namespace")
    {
        assert_eq!(one.object.value()["metadata"]["labels"]["env"], "test");
    }
}

#[test]
fn a_template_that_others_need_keeps_its_name() {
    let spec = json!({
        "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}],
        "propagateDeps": true, "placement": {"clusterAffinity": {"clusterNames": ["m1"]}},
    });
    let inputs = with_sets(
        vec![set("web", "1", &json!({}), vec![config_map("settings")])],
        vec![policy("web", spec)],
        vec![deployment("web", 1, "1"), config_map("settings")],
    );
    let plan = plan(&inputs, &BuiltIn);
    assert_eq!(shares(&plan, "settings"), "m1=0");
    assert_eq!(plan.refused.len(), 1);
    let settings = plan
        .bindings
        .iter()
        .find(|one| one.resource.name == "settings")
        .unwrap();
    assert_eq!(
        (settings.set.as_ref(), settings.required_by.len()),
        (None, 1)
    );
}
