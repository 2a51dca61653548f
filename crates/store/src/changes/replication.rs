//! The wire format of replication: a line of JSON for each change, with the documents before and
//! after and their search terms. The receiving replica decides which of its watches a change
//! concerns.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use fleetdex_core::{
    model::{ClusterName, FleetVersion},
    query::ResourceName,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Change, Log};
use crate::{
    StoreError,
    codec::Codec,
    compressed::{Compressor, Decompressor},
    content::{Content, IndexedMetadata},
    document::{Origin, StoredDocument},
    terms::TermDictionary,
};

/// A line is not one that a replica of this version writes.
#[derive(Debug, thiserror::Error)]
pub enum InvalidLine {
    /// It is not JSON of this format.
    #[error("it is malformed")]
    Malformed(#[from] serde_json::Error),
    /// One of its values is invalid.
    #[error("{0}")]
    Value(String),
    /// Its object cannot be packed.
    #[error("an object cannot be packed")]
    Packing(#[from] std::io::Error),
}

/// One line.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReplicationLine<'a> {
    /// The replica's version after the change. Without a change: everything up to it has been sent.
    version: String,
    /// The replica makes no more changes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    end: bool,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    before: Option<ReplicatedDocument<'a>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    after: Option<ReplicatedDocument<'a>>,
}

/// A document as it is sent.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct ReplicatedDocument<'a> {
    cluster: String,
    group: String,
    resource: String,
    id: String,
    resource_version: String,
    /// Keys and values.
    terms: Vec<(String, String)>,
    #[serde(borrow)]
    object: Cow<'a, RawValue>,
}

/// The parts of an object that a document needs.
#[derive(Deserialize)]
struct ObjectHead<'a> {
    #[serde(borrow, rename = "apiVersion")]
    api_version: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    metadata: IndexedMetadata<'a>,
}

/// Appends the line of a change.
pub(super) fn write_line(
    lines: &mut Vec<u8>,
    version: FleetVersion,
    change: &Change,
    decompressor: &mut Decompressor,
) -> Result<(), StoreError> {
    let mut encode = |document: &Option<Arc<StoredDocument>>| {
        document
            .as_deref()
            .map(|document| replicated(document, decompressor))
            .transpose()
    };
    let line = ReplicationLine {
        version: version.to_string(),
        end: false,
        before: encode(&change.before)?,
        after: encode(&change.after)?,
    };
    push(lines, &line)
}

/// Appends a line that says that everything up to a version has been sent.
pub fn write_position(lines: &mut Vec<u8>, version: FleetVersion) -> Result<(), StoreError> {
    write_without_change(lines, version, false)
}

/// Appends a line that says that this replica makes no more changes.
pub fn write_end(lines: &mut Vec<u8>, version: FleetVersion) -> Result<(), StoreError> {
    write_without_change(lines, version, true)
}

fn write_without_change(
    lines: &mut Vec<u8>,
    version: FleetVersion,
    end: bool,
) -> Result<(), StoreError> {
    let version = version.to_string();
    push(
        lines,
        &ReplicationLine {
            version,
            end,
            ..ReplicationLine::default()
        },
    )
}

fn push(lines: &mut Vec<u8>, line: &ReplicationLine<'_>) -> Result<(), StoreError> {
    serde_json::to_writer(&mut *lines, line).map_err(unencodable)?;
    lines.push(b'\n');
    Ok(())
}

fn unencodable(error: impl std::fmt::Display) -> StoreError {
    StoreError::Embedded(format!("a change cannot be encoded: {error}"))
}

