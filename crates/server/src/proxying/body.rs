//! What a client writes, as the member has to see it: without our annotations, and with the member's version in place of the fleet's.
//!
//! Guarantees: what an index has redacted is never written back, as a body that carries the marker is refused; a version of the fleet
//! never reaches a member, which could not know it; every other byte of an object stays as it is.

use fleetdex_core::model::{
    OWN_VERSION_ANNOTATION as VERSION_ANNOTATION, REDACTED_ANNOTATION,
    told::{Returned, is_our_annotation, take_back, with_version},
};
use serde_json::{Map, Value};

use super::protobuf;

/// Versions of the fleet lie above, those of members below: they count what their etcd has written.
const LEAST_FLEET_VERSION: u64 = 1 << 50;
const ANNOTATIONS: &str = "/metadata/annotations";
const VERSION: &str = "/metadata/resourceVersion";

/// What a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyKind {
    /// A whole object.
    Object,
    /// A whole object that is to be created: it has no version yet.
    NewObject,
    /// `DeleteOptions`.
    DeleteOptions,
    /// RFC 6902.
    JsonPatch,
    /// RFC 7386, or a strategic merge patch, which has the same shape where it matters.
    MergePatch,
    /// Server-side apply.
    Apply,
    /// What is of another shape, and goes on as it is: arguments of subresources.
    Opaque,
}

/// A body that cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// It cannot be read.
    #[error("the body is not of the shape that is needed: {0}")]
    Malformed(String),
    /// The media type cannot be looked into.
    #[error(
        "bodies of media type {0:?} cannot be taken here, as versions in them have to be replaced; send JSON"
    )]
    MediaType(String),
    /// YAML with something in it that has to be replaced.
    #[error(
        "the body is YAML and holds annotations of Fleetdex ({0}), which have to be taken out; send JSON, or take them out"
    )]
    Yaml(&'static str),
    /// What was redacted would be written back.
    #[error(
        "the object carries the annotation {REDACTED_ANNOTATION} ({0}): it is a copy from the index, from which this was removed, \
         and writing it back would lose it; get the object by its name and change that, or patch only what changes"
    )]
    Redacted(String),
    /// The object was answered from the index because the member could not be reached.
    #[error(
        "the object was answered from the index ({0}) and may be old; get it again from its cluster and apply your changes to that"
    )]
    FromIndex(String),
    /// The member's version is not known any more.
    #[error(
        "resourceVersion {0} is one of the fleet, and which version of the object it stands for is not known here any more; \
         please apply your changes to the latest version and try again"
    )]
    UnknownVersion(String),
}

/// Tells what version an object had in its member when a client was told a version of the fleet with it.
pub type Own<'o> = &'o dyn Fn(&str) -> Option<String>;

/// The body for the member.
pub fn rewrite(
    kind: BodyKind,
    media_type: &str,
    body: &[u8],
    own: Own<'_>,
) -> Result<Vec<u8>, BodyError> {
    let essence = media_type
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    let is_json = essence.is_empty() || essence == "application/json" || essence.ends_with("+json");
    let is_yaml = essence == "application/yaml" || essence.ends_with("+yaml");
    let is_looked_into = is_json || essence == protobuf::MEDIA_TYPE;
    if kind == BodyKind::Opaque
        || body.is_empty()
        || (kind == BodyKind::DeleteOptions && !is_looked_into)
    {
        return Ok(body.to_vec());
    }
    let malformed = |error: &dyn std::fmt::Display| BodyError::Malformed(error.to_string());
    if essence == protobuf::MEDIA_TYPE {
        return in_protobuf(kind, body, essence, own);
    }
    let text = std::str::from_utf8(body);
    if is_yaml && !text.is_ok_and(|text| text.trim_start().starts_with('{')) {
        return yaml(text.map_err(|error| malformed(&error))?);
    }
    if !is_json && !is_yaml {
        return if kind == BodyKind::NewObject {
            binary(body, essence)
        } else {
            Err(BodyError::MediaType(essence))
        };
    }
    let text = text.map_err(|error| malformed(&error))?;
    match kind {
        BodyKind::Object | BodyKind::NewObject | BodyKind::Apply => object(text, false, own),
        BodyKind::MergePatch => object(text, true, own),
        BodyKind::JsonPatch => json_patch(text, own),
        BodyKind::DeleteOptions => delete_options(text, own),
        BodyKind::Opaque => Ok(body.to_vec()),
    }
}

