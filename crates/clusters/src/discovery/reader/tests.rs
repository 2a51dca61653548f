use std::{collections::BTreeSet, sync::Arc};

use fleetdex_core::model::Gvk;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    super::{
        MAX_RESOURCES, ServedResource,
        names::MAX_GROUP,
        wire::{MAX_ENTRIES, MAX_NAMES_IN_LIST},
    },
    *,
};

fn aggregated(body: &Value) -> Discovery {
    match DiscoveryReader::default()
        .response(body.to_string().as_bytes())
        .unwrap()
    {
        DiscoveryResponse::Aggregated(discovery) => discovery,
        DiscoveryResponse::Classic(_) => panic!("an aggregated answer was read as a classic one"),
    }
}

fn group(name: &str, version: &str, resources: &[Value]) -> Value {
    let versions = json!([{ "version": version, "freshness": "Current", "resources": resources }]);
    json!({ "kind": "APIGroupDiscoveryList", "items": [{ "metadata": { "name": name }, "versions": versions }] })
}

fn resource(plural: &str, kind: &str) -> Value {
    json!({ "resource": plural, "responseKind": { "kind": kind }, "scope": "Namespaced", "verbs": ["list", "watch"] })
}

#[test]
fn names_that_kubernetes_does_not_allow_are_left_out_and_counted() {
    let long = "a".repeat(64);
    let resources = [
        resource("pods", "Pod"),
        resource("pods?x=y", "A"),
        resource("../secrets", "B"),
        resource(&long, "C"),
        resource("ds", "X\n2026-02-03T10:00:00Z ERROR forged"),
        resource("es", &long),
    ];
    let found = aggregated(&group("a.example", "v1", &resources));
    assert_eq!((found.served.len(), found.left_out), (1, 5), "{found:?}");
    assert!(found.unknown.is_empty() && found.note().unwrap().starts_with("5 names"));
    for (group_name, version) in [
        ("A.example", "v1"),
        ("a/b", "v1"),
        (&*"a".repeat(254), "v1"),
        ("a", "v1\n"),
        ("a", ""),
    ] {
        let found = aggregated(&group(group_name, version, &resources[..1]));
        assert_eq!(
            (found.served.len(), found.unknown.len(), found.left_out),
            (0, 0, 1),
            "{group_name} {version:?}"
        );
    }
}

#[test]
fn a_group_name_is_stored_once_for_all_of_its_resources() {
    let resources: Vec<Value> = (0..100)
        .map(|number| resource(&format!("r{number}"), "R"))
        .collect();
    let found = aggregated(&group(&"g".repeat(253), "v1", &resources));
    let first = &found.served[0].resource.gvk;
    assert_eq!(found.served.len(), 100);
    assert!(
        found
            .served
            .iter()
            .all(|served| Arc::ptr_eq(&served.resource.gvk.group, &first.group))
    );
    assert!(found.served.iter().all(|served| Arc::ptr_eq(
        &served.capabilities.verbs[0],
        &found.served[0].capabilities.verbs[0]
    )));
}

#[test]
fn a_group_with_too_many_resources_is_unknown() {
    let resources: Vec<Value> = (0..MAX_RESOURCES + 5)
        .map(|number| resource(&format!("r{number}"), "R"))
        .collect();
    let found = aggregated(&group("a", "v1", &resources));
    assert_eq!((found.served.len(), found.left_out), (MAX_RESOURCES, 5));
    assert_eq!(
        found.unknown,
        BTreeSet::from(["a/v1".to_owned()]),
        "what was there before is not taken for gone"
    );
}

#[test]
fn lists_of_a_resource_have_limits() {
    let words: Vec<String> = (0..1_000).map(|number| format!("w{number}")).collect();
    let below: Vec<Value> = words
        .iter()
        .map(|name| json!({ "subresource": name, "verbs": words }))
        .collect();
    let pods = json!({ "resource": "pods", "responseKind": { "kind": "Pod" }, "verbs": words, "shortNames": words,
            "categories": words, "subresources": below });
    let found = aggregated(&group("", "v1", &[pods]));
    let capabilities = &found.served[0].capabilities;
    assert_eq!(
        (
            capabilities.verbs.len(),
            capabilities.categories.len(),
            capabilities.subresources.len()
        ),
        (MAX_NAMES_IN_LIST, MAX_NAMES_IN_LIST, MAX_SUBRESOURCES)
    );
    assert!(
        found.served[0].short_names.len() == MAX_NAMES_IN_LIST
            && capabilities.subresources[0].verbs.len() == MAX_NAMES_IN_LIST
    );
    let more = 1_000 - MAX_NAMES_IN_LIST;
    assert_eq!(
        found.left_out,
        3 * more + MAX_SUBRESOURCES * more + 1_000 - MAX_SUBRESOURCES
    );
}

