//! Packs documents for the log, with the terms by which they are found.

use std::{collections::BTreeMap, sync::Arc};

use fleetdex_core::model::ClusterName;

use crate::{
    bulk::Write,
    codec::Codec,
    compressed::Compressor,
    compressed_document::{CompressedDocument, compress_document},
    document::{Origin, StoredDocument},
    terms::TermDictionary,
};

/// Bytes that are packed in place: a fraction of a millisecond, less than it takes to wake another
/// thread on a busy machine.
const IN_PLACE_BYTES: usize = 32 << 10;

/// What documents are packed with. There are no dictionaries: those of all kinds would take more
/// than the log.
#[derive(Default)]
pub(crate) struct DocumentPacking {
    codec: Codec,
    vocabulary: Arc<TermDictionary>,
}

type Origins = BTreeMap<(ClusterName, Box<str>), Arc<Origin>>;

impl DocumentPacking {
    /// The documents of writes, in their order; `None` for a deletion, and for one that cannot be
    /// read.
    pub(crate) async fn pack(
        self: &Arc<Self>,
        writes: Vec<Write>,
    ) -> Vec<Option<Arc<StoredDocument>>> {
        if writes.is_empty() {
            return Vec::new();
        }
        let bytes: usize = writes
            .iter()
            .filter_map(|write| write.document.body.as_ref())
            .map(|body| body.len())
            .sum();
        if bytes <= IN_PLACE_BYTES {
            return self.pack_all(&writes);
        }
        let (packing, count) = (Arc::clone(self), writes.len());
        let packed = tokio::task::spawn_blocking(move || packing.pack_all(&writes)).await;
        packed.unwrap_or_else(|error| {
            tracing::error!(%error, "documents were not packed");
            vec![None; count]
        })
    }

    /// The same with gaps between the writes.
    pub(crate) async fn pack_some(
        self: &Arc<Self>,
        writes: Vec<Option<Write>>,
    ) -> Vec<Option<Arc<StoredDocument>>> {
        let is_there: Vec<bool> = writes.iter().map(Option::is_some).collect();
        let mut packed = self
            .pack(writes.into_iter().flatten().collect())
            .await
            .into_iter();
        is_there
            .into_iter()
            .map(|is_there| {
                if is_there {
                    packed.next().flatten()
                } else {
                    None
                }
            })
            .collect()
    }

    fn pack_all(&self, writes: &[Write]) -> Vec<Option<Arc<StoredDocument>>> {
        let mut compressor = Compressor::new();
        let mut origins = Origins::new();
        writes
            .iter()
            .map(|write| self.pack_one(write, &mut compressor, &mut origins))
            .collect()
    }

    fn pack_one(
        &self,
        write: &Write,
        compressor: &mut Compressor,
        origins: &mut Origins,
    ) -> Option<Arc<StoredDocument>> {
        match compress_document(
            write,
            write.document.body.as_ref()?,
            &self.codec,
            &self.vocabulary,
            compressor,
        ) {
            Ok(CompressedDocument { origin, content }) => {
                let key = (origin.cluster.clone(), origin.id_prefix.clone());
                let origin = origins.entry(key).or_insert_with(|| Arc::new(origin));
                Some(Arc::new(StoredDocument::new(Arc::clone(origin), content)))
            }
            Err(error) => {
                tracing::debug!(id = %write.document.id, %error, "a document cannot be packed; watches do not get it");
                None
            }
        }
    }
}
