//! Objects of one kind are alike: packed with a dictionary that was trained on the first of them, they take a fraction of their size.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Weak},
};

use ahash::RandomState;
use fleetdex_core::{model::IndexName, query::ResourceName};
use parking_lot::{Mutex, MutexGuard};
use zstd::dict::from_continuous;

use super::{
    document::Document,
    packed::{Dictionary, Unpacker},
};

/// Documents after which the first dictionary of a kind is trained. Kinds with fewer are small anyhow.
const FIRST_TRAINING: usize = 512;
/// After so many times as many documents another one takes its place: the first ones of a list are of one namespace, and say little about the
/// others. What is packed by then is packed again, so that in all each document is packed about twice.
const TRAINING_FACTOR: usize = 2;
/// Documents that a dictionary is trained on, out of all so far.
const SAMPLES: usize = 1_024;
/// The largest dictionary. Objects of a kind repeat the same few kilobytes, with names of which there are more.
const DICTIONARY_BYTES: usize = 112 << 10;
/// The dictionaries of all kinds.
#[derive(Default)]
pub(super) struct Codec {
    kinds: Mutex<BTreeMap<ResourceName, Kind>>,
    hasher: RandomState,
}

/// Documents of one kind that are packed again, because there is a better dictionary.
pub(super) struct Repacking {
    pub(super) resource: ResourceName,
    pub(super) dictionary: Arc<Dictionary>,
    /// How far it is.
    pub(super) walk: Walk,
}

/// How far somebody is who goes through the documents of a kind, a few at a time.
#[derive(Default)]
pub(super) struct Walk {
    /// The generation; nothing: the first.
    pub(super) target: Option<IndexName>,
    /// The next position in it.
    pub(super) position: u32,
}

/// How far the dictionary of a kind is.
struct Kind {
    dictionary: Option<Arc<Dictionary>>,
    /// Some of the documents so far, each with the same chance.
    samples: Vec<Weak<Document>>,
    seen: usize,
    next_training: usize,
    /// How far packing with the dictionary again is; nothing if it is done, or if somebody is at it.
    walk: Option<Walk>,
}

impl Default for Kind {
    fn default() -> Self {
        Self {
            dictionary: None,
            samples: Vec::new(),
            seen: 0,
            next_training: FIRST_TRAINING,
            walk: None,
        }
    }
}

impl Kind {
    /// Takes a document as a sample, perhaps; gives the samples when it is time to train.
    fn take(&mut self, document: &Arc<Document>) -> Option<Vec<Weak<Document>>> {
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
    fn lock(&self) -> MutexGuard<'_, BTreeMap<ResourceName, Kind>> {
        self.kinds.lock()
    }

    /// The dictionary of a kind, if it has one yet.
    pub(super) fn dictionary(&self, resource: &ResourceName) -> Option<Arc<Dictionary>> {
        self.lock().get(resource)?.dictionary.clone()
    }

    /// Tells objects apart: two that are different have the same one by a chance of one in 2⁶⁴, which nobody outside can better.
    pub(super) fn fingerprint(&self, object: &[u8]) -> u64 {
        self.hasher.hash_one(object)
    }

    /// What is to be packed again, to be handed back with [`put_back`](Self::put_back) unless it is done.
    pub(super) fn take_repacking(&self) -> Option<Repacking> {
        self.lock().iter_mut().find_map(|(resource, kind)| {
            let dictionary = Arc::clone(kind.dictionary.as_ref()?);
            Some(Repacking {
                resource: resource.clone(),
                dictionary,
                walk: kind.walk.take()?,
            })
        })
    }

    pub(super) fn put_back(&self, repacking: Repacking) {
        let Repacking {
            resource,
            dictionary,
            walk,
        } = repacking;
        let mut kinds = self.lock();
        let kind = kinds.get_mut(&resource);
        // With a newer dictionary all begins anew.
        if let Some(kind) = kind.filter(|kind| {
            kind.dictionary
                .as_ref()
                .is_some_and(|newest| Arc::ptr_eq(newest, &dictionary))
        }) {
            kind.walk = Some(walk);
        }
    }

    /// Learns from new documents.
    pub(super) fn learn<'d>(&self, documents: impl Iterator<Item = &'d Arc<Document>>) {
        let mut complete = Vec::new();
        {
            let mut kinds = self.lock();
            for document in documents {
                let resource = &document.origin.resource;
                if !kinds.contains_key(resource) {
                    kinds.insert(resource.clone(), Kind::default());
                }
                let samples = kinds.get_mut(resource).and_then(|kind| kind.take(document));
                complete.extend(samples.map(|samples| (resource.clone(), samples)));
            }
        }
        for (resource, samples) in complete {
            match train(&samples) {
                Ok(dictionary) => {
                    tracing::debug!(resource = %resource.plural, samples = samples.len(), "trained a dictionary");
                    let mut kinds = self.lock();
                    let kind = kinds.entry(resource).or_default();
                    (kind.dictionary, kind.walk) =
                        (Some(Arc::new(dictionary)), Some(Walk::default()));
                }
                Err(error) => {
                    tracing::debug!(resource = %resource.plural, %error, "nothing to train a dictionary on");
                }
            }
        }
    }
}

/// A dictionary of those samples that are still there.
fn train(samples: &[Weak<Document>]) -> io::Result<Dictionary> {
    let (mut text, mut sizes) = (Vec::new(), Vec::new());
    let mut unpacker = Unpacker::new();
    for document in samples.iter().filter_map(Weak::upgrade) {
        let sample = document.object(&mut unpacker)?;
        sizes.push(sample.len());
        text.extend_from_slice(&sample);
    }
    let bytes = from_continuous(&text, &sizes, DICTIONARY_BYTES)?;
    Ok(Dictionary::new(&bytes))
}
