//! Client metadata: what the server changes in the metadata of the objects that it sends to
//! clients, and how it undoes that in what clients send back.
//!
//! Lists and watches of the fleet return objects [`with_fleet_version`]. A single object below
//! `proxying/` gets its metadata from [`add_client_metadata`]; [`remove_client_metadata`] restores
//! the member's version in what the client sends back, and removes the added annotations. Values
//! that do not change keep their bytes.

use std::borrow::Cow;

use super::{
    ClusterName, FleetVersion,
    json::{Json, RawMembers, Text, write_key, write_text},
    well_known::{
        CLUSTER_ANNOTATION, INDEXED_ANNOTATION, MEMBER_VERSION_ANNOTATION, REDACTED_ANNOTATION,
    },
};

/// Annotations that are added for clients, and removed from what they send.
const FLEETDEX_ANNOTATIONS: [&str; 4] = [
    CLUSTER_ANNOTATION,
    MEMBER_VERSION_ANNOTATION,
    REDACTED_ANNOTATION,
    INDEXED_ANNOTATION,
];

/// Whether Fleetdex adds an annotation for clients, so that no member's object has it.
pub fn is_fleetdex_annotation(key: &str) -> bool {
    FLEETDEX_ANNOTATIONS.contains(&key)
}

/// The object with a version of the fleet as its `metadata.resourceVersion`, and the member's
/// version in [`MEMBER_VERSION_ANNOTATION`]. An object without metadata does not change.
pub fn with_fleet_version(object: &Json, version: FleetVersion) -> Json {
    let changed = with_metadata(object.get(), |metadata| {
        if let Some(member_version) = metadata.text("resourceVersion") {
            metadata.annotate(
                |key| key == MEMBER_VERSION_ANNOTATION,
                &[(MEMBER_VERSION_ANNOTATION, &member_version)],
            );
        }
        metadata.set("resourceVersion", quoted(&version.to_string()));
        true
    });
    changed.map_or_else(|_not_an_object| object.clone(), Json::known)
}

/// The metadata that an object gets for a client.
#[derive(Clone, Copy, Debug)]
pub struct ClientMetadata<'a> {
    /// The member.
    pub cluster: &'a ClusterName,
    /// The fleet's resource version; without one the object keeps the member's.
    pub version: Option<&'a str>,
    /// Why the object comes from the index instead of its member, if it does.
    pub from_index: Option<&'a str>,
}

/// The object with its metadata for a client. An object without a resource version (a `Status`, a
/// review) does not change.
pub fn add_client_metadata(
    object: &str,
    added: &ClientMetadata<'_>,
) -> Result<Json, serde_json::Error> {
    let json = with_metadata(object, |metadata| {
        let (Some(member_version), Some(_name)) =
            (metadata.text("resourceVersion"), metadata.text("name"))
        else {
            return false;
        };
        let mut annotations = vec![
            (CLUSTER_ANNOTATION, added.cluster.as_str()),
            (MEMBER_VERSION_ANNOTATION, &member_version),
        ];
        annotations.extend(added.from_index.map(|reason| (INDEXED_ANNOTATION, reason)));
        metadata.annotate(
            |key| key != REDACTED_ANNOTATION && is_fleetdex_annotation(key),
            &annotations,
        );
        metadata.set(
            "resourceVersion",
            quoted(added.version.unwrap_or(&member_version)),
        );
        true
    })?;
    Ok(Json::known(json))
}

/// An object, or a merge patch of one, as a client sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReturnedObject {
    /// The object for the member: without the annotations of Fleetdex, and with the member's
    /// version if the client sent it along.
    pub json: String,
    /// `metadata.resourceVersion` as it was sent; `None` where there is none, or an empty one.
    pub version: Option<String>,
    /// The value of [`MEMBER_VERSION_ANNOTATION`].
    pub member_version: Option<String>,
    /// The value of [`REDACTED_ANNOTATION`], if the object has it.
    pub redacted: Option<String>,
    /// The value of [`INDEXED_ANNOTATION`], if the object has it.
    pub from_index: Option<String>,
}