/// YAML goes on as it is, unless something in it would have to be replaced: a YAML that is written anew may read differently.
fn yaml(text: &str) -> Result<Vec<u8>, BodyError> {
    if text.contains(REDACTED_ANNOTATION) {
        return Err(BodyError::Redacted("in YAML".to_owned()));
    }
    let ours = ["fleetdex.io/", "cached-from-cluster"]
        .into_iter()
        .find(|mark| text.contains(mark));
    ours.map_or_else(
        || Ok(text.as_bytes().to_vec()),
        |mark| Err(BodyError::Yaml(mark)),
    )
}

/// Objects as typed clients in Go write them. Patches have no such form.
fn in_protobuf(
    kind: BodyKind,
    body: &[u8],
    media_type: String,
    own: Own<'_>,
) -> Result<Vec<u8>, BodyError> {
    let malformed = |error: protobuf::Malformed| BodyError::Malformed(error.to_string());
    match kind {
        BodyKind::Object | BodyKind::NewObject => {
            let protobuf::Metadata {
                version,
                own_version,
                redacted,
                from_index,
            } = protobuf::metadata(body).map_err(malformed)?;
            refuse_copy(redacted.as_deref(), from_index.as_deref())?;
            let version = match (version, own_version) {
                (Some(_), Some(own_version)) => Some(own_version),
                (Some(version), None) => Some(translated(&version, own)?),
                (None, _) => None,
            };
            protobuf::returned(body, version.as_deref()).map_err(malformed)
        }
        BodyKind::DeleteOptions => match protobuf::precondition(body).map_err(malformed)? {
            Some(version) => {
                protobuf::with_precondition(body, &translated(&version, own)?).map_err(malformed)
            }
            None => Ok(body.to_vec()),
        },
        BodyKind::Opaque => Ok(body.to_vec()),
        BodyKind::JsonPatch | BodyKind::MergePatch | BodyKind::Apply => {
            Err(BodyError::MediaType(media_type))
        }
    }
}

/// What cannot be looked into, such as CBOR, which clients create objects with, holds texts as they are all the same.
fn binary(body: &[u8], media_type: String) -> Result<Vec<u8>, BodyError> {
    let holds = |text: &str| memchr::memmem::find(body, text.as_bytes()).is_some();
    if holds(REDACTED_ANNOTATION) {
        return Err(BodyError::Redacted(format!("in {media_type}")));
    }
    if holds("fleetdex.io/") || holds("cached-from-cluster") {
        Err(BodyError::MediaType(media_type))
    } else {
        Ok(body.to_vec())
    }
}

fn object(text: &str, is_patch: bool, own: Own<'_>) -> Result<Vec<u8>, BodyError> {
    let malformed = |error: serde_json::Error| BodyError::Malformed(error.to_string());
    let returned = take_back(text, is_patch).map_err(malformed)?;
    refuse_marked(&returned)?;
    let Returned {
        json,
        version: Some(version),
        own_version: None,
        ..
    } = returned
    else {
        return Ok(returned.json.into_bytes());
    };
    if !is_of_fleet(&version) {
        return Ok(json.into_bytes());
    }
    let known = own(&version).ok_or(BodyError::UnknownVersion(version))?;
    Ok(with_version(&json, &known).map_err(malformed)?.into_bytes())
}

fn refuse_marked(returned: &Returned) -> Result<(), BodyError> {
    refuse_copy(returned.redacted.as_deref(), returned.from_index.as_deref())
}

fn refuse_copy(redacted: Option<&str>, from_index: Option<&str>) -> Result<(), BodyError> {
    match (redacted, from_index) {
        (Some(what), _) => Err(BodyError::Redacted(what.to_owned())),
        (None, Some(why)) => Err(BodyError::FromIndex(why.to_owned())),
        (None, None) => Ok(()),
    }
}

/// Whether a version was told by a fleet, whoever's.
fn is_of_fleet(version: &str) -> bool {
    version
        .parse()
        .is_ok_and(|number: u64| number >= LEAST_FLEET_VERSION)
}

/// The member's version for one that a client names.
fn translated(version: &str, own: Own<'_>) -> Result<String, BodyError> {
    if !is_of_fleet(version) {
        return Ok(version.to_owned());
    }
    own(version).ok_or_else(|| BodyError::UnknownVersion(version.to_owned()))
}

fn delete_options(text: &str, own: Own<'_>) -> Result<Vec<u8>, BodyError> {
    let mut options: Value =
        serde_json::from_str(text).map_err(|error| BodyError::Malformed(error.to_string()))?;
    let Some(Value::String(version)) = options.pointer_mut("/preconditions/resourceVersion") else {
        return Ok(text.as_bytes().to_vec());
    };
    *version = translated(version, own)?;
    Ok(options.to_string().into_bytes())
}

