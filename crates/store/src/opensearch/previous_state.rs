//! Reads the stored state of objects that are about to be written, refreshed or not.

use bytes::Bytes;
use fleetdex_core::model::{Document, JsonLine};
use http::Method;
use serde::Deserialize;
use serde_json::{json, value::RawValue};

use super::{
    client::{BULK_TIMEOUT, Call, parse},
    engine::Engine,
    feed::{LOG, PreviousState, TrackedBatch},
    responses::fewer,
};
use crate::{StoreError, bulk::Write};

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
}

impl Engine {
    /// The stored state of the tracked objects of a batch.
    pub(super) async fn read_previous(
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
                    let documents = batch.packing().pack(stored).await;
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
        let answer: MultiGetResponse = parse(operation, &self.client.call(call).await?)?;
        if answer.docs.len() != requested.len() {
            let reason = format!(
                "{} documents where {} were requested",
                answer.docs.len(),
                requested.len()
            );
            return Err(StoreError::Garbled {
                operation: operation.to_owned(),
                reason,
            });
        }
        Ok(requested
            .iter()
            .zip(answer.docs)
            .map(|(write, found)| to_write(write, found))
            .collect())
    }
}

fn to_write(requested: &Write, found: MultiGetItem) -> Write {
    let version = found
        .version
        .and_then(|version| version.to_string().parse().ok());
    let body = found
        .source
        .map(|source| JsonLine::new(Box::<str>::from(source).into_string()));
    Write {
        index: requested.index.clone(),
        document: Document {
            version: version.unwrap_or(requested.document.version),
            body,
            is_partial: false,
            ..requested.document.clone()
        },
    }
}
