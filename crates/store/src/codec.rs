//! Dictionaries: objects of one kind are alike, and packed with a dictionary that was trained on
//! the first of them they take a fraction of their size.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Weak},
};

use ahash::RandomState;
use fleetdex_core::{
    model::{HEALTH_MESSAGE, IndexName, is_interpreted_field},
    query::ResourceName,
};
use parking_lot::Mutex;
use zstd::dict::from_continuous;

use super::{
    compressed::{Decompressor, Dictionary},
    document::StoredDocument,
};

/// Documents after which the first dictionary of a kind is trained. Kinds with fewer are small
/// anyway.
const FIRST_TRAINING: usize = 512;
/// Growth of the number of documents between dictionaries: the first objects of a list are of one
/// namespace, and say little about the others. Earlier documents are packed again, so that in all
/// each document is packed about twice.
const TRAINING_FACTOR: usize = 2;
/// Documents that a dictionary is trained on, out of all so far.
const SAMPLES: usize = 1_024;
/// Bytes of the largest dictionary. Objects of a kind repeat the same few kilobytes, and a larger
/// number of names.
const DICTIONARY_BYTES: usize = 112 << 10;
/// The dictionaries of all kinds.
#[derive(Default)]
pub(super) struct Codec {
    kinds: Mutex<BTreeMap<ResourceName, KindDictionary>>,
    hasher: RandomState,
}

/// A pass that packs the documents of one kind again, with a better dictionary.
pub(super) struct Repacking {
    pub(super) resource: ResourceName,
    pub(super) dictionary: Arc<Dictionary>,
    /// How far the pass is.
    pub(super) position: RepackPosition,
}

/// Where a pass over the documents of a kind continues.
#[derive(Default)]
pub(super) struct RepackPosition {
    /// The write alias of the revision; `None`: the first.
    pub(super) target: Option<IndexName>,
    /// The next position in it.
    pub(super) position: u32,
}

/// The dictionary of a kind, and its training.
struct KindDictionary {
    dictionary: Option<Arc<Dictionary>>,
    /// A uniform sample of the documents so far.
    samples: Vec<Weak<StoredDocument>>,
    seen: usize,
    next_training: usize,
    /// Where the pass with the dictionary continues; `None` if it is done or running.
    repack: Option<RepackPosition>,
}

impl Default for KindDictionary {
    fn default() -> Self {
        Self {
            dictionary: None,
            samples: Vec::new(),
            seen: 0,
            next_training: FIRST_TRAINING,
            repack: None,
        }
    }
}

impl KindDictionary {
    /// Samples a document; returns the samples when it is time to train.
    fn sample(&mut self, document: &Arc<StoredDocument>) -> Option<Vec<Weak<StoredDocument>>> {
        self.seen += 1;
        if self.samples.len() < SAMPLES {
            self.samples.push(Arc::downgrade(document));
        } else if let Some(sample) = self.samples.get_mut(fastrand::usize(..self.seen)) {
            *sample = Arc::downgrade(document);
        }
        if self.seen < self.next_training {
            return None;
        }
        self.next_training = self.next_training.saturating_mul(TRAINING_FACTOR);
        Some(self.samples.clone())
    }
}

impl Codec {
    /// The dictionary of a kind, if it has one yet.
    pub(super) fn dictionary(&self, resource: &ResourceName) -> Option<Arc<Dictionary>> {
        self.kinds.lock().get(resource)?.dictionary.clone()
    }

    /// Fingerprint of an object and its interpretation, which is among its terms: two different
    /// objects share one with a chance of 2⁻⁶⁴, which no member can improve. Terms count in any
    /// order.
    pub(super) fn fingerprint<'t>(
        &self,
        object: &[u8],
        terms: impl Iterator<Item = (&'t str, &'t str)>,
    ) -> u64 {
        let interpreted =
            terms.filter(|(key, _)| is_interpreted_field(key) || *key == HEALTH_MESSAGE);
        interpreted.fold(self.hasher.hash_one(object), |sum, term| {
            sum.wrapping_add(self.hasher.hash_one(term))
        })
    }

    /// Takes a pass to continue, to be returned with [`put_back`](Self::put_back) unless it is
    /// done.
    pub(super) fn take_repacking(&self) -> Option<Repacking> {
        self.kinds.lock().iter_mut().find_map(|(resource, kind)| {
            let dictionary = Arc::clone(kind.dictionary.as_ref()?);
            Some(Repacking {
                resource: resource.clone(),
                dictionary,
                position: kind.repack.take()?,
            })
        })
    }

    pub(super) fn put_back(&self, repacking: Repacking) {
        let mut kinds = self.kinds.lock();
        let kind = kinds.get_mut(&repacking.resource);
        // With a newer dictionary the pass starts again.
        if let Some(kind) = kind.filter(|kind| {
            kind.dictionary
                .as_ref()
                .is_some_and(|newest| Arc::ptr_eq(newest, &repacking.dictionary))
        }) {
            kind.repack = Some(repacking.position);
        }
    }

    /// Samples new documents, and trains dictionaries.
    pub(super) fn sample<'d>(&self, documents: impl Iterator<Item = &'d Arc<StoredDocument>>) {
        let mut complete = Vec::new();
        {
            let mut kinds = self.kinds.lock();
            for document in documents {
                let resource = &document.origin.resource;
                if !kinds.contains_key(resource) {
                    kinds.insert(resource.clone(), KindDictionary::default());
                }
                let samples = kinds
                    .get_mut(resource)
                    .and_then(|kind| kind.sample(document));
                complete.extend(samples.map(|samples| (resource.clone(), samples)));
            }
        }
        for (resource, samples) in complete {
            match train(&samples) {
                Ok(dictionary) => {
                    tracing::debug!(resource = %resource.plural, samples = samples.len(), "trained a dictionary");
                    let mut kinds = self.kinds.lock();
                    let kind = kinds.entry(resource).or_default();
                    (kind.dictionary, kind.repack) =
                        (Some(Arc::new(dictionary)), Some(RepackPosition::default()));
                }
                Err(error) => {
                    tracing::debug!(resource = %resource.plural, %error, "cannot train a dictionary");
                }
            }
        }
    }
}

/// Trains a dictionary on the samples that still exist.
fn train(samples: &[Weak<StoredDocument>]) -> io::Result<Dictionary> {
    let (mut text, mut sizes) = (Vec::new(), Vec::new());
    let mut decompressor = Decompressor::new();
    for document in samples.iter().filter_map(Weak::upgrade) {
        let sample = document.object(&mut decompressor)?;
        sizes.push(sample.len());
        text.extend_from_slice(&sample);
    }
    let bytes = from_continuous(&text, &sizes, DICTIONARY_BYTES)?;
    Ok(Dictionary::new(&bytes))
}
