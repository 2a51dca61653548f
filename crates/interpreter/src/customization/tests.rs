use serde_json::json;

use super::*;

fn customization(name: &str, kind: &str, scripts: &[(&str, &str)]) -> Value {
    let scripts: serde_json::Map<String, Value> = scripts
        .iter()
        .map(|(member, text)| ((*member).to_owned(), json!({"luaScript": text})))
        .collect();
    json!({
        "apiVersion": "config.karmada.io/v1alpha1",
        "kind": "ResourceInterpreterCustomization",
        "metadata": {"name": name},
        "spec": {"target": {"apiVersion": "apps/v1", "kind": kind}, "customizations": scripts},
    })
}

fn set(objects: &[Value]) -> CustomizationSet {
    let parsed: Vec<Customization> = objects
        .iter()
        .map(|object| Customization::parse(object).unwrap())
        .collect();
    CustomizationSet::new(&parsed)
}

fn deployment() -> Gvk {
    Gvk::new("apps", "v1", "Deployment")
}

fn names(scripts: &[CustomScript]) -> Vec<&str> {
    scripts
        .iter()
        .map(|script| &*script.customization)
        .collect()
}

#[test]
fn each_member_has_the_script_of_its_operation() {
    let members: Vec<(&str, &str)> = MEMBERS.map(|(member, _)| (member, member)).to_vec();
    let parsed = Customization::parse(&customization("a", "Deployment", &members)).unwrap();
    assert_eq!(parsed.target, deployment());
    for (name, operation) in MEMBERS {
        assert_eq!(&*parsed.scripts[&operation], name);
        assert_eq!(member(operation), Some(name));
    }
    assert_eq!(parsed.scripts.len(), 8);
    assert_eq!(member(Operation::Prune), None);
}

#[test]
fn the_first_script_by_name_counts_and_the_others_are_conflicts() {
    let set = set(&[
        customization(
            "c",
            "Deployment",
            &[("retention", "3"), ("statusReflection", "3")],
        ),
        customization(
            "a",
            "Deployment",
            &[("retention", ""), ("healthInterpretation", "1")],
        ),
        customization(
            "b",
            "Deployment",
            &[("retention", "2"), ("healthInterpretation", "2")],
        ),
        customization("d", "StatefulSet", &[("retention", "4")]),
    ]);
    let script = |operation| set.scripts(&deployment(), operation);
    assert_eq!(names(script(Operation::Retain)), ["b"]);
    assert_eq!(&*script(Operation::Retain)[0].text, "2");
    assert_eq!(names(script(Operation::InterpretHealth)), ["a"]);
    assert_eq!(names(script(Operation::InterpretStatus)), ["c"]);
    assert_eq!(
        names(script(Operation::InterpretReplica)),
        Vec::<&str>::new()
    );
    assert_eq!(set.targets().count(), 2);
    let conflicts: Vec<String> = set
        .conflicts()
        .iter()
        .map(|conflict| conflict.problem().to_string())
        .collect();
    assert_eq!(
        conflicts,
        [
            "spec.customizations.healthInterpretation: is not used: customization \"a\" has a script for InterpretHealth on \"apps/v1/Deployment\" already; remove one of them",
            "spec.customizations.retention: is not used: customization \"b\" has a script for Retain on \"apps/v1/Deployment\" already; remove one of them",
        ]
    );
    assert_eq!(&*set.conflicts()[0].unused, "b");
}

#[test]
fn all_scripts_for_dependencies_count() {
    let set = set(&[
        customization("b", "Deployment", &[("dependencyInterpretation", "2")]),
        customization("a", "Deployment", &[("dependencyInterpretation", "1")]),
    ]);
    let scripts = set.scripts(&deployment(), Operation::InterpretDependency);
    assert_eq!(names(scripts), ["a", "b"]);
    assert_eq!(set.conflicts(), []);
}

#[test]
fn targets_are_exact() {
    let set = set(&[customization("a", "*", &[("retention", "1")])]);
    assert!(set.scripts(&deployment(), Operation::Retain).is_empty());
}

#[test]
fn united_dependencies_are_sorted_and_unique() {
    let dependency = |kind: &str, namespace: &str, name: &str| DependentObject {
        api_version: "v1".to_owned(),
        kind: kind.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        label_selector: None,
    };
    let all = united([
        vec![
            dependency("Secret", "b", "a"),
            dependency("ConfigMap", "z", "z"),
        ],
        vec![
            dependency("Secret", "a", "b"),
            dependency("Secret", "b", "a"),
        ],
        vec![],
    ]);
    assert_eq!(
        all,
        [
            dependency("ConfigMap", "z", "z"),
            dependency("Secret", "a", "b"),
            dependency("Secret", "b", "a")
        ]
    );
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    assert_eq!(
        validate(&customization("a", "Deployment", &[("retention", "x")])),
        []
    );
    let problems: Vec<String> = validate(&customization("a", "*", &[("retention", "")]))
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        problems,
        [
            "spec.target.kind: \"*\" must name one kind: wildcards are not supported",
            "spec.customizations.retention.luaScript: holds no script: remove the member to leave the operation to the next level",
        ]
    );
    let odd = json!({"spec": {"target": 5, "customizations": {"retention": {"luaScript": 5}}}});
    assert_eq!(validate(&odd).len(), 3);
}

#[test]
fn other_objects_are_no_customizations() {
    for object in [
        json!(null),
        json!({"apiVersion": "v1", "kind": "ResourceInterpreterCustomization"}),
        json!({"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterWebhookConfiguration"}),
    ] {
        assert_eq!(Customization::parse(&object), None);
    }
    let empty = json!({"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterCustomization"});
    assert!(Customization::parse(&empty).unwrap().scripts.is_empty());
}
