//! Objects on their way to a client and back: the fleet's resource version in place of the member's, and annotations that say more.
//!
//! Who lists and watches the fleet gets objects [`with_fleet_version`]. A single object below `proxying/` is told by [`tell`], and what comes
//! back for it is taken apart by [`take_back`], which gives it its member's version again and takes out what was added. Values
//! that do not change stay the bytes that they were.

use std::borrow::Cow;

use super::{
    ClusterName, FleetVersion,
    json::{Json, RawMembers, Text, write_key, write_text},
    well_known::{
        CLUSTER_ANNOTATION, INDEXED_ANNOTATION, OWN_VERSION_ANNOTATION, REDACTED_ANNOTATION,
    },
};

/// What is added on the way out, and taken out on the way back.
const OURS: [&str; 4] = [
    CLUSTER_ANNOTATION,
    OWN_VERSION_ANNOTATION,
    REDACTED_ANNOTATION,
    INDEXED_ANNOTATION,
];

/// Whether an annotation is one of those that are never a member's own.
pub fn is_our_annotation(key: &str) -> bool {
    OURS.contains(&key)
}

/// The object with a version of the fleet as its `metadata.resourceVersion`, and its own one in [`OWN_VERSION_ANNOTATION`]. An object without
/// metadata stays as it is.
pub fn with_fleet_version(object: &Json, version: FleetVersion) -> Json {
    let told = with_metadata(object.get(), |metadata| {
        if let Some(own) = metadata.text("resourceVersion") {
            metadata.annotate(
                |key| key == OWN_VERSION_ANNOTATION,
                &[(OWN_VERSION_ANNOTATION, &own)],
            );
        }
        metadata.set("resourceVersion", quoted(&version.to_string()));
        true
    });
    told.map_or_else(|_not_an_object| object.clone(), Json::known)
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
pub fn tell(object: &str, told: &Told<'_>) -> Result<Json, serde_json::Error> {
    let json = with_metadata(object, |metadata| {
        let (Some(own), Some(_name)) = (metadata.text("resourceVersion"), metadata.text("name"))
        else {
            return false;
        };
        let mut ours = vec![
            (CLUSTER_ANNOTATION, told.cluster.as_str()),
            (OWN_VERSION_ANNOTATION, &own),
        ];
        ours.extend(told.from_index.map(|reason| (INDEXED_ANNOTATION, reason)));
        metadata.annotate(
            |key| key != REDACTED_ANNOTATION && is_our_annotation(key),
            &ours,
        );
        metadata.set("resourceVersion", quoted(told.version.unwrap_or(&own)));
        true
    })?;
    Ok(Json::known(json))
}

/// An object, or a merge patch of one, as a client sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Returned {
    /// As the member may see it: without our annotations, and with the version that the client was told of the member, if it was.
    pub json: String,
    /// `metadata.resourceVersion` as it was sent; `None` where there is none, or an empty one.
    pub version: Option<String>,
    /// What [`OWN_VERSION_ANNOTATION`] says.
    pub own_version: Option<String>,
    /// What [`REDACTED_ANNOTATION`] says, if it is there.
    pub redacted: Option<String>,
    /// What [`INDEXED_ANNOTATION`] says, if it is there.
    pub from_index: Option<String>,
}

/// Takes out of an object, or of a merge patch, what [`tell`] had put in. A patch that carries the member's version as an annotation
/// only (because the fleet's is the same) gets it as its version: what the client wants is that nothing has changed since.
pub fn take_back(object: &str, is_patch: bool) -> Result<Returned, serde_json::Error> {
    let mut returned = Returned {
        json: String::new(),
        version: None,
        own_version: None,
        redacted: None,
        from_index: None,
    };
    returned.json = with_metadata(object, |metadata| {
        returned.version = metadata
            .text("resourceVersion")
            .filter(|version| !version.is_empty());
        let annotations = metadata.annotations();
        if !annotations.0.iter().any(|(key, _)| is_our_annotation(key)) {
            return false;
        }
        returned.own_version = annotations.text(OWN_VERSION_ANNOTATION);
        returned.redacted = annotations.text(REDACTED_ANNOTATION);
        returned.from_index = annotations.text(INDEXED_ANNOTATION);
        metadata.annotate(is_our_annotation, &[]);
        let is_unsaid = metadata.get("resourceVersion").is_none();
        if let Some(own) = returned
            .own_version
            .as_ref()
            .filter(|_| returned.version.is_some() || (is_patch && is_unsaid))
        {
            metadata.set("resourceVersion", quoted(own));
        }
        true
    })?;
    Ok(returned)
}

/// The object, or the merge patch, with another `metadata.resourceVersion` in place of the one that it has.
pub fn with_version(object: &str, version: &str) -> Result<String, serde_json::Error> {
    with_metadata(object, |metadata| {
        let has_one = metadata.get("resourceVersion").is_some();
        if has_one {
            metadata.set("resourceVersion", quoted(version));
        }
        has_one
    })
}

/// The object with its metadata as `change` leaves them, if that says so; it is not asked about one that has none. Where an object has several,
/// they all become what the first one becomes.
fn with_metadata(
    object: &str,
    change: impl FnOnce(&mut Members<'_>) -> bool,
) -> Result<String, serde_json::Error> {
    let mut members = Members::of(object)?;
    let unchanged = || Ok(object.to_owned());
    let Some(metadata) = members
        .get("metadata")
        .filter(|value| value.starts_with('{'))
        .cloned()
    else {
        return unchanged();
    };
    let mut metadata = Members::of(&metadata)?;
    if !change(&mut metadata) {
        return unchanged();
    }
    members.set("metadata", metadata.json());
    Ok(members.json())
}

/// The members of a JSON object: their keys, and their values as JSON.
#[derive(Default)]
struct Members<'j>(Vec<(Cow<'j, str>, Cow<'j, str>)>);

impl<'j> Members<'j> {
    fn of(object: &'j str) -> Result<Self, serde_json::Error> {
        let members: RawMembers<'j> = serde_json::from_str(object)?;
        Ok(Self(
            members
                .0
                .into_iter()
                .map(|(key, value)| (key.0, Cow::Borrowed(value.get())))
                .collect(),
        ))
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

    /// What a text says.
    fn text(&self, key: &str) -> Option<String> {
        let text: Text<'_> = serde_json::from_str(self.get(key)?).ok()?;
        Some(text.0.into_owned())
    }

    /// Puts a value in the place of the one that is there, or behind all others.
    fn set(&mut self, key: &'static str, value: String) {
        let mut is_there = false;
        for (_, place) in self.0.iter_mut().filter(|(name, _)| name == key) {
            *place = Cow::Owned(value.clone());
            is_there = true;
        }
        if !is_there {
            self.0.push((Cow::Borrowed(key), Cow::Owned(value)));
        }
    }

    fn annotations(&self) -> Members<'_> {
        self.get("annotations")
            .and_then(|annotations| Members::of(annotations).ok())
            .unwrap_or_default()
    }

    /// Leaves annotations out and puts others behind the rest. Where none are left, there are no annotations.
    fn annotate(&mut self, is_left_out: impl Fn(&str) -> bool, added: &[(&'static str, &str)]) {
        let mut annotations = self.annotations();
        annotations.0.retain(|(key, _)| !is_left_out(key));
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

/// A text as JSON.
fn quoted(text: &str) -> String {
    let mut json = Vec::with_capacity(text.len() + 2);
    write_text(&mut json, text);
    String::from_utf8(json).unwrap_or_default()
}

#[cfg(test)]
mod tests;