/// Removes what [`add_client_metadata`] added from an object or a merge patch. A patch that has the
/// member's version only as an annotation, because it does not change the fleet's, gets it as its
/// version: the client wants the patch to fail if the object has changed since.
pub fn remove_client_metadata(
    object: &str,
    is_patch: bool,
) -> Result<ReturnedObject, serde_json::Error> {
    let mut returned = ReturnedObject {
        json: String::new(),
        version: None,
        member_version: None,
        redacted: None,
        from_index: None,
    };
    returned.json = with_metadata(object, |metadata| {
        returned.version = metadata
            .text("resourceVersion")
            .filter(|version| !version.is_empty());
        let annotations = metadata.annotations();
        if !annotations
            .0
            .iter()
            .any(|(key, _)| is_fleetdex_annotation(key))
        {
            return false;
        }
        returned.member_version = annotations.text(MEMBER_VERSION_ANNOTATION);
        returned.redacted = annotations.text(REDACTED_ANNOTATION);
        returned.from_index = annotations.text(INDEXED_ANNOTATION);
        metadata.annotate(is_fleetdex_annotation, &[]);
        let has_no_version = metadata.get("resourceVersion").is_none();
        if let Some(member_version) = returned
            .member_version
            .as_ref()
            .filter(|_| returned.version.is_some() || (is_patch && has_no_version))
        {
            metadata.set("resourceVersion", quoted(member_version));
        }
        true
    })?;
    Ok(returned)
}

/// The object, or the merge patch, with its `metadata.resourceVersion` replaced. One without a
/// version does not change.
pub fn with_version(object: &str, version: &str) -> Result<String, serde_json::Error> {
    with_metadata(object, |metadata| {
        let has_one = metadata.get("resourceVersion").is_some();
        if has_one {
            metadata.set("resourceVersion", quoted(version));
        }
        has_one
    })
}

/// The object with its metadata changed by `change`, which returns whether it changed them. Does
/// not call it for an object without metadata. Where a JSON object repeats the key `metadata`, all
/// of them get the changed first one.
fn with_metadata(
    object: &str,
    change: impl FnOnce(&mut RawObject<'_>) -> bool,
) -> Result<String, serde_json::Error> {
    let mut members = RawObject::of(object)?;
    let unchanged = || Ok(object.to_owned());
    let Some(metadata) = members
        .get("metadata")
        .filter(|value| value.starts_with('{'))
        .cloned()
    else {
        return unchanged();
    };
    let mut metadata = RawObject::of(&metadata)?;
    if !change(&mut metadata) {
        return unchanged();
    }
    members.set("metadata", metadata.json());
    Ok(members.json())
}

/// The members of a JSON object: their keys, and their values as JSON.
#[derive(Default)]
struct RawObject<'j>(Vec<(Cow<'j, str>, Cow<'j, str>)>);

impl<'j> RawObject<'j> {
    fn of(object: &'j str) -> Result<Self, serde_json::Error> {
        let members = RawMembers::parse(object)?.0.into_iter();
        let borrowed = members.map(|(key, value)| (key.0, Cow::Borrowed(value)));
        Ok(Self(borrowed.collect()))
    }

    fn json(&self) -> String {
        let size: usize = self
            .0
            .iter()
            .map(|(key, value)| key.len() + value.len() + "\"\":,".len())
            .sum();
        let mut json = Vec::with_capacity(size + "{}".len());
        json.push(b'{');
        for (key, value) in &self.0 {
            write_key(&mut json, key);
            json.extend_from_slice(value.as_bytes());
        }
        json.push(b'}');
        String::from_utf8(json).unwrap_or_default()
    }

    fn get(&self, key: &str) -> Option<&Cow<'j, str>> {
        self.0
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value)
    }

    /// The value of a key, if it is a text.
    fn text(&self, key: &str) -> Option<String> {
        let text: Text<'_> = serde_json::from_str(self.get(key)?).ok()?;
        Some(text.0.into_owned())
    }

    /// Replaces the value of a key, or adds the key behind all others.
    fn set(&mut self, key: &'static str, value: String) {
        let mut found = false;
        for (_, current) in self.0.iter_mut().filter(|(name, _)| name == key) {
            *current = Cow::Owned(value.clone());
            found = true;
        }
        if !found {
            self.0.push((Cow::Borrowed(key), Cow::Owned(value)));
        }
    }

    fn annotations(&self) -> RawObject<'_> {
        self.get("annotations")
            .and_then(|annotations| RawObject::of(annotations).ok())
            .unwrap_or_default()
    }

    /// Removes annotations and adds others behind the rest. Without any left, removes the key
    /// `annotations`.
    fn annotate(&mut self, is_removed: impl Fn(&str) -> bool, added: &[(&'static str, &str)]) {
        let mut annotations = self.annotations();
        annotations.0.retain(|(key, _)| !is_removed(key));
        annotations.0.extend(
            added
                .iter()
                .map(|(key, value)| (Cow::Borrowed(*key), Cow::Owned(quoted(value)))),
        );
        if annotations.0.is_empty() {
            self.0.retain(|(key, _)| key != "annotations");
            return;
        }
        let json = annotations.json();
        self.set("annotations", json);
    }
}

fn quoted(text: &str) -> String {
    let mut json = Vec::with_capacity(text.len() + 2);
    write_text(&mut json, text);
    String::from_utf8(json).unwrap_or_default()
}

#[cfg(test)]
mod tests;
