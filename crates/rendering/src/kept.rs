//! Renderings as they are kept beside the objects that they were made from, so that random values
//! and generated certificates stay when a process starts again.
//!
//! Users who may write Secrets can change what is read: unpacking is bounded.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Read as _, Write as _},
};

use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use fleetdex_core::model::{parsed_size, value_size};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    digest::Sha256Digest,
    hooks::ChartHook,
    source::Capabilities,
    variants::{MAX_VARIANTS, revision_digest},
};

/// Bytes of a packed rendering, at most: a Secret has up to 1 MiB.
pub const MAX_PACKED: usize = 900_000;
/// Bytes of an unpacked one, at most: twice what a renderer may print.
const MAX_UNPACKED: u64 = 16 << 20;
/// Bytes that it may take while it is parsed: three times what the objects of a set may take.
const MAX_PARSED: usize = 96 << 20;

/// The objects of a set as they are written to clusters, and what they were made from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredRendering {
    /// The digest of the revision: see [`revision_digest`].
    pub digest: Sha256Digest,
    /// The digest of everything that was rendered but what clusters have.
    pub source: Sha256Digest,
    /// The version of what was fetched.
    pub version: String,
    /// The notes of a chart.
    pub notes: String,
    /// What the renderer warned of.
    pub warnings: Vec<String>,
    /// The objects of all variants, each once.
    pub objects: Vec<Value>,
    /// What it was rendered for, and to what: the newest version of Kubernetes first.
    pub variants: Vec<StoredVariant>,
    /// The hooks, in the order in which those of one step run. They are the same in all variants.
    #[serde(default)]
    pub hooks: Vec<ChartHook>,
}

/// What clusters of one version of Kubernetes have of a rendering.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredVariant {
    /// The digest of everything that it was rendered from.
    pub digest: Sha256Digest,
    /// What it was rendered for.
    pub capabilities: Capabilities,
    /// The positions of its objects among those of all variants, in ascending order.
    pub objects: Vec<usize>,
}

/// Collects variants: objects that several of them have are kept once.
#[derive(Debug, Default)]
pub struct VariantCollector {
    /// The objects of all variants.
    pub objects: Vec<Value>,
    /// The variants.
    pub variants: Vec<StoredVariant>,
    /// The positions of objects, by their digests.
    known: BTreeMap<Sha256Digest, usize>,
    bytes: usize,
}

