use proptest::{collection, prelude::*, sample::select};
use serde_json::{Value, json};

use super::*;
use crate::model::ReplicaRun;

fn with_client_metadata(object: &str) -> String {
    let cluster = "member1".parse().unwrap();
    add_client_metadata(
        object,
        &ClientMetadata {
            cluster: &cluster,
            version: Some("900"),
            from_index: None,
        },
    )
    .unwrap()
    .get()
    .to_owned()
}

#[test]
fn removing_client_metadata_restores_the_object_byte_for_byte() {
    let own = r#"{"kind":"Pod","metadata":{"name":"p","resourceVersion":"7","annotations":{"a/b":"\u0041 c"}},"spec":{"n":1.50,"x":[ 1,2 ]}}"#;
    let out = with_client_metadata(own);
    assert_eq!(
        out,
        r#"{"kind":"Pod","metadata":{"name":"p","resourceVersion":"900","annotations":{"a/b":"\u0041 c","resource.karmada.io/cached-from-cluster":"member1","fleetdex.io/resource-version":"7"}},"spec":{"n":1.50,"x":[ 1,2 ]}}"#
    );
    let back = remove_client_metadata(&out, false).unwrap();
    assert_eq!(
        (back.json.as_str(), back.version.as_deref()),
        (own, Some("900"))
    );
}

#[test]
fn an_object_without_annotations_gets_none_by_a_round_trip() {
    let own = r#"{"metadata":{"name":"p","resourceVersion":"7"},"data":{}}"#;
    assert_eq!(
        remove_client_metadata(&with_client_metadata(own), false)
            .unwrap()
            .json,
        own
    );
}

#[test]
fn an_object_without_a_version_does_not_change() {
    for plain in [
        r#"{"kind":"Status","metadata":{},"code":404}"#,
        r#"{"kind":"Scale"}"#,
        r#"{"metadata":{"resourceVersion":"1"}}"#,
    ] {
        assert_eq!(with_client_metadata(plain), plain);
        assert_eq!(remove_client_metadata(plain, false).unwrap().json, plain);
    }
}

#[test]
fn a_patch_gets_the_version_of_its_annotation_and_an_update_without_a_version_gets_none() {
    let body = r#"{"metadata":{"name":"p","annotations":{"fleetdex.io/resource-version":"7"}}}"#;
    assert_eq!(
        remove_client_metadata(body, false).unwrap().json,
        r#"{"metadata":{"name":"p"}}"#
    );
    assert_eq!(
        remove_client_metadata(body, true).unwrap().json,
        r#"{"metadata":{"name":"p","resourceVersion":"7"}}"#
    );
}

#[test]
fn markers_are_found_however_their_keys_are_written() {
    let body = r#"{"metadata":{"annotations":{"fleetdex.io\/redacted":"$.data","fleetdex.io/answered-from-\u0069ndex":"down","x":"y"}}}"#;
    let back = remove_client_metadata(body, false).unwrap();
    assert_eq!(
        (back.redacted.as_deref(), back.from_index.as_deref()),
        (Some("$.data"), Some("down"))
    );
    assert_eq!(back.json, r#"{"metadata":{"annotations":{"x":"y"}}}"#);
    // A patch that removes the annotation brings nothing along.
    assert_eq!(
        remove_client_metadata(
            r#"{"metadata":{"annotations":{"fleetdex.io/redacted":null}}}"#,
            true
        )
        .unwrap()
        .redacted,
        None
    );
}

#[test]
fn a_version_is_replaced_in_its_place() {
    let changed = with_version(
        r#"{"metadata":{"resourceVersion":"900","labels":{ }},"a":1e3}"#,
        "7",
    )
    .unwrap();
    assert_eq!(
        changed,
        r#"{"metadata":{"resourceVersion":"7","labels":{ }},"a":1e3}"#
    );
}

fn version() -> FleetVersion {
    ReplicaRun::new(1_790_000_000_000, 3).version(17)
}

fn with_version_of_the_fleet(json: &str) -> String {
    with_fleet_version(&Json::known(json), version())
        .get()
        .replace(&version().to_string(), "FLEET")
}

#[test]
fn the_members_version_moves_into_an_annotation() {
    let cases = [
        r#"{"metadata":{"name":"a","resourceVersion":"7","annotations":{"x":"y"}},"spec":{"metadata":{"resourceVersion":"8"}}}"#,
        r#"{ "metadata" : { "annotations" : {} , "resourceVersion" : "7" } }"#,
        r#"{"metadata":{"resourceVersion":"7"}}"#,
        r#"{"metadata":{"resourceVersion":"7","annotations":null}}"#,
        r#"{"metadata":{"resourceVersion":"7","annotations":{"fleetdex.io/resource-version":"5","x":"y"}}}"#,
        r#"{"metadata":{"name":"a"}}"#,
        r#"{"metadata":{}}"#,
        r#"{"spec":{"resourceVersion":"7"}}"#,
    ];
    let shown: Vec<String> = cases
        .iter()
        .map(|json| with_version_of_the_fleet(json))
        .collect();
    insta::assert_snapshot!(shown.join("\n"), @r#"
    {"metadata":{"name":"a","resourceVersion":"FLEET","annotations":{"x":"y","fleetdex.io/resource-version":"7"}},"spec":{"metadata":{"resourceVersion":"8"}}}
    {"metadata":{"annotations":{"fleetdex.io/resource-version":"7"},"resourceVersion":"FLEET"}}
    {"metadata":{"resourceVersion":"FLEET","annotations":{"fleetdex.io/resource-version":"7"}}}
    {"metadata":{"resourceVersion":"FLEET","annotations":{"fleetdex.io/resource-version":"7"}}}
    {"metadata":{"resourceVersion":"FLEET","annotations":{"x":"y","fleetdex.io/resource-version":"7"}}}
    {"metadata":{"name":"a","resourceVersion":"FLEET"}}
    {"metadata":{"resourceVersion":"FLEET"}}
    {"spec":{"resourceVersion":"7"}}
    "#);
}

#[test]
fn repeated_metadata_get_the_changed_first_ones() {
    let twice = r#"{"metadata":{"name":"p","annotations":{"fleetdex.io/redacted":"$.data"}},"metadata":{"name":"q"}}"#;
    let back = remove_client_metadata(twice, false).unwrap();
    assert_eq!(
        back.json,
        r#"{"metadata":{"name":"p"},"metadata":{"name":"p"}}"#
    );
    assert_eq!(back.redacted.as_deref(), Some("$.data"));
}

/// JSON texts with blanks where they may stand, and keys that look like ours where they are not
/// ours.
fn values() -> impl Strategy<Value = String> {
    let leaves = select(vec![
        "null",
        "true",
        "-1.5e3",
        "\"\"",
        "\"a\\\"}{\\\\\"",
        "\"ü\\u00e9\"",
        "[]",
        "{}",
    ])
    .prop_map(String::from);
    leaves.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            collection::vec(inner.clone(), 0..4)
                .prop_map(|items| format!("[ {} ]", items.join(" , "))),
            collection::vec((keys(), inner), 0..4).prop_map(|members| object(&members)),
        ]
    })
}

