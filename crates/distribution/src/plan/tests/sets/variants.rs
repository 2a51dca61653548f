//! Sets that were rendered for clusters of two versions: `m1` has the newer one, `m2` the older.

use super::*;
use crate::sets::{SetVariant, UnreachedContents};

/// The objects of the variants of both clusters. An object that both have is one.
fn variants(new: Vec<Value>, old: Vec<Value>) -> SetObjects {
    let mut all: Vec<Value> = Vec::new();
    let variants = [("1.36.0", new), ("1.35.0", old)].map(|(version, objects)| {
        let mut positions: Vec<usize> = Vec::new();
        for object in objects {
            let known = all.iter().position(|one| *one == object);
            positions.push(known.unwrap_or(all.len()));
            if known.is_none() {
                all.push(object);
            }
        }
        positions.sort_unstable();
        SetVariant {
            kubernetes_version: version.to_owned(),
            objects: positions,
        }
    });
    let assigned = [("m1".to_owned(), 0), ("m2".to_owned(), 1)];
    SetObjects::of_variants(
        all.into_iter().map(NamedTemplate::from).collect(),
        &Arc::from(variants),
        &Arc::new(assigned.into()),
    )
}

fn inputs_of(placement: &Value, objects: SetObjects) -> DistributionInputs {
    let mut web = set("web", "1", placement, Vec::new());
    web.contents = SetContents::Known(objects);
    with_sets(vec![web], Vec::new(), Vec::new())
}

fn reason(plan: &DistributionPlan, name: &str, cluster: &str) -> String {
    let binding = found(plan, name);
    let mut reasons = binding.not_chosen.iter();
    let reason = reasons.find(|one| one.cluster == cluster);
    reason.map(|one| one.reason.clone()).unwrap_or_default()
}