/// With quadratic time this would take minutes.
#[test]
fn a_classic_list_with_very_many_entries_is_read_in_one_pass() {
    let entry = |number: usize| {
        let name = if number.is_multiple_of(2) {
            format!("r{number}")
        } else {
            format!("r{}/status", number - 1)
        };
        json!({ "name": name, "kind": "R", "verbs": ["list", "watch"] })
    };
    let list = json!({ "kind": "APIResourceList", "resources": (0..60_000).map(entry).collect::<Vec<_>>() });
    let version = GroupVersion {
        name: "a/v1".to_owned(),
        preferred: true,
    };
    let mut reader = DiscoveryReader::default();
    let found = reader
        .resources(&version, list.to_string().as_bytes())
        .unwrap();
    assert_eq!(found.served.len(), MAX_RESOURCES);
    assert!(
        found
            .served
            .iter()
            .all(|served| served.capabilities.subresources.len() == 1)
    );
    assert_eq!(
        reader.left_out(),
        60_000 - MAX_ENTRIES + MAX_ENTRIES / 2 - MAX_RESOURCES
    );
}

#[test]
fn lists_may_be_null() {
    let pods = json!({ "resource": "pods", "responseKind": { "kind": "Pod" }, "verbs": null, "subresources": null });
    assert_eq!(aggregated(&group("", "v1", &[pods])).served.len(), 1);
    let version = GroupVersion {
        name: "a/v1".to_owned(),
        preferred: true,
    };
    assert_eq!(
        DiscoveryReader::default()
            .resources(&version, br#"{"resources":null}"#)
            .unwrap(),
        Discovery::default()
    );
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{0,4}",
        "[A-Za-z0-9.:|_-]{60,70}",
        "\\PC{0,6}",
        Just("a\nb".to_owned()),
        Just("\u{1b}[2J".to_owned())
    ]
}

fn hostile_resource() -> impl Strategy<Value = Value> {
    let words = || prop::collection::vec(text(), 0..40);
    (text(), text(), text(), words(), words(), words(), text()).prop_map(
            |(plural, kind, singular, verbs, short, below, said)| {
                let kind_of = json!({ "group": said, "version": said, "kind": said });
                let below: Vec<Value> =
                    below.iter().map(|name| json!({ "subresource": name, "responseKind": kind_of, "verbs": short })).collect();
                json!({ "resource": plural, "responseKind": { "kind": kind }, "singularResource": singular, "verbs": verbs,
                    "shortNames": short, "categories": short, "subresources": below })
            },
        )
}

proptest! {
    #[test]
    fn a_hostile_response_yields_only_valid_names(
        name in text(), version in text(), resources in prop::collection::vec(hostile_resource(), 0..6)
    ) {
        let found = aggregated(&group(&name, &version, &resources));
        let allowed = |text: &str| text.len() <= MAX_GROUP && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/');
        for ServedResource { resource, singular, short_names, capabilities, .. } in &found.served {
            let Gvk { group, version, kind } = &resource.gvk;
            let own = [group, version, kind, &resource.plural, singular];
            let below = capabilities.subresources.iter().flat_map(|below| {
                [&below.kind.group, &below.kind.version, &below.kind.kind, &below.name].into_iter().chain(&below.verbs)
            });
            let words = short_names.iter().chain(&capabilities.verbs).chain(&capabilities.categories);
            for text in own.into_iter().chain(words).chain(below) {
                prop_assert!(allowed(text), "{text:?}");
            }
        }
        prop_assert!(found.unknown.iter().all(|name| name.split('/').all(allowed)));
    }
}
