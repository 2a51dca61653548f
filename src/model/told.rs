//! Objects below `proxying/`, on their way to a client and back: the fleet's resource version in place of the member's.
//!
//! An object that is told has the fleet's version as `metadata.resourceVersion`, and the member's own as [`OWN_VERSION_ANNOTATION`](VERSION_ANNOTATION); one that
//! comes back gets its own version again and loses what was added. Everything else stays the bytes that it was.

use serde_json::value::RawValue;

use super::{
    CLUSTER_ANNOTATION, ClusterName, OWN_VERSION_ANNOTATION as VERSION_ANNOTATION,
    json::{RawMembers, Text, write_key, write_text},
};

/// The annotation of an object of which something is not stored: what that is, as `JSONPath`s.
pub const REDACTED_ANNOTATION: &str = "fleetdex.io/redacted";
/// The annotation of an object that was answered from the index although it should have come from its member: why.
pub const INDEXED_ANNOTATION: &str = "fleetdex.io/answered-from-index";

/// What is added on the way out, and taken out on the way back.
const OURS: [&str; 4] = [CLUSTER_ANNOTATION, VERSION_ANNOTATION, REDACTED_ANNOTATION, INDEXED_ANNOTATION];

/// Whether an annotation is one of those that are never a member's own.
pub fn is_our_annotation(key: &str) -> bool {
    OURS.contains(&key)
}

/// What a client is told with an object.
#[derive(Clone, Copy, Debug)]
pub struct Told<'t> {
    /// The member.
    pub cluster: &'t ClusterName,
    /// The fleet's resource version; without one the member's own stays.
    pub version: Option<&'t str>,
    /// Why the object comes from the index, if it should not.
    pub from_index: Option<&'t str>,
}

/// The object as a client is told it. What has no resource version (a `Status`, a review) stays as it is.
pub fn tell(object: &str, told: &Told<'_>) -> Result<Box<RawValue>, serde_json::Error> {
    let members: RawMembers<'_> = serde_json::from_str(object)?;
    let metadata = member(&members, "metadata").map(RawValue::get);
    let Some(metadata) = metadata.filter(|text| text.starts_with('{')) else { return RawValue::from_string(object.to_owned()) };
    let parsed: RawMembers<'_> = serde_json::from_str(metadata)?;
    let (Some(own), Some(_name)) = (text(&parsed, "resourceVersion"), text(&parsed, "name")) else {
        return RawValue::from_string(object.to_owned());
    };
    let mut out = Vec::with_capacity(object.len() + 256);
    write_members(&mut out, &members, |out, key, value| {
        if key == "metadata" { write_told(out, &parsed, &own, told) } else { write_raw(out, value) }
    })?;
    raw(out)
}

fn write_told(out: &mut Vec<u8>, metadata: &RawMembers<'_>, own: &str, told: &Told<'_>) -> Result<(), serde_json::Error> {
    let annotate = |out: &mut Vec<u8>, annotations: &RawMembers<'_>| {
        let kept = annotations.0.iter().filter(|(key, _)| key.0 == REDACTED_ANNOTATION || !is_our_annotation(&key.0));
        out.push(b'{');
        for (key, value) in kept {
            write_key(out, &key.0);
            out.extend_from_slice(value.get().as_bytes());
        }
        let ours = [
            (CLUSTER_ANNOTATION, Some(told.cluster.as_str())),
            (VERSION_ANNOTATION, Some(own)),
            (INDEXED_ANNOTATION, told.from_index),
        ];
        for (key, value) in ours.into_iter().filter_map(|(key, value)| Some((key, value?))) {
            write_key(out, key);
            write_text(out, value);
        }
        out.push(b'}');
    };
    let mut annotated = false;
    out.push(b'{');
    for (key, value) in &metadata.0 {
        write_key(out, &key.0);
        match &*key.0 {
            "resourceVersion" => write_text(out, told.version.unwrap_or(own)),
            "annotations" => {
                annotate(out, &serde_json::from_str(value.get())?);
                annotated = true;
            }
            _ => out.extend_from_slice(value.get().as_bytes()),
        }
    }
    if !annotated {
        write_key(out, "annotations");
        annotate(out, &RawMembers::default());
    }
    out.push(b'}');
    Ok(())
}

/// An object, or a merge patch of one, as a client sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Returned {
    /// As the member may see it: without our annotations, and with the version that the client was told of the member, if it was.
    pub json: String,
    /// `metadata.resourceVersion` as it was sent; `None` where there is none, or an empty one.
    pub version: Option<String>,
    /// What [`OWN_VERSION_ANNOTATION`](VERSION_ANNOTATION) says.
    pub own_version: Option<String>,
    /// What [`REDACTED_ANNOTATION`] says, if it is there.
    pub redacted: Option<String>,
    /// What [`INDEXED_ANNOTATION`] says, if it is there.
    pub from_index: Option<String>,
}

