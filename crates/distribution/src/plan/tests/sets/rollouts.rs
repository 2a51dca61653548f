//! Sets of which a new revision is rolled out: `m1` is reached, and `m2` is not.

use super::*;
use crate::sets::UnreachedContents;

const REACHED: &str = "m1";

/// A set with a new and a stable revision.
fn rolled_out(placement: &Value, new: Vec<Value>, stable: Vec<Value>) -> DistributionInputs {
    let mut web = set("web", "1", placement, new);
    web.unreached = Some(UnreachedContents {
        objects: stable.into_iter().map(NamedTemplate::from).collect(),
        reached: [REACHED.to_owned()].into(),
    });
    with_sets(vec![web], Vec::new(), Vec::new())
}

#[test]
fn clusters_that_are_not_reached_have_the_stable_objects() {
    let new = vec![
        with_value("changed", "new"),
        with_value("same", "1"),
        with_value("added", "new"),
    ];
    let stable = vec![
        with_value("changed", "old"),
        with_value("same", "1"),
        with_value("removed", "old"),
    ];
    let mut inputs = rolled_out(&json!({}), new.clone(), stable.clone());
    for object in &stable {
        bound(&mut inputs, object, Some("web"), false);
    }
    // The second plan finds the bindings of the first one.
    for _ in 0..2 {
        let plan = plan(&inputs, &BuiltIn);
        let value = "/data/value";
        assert_eq!(written(&plan, "changed", value), r#"m1="new" m2="old""#);
        assert_eq!(written(&plan, "same", value), r#"m1="1" m2="1""#);
        assert_eq!(written(&plan, "added", value), r#"m1="new""#);
        assert_eq!(written(&plan, "removed", value), r#"m2="old""#);
        assert_eq!(found(&plan, "added").awaiting, ["m2".to_owned()].into());
        assert_eq!(shares(&plan, "removed"), "m2=0");
        assert_eq!(fates(&inputs, &config_map("removed")), [Deleted, Stays]);
        for name in ["changed", "same", "added"] {
            assert_eq!(fates(&inputs, &config_map(name)), [Stays, Stays], "{name}");
        }
        bind(&mut inputs, &plan);
    }
    // When all are reached, it is the plan of the new revision alone.
    inputs.sets[0].unreached = None;
    let all = plan(&inputs, &BuiltIn);
    assert_eq!(
        written(&all, "changed", "/data/value"),
        r#"m1="new" m2="new""#
    );
    assert_eq!(fates(&inputs, &config_map("removed")), [Deleted, Deleted]);
    assert!(
        all.bindings
            .iter()
            .all(|one| one.stable.is_none() && one.awaiting.is_empty())
    );
    // An undo brings the stable one back, and deletes what only the new one had.
    let stable = stable.into_iter().map(NamedTemplate::from);
    inputs.sets[0].contents = SetContents::Known(stable.collect());
    let undone = plan(&inputs, &BuiltIn);
    assert_eq!(
        written(&undone, "removed", "/data/value"),
        r#"m1="old" m2="old""#
    );
    assert_eq!(fates(&inputs, &config_map("added")), [Deleted, Deleted]);
}

#[test]
fn at_a_first_installation_clusters_that_are_not_reached_have_nothing() {
    let inputs = rolled_out(&json!({}), vec![with_value("a", "new")], Vec::new());
    let plan = plan(&inputs, &BuiltIn);
    assert_eq!(written(&plan, "a", "/data/value"), r#"m1="new""#);
    let namespaces = plan
        .objects
        .iter()
        .filter(|one| one.resource.kind == "Namespace");
    let clusters: Vec<&str> = namespaces.map(|one| one.cluster.as_str()).collect();
    assert_eq!(clusters, ["m1"]);
    assert_eq!(fates(&inputs, &config_map("a")), [Stays, Stays]);
}

#[test]
fn replicas_are_those_of_the_division_of_each_revision() {
    let weights = weighted();
    let mut inputs = with_sets(
        vec![set("web", "1", &weights, vec![deployment("web", 3, "1")])],
        Vec::new(),
        Vec::new(),
    );
    let stable = plan(&inputs, &BuiltIn);
    assert_eq!(shares(&stable, "web"), "m1=2 m2=1");
    bind(&mut inputs, &stable);
    let previous = inputs.previous;
    let mut inputs = rolled_out(
        &weights,
        vec![deployment("web", 9, "2")],
        vec![deployment("web", 3, "1"), deployment("old", 3, "1")],
    );
    inputs.previous = previous;
    bound(&mut inputs, &deployment("old", 3, "1"), Some("web"), false);
    for _ in 0..3 {
        let plan = plan(&inputs, &BuiltIn);
        assert_eq!(shares(&plan, "web"), "m1=6 m2=3");
        assert_eq!(written(&plan, "web", "/spec/replicas"), "m1=6 m2=1");
        assert_eq!(written(&plan, "old", "/spec/replicas"), "m2=1");
        let kept = found(&plan, "web").stable.clone().unwrap();
        assert_eq!(kept, [("m1".to_owned(), 2), ("m2".to_owned(), 1)].into());
        bind(&mut inputs, &plan);
    }
}

#[test]
fn what_a_set_keeps_is_released_where_it_was_reached() {
    let stable = vec![with_value("a", "old")];
    let mut inputs = rolled_out(&json!({}), Vec::new(), stable);
    bound(&mut inputs, &config_map("a"), Some("web"), true);
    assert_eq!(fates(&inputs, &config_map("a")), [Released, Stays]);
}

#[test]
fn an_object_in_another_version_of_its_kind_is_left_as_it_is_until_it_is_reached() {
    let mut inputs = rolled_out(&json!({}), vec![autoscaler("v2")], vec![autoscaler("v1")]);
    bound(&mut inputs, &autoscaler("v1"), Some("web"), false);
    let plan = plan(&inputs, &BuiltIn);
    assert_eq!(plan.bindings.len(), 1);
    assert_eq!(plan.refused, []);
    assert_eq!(
        written(&plan, "web", "/apiVersion"),
        r#"m1="autoscaling/v2""#
    );
    for version in ["v1", "v2"] {
        assert_eq!(fates(&inputs, &autoscaler(version)), [Stays, Stays]);
    }
}
