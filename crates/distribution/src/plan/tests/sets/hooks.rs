//! Sets whose hooks come first: `m1` gets the objects, and `m2` does not yet.

use super::*;
use crate::sets::{HookAdmission, UnreachedContents};

fn waiting(objects: Vec<Value>, stable: Option<Vec<Value>>) -> DistributionInputs {
    let mut web = set("web", "1", &json!({}), objects);
    web.admission = Some(HookAdmission {
        clusters: ["m1".to_owned()].into(),
        namespaces: [("m2".to_owned(), ["jobs".to_owned()].into())].into(),
    });
    web.unreached = stable.map(|stable| UnreachedContents {
        objects: stable.into_iter().map(NamedTemplate::from).collect(),
        reached: ["m1".to_owned()].into(),
    });
    with_sets(vec![web], Vec::new(), Vec::new())
}

fn written(plan: &DistributionPlan, name: &str) -> String {
    let objects = plan.objects.iter().filter(|one| one.resource.name == name);
    let clusters: Vec<&str> = objects.map(|one| one.cluster.as_str()).collect();
    clusters.join(" ")
}

#[test]
fn nothing_but_definitions_is_written_before_hooks_have_succeeded() {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "fleets.example.com"}, "spec": {"group": "example.com",
            "names": {"kind": "Fleet", "plural": "fleets"}},
    });
    let inputs = waiting(vec![definition, config_map("a")], None);
    let plan = plan(&inputs, &BuiltIn);
    assert_eq!(written(&plan, "fleets.example.com"), "m1 m2");
    assert_eq!(written(&plan, "a"), "m1");
    // Their namespaces are there before them.
    assert_eq!(written(&plan, "jobs"), "m2");
    assert_eq!(written(&plan, "shop"), "m1");
    let of = |name: &str| {
        let mut bindings = plan.bindings.iter();
        bindings.find(|one| one.resource.name == name).unwrap()
    };
    assert_eq!(of("a").awaiting, ["m2".to_owned()].into());
    assert!(of("fleets.example.com").awaiting.is_empty());
    // The binding knows where it will be, and what is there stays.
    assert_eq!(shares(&plan, "a"), "m1=0 m2=0");
    let leftovers = Leftovers::of(&plan, &inputs);
    let name = TemplateName::of(&config_map("a"));
    assert_eq!(leftovers.fate("m2", &name), Stays);
}

#[test]
fn a_cluster_that_has_nothing_gets_nothing_of_the_stable_revision_either() {
    let new = vec![config_map("same"), config_map("new")];
    let stable = vec![config_map("same"), config_map("old")];
    let plan = plan(&waiting(new, Some(stable)), &BuiltIn);
    assert_eq!(written(&plan, "same"), "m1");
    assert_eq!(written(&plan, "new"), "m1");
    assert_eq!(written(&plan, "old"), "");
}
