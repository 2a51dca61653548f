//! Objects of one kind are alike: packed with a dictionary that was trained on the first of them, they take a fraction of their size.

use std::{
    collections::BTreeMap,
    fmt, io,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use zstd::{
    dict::{DecoderDictionary, EncoderDictionary, from_continuous},
    zstd_safe::{CCtx, DCtx, compress_bound, get_error_name, get_frame_content_size},
};

use super::document::Document;
use crate::query::ResourceName;

/// How hard to pack. Of 1,000 bytes that level 3 leaves of a pod, level 19 takes another 20, in many times the time.
const LEVEL: i32 = 3;
/// Objects that a dictionary is trained on. Kinds with fewer are small anyhow.
const SAMPLES: usize = 512;
/// The largest dictionary. Objects of a kind repeat the same few kilobytes.
const DICTIONARY_BYTES: usize = 64 << 10;
/// No object is larger than etcd's largest value many times over; a length beyond it is not believed.
const MAX_OBJECT_BYTES: usize = 64 << 20;

/// An object, packed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Packed {
    dictionary: Option<Arc<Dictionary>>,
    bytes: Box<[u8]>,
}

/// What the objects of one kind have in common.
pub(super) struct Dictionary {
    packing: EncoderDictionary<'static>,
    unpacking: DecoderDictionary<'static>,
}

impl PartialEq for Dictionary {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl fmt::Debug for Dictionary {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Dictionary")
    }
}

impl Packed {
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }
}

/// The dictionaries of all kinds.
#[derive(Default)]
pub(super) struct Codec {
    kinds: Mutex<BTreeMap<ResourceName, Training>>,
}

/// How far the dictionary of a kind is.
enum Training {
    Sampling(Vec<Weak<Document>>),
    /// Trained, or not to be trained: not all objects have anything in common.
    Done(Option<Arc<Dictionary>>),
}

impl Codec {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<ResourceName, Training>> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The dictionary of a kind, if it has one yet.
    pub(super) fn dictionary(&self, resource: &ResourceName) -> Option<Arc<Dictionary>> {
        match self.lock().get(resource)? {
            Training::Sampling(_) => None,
            Training::Done(dictionary) => dictionary.clone(),
        }
    }

    /// Learns from documents that have been packed without a dictionary.
    pub(super) fn learn<'d>(&self, documents: impl Iterator<Item = &'d Arc<Document>>) {
        let mut complete = Vec::new();
        {
            let mut kinds = self.lock();
            for document in documents.filter(|document| document.packed.dictionary.is_none()) {
                let resource = &document.origin.resource;
                let training = match kinds.get_mut(resource) {
                    Some(training) => training,
                    None => kinds.entry(resource.clone()).or_insert(Training::Sampling(Vec::new())),
                };
                let Training::Sampling(samples) = training else { continue };
                samples.push(Arc::downgrade(document));
                if samples.len() >= SAMPLES {
                    complete.push((resource.clone(), std::mem::take(samples)));
                    *training = Training::Done(None);
                }
            }
        }
        for (resource, samples) in complete {
            let dictionary = train(&samples);
            match &dictionary {
                Ok(_) => tracing::debug!(resource = %resource.plural, "trained a dictionary"),
                Err(error) => {
                    tracing::debug!(resource = %resource.plural, %error, "no dictionary: these objects are packed without")
                }
            }
            self.lock().insert(resource, Training::Done(dictionary.ok().map(Arc::new)));
        }
    }
}

/// A dictionary of those samples that are still there.
fn train(samples: &[Weak<Document>]) -> io::Result<Dictionary> {
    let (mut text, mut sizes) = (Vec::new(), Vec::new());
    let mut unpacker = Unpacker::new();
    for document in samples.iter().filter_map(Weak::upgrade) {
        let sample = unpacker.unpack(&document.packed)?;
        sizes.push(sample.len());
        text.extend_from_slice(&sample);
    }
    let bytes = from_continuous(&text, &sizes, DICTIONARY_BYTES)?;
    Ok(Dictionary { packing: EncoderDictionary::copy(&bytes, LEVEL), unpacking: DecoderDictionary::copy(&bytes) })
}

/// Packs objects, one after another.
pub(super) struct Packer {
    context: CCtx<'static>,
    buffer: Vec<u8>,
}

impl Packer {
    pub(super) fn new() -> Self {
        Self { context: CCtx::create(), buffer: Vec::new() }
    }

    pub(super) fn pack(&mut self, dictionary: Option<Arc<Dictionary>>, object: &[u8]) -> io::Result<Packed> {
        self.buffer.clear();
        self.buffer.reserve(compress_bound(object.len()));
        let packed = match &dictionary {
            Some(dictionary) => self.context.compress_using_cdict(&mut self.buffer, object, dictionary.packing.as_cdict()),
            None => self.context.compress(&mut self.buffer, object, LEVEL),
        };
        packed.map_err(failure)?;
        Ok(Packed { dictionary, bytes: self.buffer.as_slice().into() })
    }
}

/// Unpacks objects, one after another.
pub(super) struct Unpacker {
    context: DCtx<'static>,
}

impl Unpacker {
    pub(super) fn new() -> Self {
        Self { context: DCtx::create() }
    }

    pub(super) fn unpack(&mut self, packed: &Packed) -> io::Result<Vec<u8>> {
        let told = get_frame_content_size(&packed.bytes).ok().flatten();
        let length = told.and_then(|length| usize::try_from(length).ok()).filter(|length| *length <= MAX_OBJECT_BYTES);
        let length = length.ok_or_else(|| io::Error::other("a packed object does not tell its length"))?;
        let mut object = Vec::with_capacity(length);
        let unpacked = match &packed.dictionary {
            Some(dictionary) => self.context.decompress_using_ddict(&mut object, &packed.bytes, dictionary.unpacking.as_ddict()),
            None => self.context.decompress(&mut object, &packed.bytes),
        };
        unpacked.map_err(failure)?;
        Ok(object)
    }
}

fn failure(code: usize) -> io::Error {
    io::Error::other(get_error_name(code))
}
