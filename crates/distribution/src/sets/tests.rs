use fleetdex_crds::policy::ClusterPlacement;
use serde_json::json;

use super::*;
use crate::binding::BindingPlace;
use crate::template_name::NameParts;

fn name() -> SetName {
    SetName {
        namespace: "apps".to_owned(),
        name: "web".to_owned(),
        uid: "u".to_owned(),
    }
}

fn config_map(namespace: &str, name: &str) -> TemplateName {
    TemplateName::from(NameParts {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    })
}

#[test]
fn bindings_of_a_set_are_in_its_namespace_and_do_not_collide() {
    let other = SetName {
        uid: "v".to_owned(),
        ..name()
    };
    let names = [
        name().binding_name(&config_map("shop", "a")),
        name().binding_name(&config_map("", "a")),
        name().binding_name(&config_map("other", "a")),
        other.binding_name(&config_map("shop", "a")),
        name().binding_name(&TemplateName::from(NameParts {
            api_version: "v2".to_owned(),
            ..NameParts::clone(&config_map("shop", "a"))
        })),
        crate::binding_name::binding_name(&config_map("shop", "a")),
    ];
    let distinct: std::collections::BTreeSet<&String> = names.iter().collect();
    assert_eq!(distinct.len(), names.len());
    assert!(names[0].starts_with("a-configmap-"), "{}", names[0]);
    let long = name().binding_name(&config_map("shop", &"a".repeat(253)));
    assert_eq!(long.len(), 32 + 1 + HASH_DIGITS);
    let place = BindingPlace::of(&config_map("", "a"), Some(&name()));
    assert_eq!(
        (place.kind, place.namespace.as_str()),
        ("ResourceBinding", "apps")
    );
}

#[test]
fn a_set_is_read_from_its_bindings() {
    let (annotations, labels) = (name().annotations(), name().labels());
    let mut binding = json!({"metadata": {
        "namespace": "apps", "annotations": annotations, "labels": labels,
    }});
    assert_eq!(SetName::of_binding(&binding), Some(name()));
    assert!(is_of_set(&binding));
    binding["metadata"]["labels"][SET_UID_LABEL] = "".into();
    assert_eq!(SetName::of_binding(&binding), None);
}

#[test]
fn a_resource_policy_keeps_copies() {
    let set = ObjectSet::new(name(), &PropagationSpec::default(), true);
    let preserves = |policy: Option<&str>| {
        let object = json!({"metadata": {"annotations": {RESOURCE_POLICY: policy}}});
        set.policy_of(&object).spec.preserve_resources_on_deletion
    };
    for (policy, expected) in [
        (None, None),
        (Some("keep"), Some(true)),
        (Some(" Keep "), Some(true)),
        (Some("delete"), None),
    ] {
        assert_eq!(preserves(policy), expected, "{policy:?}");
    }
}

#[test]
fn a_placement_selects_by_any_of_its_affinities() {
    let spec = |placement: Value| PropagationSpec {
        placement: serde_json::from_value::<ClusterPlacement>(placement).unwrap(),
        ..PropagationSpec::default()
    };
    let is_m1 = |affinity: &ClusterAffinity| affinity.cluster_names == ["m1"];
    for (placement, expected) in [
        (json!({}), true),
        (json!({"clusterAffinity": {"clusterNames": ["m1"]}}), true),
        (json!({"clusterAffinity": {"clusterNames": ["m2"]}}), false),
        (
            json!({"clusterAffinities": [
                {"affinityName": "a", "clusterNames": ["m2"]},
                {"affinityName": "b", "clusterNames": ["m1"]},
            ]}),
            true,
        ),
    ] {
        assert_eq!(
            may_select(&spec(placement.clone()), is_m1),
            expected,
            "{placement}"
        );
    }
}