/// Takes out of an object, or of a merge patch, what [`tell`] had put in. A patch that carries the member's version as an annotation
/// only (because the fleet's is the same) gets it as its version: what the client wants is that nothing has changed since.
pub fn take_back(object: &str, is_patch: bool) -> Result<Returned, serde_json::Error> {
    let members: RawMembers<'_> = serde_json::from_str(object)?;
    let mut returned = Returned { json: object.to_owned(), version: None, own_version: None, redacted: None, from_index: None };
    let metadata = member(&members, "metadata").map(RawValue::get).filter(|text| text.starts_with('{'));
    let Some(metadata) = metadata else { return Ok(returned) };
    let metadata: RawMembers<'_> = serde_json::from_str(metadata)?;
    returned.version = text(&metadata, "resourceVersion").filter(|version| !version.is_empty());
    let annotations = member(&metadata, "annotations").map(RawValue::get).filter(|text| text.starts_with('{'));
    let Some(annotations) = annotations else { return Ok(returned) };
    let annotations: RawMembers<'_> = serde_json::from_str(annotations)?;
    if !annotations.0.iter().any(|(key, _)| is_our_annotation(&key.0)) {
        return Ok(returned);
    }
    returned.own_version = text(&annotations, VERSION_ANNOTATION);
    returned.redacted = text(&annotations, REDACTED_ANNOTATION);
    returned.from_index = text(&annotations, INDEXED_ANNOTATION);
    let mut out = Vec::with_capacity(object.len());
    write_members(&mut out, &members, |out, key, value| {
        if key != "metadata" {
            return write_raw(out, value);
        }
        write_own(out, &metadata, &annotations, &returned, is_patch);
        Ok(())
    })?;
    raw(out)?.get().clone_into(&mut returned.json);
    Ok(returned)
}

fn write_own(out: &mut Vec<u8>, metadata: &RawMembers<'_>, annotations: &RawMembers<'_>, returned: &Returned, is_patch: bool) {
    let own = returned.own_version.as_deref();
    let theirs: Vec<_> = annotations.0.iter().filter(|(key, _)| !is_our_annotation(&key.0)).collect();
    out.push(b'{');
    for (key, value) in &metadata.0 {
        match (&*key.0, own) {
            ("resourceVersion", Some(own)) if returned.version.is_some() => {
                write_key(out, &key.0);
                write_text(out, own);
            }
            ("annotations", _) if theirs.is_empty() => {}
            ("annotations", _) => {
                write_key(out, &key.0);
                out.push(b'{');
                for (name, text) in &theirs {
                    write_key(out, &name.0);
                    out.extend_from_slice(text.get().as_bytes());
                }
                out.push(b'}');
            }
            _ => {
                write_key(out, &key.0);
                out.extend_from_slice(value.get().as_bytes());
            }
        }
    }
    let unsaid = !metadata.0.iter().any(|(key, _)| key.0 == "resourceVersion");
    if let (true, true, Some(own)) = (is_patch, unsaid, own) {
        write_key(out, "resourceVersion");
        write_text(out, own);
    }
    out.push(b'}');
}

/// The object, or the merge patch, with another `metadata.resourceVersion` in place of the one that it has.
pub fn with_version(object: &str, version: &str) -> Result<String, serde_json::Error> {
    let members: RawMembers<'_> = serde_json::from_str(object)?;
    let mut out = Vec::with_capacity(object.len());
    write_members(&mut out, &members, |out, key, value| {
        if key != "metadata" {
            return write_raw(out, value);
        }
        let metadata: RawMembers<'_> = serde_json::from_str(value.get())?;
        write_members(out, &metadata, |out, key, value| {
            if key == "resourceVersion" {
                write_text(out, version);
                return Ok(());
            }
            write_raw(out, value)
        })
    })?;
    Ok(raw(out)?.get().to_owned())
}

fn member<'a>(members: &RawMembers<'a>, name: &str) -> Option<&'a RawValue> {
    members.0.iter().find(|(key, _)| key.0 == name).map(|(_, value)| *value)
}

fn text(members: &RawMembers<'_>, name: &str) -> Option<String> {
    let value: Text<'_> = serde_json::from_str(member(members, name)?.get()).ok()?;
    Some(value.0.into_owned())
}

type Written = Result<(), serde_json::Error>;

fn write_members(
    out: &mut Vec<u8>,
    members: &RawMembers<'_>,
    mut write: impl FnMut(&mut Vec<u8>, &str, &RawValue) -> Written,
) -> Written {
    out.push(b'{');
    for (key, value) in &members.0 {
        write_key(out, &key.0);
        write(out, &key.0, value)?;
    }
    out.push(b'}');
    Ok(())
}

