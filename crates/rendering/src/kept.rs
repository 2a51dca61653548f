//! Renderings as they are kept beside the objects that they were made from, so that random values
//! and generated certificates stay when a process starts again.
//!
//! Users who may write Secrets can change what is read: unpacking is bounded.

use std::io::{self, Read as _, Write as _};

use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use fleetdex_core::model::parsed_size;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::digest::Sha256Digest;

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
    /// The digest of everything that was rendered.
    pub digest: Sha256Digest,
    /// The version of what was fetched.
    pub version: String,
    /// The version of Kubernetes that it was rendered for.
    pub kubernetes_version: String,
    /// The notes of a chart.
    pub notes: String,
    /// What the renderer warned of.
    pub warnings: Vec<String>,
    /// The objects, in the order in which they are written.
    pub objects: Vec<Value>,
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
        Ok(serde_json::from_slice(&text)?)
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
        StoredRendering {
            digest: Sha256Digest::of(b"inputs"),
            version: "1.2.3".to_owned(),
            kubernetes_version: "1.36.0".to_owned(),
            notes: "notes".to_owned(),
            warnings: vec!["old".to_owned()],
            objects: vec![json!({"kind": "Secret", "z": 1, "a": text})],
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
}