fn keys() -> impl Strategy<Value = String> {
    select(vec![
        "a",
        "metadata",
        "resourceVersion",
        "annotations",
        "x.io/y",
        "b\\\"c",
        "",
    ])
    .prop_map(String::from)
}

fn object(members: &[(String, String)]) -> String {
    let mut seen = std::collections::BTreeSet::new();
    let members = members.iter().filter(|(key, _)| seen.insert(key.clone()));
    let texts: Vec<String> = members
        .map(|(key, value)| format!("\"{key}\" :\t{value}"))
        .collect();
    format!("{{{}}}", texts.join(" ,\n"))
}

fn objects() -> impl Strategy<Value = String> {
    let annotations = collection::vec(
        (
            select(vec!["a", "x.io/y", "\\u0061b"]).prop_map(String::from),
            Just("\"v\"".to_owned()),
        ),
        1..3,
    );
    let metadata = (
        collection::vec(
            (
                select(vec!["name", "uid", "labels"]).prop_map(String::from),
                values(),
            ),
            0..3,
        ),
        proptest::option::of(annotations),
        0..4_usize,
    );
    (
        metadata,
        collection::vec(
            (
                keys().prop_filter("the one", |key| key != "metadata"),
                values(),
            ),
            0..4,
        ),
        0..4_usize,
    )
        .prop_map(
            |((mut metadata, annotations, place), mut members, position)| {
                metadata.insert(
                    place.min(metadata.len()),
                    ("resourceVersion".to_owned(), "\"7\"".to_owned()),
                );
                if let Some(annotations) = annotations {
                    metadata.insert(
                        position.min(metadata.len()),
                        ("annotations".to_owned(), object(&annotations)),
                    );
                }
                members.insert(
                    position.min(members.len()),
                    ("metadata".to_owned(), object(&metadata)),
                );
                object(&members)
            },
        )
}

proptest! {
    #[test]
    fn client_metadata_can_be_removed_again(labels in prop::collection::btree_map("[a-z/\"é]{1,8}", ".{0,8}", 0..4), data in any::<f64>()) {
        let own: Value = json!({
            "metadata": { "name": "p", "annotations": labels, "resourceVersion": "7", "uid": "u" }, "data": { "x": data.to_string() }
        });
        let text = own.to_string();
        let back = remove_client_metadata(&with_client_metadata(&text), false).unwrap();
        let mut expected = own;
        if labels.is_empty() {
            expected["metadata"].as_object_mut().unwrap().shift_remove("annotations");
        }
        prop_assert_eq!(back.json, expected.to_string());
    }

    #[test]
    fn a_fleet_version_can_be_removed_again(json in objects()) {
        let fleet = with_fleet_version(&Json::known(json.as_str()), version());
        let read: Value = serde_json::from_str(fleet.get()).unwrap();
        prop_assert_eq!(&read["metadata"]["resourceVersion"], &Value::String(version().to_string()));
        prop_assert_eq!(&read["metadata"]["annotations"][MEMBER_VERSION_ANNOTATION], "7");
        let back: Value = serde_json::from_str(&remove_client_metadata(fleet.get(), false).unwrap().json).unwrap();
        prop_assert_eq!(back, serde_json::from_str::<Value>(&json).unwrap());
    }

    #[test]
    fn nothing_else_is_changed(json in objects()) {
        let fleet = with_fleet_version(&Json::known(json.as_str()), version());
        let mut read: Value = serde_json::from_str(fleet.get()).unwrap();
        let original: Value = serde_json::from_str(&json).unwrap();
        read["metadata"]["resourceVersion"] = original["metadata"]["resourceVersion"].clone();
        let annotations = read["metadata"]["annotations"].as_object_mut().unwrap();
        annotations.remove(MEMBER_VERSION_ANNOTATION);
        if original["metadata"].get("annotations").is_none() {
            prop_assert!(annotations.is_empty());
            read["metadata"].as_object_mut().unwrap().remove("annotations");
        }
        prop_assert_eq!(read, original);
    }

    #[test]
    fn any_other_json_passes(json in values()) {
        let _ = serde_json::from_str::<Value>(with_fleet_version(&Json::known(json.as_str()), version()).get()).unwrap();
        if let Ok(back) = remove_client_metadata(&json, true) {
            let _ = serde_json::from_str::<Value>(&back.json).unwrap();
        }
    }
}