#[expect(clippy::unnecessary_wraps, reason = "one arm of a choice between functions that can fail")]
fn write_raw(out: &mut Vec<u8>, value: &RawValue) -> Written {
    out.extend_from_slice(value.get().as_bytes());
    Ok(())
}

fn raw(out: Vec<u8>) -> Result<Box<RawValue>, serde_json::Error> {
    use serde::de::Error as _;
    RawValue::from_string(String::from_utf8(out).map_err(serde_json::Error::custom)?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn told(object: &str) -> String {
        let cluster = "member1".parse().unwrap();
        tell(object, &Told { cluster: &cluster, version: Some("900"), from_index: None }).unwrap().get().to_owned()
    }

    #[test]
    fn an_object_is_told_with_the_fleets_version_and_comes_back_byte_for_byte() {
        let own = r#"{"kind":"Pod","metadata":{"name":"p","resourceVersion":"7","annotations":{"a/b":"\u0041 c"}},"spec":{"n":1.50,"x":[ 1,2 ]}}"#;
        let out = told(own);
        assert_eq!(
            out,
            r#"{"kind":"Pod","metadata":{"name":"p","resourceVersion":"900","annotations":{"a/b":"\u0041 c","resource.karmada.io/cached-from-cluster":"member1","fleetdex.io/resource-version":"7"}},"spec":{"n":1.50,"x":[ 1,2 ]}}"#
        );
        let back = take_back(&out, false).unwrap();
        assert_eq!((back.json.as_str(), back.version.as_deref()), (own, Some("900")));
    }

    #[test]
    fn annotations_that_were_not_there_are_not_there_afterwards() {
        let own = r#"{"metadata":{"name":"p","resourceVersion":"7"},"data":{}}"#;
        assert_eq!(take_back(&told(own), false).unwrap().json, own);
    }

    #[test]
    fn what_has_no_version_is_left_alone() {
        for plain in
            [r#"{"kind":"Status","metadata":{},"code":404}"#, r#"{"kind":"Scale"}"#, r#"{"metadata":{"resourceVersion":"1"}}"#]
        {
            assert_eq!(told(plain), plain);
            assert_eq!(take_back(plain, false).unwrap().json, plain);
        }
    }

    #[test]
    fn an_update_without_a_version_stays_one_and_a_patch_gets_the_one_of_its_annotation() {
        let body = r#"{"metadata":{"name":"p","annotations":{"fleetdex.io/resource-version":"7"}}}"#;
        assert_eq!(take_back(body, false).unwrap().json, r#"{"metadata":{"name":"p"}}"#);
        assert_eq!(take_back(body, true).unwrap().json, r#"{"metadata":{"name":"p","resourceVersion":"7"}}"#);
    }

    #[test]
    fn markers_are_found_however_their_keys_are_written() {
        let body = r#"{"metadata":{"annotations":{"fleetdex.io\/redacted":"$.data","fleetdex.io/answered-from-\u0069ndex":"down","x":"y"}}}"#;
        let back = take_back(body, false).unwrap();
        assert_eq!((back.redacted.as_deref(), back.from_index.as_deref()), (Some("$.data"), Some("down")));
        assert_eq!(back.json, r#"{"metadata":{"annotations":{"x":"y"}}}"#);
        // A patch that removes the annotation brings nothing along.
        assert_eq!(take_back(r#"{"metadata":{"annotations":{"fleetdex.io/redacted":null}}}"#, true).unwrap().redacted, None);
    }

    #[test]
    fn a_version_is_replaced_in_its_place() {
        let changed = with_version(r#"{"metadata":{"resourceVersion":"900","labels":{ }},"a":1e3}"#, "7").unwrap();
        assert_eq!(changed, r#"{"metadata":{"resourceVersion":"7","labels":{ }},"a":1e3}"#);
    }

    proptest! {
        #[test]
        fn what_is_told_comes_back_as_it_was(labels in prop::collection::btree_map("[a-z/\"é]{1,8}", ".{0,8}", 0..4), data in any::<f64>()) {
            let own: Value = json!({
                "metadata": { "name": "p", "annotations": labels, "resourceVersion": "7", "uid": "u" }, "data": { "x": data.to_string() }
            });
            let text = own.to_string();
            let back = take_back(&told(&text), false).unwrap();
            let mut expected = own;
            if labels.is_empty() {
                expected["metadata"].as_object_mut().unwrap().shift_remove("annotations");
            }
            prop_assert_eq!(back.json, expected.to_string());
        }
    }
}
