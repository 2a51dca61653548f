//! Reads and packs the documents of writes, before anything is locked.

use std::{borrow::Cow, io, sync::Arc};

use fleetdex_core::{
    model::{HEALTH_MESSAGE, Restored},
    query::ResourceName,
};
use serde::{Deserialize, de::IgnoredAny};

use super::{
    codec::Codec,
    compressed::Compressor,
    content::{Content, IndexedMetadata},
    document::Origin,
    terms::{ANNOTATION_KEY, NAMESPACE, OWNER, OWNER_NAME, REJECTED, TermDictionary, label_key},
};
use crate::bulk::Write;

/// The body of a write is not a valid document.
#[derive(Debug, thiserror::Error)]
pub(super) enum CompressionError {
    #[error("the document is malformed: {0}")]
    Malformed(#[from] serde_json::Error),
    #[error("the document cannot be packed: {0}")]
    Packing(#[from] io::Error),
}

/// A document that is ready to be stored.
pub(super) struct CompressedDocument {
    pub(super) origin: Origin,
    pub(super) content: Content,
}

/// The parts of a document that are read.
#[derive(Deserialize)]
struct DocumentHead<'a> {
    #[serde(borrow, rename = "apiVersion")]
    api_version: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    search: SearchMembers<'a>,
    #[serde(borrow)]
    metadata: IndexedMetadata<'a>,
}

#[derive(Deserialize)]
struct SearchMembers<'a> {
    #[serde(borrow)]
    resource: Cow<'a, str>,
    #[serde(borrow)]
    group: Cow<'a, str>,
    #[serde(default)]
    labels: Vec<String>,
    #[serde(default)]
    fields: Vec<String>,
    #[serde(default)]
    owners: Vec<String>,
    #[serde(default, rename = "ownerNames")]
    owner_names: Vec<String>,
    #[serde(default, rename = "annotationKeys")]
    annotation_keys: Vec<String>,
    #[serde(default)]
    rejected: Option<IgnoredAny>,
}

/// Reads and packs the document of a write.
pub(super) fn compress_document(
    write: &Write,
    body: &[u8],
    codec: &Codec,
    vocabulary: &Arc<TermDictionary>,
    compressor: &mut Compressor,
) -> Result<CompressedDocument, CompressionError> {
    let head: DocumentHead<'_> = serde_json::from_slice(body)?;
    let Restored {
        cluster,
        object,
        interpretation,
    } = Restored::parse(body)?;
    let search = head.search;
    let resource = ResourceName::new(&search.group, &search.resource);
    let id_prefix = format!("{}/{}/", head.api_version, head.kind).into_boxed_str();
    let object = object.get().as_bytes();
    // Interned now and not when the document is stored, so that no short-lived text fragments the
    // memory that stays.
    let mut terms = terms(&head.metadata.namespace, search);
    let message = interpretation.map(|found| found.health_message);
    let message = message.filter(|message| !message.is_empty());
    terms.extend(message.map(|message| (Cow::Borrowed(HEALTH_MESSAGE), message)));
    let borrowed = || terms.iter().map(|(key, value)| (&**key, &**value));
    let term_numbers = vocabulary.intern(borrowed());
    let fingerprint = codec.fingerprint(object, borrowed());
    drop(terms);
    let packed = (
        fingerprint,
        compressor.pack(codec.dictionary(&resource), object)?,
    );
    let content = Content::new(
        (&write.document.id, &id_prefix),
        write.document.version,
        &head.metadata,
        packed,
        term_numbers,
    );
    let (api_version, kind) = (head.api_version.into(), head.kind.into());
    let origin = Origin {
        cluster,
        resource,
        api_version,
        kind,
        id_prefix,
        vocabulary: Arc::clone(vocabulary),
    };
    Ok(CompressedDocument { origin, content })
}

/// The terms of a document. Neither a label's key nor a field's path has a `=`.
fn terms(namespace: &str, search: SearchMembers<'_>) -> Vec<(Cow<'static, str>, String)> {
    let count = search.labels.len() + search.fields.len() + search.owners.len() + 1;
    let mut terms = Vec::with_capacity(count);
    if !namespace.is_empty() {
        terms.push((Cow::Borrowed(NAMESPACE), namespace.to_owned()));
    }
    for label in search.labels {
        let (key, value) = label.split_once('=').unwrap_or((&label, ""));
        terms.push((label_key(key), value.to_owned()));
    }
    for field in search.fields {
        let (path, value) = field.split_once('=').unwrap_or((&field, ""));
        terms.push((Cow::Owned(path.to_owned()), value.to_owned()));
    }
    for (key, values) in [
        (OWNER, search.owners),
        (OWNER_NAME, search.owner_names),
        (ANNOTATION_KEY, search.annotation_keys),
    ] {
        terms.extend(values.into_iter().map(|value| (Cow::Borrowed(key), value)));
    }
    terms.extend(
        search
            .rejected
            .map(|_why| (Cow::Borrowed(REJECTED), String::new())),
    );
    terms
}
