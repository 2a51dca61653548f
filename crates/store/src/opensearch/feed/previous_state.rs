//! Reads the stored state of objects that are about to be written, refreshed or not.

use bytes::Bytes;
use fleetdex_core::model::{Document, JsonLine};
use http::Method;
use serde::Deserialize;
use serde_json::{json, value::RawValue};

use super::{LOG, PreviousState, TrackedBatch};
use crate::{
    StoreError,
    bulk::Write,
    opensearch::{
        connection::{
            client::{BULK_TIMEOUT, Call, parse},
            responses::fewer,
            role::with_remedy,
        },
        engine::Engine,
    },
};

/// Documents to read in one request: a megabyte of usual ones. Where they are too long for one
/// response, fewer are read at a time.
const DOCUMENTS: usize = 200;

#[derive(Deserialize)]
struct MultiGetResponse {
    docs: Vec<MultiGetItem>,
}

#[derive(Deserialize)]
struct MultiGetItem {
    #[serde(rename = "_version")]
    version: Option<u64>,
    #[serde(rename = "_source")]
    source: Option<Box<RawValue>>,
    error: Option<ItemError>,
}

/// Why one document of several could not be read.
#[derive(Deserialize)]
struct ItemError {
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    reason: String,
}

impl Engine {
    /// The stored state of the tracked objects of a batch.
    pub(crate) async fn read_previous(
        &self,
        writes: &[Write],
        batch: &TrackedBatch,
    ) -> Result<Vec<PreviousState>, StoreError> {
        let mut before = Vec::with_capacity(batch.tracked.len());
        // Changes beyond the log's bound would be dropped anyway.
        let (mut rest, mut size, mut read_bytes) = (batch.tracked.as_slice(), DOCUMENTS, 0);
        while !rest.is_empty() && read_bytes <= LOG.bytes {
            let (positions, later) = rest.split_at(size.min(rest.len()));
            let requested: Vec<&Write> = positions
                .iter()
                .filter_map(|position| writes.get(*position))
                .collect();
            match self.read_stored(&requested).await {
                Ok(stored) => {
                    let documents = batch.packing.pack(stored).await;
                    read_bytes += documents
                        .iter()
                        .flatten()
                        .map(|document| document.footprint())
                        .sum::<usize>();
                    before.extend(documents.into_iter().map(PreviousState::Known));
                }
                Err(StoreError::AnswerTooLarge { .. })
                    if let Some(less) = fewer(positions.len()) =>
                {
                    size = less;
                    continue;
                }
                // The change log must not hold up writes.
                Err(error @ StoreError::AnswerTooLarge { .. }) => {
                    tracing::warn!(%error, "cannot read what a write replaces; watches have to list again");
                    before.push(PreviousState::Unknown);
                }
                Err(error) => return Err(error),
            }
            rest = later;
        }
        before.resize_with(batch.tracked.len(), || PreviousState::Unknown);
        Ok(before)
    }

    /// The stored documents, as writes of them; without a body where there is none.
    async fn read_stored(&self, requested: &[&Write]) -> Result<Vec<Write>, StoreError> {
        let operation = "reading what a batch replaces";
        let docs: Vec<_> = requested
            .iter()
            .map(|write| json!({ "_index": write.index, "_id": write.index.stored_id(&write.document.id) }))
            .collect();
        let body = Bytes::from(json!({ "docs": docs }).to_string());
        let call = Call {
            operation,
            method: Method::POST,
            path: "/_mget".to_owned(),
            body,
            timeout: BULK_TIMEOUT,
        };
        let read = |body: &[u8]| parse::<MultiGetResponse>(operation, body);
        let (answer, _memory) = self.client.call_and_parse(call, read).await?;
        if answer.docs.len() != requested.len() {
            let reason = format!(
                "{} documents where {} were requested",
                answer.docs.len(),
                requested.len()
            );
            return Err(StoreError::garbled(operation, reason));
        }
        requested
            .iter()
            .zip(answer.docs)
            .map(|(write, found)| to_write(write, found))
            .collect()
    }
}

/// A document that cannot be read is not one that does not exist: watches would miss its change.
fn to_write(requested: &Write, found: MultiGetItem) -> Result<Write, StoreError> {
    match found.error {
        // The write of the document fails for the same reason, and its index is filled again.
        Some(error) if error.kind == "index_not_found_exception" => {}
        Some(error) => {
            let status = if error.kind == "security_exception" {
                403
            } else {
                503
            };
            let reason = with_remedy(format!("{}: {}", error.kind, error.reason));
            return Err(StoreError::Busy { status, reason });
        }
        None => {}
    }
    let version = found
        .version
        .and_then(|version| version.to_string().parse().ok());
    let body = found
        .source
        .map(|source| JsonLine::new(Box::<str>::from(source).into_string()));
    Ok(Write {
        index: requested.index.clone(),
        document: Document {
            version: version.unwrap_or(requested.document.version),
            body,
            is_partial: false,
            ..requested.document.clone()
        },
    })
}

#[cfg(test)]
mod tests {
    use fleetdex_core::model::IndexPrefix;

    use super::*;

    #[test]
    fn a_document_that_cannot_be_read_is_not_absent() {
        let prefix: IndexPrefix = "fleetdex".parse().unwrap();
        let requested = Write {
            index: prefix.write_alias(&"a".parse().unwrap(), 1),
            document: Document::deletion("v1/Pod/a".into(), "7".parse().unwrap()),
        };
        let read = |item: serde_json::Value| {
            let item: MultiGetItem = serde_json::from_value(item).unwrap();
            to_write(&requested, item)
        };
        let failed = |kind: &str| {
            read(
                json!({ "error": { "type": kind, "reason": "no permissions for [indices:data/read/mget[shard]] and User [name=x]" } }),
            )
        };
        let found = read(json!({ "_version": 3, "found": true, "_source": { "a": 1 } })).unwrap();
        assert_eq!(found.document.version, "3".parse().unwrap());
        assert!(found.document.body.is_some());
        assert!(
            read(json!({ "found": false }))
                .unwrap()
                .document
                .body
                .is_none()
        );
        assert!(
            failed("index_not_found_exception")
                .unwrap()
                .document
                .body
                .is_none()
        );
        let refused = failed("security_exception").unwrap_err().to_string();
        assert!(
            refused.contains("HTTP 403")
                && refused.contains("the user lacks indices:data/read/mget[shard]"),
            "{refused}"
        );
        let busy = failed("no_shard_available_action_exception").unwrap_err();
        assert!(busy.to_string().contains("HTTP 503"), "{busy}");
    }
}
