//! Objects as a client sees them that lists and watches the whole fleet: with a version of the fleet in place of their member's.
//!
//! Both directions replace parts of the JSON text; every other byte stays as it is, so that `kubectl edit` writes back what it has read.

use std::ops::Range;

use serde_json::value::RawValue;

use super::{
    FleetVersion,
    spans::{Member, members, text},
    write_json_text,
};

/// The annotation that keeps the `resourceVersion` that an object has in its own cluster.
pub const OWN_VERSION_ANNOTATION: &str = "fleetdex.io/resource-version";

/// The object with a version of the fleet as its `metadata.resourceVersion`, and its own one in [`OWN_VERSION_ANNOTATION`]. An object without
/// metadata stays as it is.
pub fn with_fleet_version(object: &RawValue, version: FleetVersion) -> String {
    let json = object.get();
    let Some(metadata) = metadata(json) else { return json.to_owned() };
    let mut edits = Vec::new();
    let fleet = format!("\"{version}\"");
    match member(json, metadata.value.clone(), "resourceVersion") {
        Some(own) => {
            annotate(json, &metadata, &text(json, &own.value), &mut edits);
            edits.push((own.value, fleet));
        }
        None => edits.push(first_member(json, &metadata.value, &format!("\"resourceVersion\":{fleet}"))),
    }
    apply(json, edits)
}

/// The reverse: the object as its own cluster knows it, for writing it there. One that carries no [`OWN_VERSION_ANNOTATION`] stays as it is,
/// and one without `metadata.resourceVersion` gets none, because a write without it is meant to win over any version.
pub fn with_own_version(object: &RawValue) -> String {
    let json = object.get();
    let Some(metadata) = metadata(json) else { return json.to_owned() };
    let Some(annotations) = member(json, metadata.value.clone(), "annotations") else { return json.to_owned() };
    let Some(kept) = member(json, annotations.value.clone(), OWN_VERSION_ANNOTATION) else { return json.to_owned() };
    let mut edits = Vec::new();
    let is_only_one = members(json, annotations.value.clone()).len() == 1;
    if is_only_one {
        edits.push((without(json, &metadata.value, &annotations.whole), String::new()));
    } else {
        edits.push((without(json, &annotations.value, &kept.whole), String::new()));
    }
    if let Some(fleet) = member(json, metadata.value, "resourceVersion")
        && !text(json, &fleet.value).is_empty()
    {
        edits.push((fleet.value, json.get(kept.value).unwrap_or_default().to_owned()));
    }
    apply(json, edits)
}

fn metadata(json: &str) -> Option<Member<'_>> {
    member(json, 0..json.len(), "metadata").filter(|metadata| is_object(json, &metadata.value))
}

fn is_object(json: &str, value: &Range<usize>) -> bool {
    json.get(value.clone()).is_some_and(|text| text.starts_with('{'))
}

/// The member of an object with a key.
fn member<'j>(json: &'j str, object: Range<usize>, key: &str) -> Option<Member<'j>> {
    members(json, object).into_iter().find(|member| member.key == key)
}

/// Writes the annotation that keeps the own version.
fn annotate(json: &str, metadata: &Member<'_>, own: &str, edits: &mut Vec<(Range<usize>, String)>) {
    let mut annotation = Vec::new();
    write_json_text(&mut annotation, own);
    let own = String::from_utf8(annotation).unwrap_or_default();
    let entry = format!("\"{OWN_VERSION_ANNOTATION}\":{own}");
    let annotations = member(json, metadata.value.clone(), "annotations");
    let Some(annotations) = annotations else {
        return edits.push(first_member(json, &metadata.value, &format!("\"annotations\":{{{entry}}}")));
    };
    if !is_object(json, &annotations.value) {
        // `null`
        return edits.push((annotations.value, format!("{{{entry}}}")));
    }
    match member(json, annotations.value.clone(), OWN_VERSION_ANNOTATION) {
        Some(earlier) => edits.push((earlier.value, own)),
        None => edits.push(first_member(json, &annotations.value, &entry)),
    }
}

