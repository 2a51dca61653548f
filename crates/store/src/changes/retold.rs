//! Changes as one replica tells them to another: a line of JSON each, with the documents before and after, and the terms by which queries find
//! them. Whether a change matters to somebody who watches is found out where they watch.

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
    content::{Content, Metadata},
    document::{Document, Origin},
    packed::{Packer, Unpacker},
    terms::Vocabulary,
};

/// A line is none that another replica of this version writes.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// It is no such JSON.
    #[error("it is malformed")]
    Malformed(#[from] serde_json::Error),
    /// One of its values is none.
    #[error("{0}")]
    Value(String),
    /// Its object cannot be packed.
    #[error("an object cannot be packed")]
    Packing(#[from] std::io::Error),
}

/// One line.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    /// The version of the replica after the change. Without a change, everything up to it is told.
    version: String,
    /// The replica will change nothing any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    end: bool,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    before: Option<Carried<'a>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    after: Option<Carried<'a>>,
}

/// A document on its way.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Carried<'a> {
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

/// The parts of an object that are looked at.
#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow, rename = "apiVersion")]
    api_version: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    metadata: Metadata<'a>,
}

/// Adds the line of a change.
pub(super) fn write_line(
    lines: &mut Vec<u8>,
    version: FleetVersion,
    change: &Change,
    unpacker: &mut Unpacker,
) -> Result<(), StoreError> {
    let mut carry = |document: &Option<Arc<Document>>| {
        document
            .as_deref()
            .map(|document| carried(document, unpacker))
            .transpose()
    };
    let line = Line {
        version: version.to_string(),
        end: false,
        before: carry(&change.before)?,
        after: carry(&change.after)?,
    };
    push(lines, &line)
}

/// Adds a line that says that everything up to a version is told.
pub fn write_position(lines: &mut Vec<u8>, version: FleetVersion) -> Result<(), StoreError> {
    push(
        lines,
        &Line {
            version: version.to_string(),
            end: false,
            before: None,
            after: None,
        },
    )
}

/// Adds a line that says that this replica will change nothing any more.
pub fn write_end(lines: &mut Vec<u8>, version: FleetVersion) -> Result<(), StoreError> {
    push(
        lines,
        &Line {
            version: version.to_string(),
            end: true,
            before: None,
            after: None,
        },
    )
}

fn push(lines: &mut Vec<u8>, line: &Line<'_>) -> Result<(), StoreError> {
    serde_json::to_writer(&mut *lines, line).map_err(unsaid)?;
    lines.push(b'\n');
    Ok(())
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "it is what errors are mapped by"
)]
fn unsaid(error: serde_json::Error) -> StoreError {
    StoreError::Embedded(format!("a change cannot be told: {error}"))
}

fn carried(document: &Document, unpacker: &mut Unpacker) -> Result<Carried<'static>, StoreError> {
    let origin = &document.origin;
    let object = RawValue::from_string(document.hit(unpacker)?.object.into()).map_err(unsaid)?;
    let words = origin.vocabulary.read();
    let terms = document.terms().filter_map(|number| words.term(number));
    Ok(Carried {
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

/// What another replica has told.
#[derive(Debug)]
pub struct Retold {
    /// Its version: everything up to it is told.
    pub version: FleetVersion,
    /// The cluster of which something has changed, if anything has.
    pub cluster: Option<ClusterName>,
    /// It will change nothing any more.
    pub is_last: bool,
    pub(super) change: Option<Change>,
}

/// Reads what another replica tells. One reader for all lines: alike texts are kept once.
#[derive(Default)]
pub struct Reader {
    codec: Codec,
    vocabulary: Arc<Vocabulary>,
    origins: BTreeMap<(ClusterName, Box<str>), Arc<Origin>>,
}

impl Reader {
    /// Reads one line.
    pub fn read(&mut self, line: &[u8]) -> Result<Retold, Unreadable> {
        let Line {
            version,
            end,
            before,
            after,
        } = serde_json::from_slice(line)?;
        let version = version.parse().map_err(invalid)?;
        let mut packer = Packer::new();
        let before = before
            .map(|carried| self.document(&carried, &mut packer))
            .transpose()?;
        let after = after
            .map(|carried| self.document(&carried, &mut packer))
            .transpose()?;
        let change = Change { before, after };
        let cluster = change
            .document()
            .map(|document| document.origin.cluster.clone());
        Ok(Retold {
            version,
            change: cluster.is_some().then_some(change),
            cluster,
            is_last: end,
        })
    }

    fn document(
        &mut self,
        carried: &Carried<'_>,
        packer: &mut Packer,
    ) -> Result<Arc<Document>, Unreadable> {
        let head: Head<'_> = serde_json::from_str(carried.object.get())?;
        let cluster: ClusterName = carried.cluster.parse().map_err(invalid)?;
        let resource = ResourceName::new(&carried.group, &carried.resource);
        let id_prefix = format!("{}/{}/", head.api_version, head.kind).into_boxed_str();
        let object = carried.object.get().as_bytes();
        let version = carried.resource_version.parse().map_err(invalid)?;
        let packed = (self.codec.fingerprint(object), packer.pack(None, object)?);
        let terms = self.vocabulary.learn(
            carried
                .terms
                .iter()
                .map(|(key, value)| (key.as_str(), value.as_str())),
        );
        let content = Content::new(
            (&carried.id, &id_prefix),
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
        Ok(Arc::new(Document::new(Arc::clone(origin), content)))
    }
}

fn invalid(error: impl std::fmt::Display) -> Unreadable {
    Unreadable::Value(error.to_string())
}

impl Log {
    /// Adds what another replica has told.
    pub fn retell(&self, told: Vec<Retold>) {
        let changes: Vec<Change> = told.into_iter().filter_map(|told| told.change).collect();
        self.append_foreign(&changes);
    }
}