/// A rendering cannot be kept, or what was kept cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    /// It has too many bytes.
    #[error(
        "the objects have more than {} kB when they are compressed, or {} MiB before",
        MAX_PACKED / 1_000,
        MAX_UNPACKED >> 20
    )]
    TooLarge,
    /// It is not gzipped.
    #[error("it is not compressed as it shall be")]
    Packed(#[source] io::Error),
    /// It is no rendering.
    #[error("it is not a rendering")]
    Parsed(#[from] serde_json::Error),
    /// Its parts do not belong together.
    #[error("its variants are not those of its digest, or have objects that it does not have")]
    Variants,
}

impl StoredRendering {
    /// The rendering in at most [`MAX_PACKED`] bytes. Blocks.
    pub fn pack(&self) -> Result<Vec<u8>, KeepError> {
        let text = serde_json::to_vec(self)?;
        if is_too_large(&text) {
            return Err(KeepError::TooLarge);
        }
        let mut packed = GzEncoder::new(Vec::new(), Compression::default());
        packed.write_all(&text).map_err(KeepError::Packed)?;
        let packed = packed.finish().map_err(KeepError::Packed)?;
        if packed.len() > MAX_PACKED {
            return Err(KeepError::TooLarge);
        }
        Ok(packed)
    }

    /// Reads what was packed. Blocks.
    pub fn unpack(packed: &[u8]) -> Result<Self, KeepError> {
        let mut text = Vec::new();
        let mut reader = GzDecoder::new(packed).take(MAX_UNPACKED + 1);
        reader.read_to_end(&mut text).map_err(KeepError::Packed)?;
        if is_too_large(&text) {
            return Err(KeepError::TooLarge);
        }
        let read: Self = serde_json::from_slice(&text)?;
        if !read.is_whole() {
            return Err(KeepError::Variants);
        }
        Ok(read)
    }

    /// The objects of a variant.
    pub fn objects_of<'s>(&'s self, variant: &'s StoredVariant) -> impl Iterator<Item = &'s Value> {
        let positions = variant.objects.iter();
        positions.filter_map(|position| self.objects.get(*position))
    }

    fn is_whole(&self) -> bool {
        let is_ascending = |positions: &[usize]| positions.is_sorted_by(|one, other| one < other);
        let is_known = |variant: &StoredVariant| {
            is_ascending(&variant.objects) && variant.objects.last() < Some(&self.objects.len())
        };
        let digests = self.variants.iter().map(|one| &one.digest);
        (1..=MAX_VARIANTS).contains(&self.variants.len())
            && self.variants.iter().all(is_known)
            && self.digest == revision_digest(digests)
    }
}

impl VariantCollector {
    /// Adds what was rendered for some clusters. Those of the newest version come first.
    pub fn add(&mut self, digest: Sha256Digest, capabilities: Capabilities, objects: Vec<Value>) {
        let mut positions = BTreeSet::new();
        for object in objects {
            let content = Sha256Digest::of(object.to_string().as_bytes());
            let position = *self.known.entry(content).or_insert_with(|| {
                self.bytes += value_size(&object);
                self.objects.push(object);
                self.objects.len() - 1
            });
            positions.insert(position);
        }
        self.variants.push(StoredVariant {
            digest,
            capabilities,
            objects: positions.into_iter().collect(),
        });
    }

    /// How many bytes the objects take in memory, approximately.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

fn is_too_large(text: &[u8]) -> bool {
    text.len() as u64 > MAX_UNPACKED || parsed_size(text) > MAX_PARSED
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rendering(text: &str) -> StoredRendering {
        let mut collector = VariantCollector::default();
        let secret = || json!({"kind": "Secret", "z": 1, "a": text});
        for (version, others) in [("1.36.0", vec![]), ("1.35.0", vec![json!({"kind": "Job"})])] {
            let objects = [vec![secret()], others].concat();
            let digest = Sha256Digest::of(version.as_bytes());
            collector.add(digest, Capabilities::new(version, []), objects);
        }
        assert!(collector.bytes() > text.len());
        let VariantCollector {
            objects, variants, ..
        } = collector;
        StoredRendering {
            digest: revision_digest(variants.iter().map(|one| &one.digest)),
            source: Sha256Digest::of(b"source"),
            version: "1.2.3".to_owned(),
            notes: "notes".to_owned(),
            warnings: vec!["old".to_owned()],
            objects,
            variants,
            hooks: Vec::new(),
        }
    }

    fn gzipped(text: &[u8]) -> Vec<u8> {
        let mut packed = GzEncoder::new(Vec::new(), Compression::best());
        packed.write_all(text).unwrap();
        packed.finish().unwrap()
    }

    #[test]
    fn what_was_packed_is_read_as_it_was() {
        let kept = rendering("secret");
        let read = StoredRendering::unpack(&kept.pack().unwrap()).unwrap();
        assert_eq!(read, kept);
        let positions: Vec<&[usize]> = read.variants.iter().map(|one| &*one.objects).collect();
        assert_eq!(
            positions,
            [&[0][..], &[0, 1]],
            "what both have is kept once"
        );
        assert_eq!(read.objects_of(&read.variants[0]).count(), 1);
        let members: Vec<&String> = read.objects[0].as_object().unwrap().keys().collect();
        assert_eq!(members, ["kind", "z", "a"]);
    }

    #[test]
    fn what_is_too_large_is_not_kept() {
        let mut state = 1_u64;
        let random: String = (0..2_000_000)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                char::from(b'0' + u8::try_from(state >> 58).unwrap())
            })
            .collect();
        let large = "x".repeat(17 << 20);
        for text in [random, large] {
            let packed = rendering(&text).pack();
            assert!(matches!(packed, Err(KeepError::TooLarge)));
        }
    }

    #[test]
    fn what_a_stranger_has_written_is_bounded_and_refused() {
        let bomb = gzipped(&vec![b' '; 64 << 20]);
        assert!(bomb.len() < MAX_PACKED);
        let deep = format!("{{\"objects\": [{}", "[".repeat(100_000));
        for (packed, is_expected) in [
            (
                bomb,
                (|error| matches!(error, KeepError::TooLarge)) as fn(&KeepError) -> bool,
            ),
            (gzipped("[0],".repeat(1 << 20).as_bytes()), |error| {
                matches!(error, KeepError::TooLarge)
            }),
            (b"text".to_vec(), |error| {
                matches!(error, KeepError::Packed(_))
            }),
            (gzipped(b"{}"), |error| {
                matches!(error, KeepError::Parsed(_))
            }),
            (gzipped(deep.as_bytes()), |error| {
                matches!(error, KeepError::Parsed(_))
            }),
        ] {
            let error = StoredRendering::unpack(&packed).unwrap_err();
            assert!(is_expected(&error), "{error}");
        }
    }

    #[test]
    fn variants_belong_to_the_digest_and_the_objects() {
        type Change = fn(&mut StoredRendering);
        for change in [
            (|kept| kept.digest = Sha256Digest::of(b"other")) as Change,
            |kept| kept.variants.truncate(1),
            |kept| kept.variants.clear(),
            |kept| kept.variants[1].objects = vec![0, 2],
            |kept| kept.variants[1].objects = vec![0, 0],
            |kept| kept.variants = vec![kept.variants[0].clone(); MAX_VARIANTS + 1],
        ] {
            let mut kept = rendering("a");
            change(&mut kept);
            let error = StoredRendering::unpack(&kept.pack().unwrap()).unwrap_err();
            assert!(matches!(error, KeepError::Variants), "{error}");
        }
    }
}