/// Puts a member before those of an object.
fn first_member(json: &str, object: &Range<usize>, entry: &str) -> (Range<usize>, String) {
    let comma = if members(json, object.clone()).is_empty() { "" } else { "," };
    let inside = object.start + 1;
    (inside..inside, format!("{entry}{comma}"))
}

/// A member of an object with the one comma that goes with it: the next one, or else the one before.
fn without(json: &str, object: &Range<usize>, whole: &Range<usize>) -> Range<usize> {
    let all = members(json, object.clone());
    let position = all.iter().position(|member| member.whole == *whole).unwrap_or_default();
    if let Some(next) = all.get(position + 1) {
        return whole.start..next.whole.start;
    }
    let before = position.checked_sub(1).and_then(|before| all.get(before));
    before.map_or_else(|| whole.clone(), |before| before.whole.end..whole.end)
}

fn apply(json: &str, mut edits: Vec<(Range<usize>, String)>) -> String {
    edits.sort_by_key(|(place, _)| place.start);
    let added: usize = edits.iter().map(|(_, text)| text.len()).sum();
    let mut out = String::with_capacity(json.len() + added);
    let mut done = 0;
    for (place, text) in edits {
        out.push_str(json.get(done..place.start).unwrap_or_default());
        out.push_str(&text);
        done = place.end;
    }
    out.push_str(json.get(done..).unwrap_or_default());
    out
}

#[cfg(test)]
mod tests {
    use proptest::{collection, prelude::*, sample::select};
    use serde_json::Value;

    use super::*;
    use crate::model::Run;

    fn version() -> FleetVersion {
        Run::new(1_790_000_000_000, 3).version(17)
    }

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    fn there(json: &str) -> String {
        with_fleet_version(&raw(json), version()).replace(&version().to_string(), "FLEET")
    }

