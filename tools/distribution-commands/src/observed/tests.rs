use fleetdex_distribution::{marks, plan::PlannedObject, template_name::NameParts};

use super::*;

fn deployment(cluster: &str, name: &str, written_by: &str) -> Value {
    let object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": name, "namespace": "web", "annotations": {CLUSTER_ANNOTATION: cluster},
        },
    });
    if written_by.is_empty() {
        return object;
    }
    let origin = CopyOrigin {
        control_plane: written_by.into(),
        cluster: cluster.into(),
    };
    marks::marked(object, &origin, "hash")
}

#[test]
fn objects_that_are_planned_or_written_by_this_control_plane_are_kept() {
    let kind = Gvk::new("apps", "v1", "Deployment");
    let web = TemplateName::from(NameParts {
        api_version: "apps/v1".to_owned(),
        kind: "Deployment".to_owned(),
        namespace: "web".to_owned(),
        name: "web".to_owned(),
    });
    let plan = DistributionPlan {
        objects: vec![PlannedObject {
            cluster: "member1".to_owned(),
            resource: web,
            object: ObjectText::from(&json!({})),
            overwrites: false,
            is_only_needed: false,
        }],
        ..DistributionPlan::default()
    };
    let all = || BTreeSet::from([kind.clone()]);
    let uid = || Some(Arc::from("uid"));
    for (control_plane, complete, cluster, name, written_by, expected) in [
        (uid(), all(), "member1", "web", "uid", Some("uid")),
        (uid(), all(), "member1", "web", "", Some("")),
        // It is in the way.
        (uid(), all(), "member1", "web", "other", Some("")),
        (None, all(), "member1", "web", "other", Some("other")),
        (uid(), all(), "member2", "web", "", None),
        (uid(), all(), "member2", "web", "other", None),
        (uid(), all(), "member2", "web", "uid", Some("uid")),
        // Its object may be on the control plane all the same.
        (uid(), BTreeSet::new(), "member2", "web", "uid", None),
        (None, all(), "member2", "web", "uid", None),
        (uid(), all(), "", "web", "uid", None),
    ] {
        let filter = ObservedFilter::new(&plan, control_plane.clone(), complete);
        let kept = filter.keep(&kind, deployment(cluster, name, written_by));
        let label = kept.map(|kept| {
            assert_eq!((&*kept.cluster, &*kept.name.name), (cluster, name));
            text(&kept.object, &["metadata", "labels", CONTROL_PLANE_LABEL]).to_owned()
        });
        assert_eq!(
            label.as_deref(),
            expected,
            "{control_plane:?} {cluster} {name} {written_by}"
        );
    }
}

#[test]
fn the_label_says_whose_a_secret_is_as_its_mark_is_not_indexed() {
    let kind = Gvk::new("", "v1", "Secret");
    let all = BTreeSet::from([kind.clone()]);
    let filter = ObservedFilter::new(&DistributionPlan::default(), Some("uid".into()), all);
    for (redacted, is_kept) in [
        (
            format!("$.data, $.metadata.annotations['{WRITTEN_ANNOTATION}']"),
            true,
        ),
        ("$.data".to_owned(), false),
    ] {
        let secret = json!({"metadata": {
            "name": "a", "namespace": "b", "labels": {CONTROL_PLANE_LABEL: "uid"},
            "annotations": {CLUSTER_ANNOTATION: "c", REDACTED_ANNOTATION: redacted},
        }});
        assert_eq!(filter.keep(&kind, secret).is_some(), is_kept, "{redacted}");
    }
}

#[test]
fn of_nodes_and_pods_what_says_how_much_room_there_is_is_kept() {
    let kind = Gvk::new("", "v1", "Pod");
    let pod = |phase: &str| {
        json!({
            "metadata": {"name": "a", "namespace": "b", "annotations": {CLUSTER_ANNOTATION: "c"}},
            "spec": {
                "nodeName": "n", "volumes": [{}],
                "containers": [{"name": "x", "image": "y", "resources": {"requests": {"cpu": 1}}}],
            },
            "status": {"phase": phase, "podIP": "1.2.3.4"},
        })
    };
    let kept = of_room(&kind, &pod("Running")).unwrap();
    assert_eq!(kept.cluster, "c");
    assert_eq!(
        kept.object,
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "a", "namespace": "b"},
            "spec": {
                "nodeName": "n",
                "containers": [{"name": "x", "resources": {"requests": {"cpu": 1}}}],
            },
            "status": {"phase": "Running"},
        })
    );
    assert_eq!(of_room(&kind, &pod("Succeeded")), None);
}
