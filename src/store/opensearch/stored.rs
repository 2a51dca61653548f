//! What is stored of objects that are about to be written, as it is now, refreshed or not.

use bytes::Bytes;
use http::Method;
use serde::Deserialize;
use serde_json::{json, value::RawValue};

use super::{
    client::{Call, parse},
    engine::{BULK_TIMEOUT, Engine},
    feed::{Batch, Before},
};
use crate::{bulk::Write, model::JsonLine, store::StoreError};

/// Documents read in one request: a megabyte of usual ones, and no more than etcd's limit of 1.5 MB for each of unusual ones.
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
    pub(super) async fn read_before(&self, writes: &[Write], batch: &Batch) -> Result<Vec<Before>, StoreError> {
        let mut before = Vec::with_capacity(batch.told.len());
        for positions in batch.told.chunks(DOCUMENTS) {
            let wanted: Vec<&Write> = positions.iter().filter_map(|position| writes.get(*position)).collect();
            let stored = self.read_stored(&wanted).await?;
            before.extend(batch.packing().pack(stored).await);
        }
        Ok(before)
    }

    /// The stored documents, as writes of them; one without a body where there is none.
    async fn read_stored(&self, wanted: &[&Write]) -> Result<Vec<Write>, StoreError> {
        let operation = "reading what a batch replaces";
        let docs: Vec<_> = wanted.iter().map(|write| json!({ "_index": write.index, "_id": write.id })).collect();
        let body = Bytes::from(json!({ "docs": docs }).to_string());
        let call = Call { operation, method: Method::POST, path: "/_mget".to_owned(), body, timeout: BULK_TIMEOUT };
        let answer: Answer = parse(operation, &self.client.call(call).await?)?;
        if answer.docs.len() != wanted.len() {
            let reason = format!("{} documents where {} were asked for", answer.docs.len(), wanted.len());
            return Err(StoreError::Garbled { operation: operation.to_owned(), reason });
        }
        Ok(wanted.iter().zip(answer.docs).map(|(write, found)| as_write(write, found)).collect())
    }
}

fn as_write(wanted: &Write, found: Found) -> Write {
    let version = found.version.and_then(|version| version.to_string().parse().ok());
    let body = found.source.map(|source| JsonLine::new(Box::<str>::from(source).into_string()));
    Write { body, version: version.unwrap_or(wanted.version), ..wanted.clone() }
}