    #[test]
    fn the_own_version_moves_into_an_annotation() {
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
        let shown: Vec<String> = cases.iter().map(|json| there(json)).collect();
        insta::assert_snapshot!(shown.join("\n"), @r#"
        {"metadata":{"name":"a","resourceVersion":"FLEET","annotations":{"fleetdex.io/resource-version":"7","x":"y"}},"spec":{"metadata":{"resourceVersion":"8"}}}
        { "metadata" : { "annotations" : {"fleetdex.io/resource-version":"7"} , "resourceVersion" : "FLEET" } }
        {"metadata":{"annotations":{"fleetdex.io/resource-version":"7"},"resourceVersion":"FLEET"}}
        {"metadata":{"resourceVersion":"FLEET","annotations":{"fleetdex.io/resource-version":"7"}}}
        {"metadata":{"resourceVersion":"FLEET","annotations":{"fleetdex.io/resource-version":"7","x":"y"}}}
        {"metadata":{"resourceVersion":"FLEET","name":"a"}}
        {"metadata":{"resourceVersion":"FLEET"}}
        {"spec":{"resourceVersion":"7"}}
        "#);
    }

    #[test]
    fn what_a_client_writes_gets_its_own_version_back() {
        let back = |json: &str| with_own_version(&raw(json));
        let edited = "{\n  \"metadata\": {\n    \"annotations\": {\n      \"a\": \"b\",\n      \"fleetdex.io/resource-version\": \"7\"\n    },\n    \"resourceVersion\": \"99\"\n  }\n}";
        let expected =
            "{\n  \"metadata\": {\n    \"annotations\": {\n      \"a\": \"b\"\n    },\n    \"resourceVersion\": \"7\"\n  }\n}";
        assert_eq!(back(edited), expected);
        let unconditional = r#"{"metadata":{"annotations":{"fleetdex.io/resource-version":"7"},"name":"a"}}"#;
        assert_eq!(back(unconditional), r#"{"metadata":{"name":"a"}}"#);
        for stays in [r#"{"metadata":{"resourceVersion":"99","annotations":{}}}"#, r#"{"spec":1}"#, "[]"] {
            assert_eq!(back(stays), stays);
        }
    }

    /// JSON texts with blanks where they may stand, and keys that look like ours where they are not ours.
    fn values() -> impl Strategy<Value = String> {
        let leaves =
            select(vec!["null", "true", "-1.5e3", "\"\"", "\"a\\\"}{\\\\\"", "\"ü\\u00e9\"", "[]", "{}"]).prop_map(String::from);
        leaves.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[ {} ]", items.join(" , "))),
                collection::vec((keys(), inner), 0..4).prop_map(|members| object(&members)),
            ]
        })
    }

    fn keys() -> impl Strategy<Value = String> {
        select(vec!["a", "metadata", "resourceVersion", "annotations", "x.io/y", "b\\\"c", ""]).prop_map(String::from)
    }

    fn object(members: &[(String, String)]) -> String {
        let mut seen = std::collections::BTreeSet::new();
        let members = members.iter().filter(|(key, _)| seen.insert(key.clone()));
        let texts: Vec<String> = members.map(|(key, value)| format!("\"{key}\" :\t{value}")).collect();
        format!("{{{}}}", texts.join(" ,\n"))
    }

    fn objects() -> impl Strategy<Value = String> {
        let annotations =
            collection::vec((select(vec!["a", "x.io/y", "\\u0061b"]).prop_map(String::from), Just("\"v\"".to_owned())), 1..3);
        let metadata = (
            collection::vec((select(vec!["name", "uid", "labels"]).prop_map(String::from), values()), 0..3),
            proptest::option::of(annotations),
            0..4_usize,
        );
        (metadata, collection::vec((keys().prop_filter("the one", |key| key != "metadata"), values()), 0..4), 0..4_usize)
            .prop_map(|((mut metadata, annotations, place), mut members, position)| {
                metadata.insert(place.min(metadata.len()), ("resourceVersion".to_owned(), "\"7\"".to_owned()));
                if let Some(annotations) = annotations {
                    metadata.insert(position.min(metadata.len()), ("annotations".to_owned(), object(&annotations)));
                }
                members.insert(position.min(members.len()), ("metadata".to_owned(), object(&metadata)));
                object(&members)
            })
    }

    proptest! {
        #[test]
        fn there_and_back_is_the_same_text(json in objects()) {
            let fleet = with_fleet_version(&raw(&json), version());
            let read: Value = serde_json::from_str(&fleet).unwrap();
            prop_assert_eq!(&read["metadata"]["resourceVersion"], &Value::String(version().to_string()));
            prop_assert_eq!(&read["metadata"]["annotations"][OWN_VERSION_ANNOTATION], "7");
            prop_assert_eq!(with_own_version(&raw(&fleet)), json);
        }

        #[test]
        fn nothing_else_is_changed(json in objects()) {
            let fleet = with_fleet_version(&raw(&json), version());
            let mut read: Value = serde_json::from_str(&fleet).unwrap();
            let original: Value = serde_json::from_str(&json).unwrap();
            read["metadata"]["resourceVersion"] = original["metadata"]["resourceVersion"].clone();
            let annotations = read["metadata"]["annotations"].as_object_mut().unwrap();
            annotations.remove(OWN_VERSION_ANNOTATION);
            if original["metadata"].get("annotations").is_none() {
                prop_assert!(annotations.is_empty());
                read["metadata"].as_object_mut().unwrap().remove("annotations");
            }
            prop_assert_eq!(read, original);
        }

        #[test]
        fn any_other_json_passes(json in values()) {
            let _ = serde_json::from_str::<Value>(&with_fleet_version(&raw(&json), version())).unwrap();
            let _ = serde_json::from_str::<Value>(&with_own_version(&raw(&json))).unwrap();
        }
    }
}
