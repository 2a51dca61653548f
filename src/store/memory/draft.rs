//! Writes on their way into the store: read and packed before anything is locked.

use std::{borrow::Cow, io};

use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    codec::{Codec, Packer},
    document::{Identity, Origin, Parts, path},
    terms::{NAMESPACE, label_key},
};
use crate::{bulk::Write, model::restore, query::ResourceName};

/// A document that cannot be kept, because it is none.
#[derive(Debug, thiserror::Error)]
pub(super) enum DraftError {
    #[error("the document is malformed: {0}")]
    Malformed(#[from] serde_json::Error),
    #[error("the document cannot be packed: {0}")]
    Packing(#[from] io::Error),
}

/// A document that is to be stored.
pub(super) struct Draft {
    pub(super) origin: Origin,
    pub(super) content: Content,
}

/// What it is made of.
pub(super) struct Content {
    pub(super) parts: Parts,
    /// Keys and values of its terms.
    pub(super) terms: Vec<(Cow<'static, str>, String)>,
}

/// The parts of a document that are looked at.
#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow, rename = "apiVersion")]
    api_version: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    search: Search<'a>,
    #[serde(borrow)]
    metadata: Metadata<'a>,
}

#[derive(Deserialize)]
struct Search<'a> {
    #[serde(borrow)]
    resource: Cow<'a, str>,
    #[serde(borrow)]
    group: Cow<'a, str>,
    #[serde(default)]
    labels: Vec<String>,
    #[serde(default)]
    fields: Vec<String>,
}

#[derive(Deserialize)]
struct Metadata<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    namespace: Cow<'a, str>,
    #[serde(borrow)]
    uid: Cow<'a, str>,
    #[serde(borrow, default, rename = "creationTimestamp")]
    created: Option<Cow<'a, str>>,
}

/// Reads and packs the document of a write.
pub(super) fn draft(write: &Write, body: &[u8], codec: &Codec, packer: &mut Packer) -> Result<Draft, DraftError> {
    let source: &RawValue = serde_json::from_slice(body)?;
    let head: Head<'_> = serde_json::from_str(source.get())?;
    let (cluster, object) = restore(source)?;
    let Search { resource, group, labels, fields } = head.search;
    let Metadata { name, namespace, uid, created } = head.metadata;
    let resource = ResourceName::new(&group, &resource);
    let id_prefix = format!("{}/{}/", head.api_version, head.kind).into_boxed_str();
    let path = path(&namespace, &name);
    let packed = packer.pack(codec.dictionary(&resource), path.as_bytes(), object.get().as_bytes())?;
    let parts = Parts {
        version: write.version,
        identity: Identity::new(&write.id, &uid, &id_prefix),
        path_len: u32::try_from(path.len()).unwrap_or_default(),
        created: created.and_then(|text| text.parse::<Timestamp>().ok()).and_then(|time| time.as_second().try_into().ok()),
        packed,
    };
    let (api_version, kind) = (head.api_version.into(), head.kind.into());
    let origin = Origin { cluster, resource, api_version, kind, id_prefix };
    Ok(Draft { origin, content: Content { parts, terms: terms(&namespace, labels, fields) } })
}

/// Neither a label's key nor a field's path has a `=`.
fn terms(namespace: &str, labels: Vec<String>, fields: Vec<String>) -> Vec<(Cow<'static, str>, String)> {
    let mut terms = Vec::with_capacity(labels.len() + fields.len() + 1);
    if !namespace.is_empty() {
        terms.push((Cow::Borrowed(NAMESPACE), namespace.to_owned()));
    }
    for label in labels {
        let (key, value) = label.split_once('=').unwrap_or((&label, ""));
        terms.push((label_key(key), value.to_owned()));
    }
    for field in fields {
        let (path, value) = field.split_once('=').unwrap_or((&field, ""));
        terms.push((Cow::Owned(path.to_owned()), value.to_owned()));
    }
    terms
}
