//! What is stored of objects that are about to be written, as it is now, refreshed or not.

use bytes::Bytes;
use fleetdex_core::model::JsonLine;
use http::Method;
use serde::Deserialize;
use serde_json::{json, value::RawValue};

use super::{
    answers::fewer,
    client::{BULK_TIMEOUT, Call, parse},
    engine::Engine,
    feed::{Batch, Before, LOG},
};
use crate::{StoreError, bulk::Write};

/// Documents read in one request: a megabyte of usual ones. Where they are too long for one answer, fewer are read at a time.
const DOCUMENTS: usize = 200;

#[derive(Deserialize)]
struct Answer {
    docs: Vec<Found>,
}

#[derive(Deserialize)]
struct Found {
    #[serde(rename = "_version")]
    version: Option<u64>,
    #[serde(rename = "_source")]
    source: Option<Box<RawValue>>,
}

impl Engine {
    /// What is stored of those objects of a batch whose changes are to be told.
    pub(super) async fn read_before(
        &self,
        writes: &[Write],
        batch: &Batch,
    ) -> Result<Vec<Before>, StoreError> {
        let mut before = Vec::with_capacity(batch.told.len());
        // More than the log keeps in all cannot be told anyhow.
        let (mut rest, mut size, mut kept) = (batch.told.as_slice(), DOCUMENTS, 0);
        while !rest.is_empty() && kept <= LOG.bytes {
            let (positions, later) = rest.split_at(size.min(rest.len()));
            let wanted: Vec<&Write> = positions
                .iter()
                .filter_map(|position| writes.get(*position))
                .collect();
            match self.read_stored(&wanted).await {
                Ok(stored) => {
                    let documents = batch.packing().pack(stored).await;
                    kept += documents
                        .iter()
                        .flatten()
                        .map(|document| document.footprint())
                        .sum::<usize>();
                    before.extend(documents.into_iter().map(Before::Known));
                }
                Err(StoreError::AnswerTooLarge { .. })
                    if let Some(less) = fewer(positions.len()) =>
                {
                    size = less;
                    continue;
                }
                // What watches are told must not hold up the writing.
                Err(error @ StoreError::AnswerTooLarge { .. }) => {
                    tracing::warn!(%error, "what a write replaces is not read; who watches has to list again");
                    before.push(Before::Unknown);
                }
                Err(error) => return Err(error),
            }
            rest = later;
        }
        before.resize_with(batch.told.len(), || Before::Unknown);
        Ok(before)
    }

    /// The stored documents, as writes of them; one without a body where there is none.
    async fn read_stored(&self, wanted: &[&Write]) -> Result<Vec<Write>, StoreError> {
        let operation = "reading what a batch replaces";
        let docs: Vec<_> = wanted
            .iter()
            .map(|write| json!({ "_index": write.index, "_id": write.id }))
            .collect();
        let body = Bytes::from(json!({ "docs": docs }).to_string());
        let call = Call {
            operation,
            method: Method::POST,
            path: "/_mget".to_owned(),
            body,
            timeout: BULK_TIMEOUT,
        };
        let answer: Answer = parse(operation, &self.client.call(call).await?)?;
        if answer.docs.len() != wanted.len() {
            let reason = format!(
                "{} documents where {} were asked for",
                answer.docs.len(),
                wanted.len()
            );
            return Err(StoreError::Garbled {
                operation: operation.to_owned(),
                reason,
            });
        }
        Ok(wanted
            .iter()
            .zip(answer.docs)
            .map(|(write, found)| as_write(write, found))
            .collect())
    }
}

fn as_write(wanted: &Write, found: Found) -> Write {
    let version = found
        .version
        .and_then(|version| version.to_string().parse().ok());
    let body = found
        .source
        .map(|source| JsonLine::new(Box::<str>::from(source).into_string()));
    Write {
        body,
        version: version.unwrap_or(wanted.version),
        ..wanted.clone()
    }
}