fn replicated(
    document: &StoredDocument,
    decompressor: &mut Decompressor,
) -> Result<ReplicatedDocument<'static>, StoreError> {
    let origin = &document.origin;
    let object =
        RawValue::from_string(document.hit(decompressor)?.object.into()).map_err(unencodable)?;
    let vocabulary = origin.vocabulary.read();
    let terms = document
        .terms()
        .filter_map(|number| vocabulary.term(number));
    Ok(ReplicatedDocument {
        cluster: origin.cluster.to_string(),
        group: origin.resource.group.to_string(),
        resource: origin.resource.plural.to_string(),
        id: document.id().into_owned(),
        resource_version: document.version.to_string(),
        terms: terms
            .map(|term| (term.key().to_owned(), term.value().to_owned()))
            .collect(),
        object: Cow::Owned(object),
    })
}

/// A line of another replica.
#[derive(Debug)]
pub struct ReplicatedChange {
    /// The replica's version: everything up to it has been sent.
    pub version: FleetVersion,
    /// The cluster of the changed object, if the line has a change.
    pub cluster: Option<ClusterName>,
    /// Whether the replica makes no more changes.
    pub is_last: bool,
    pub(super) change: Option<Change>,
}

/// Reads the lines of another replica. One reader for all lines, so that equal texts are stored
/// once.
#[derive(Default)]
pub struct LineReader {
    codec: Codec,
    vocabulary: Arc<TermDictionary>,
    origins: BTreeMap<(ClusterName, Box<str>), Arc<Origin>>,
}

impl LineReader {
    /// Reads one line.
    pub fn read(&mut self, line: &[u8]) -> Result<ReplicatedChange, InvalidLine> {
        let read: ReplicationLine<'_> = serde_json::from_slice(line)?;
        let version = read.version.parse().map_err(invalid)?;
        let mut compressor = Compressor::new();
        let mut document = |sent: Option<ReplicatedDocument<'_>>| {
            sent.map(|sent| self.document(&sent, &mut compressor))
                .transpose()
        };
        let (before, after) = (document(read.before)?, document(read.after)?);
        let change = Change { before, after };
        let cluster = change
            .document()
            .map(|document| document.origin.cluster.clone());
        Ok(ReplicatedChange {
            version,
            change: cluster.is_some().then_some(change),
            cluster,
            is_last: read.end,
        })
    }

    fn document(
        &mut self,
        sent: &ReplicatedDocument<'_>,
        compressor: &mut Compressor,
    ) -> Result<Arc<StoredDocument>, InvalidLine> {
        let head: ObjectHead<'_> = serde_json::from_str(sent.object.get())?;
        let cluster: ClusterName = sent.cluster.parse().map_err(invalid)?;
        let resource = ResourceName::new(&sent.group, &sent.resource);
        let id_prefix = format!("{}/{}/", head.api_version, head.kind).into_boxed_str();
        let object = sent.object.get().as_bytes();
        let version = sent.resource_version.parse().map_err(invalid)?;
        let terms = || {
            let terms = sent.terms.iter();
            terms.map(|(key, value)| (key.as_str(), value.as_str()))
        };
        let packed = (
            self.codec.fingerprint(object, terms()),
            compressor.pack(None, object)?,
        );
        let terms = self.vocabulary.intern(terms());
        let content = Content::new(
            (&sent.id, &id_prefix),
            version,
            &head.metadata,
            packed,
            terms,
        );
        let vocabulary = Arc::clone(&self.vocabulary);
        let origin = self
            .origins
            .entry((cluster.clone(), id_prefix.clone()))
            .or_insert_with(|| {
                let (api_version, kind) = (head.api_version.into(), head.kind.into());
                Arc::new(Origin {
                    cluster,
                    resource,
                    api_version,
                    kind,
                    id_prefix,
                    vocabulary,
                })
            });
        Ok(Arc::new(StoredDocument::new(Arc::clone(origin), content)))
    }
}

fn invalid(error: impl std::fmt::Display) -> InvalidLine {
    InvalidLine::Value(error.to_string())
}

impl Log {
    /// Adds the changes of another replica.
    pub fn append_replicated(&self, lines: Vec<ReplicatedChange>) {
        let changes: Vec<Change> = lines.into_iter().filter_map(|line| line.change).collect();
        self.append_from_replica(&changes);
    }
}

#[cfg(test)]
mod tests;