#[test]
fn a_cluster_gets_the_objects_of_its_variant() {
    let mut inputs = inputs_of(
        &json!({}),
        variants(
            vec![
                with_value("changed", "new"),
                config_map("same"),
                config_map("added"),
            ],
            vec![
                with_value("changed", "old"),
                config_map("same"),
                config_map("left"),
            ],
        ),
    );
    for _ in 0..2 {
        let plan = plan(&inputs, &BuiltIn);
        let value = "/data/value";
        assert_eq!(written(&plan, "changed", value), r#"m1="new" m2="old""#);
        assert_eq!(
            written(&plan, "same", "/kind"),
            r#"m1="ConfigMap" m2="ConfigMap""#
        );
        assert_eq!(written(&plan, "added", "/kind"), r#"m1="ConfigMap""#);
        assert_eq!(written(&plan, "left", "/kind"), r#"m2="ConfigMap""#);
        assert_eq!(shares(&plan, "added"), "m1=0");
        assert_eq!(
            reason(&plan, "added", "m2"),
            "its set has no such object for Kubernetes 1.35.0 and the API versions of the cluster"
        );
        assert_eq!(fates(&inputs, &config_map("added")), [Stays, Deleted]);
        assert_eq!(fates(&inputs, &config_map("left")), [Deleted, Stays]);
        assert!(plan.bindings.iter().all(|one| one.awaiting.is_empty()));
        assert_eq!((plan.refused.len(), plan.conflicts.len()), (0, 0));
        bind(&mut inputs, &plan);
    }
    // What a set keeps is released where it is not in the set any more.
    bound(&mut inputs, &config_map("added"), Some("web"), true);
    assert_eq!(fates(&inputs, &config_map("added")), [Stays, Released]);
}

#[test]
fn replicas_are_divided_over_the_clusters_that_have_the_object() {
    let both = variants(
        vec![deployment("web", 3, "1")],
        vec![deployment("web", 5, "2")],
    );
    let plan_of = |objects: SetObjects| plan(&inputs_of(&weighted(), objects), &BuiltIn);
    let cpu = "/spec/template/spec/containers/0/resources/requests/cpu";
    let of_both = plan_of(both);
    assert_eq!(shares(&of_both, "web"), "m1=2 m2=1");
    assert_eq!(written(&of_both, "web", "/spec/replicas"), "m1=2 m2=1");
    assert_eq!(written(&of_both, "web", cpu), r#"m1="1" m2="2""#);
    let mut inputs = inputs_of(
        &weighted(),
        variants(Vec::new(), vec![deployment("web", 3, "1")]),
    );
    // Also if it was divided over both of them.
    for _ in 0..2 {
        let plan = plan(&inputs, &BuiltIn);
        assert_eq!(shares(&plan, "web"), "m2=3");
        assert_eq!(written(&plan, "web", "/spec/replicas"), "m2=3");
        assert_eq!(found(&plan, "web").unschedulable, None);
        bind(&mut inputs, &of_both);
    }
    assert_eq!(fates(&inputs, &deployment("web", 3, "1")), [Deleted, Stays]);
}

#[test]
fn what_a_cluster_of_an_unknown_version_has_stays() {
    let objects = variants(
        vec![
            with_value("changed", "new"),
            config_map("same"),
            config_map("added"),
        ],
        vec![with_value("changed", "old"), config_map("same")],
    );
    let mut inputs = inputs_of(&json!({}), objects);
    inputs.clusters.push(cluster("m3", &json!({})));
    let planned = plan(&inputs, &BuiltIn);
    assert_eq!(shares(&planned, "changed"), "m1=0 m2=0");
    assert_eq!(shares(&planned, "added"), "m1=0");
    assert_eq!(shares(&planned, "same"), "m1=0 m2=0 m3=0");
    let reason = reason(&planned, "changed", "m3");
    assert!(reason.starts_with("it is not known yet"), "{reason}");
    bind(&mut inputs, &planned);
    let name = TemplateName::of(&config_map("changed"));
    let mut previous = PreviousPlacement::clone(&inputs.previous[&name]);
    previous.clusters.insert("m3".to_owned(), 0);
    inputs.previous.insert(name, Arc::new(previous));
    let planned = plan(&inputs, &BuiltIn);
    assert_eq!(shares(&planned, "changed"), "m1=0 m2=0 m3=0");
    let of_changed = written(&planned, "changed", "/data/value");
    assert_eq!(of_changed, r#"m1="new" m2="old""#, "it stays as it is");
    let same = r#"m1="ConfigMap" m2="ConfigMap" m3="ConfigMap""#;
    assert_eq!(written(&planned, "same", "/kind"), same);
    let leftovers = Leftovers::of(&planned, &inputs);
    for name in ["changed", "added", "same"] {
        let name = TemplateName::of(&config_map(name));
        assert_eq!(leftovers.fate("m3", &name), Stays);
    }
}

#[test]
fn an_object_in_two_versions_of_its_kind_is_one_object() {
    let mut inputs = inputs_of(
        &json!({}),
        variants(vec![autoscaler("v2")], vec![autoscaler("v1")]),
    );
    for _ in 0..2 {
        let plan = plan(&inputs, &BuiltIn);
        let expected = r#"m1="autoscaling/v2" m2="autoscaling/v1""#;
        assert_eq!(written(&plan, "web", "/apiVersion"), expected);
        assert_eq!(plan.refused, []);
        // `m1` shows what it has in both versions.
        for version in ["v1", "v2"] {
            assert_eq!(fates(&inputs, &autoscaler(version)), [Stays, Stays]);
        }
        bind(&mut inputs, &plan);
    }
    let web = set_name("web");
    let names =
        ["v1", "v2"].map(|version| web.binding_name(&TemplateName::of(&autoscaler(version))));
    assert_ne!(names[0], names[1]);
    // When the older cluster is upgraded, nothing is deleted, and no binding is needed.
    let all = variants(vec![autoscaler("v2")], vec![autoscaler("v2")]);
    inputs.sets[0].contents = SetContents::Known(all);
    assert_eq!(fates(&inputs, &autoscaler("v1")), [Stays, Stays]);
    let upgraded = plan(&inputs, &BuiltIn);
    let leftovers = Leftovers::of(&upgraded, &inputs);
    assert!(leftovers.is_replaced(&TemplateName::of(&autoscaler("v1"))));
    // When the set has none for the older cluster, what that has is deleted, by each version.
    let newer = variants(vec![autoscaler("v2")], Vec::new());
    inputs.sets[0].contents = SetContents::Known(newer);
    for version in ["v1", "v2"] {
        assert_eq!(fates(&inputs, &autoscaler(version)), [Stays, Deleted]);
    }
    // Twice in one variant it is not known which one counts.
    let twice = variants(vec![autoscaler("v1"), autoscaler("v2")], Vec::new());
    inputs.previous.clear();
    inputs.sets[0].contents = SetContents::Known(twice);
    let refused = plan(&inputs, &BuiltIn).refused;
    assert_eq!(refused.len(), 1, "{refused:?}");
}

#[test]
fn objects_of_versions_that_no_cluster_has_are_none_of_the_set() {
    let placement = json!({"clusterAffinity": {"clusterNames": ["m1"]}});
    let objects = || variants(vec![config_map("a")], vec![config_map("b")]);
    let mut inputs = inputs_of(&placement, objects());
    for name in ["a", "b"] {
        let previous = PreviousPlacement {
            clusters: [("m1".to_owned(), 0)].into(),
            set: Some(Arc::new(set_name("web"))),
            ..PreviousPlacement::default()
        };
        let name = TemplateName::of(&config_map(name));
        inputs.previous.insert(name, Arc::new(previous));
    }
    assert_eq!(fates(&inputs, &config_map("a")), [Stays, Deleted]);
    assert_eq!(fates(&inputs, &config_map("b")), [Deleted, Deleted]);
    assert_eq!(plan(&inputs, &BuiltIn).bindings.len(), 1);
    // Without a cluster everything stays where it is.
    let nowhere = json!({"clusterAffinity": {"clusterNames": ["m9"]}});
    inputs.sets[0] = inputs_of(&nowhere, objects()).sets.remove(0);
    for name in ["a", "b"] {
        assert_eq!(fates(&inputs, &config_map(name))[0], Stays, "{name}");
    }
}

/// The new revision of both variants, and the stable one. One cluster is reached.
fn rolled_out(new: SetObjects, stable: SetObjects, reached: &str) -> DistributionInputs {
    let mut inputs = inputs_of(&json!({}), new);
    inputs.sets[0].unreached = Some(UnreachedContents {
        objects: stable,
        reached: [reached.to_owned()].into(),
    });
    inputs
}

#[test]
fn waves_take_a_cluster_from_its_variant_of_one_revision_to_that_of_the_other() {
    let stable = || {
        variants(
            vec![with_value("a", "1 new"), config_map("moves")],
            vec![with_value("a", "1 old"), config_map("left")],
        )
    };
    let new = || {
        variants(
            vec![with_value("a", "2 new"), config_map("left")],
            vec![with_value("a", "2 old"), config_map("moves")],
        )
    };
    let mut inputs = inputs_of(&json!({}), stable());
    let before = plan(&inputs, &BuiltIn);
    bind(&mut inputs, &before);
    let previous = inputs.previous;
    for (reached, of_a, of_moves, of_left) in [
        (
            "m1",
            r#"m1="2 new" m2="1 old""#,
            "",
            r#"m1="ConfigMap" m2="ConfigMap""#,
        ),
        (
            "m2",
            r#"m1="1 new" m2="2 old""#,
            r#"m1="ConfigMap" m2="ConfigMap""#,
            "",
        ),
    ] {
        let mut inputs = rolled_out(new(), stable(), reached);
        inputs.previous.clone_from(&previous);
        for _ in 0..3 {
            let plan = plan(&inputs, &BuiltIn);
            assert_eq!(written(&plan, "a", "/data/value"), of_a);
            assert_eq!(written(&plan, "moves", "/kind"), of_moves);
            assert_eq!(written(&plan, "left", "/kind"), of_left);
            let m1 = if reached == "m1" { Deleted } else { Stays };
            assert_eq!(
                fates(&inputs, &config_map("moves")),
                [m1, Stays],
                "{reached}"
            );
            let m2 = if reached == "m2" { Deleted } else { Stays };
            assert_eq!(
                fates(&inputs, &config_map("left")),
                [Stays, m2],
                "{reached}"
            );
            bind(&mut inputs, &plan);
        }
    }
}

#[test]
fn a_cluster_that_is_not_reached_keeps_what_the_set_has_for_others_only() {
    let stable = variants(
        vec![deployment("web", 3, "1")],
        vec![deployment("web", 3, "1")],
    );
    let mut inputs = inputs_of(&weighted(), stable.clone());
    let before = plan(&inputs, &BuiltIn);
    bind(&mut inputs, &before);
    let new = variants(vec![deployment("web", 6, "2")], Vec::new());
    inputs.sets[0].contents = SetContents::Known(new);
    inputs.sets[0].unreached = Some(UnreachedContents {
        objects: stable,
        reached: ["m1".to_owned()].into(),
    });
    for _ in 0..3 {
        let plan = plan(&inputs, &BuiltIn);
        assert_eq!(written(&plan, "web", "/spec/replicas"), "m1=6 m2=1");
        assert_eq!(reason(&plan, "web", "m2"), "");
        assert_eq!(fates(&inputs, &deployment("web", 6, "2")), [Stays, Stays]);
        bind(&mut inputs, &plan);
    }
    inputs.sets[0].unreached = None;
    let plan = plan(&inputs, &BuiltIn);
    assert_eq!(shares(&plan, "web"), "m1=6");
    assert_eq!(fates(&inputs, &deployment("web", 6, "2")), [Stays, Deleted]);
}

#[test]
fn an_object_in_another_version_stays_where_the_set_has_none_and_is_not_reached() {
    let stable = || variants(vec![autoscaler("v2")], vec![autoscaler("v1")]);
    let mut inputs = inputs_of(&json!({}), stable());
    let before = plan(&inputs, &BuiltIn);
    bind(&mut inputs, &before);
    let previous = inputs.previous;
    let new = || variants(vec![autoscaler("v2")], Vec::new());
    for (reached, expected, of_older) in [
        ("m1", r#"m1="autoscaling/v2" m2="autoscaling/v1""#, Stays),
        ("m2", r#"m1="autoscaling/v2""#, Deleted),
    ] {
        let mut inputs = rolled_out(new(), stable(), reached);
        inputs.previous.clone_from(&previous);
        for _ in 0..2 {
            let plan = plan(&inputs, &BuiltIn);
            assert_eq!(written(&plan, "web", "/apiVersion"), expected);
            assert_eq!(
                fates(&inputs, &autoscaler("v1")),
                [Stays, of_older],
                "{reached}"
            );
            bind(&mut inputs, &plan);
        }
    }
}
