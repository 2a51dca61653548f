use super::*;

const FLEET: &str = "720000000000000001";
const OTHER: &str = "720000000000000002";

/// Knows what `FLEET` stands for.
fn sent(kind: BodyKind, body: &str) -> Result<String, String> {
    let media = match kind {
        BodyKind::JsonPatch => "application/json-patch+json",
        BodyKind::MergePatch => "application/merge-patch+json",
        BodyKind::Apply => "application/apply-patch+yaml",
        _ => "application/json; charset=utf-8",
    };
    sent_as(kind, media, body)
}

fn sent_as(kind: BodyKind, media: &str, body: &str) -> Result<String, String> {
    let own = |version: &str| (version == FLEET).then(|| "7".to_owned());
    let rewritten =
        rewrite(kind, media, body.as_bytes(), &own).map_err(|error| error.to_string())?;
    Ok(String::from_utf8(rewritten).unwrap())
}

#[test]
fn an_object_is_forwarded_with_the_members_resource_version() {
    let body = r#"{"metadata":{"resourceVersion":"720000000000000001","annotations":{"fleetdex.io/resource-version":"6"}}}"#;
    assert_eq!(
        sent(BodyKind::Object, body).unwrap(),
        r#"{"metadata":{"resourceVersion":"6"}}"#
    );
    assert_eq!(
        sent(BodyKind::Apply, body).unwrap(),
        r#"{"metadata":{"resourceVersion":"6"}}"#
    );
    // An optimistic lock that names nothing but the version.
    let lock = format!(r#"{{"metadata":{{"resourceVersion":"{FLEET}","labels":{{"a":null}}}}}}"#);
    assert_eq!(
        sent(BodyKind::MergePatch, &lock).unwrap(),
        r#"{"metadata":{"resourceVersion":"7","labels":{"a":null}}}"#
    );
    let unknown = sent(BodyKind::MergePatch, &lock.replace(FLEET, OTHER)).unwrap_err();
    assert!(unknown.contains("latest version"), "{unknown}");
    // A member's own version, from elsewhere.
    assert_eq!(
        sent(BodyKind::Object, r#"{"metadata":{"resourceVersion":"5"}}"#).unwrap(),
        r#"{"metadata":{"resourceVersion":"5"}}"#
    );
}

#[test]
fn a_redacted_copy_is_never_written_back() {
    let marked = r#"{"kind":"Secret","data":{"a":""},"metadata":{"annotations":{"fleetdex.io/redacted":"$.data"}}}"#;
    for kind in [BodyKind::Object, BodyKind::MergePatch, BodyKind::Apply] {
        assert!(
            sent(kind, marked).unwrap_err().contains("$.data"),
            "{kind:?}"
        );
    }
    let patches = [
        r#"[{"op":"add","path":"/metadata/annotations/fleetdex.io~1redacted","value":"x"}]"#,
        r#"[{"op":"test","path":"/metadata/annotations/fleetdex.io~1redacted","value":"x"}]"#,
        r#"[{"op":"replace","path":"/metadata/annotations","value":{"fleetdex.io/redacted":"x"}}]"#,
        r#"[{"op":"replace","path":"/metadata","value":{"annotations":{"fleetdex.io/redacted":"x"}}}]"#,
        r#"[{"op":"replace","path":"","value":{"metadata":{"annotations":{"fleetdex.io/redacted":"x"}}}}]"#,
    ];
    for patch in patches {
        assert!(
            sent(BodyKind::JsonPatch, patch)
                .unwrap_err()
                .contains("redacted"),
            "{patch}"
        );
    }
    assert!(
        sent(
            BodyKind::Apply,
            "metadata:\n  annotations:\n    fleetdex.io/redacted: x\n"
        )
        .is_err()
    );
    let indexed = r#"{"metadata":{"annotations":{"fleetdex.io/answered-from-index":"member1 is disconnected"}}}"#;
    assert!(
        sent(BodyKind::Object, indexed)
            .unwrap_err()
            .contains("member1 is disconnected")
    );
}

#[test]
fn a_json_patch_is_forwarded_with_the_members_resource_version_and_without_our_annotations() {
    let patch = format!(
        r#"[{{"op":"test","path":"/metadata/resourceVersion","value":"{FLEET}"}},
        {{"op":"remove","path":"/metadata/annotations/fleetdex.io~1redacted"}},
        {{"op":"add","path":"/metadata/annotations/resource.karmada.io~1cached-from-cluster","value":"x"}},
        {{"op":"add","path":"/metadata/annotations","value":{{"fleetdex.io/resource-version":"6","a":"b"}}}},
        {{"op":"add","path":"/metadata/labels/fleetdex.io~1x","value":"y"}}]"#
    );
    insta::assert_snapshot!(sent(BodyKind::JsonPatch, &patch).unwrap(), @r#"[{"op":"test","path":"/metadata/resourceVersion","value":"7"},{"op":"add","path":"/metadata/annotations","value":{"a":"b"}},{"op":"add","path":"/metadata/labels/fleetdex.io~1x","value":"y"}]"#);
    let by_annotation = format!(
        r#"[{{"op":"test","path":"/metadata/annotations/fleetdex.io~1resource-version","value":"6"}},{{"op":"replace","path":"/metadata/resourceVersion","value":"{OTHER}"}}]"#
    );
    insta::assert_snapshot!(sent(BodyKind::JsonPatch, &by_annotation).unwrap(), @r#"[{"op":"test","path":"/metadata/resourceVersion","value":"6"},{"op":"replace","path":"/metadata/resourceVersion","value":"6"}]"#);
    let copied = r#"[{"op":"copy","from":"/metadata/annotations/fleetdex.io~1resource-version","path":"/data/x"}]"#;
    assert!(sent(BodyKind::JsonPatch, copied).is_err());
}

#[test]
fn a_deletion_precondition_is_forwarded_with_the_members_resource_version() {
    let options = |version: &str| {
        format!(r#"{{"kind":"DeleteOptions","preconditions":{{"resourceVersion":"{version}"}}}}"#)
    };
    assert_eq!(
        sent(BodyKind::DeleteOptions, &options(FLEET)).unwrap(),
        options("7")
    );
    assert!(sent(BodyKind::DeleteOptions, &options(OTHER)).is_err());
    let plain = r#"{ "propagationPolicy": "Background" }"#;
    assert_eq!(sent(BodyKind::DeleteOptions, plain).unwrap(), plain);
}

#[test]
fn protobuf_is_forwarded_with_the_members_resource_version_and_without_our_annotations() {
    use protobuf::tests::{config_map, delete_options};
    let own = |version: &str| (version == FLEET).then(|| "7".to_owned());
    let sent = |kind, body: &[u8]| rewrite(kind, protobuf::MEDIA_TYPE, body, &own);
    assert_eq!(
        sent(BodyKind::Object, &config_map(FLEET, &[("a", "b")])),
        Ok(config_map("7", &[("a", "b")]))
    );
    let with_own = config_map(OTHER, &[("fleetdex.io/resource-version", "6"), ("a", "b")]);
    assert_eq!(
        sent(BodyKind::Object, &with_own),
        Ok(config_map("6", &[("a", "b")]))
    );
    assert_eq!(
        sent(BodyKind::Object, &config_map("5", &[])),
        Ok(config_map("5", &[]))
    );
    assert_eq!(
        sent(BodyKind::NewObject, &config_map("", &[("a", "b")])),
        Ok(config_map("", &[("a", "b")]))
    );
    assert_eq!(
        sent(BodyKind::Object, &config_map(OTHER, &[])),
        Err(BodyError::UnknownVersion(OTHER.to_owned()))
    );
    let copy = config_map(FLEET, &[("fleetdex.io/redacted", "$.data")]);
    assert_eq!(
        sent(BodyKind::NewObject, &copy),
        Err(BodyError::Redacted("$.data".to_owned()))
    );
    assert_eq!(
        sent(BodyKind::DeleteOptions, &delete_options(FLEET)),
        Ok(delete_options("7"))
    );
    assert!(matches!(
        sent(BodyKind::MergePatch, &copy),
        Err(BodyError::MediaType(_))
    ));
    assert!(matches!(
        sent(BodyKind::Object, b"k8s\0"),
        Err(BodyError::Malformed(_))
    ));
}

#[test]
fn a_media_type_that_is_not_parsed_is_refused_where_it_matters() {
    let cbor = "application/cbor";
    assert!(
        sent_as(BodyKind::Object, cbor, "x")
            .unwrap_err()
            .contains("send JSON")
    );
    assert_eq!(sent_as(BodyKind::NewObject, cbor, "x").unwrap(), "x");
    assert!(
        sent_as(BodyKind::NewObject, cbor, "fleetdex.io/redacted\0data")
            .unwrap_err()
            .contains("writing it back")
    );
    assert_eq!(sent_as(BodyKind::DeleteOptions, cbor, "x").unwrap(), "x");
    assert_eq!(sent_as(BodyKind::Opaque, cbor, "x").unwrap(), "x");
    let yaml = "metadata:\n  labels: {a: yes}\n";
    assert_eq!(sent(BodyKind::Apply, yaml).unwrap(), yaml);
    assert!(
        sent_as(
            BodyKind::Object,
            "application/yaml",
            "metadata: {annotations: {fleetdex.io/resource-version: '1'}}"
        )
        .is_err()
    );
    assert!(sent(BodyKind::Object, "[1").is_err());
}

#[test]
fn a_json_patch_stays_text_but_for_what_is_replaced() {
    let deep = format!("{}1{}", "{\"\":".repeat(1_000), "}".repeat(1_000));
    let patch = format!(r#"[ {{"op":"add", "path":"/spec/a", "value": {deep}}} ]"#);
    let expected = format!(r#"[{{"op":"add","path":"/spec/a","value":{deep}}}]"#);
    assert_eq!(sent(BodyKind::JsonPatch, &patch).unwrap(), expected);
    let whole = format!(
        r#"[{{"op":"replace","path":"","value":{{"metadata":{{"name":"a","resourceVersion":"{FLEET}","annotations":{{"fleetdex.io/resource-version":"6","a":"b"}}}},"x":1.0}}}}]"#
    );
    let expected = r#"[{"op":"replace","path":"","value":{"metadata":{"name":"a","resourceVersion":"6","annotations":{"a":"b"}},"x":1.0}}]"#;
    assert_eq!(sent(BodyKind::JsonPatch, &whole).unwrap(), expected);
    let twice = r#"[{"path":"/data/x","op":"test","path":"/metadata/annotations/fleetdex.io~1redacted","value":1}]"#;
    assert!(sent(BodyKind::JsonPatch, twice).is_err());
    assert_eq!(sent(BodyKind::JsonPatch, "[]").unwrap(), "[]");
    for malformed in ["{}", "[1]", "[{}", "[{}]x", "[{\"op\"}]"] {
        assert!(sent(BodyKind::JsonPatch, malformed).is_err(), "{malformed}");
    }
}

#[test]
fn long_delete_options_are_refused() {
    let long = format!(r#"{{"a":"{}"}}"#, "x".repeat(MAX_DELETE_OPTIONS_BYTES));
    assert!(sent(BodyKind::DeleteOptions, &long).is_err());
}