fn json_patch(text: &str, own: Own<'_>) -> Result<Vec<u8>, BodyError> {
    let operations: Vec<Map<String, Value>> =
        serde_json::from_str(text).map_err(|error| BodyError::Malformed(error.to_string()))?;
    let tested = operations.iter().find_map(|operation| {
        let is_test = operation.get("op").is_some_and(|op| op == "test");
        let key = our_annotation(pointer(operation, "path"))?;
        (is_test && key == VERSION_ANNOTATION)
            .then(|| operation.get("value")?.as_str().map(str::to_owned))?
    });
    let own = |version: &str| tested.clone().or_else(|| own(version));
    let mut kept = Vec::with_capacity(operations.len());
    for operation in operations {
        kept.extend(operation_for_member(operation, &own)?.map(Value::Object));
    }
    Ok(Value::Array(kept).to_string().into_bytes())
}

/// One operation of a JSON patch; nothing of one that is about our annotations only, which the member does not have.
fn operation_for_member(
    mut operation: Map<String, Value>,
    own: Own<'_>,
) -> Result<Option<Map<String, Value>>, BodyError> {
    let op = operation
        .get("op")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    if let Some(key) = our_annotation(pointer(&operation, "from")) {
        return Err(BodyError::Malformed(format!(
            "{op} from the annotation {key}, which the object does not have in its cluster"
        )));
    }
    let path = pointer(&operation, "path").to_owned();
    if let Some(key) = our_annotation(&path) {
        let shown = operation
            .get("value")
            .map(Value::to_string)
            .unwrap_or_default();
        if op == "remove" || key != REDACTED_ANNOTATION {
            let tests_version = op == "test" && key == VERSION_ANNOTATION;
            return Ok(tests_version.then(|| {
                operation.insert("path".to_owned(), VERSION.into());
                operation
            }));
        }
        return Err(BodyError::Redacted(shown));
    }
    match path.as_str() {
        VERSION => {
            if let Some(Value::String(version)) = operation.get_mut("value") {
                *version = translated(version, own)?;
            }
        }
        "" | "/metadata" | ANNOTATIONS => rewrite_value(&path, &mut operation, own)?,
        _ => {}
    }
    Ok(Some(operation))
}

/// A value that holds the metadata or a part of it.
fn rewrite_value(
    path: &str,
    operation: &mut Map<String, Value>,
    own: Own<'_>,
) -> Result<(), BodyError> {
    let Some(value) = operation.get_mut("value").filter(|value| value.is_object()) else {
        return Ok(());
    };
    let wrapped = match path {
        ANNOTATIONS => serde_json::json!({ "metadata": { "annotations": value } }),
        "/metadata" => serde_json::json!({ "metadata": value }),
        _ => value.clone(),
    };
    let rewritten = object(&wrapped.to_string(), false, own)?;
    let rewritten: Value = serde_json::from_slice(&rewritten)
        .map_err(|error| BodyError::Malformed(error.to_string()))?;
    let empty = || Value::Object(Map::new());
    *value = rewritten.pointer(path).cloned().unwrap_or_else(empty);
    Ok(())
}

fn pointer<'o>(operation: &'o Map<String, Value>, key: &str) -> &'o str {
    operation
        .get(key)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The annotation of ours that a JSON pointer leads to.
fn our_annotation(pointer: &str) -> Option<String> {
    let key = pointer
        .strip_prefix(ANNOTATIONS)?
        .strip_prefix('/')?
        .replace("~1", "/")
        .replace("~0", "~");
    is_our_annotation(&key).then_some(key)
}

#[cfg(test)]
mod tests {
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
    fn an_object_goes_on_with_its_members_version() {
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
        let lock =
            format!(r#"{{"metadata":{{"resourceVersion":"{FLEET}","labels":{{"a":null}}}}}}"#);
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
    fn what_was_redacted_is_never_written_back() {
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
    fn a_json_patch_goes_on_with_the_members_version_and_without_our_annotations() {
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
    fn a_condition_of_a_deletion_is_put_in_the_members_words() {
        let options = |version: &str| {
            format!(
                r#"{{"kind":"DeleteOptions","preconditions":{{"resourceVersion":"{version}"}}}}"#
            )
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
    fn protobuf_goes_on_with_the_members_version_and_without_our_annotations() {
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
    fn what_cannot_be_looked_into_is_refused_where_it_matters() {
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
}
