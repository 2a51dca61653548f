//! Objects packed with zstd, with a dictionary or without.

use std::{fmt, io, sync::Arc};

use zstd::{
    dict::{DecoderDictionary, EncoderDictionary},
    zstd_safe::{CCtx, DCtx, compress_bound, get_error_name, get_frame_content_size},
};

/// Compression level. Of 1,000 bytes that level 3 leaves of a pod, level 19 saves another 20, in
/// many times the time.
const LEVEL: i32 = 3;
/// No object is larger than a few times etcd's largest value; a packed object that claims more is
/// not unpacked.
const MAX_OBJECT_BYTES: usize = 64 << 20;

/// A packed object.
#[derive(Debug)]
pub(super) struct Compressed {
    dictionary: Option<Arc<Dictionary>>,
    bytes: Box<[u8]>,
}

/// A dictionary of one kind.
pub(super) struct Dictionary {
    packing: EncoderDictionary<'static>,
    unpacking: DecoderDictionary<'static>,
}

impl fmt::Debug for Dictionary {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Dictionary")
    }
}

impl Dictionary {
    pub(super) fn new(bytes: &[u8]) -> Self {
        Self {
            packing: EncoderDictionary::copy(bytes, LEVEL),
            unpacking: DecoderDictionary::copy(bytes),
        }
    }
}

impl Compressed {
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn object_len(&self) -> Option<usize> {
        let claimed = get_frame_content_size(&self.bytes).ok().flatten();
        claimed
            .and_then(|length| usize::try_from(length).ok())
            .filter(|length| *length <= MAX_OBJECT_BYTES)
    }

    pub(super) fn is_packed_with(&self, dictionary: &Arc<Dictionary>) -> bool {
        self.dictionary
            .as_ref()
            .is_some_and(|own| Arc::ptr_eq(own, dictionary))
    }
}

/// Packs objects one after another.
pub(super) struct Compressor {
    context: CCtx<'static>,
    buffer: Vec<u8>,
}

impl Compressor {
    pub(super) fn new() -> Self {
        Self {
            context: CCtx::create(),
            buffer: Vec::new(),
        }
    }

    pub(super) fn pack(
        &mut self,
        dictionary: Option<Arc<Dictionary>>,
        object: &[u8],
    ) -> io::Result<Compressed> {
        self.buffer.clear();
        self.buffer.reserve(compress_bound(object.len()));
        let packed = match &dictionary {
            Some(dictionary) => self.context.compress_using_cdict(
                &mut self.buffer,
                object,
                dictionary.packing.as_cdict(),
            ),
            None => self.context.compress(&mut self.buffer, object, LEVEL),
        };
        packed.map_err(failure)?;
        Ok(Compressed {
            dictionary,
            bytes: self.buffer.as_slice().into(),
        })
    }
}

/// Unpacks objects one after another.
pub(super) struct Decompressor {
    context: DCtx<'static>,
}

impl Decompressor {
    pub(super) fn new() -> Self {
        Self {
            context: DCtx::create(),
        }
    }

    pub(super) fn unpack(&mut self, packed: &Compressed) -> io::Result<Vec<u8>> {
        let bytes = &*packed.bytes;
        let length = packed
            .object_len()
            .ok_or_else(|| io::Error::other("a packed object has no valid length"))?;
        let mut object = Vec::with_capacity(length);
        let unpacked = match &packed.dictionary {
            Some(dictionary) => self.context.decompress_using_ddict(
                &mut object,
                bytes,
                dictionary.unpacking.as_ddict(),
            ),
            None => self.context.decompress(&mut object, bytes),
        };
        unpacked.map_err(failure)?;
        Ok(object)
    }
}

fn failure(code: usize) -> io::Error {
    io::Error::other(get_error_name(code))
}
