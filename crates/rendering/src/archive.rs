//! Archives of charts and folders, and how they are unpacked.
//!
//! An archive is a gzipped tar. It is refused as a whole if it has an absolute path, `..`, a link
//! that leaves its folder, a hard link, a device, or more than [`ArchiveLimits`] permit.

use std::{
    cell::Cell,
    fs, io,
    io::Read,
    os::unix::fs::symlink,
    path::{Component, Path, PathBuf},
    rc::Rc,
};

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use fleetdex_core::model::quoted;
use tar::{Entry, EntryType};

use crate::digest::Sha256Digest;

/// The most bytes of a packed archive.
pub const MAX_PACKED_BYTES: u64 = 32 << 20;

/// A packed archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Archive {
    bytes: Bytes,
    digest: Sha256Digest,
}

/// The bounds of an unpacked archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArchiveLimits {
    /// The most bytes of all files, and of what describes them.
    pub bytes: u64,
    /// The most bytes of one file.
    pub file_bytes: u64,
    /// The most files, folders and links.
    pub entries: usize,
    /// The most folders within each other.
    pub depth: usize,
}

impl Default for ArchiveLimits {
    /// Bytes as in helm. Source: `MaxDecompressedChartSize` and `MaxDecompressedFileSize` of
    /// <https://pkg.go.dev/helm.sh/helm/v4/pkg/chart/loader/archive>
    fn default() -> Self {
        Self {
            bytes: 100 << 20,
            file_bytes: 5 << 20,
            entries: 10_000,
            depth: 32,
        }
    }
}

/// An archive is refused.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The archive has too many bytes.
    #[error("the archive has more than {limit} MiB", limit = MAX_PACKED_BYTES >> 20)]
    PackedBytes,
    /// The content has too many bytes.
    #[error("the archive has more than {0} bytes when it is unpacked")]
    Bytes(u64),
    /// A file has too many bytes.
    #[error("the file {path} of the archive has more than {limit} bytes")]
    FileBytes {
        /// The file.
        path: String,
        /// The bound.
        limit: u64,
    },
    /// There are too many files.
    #[error("the archive has more than {0} files, folders and links")]
    Entries(usize),
    /// Folders are nested too deeply.
    #[error("{path} of the archive is more than {limit} folders deep")]
    Depth {
        /// The file.
        path: String,
        /// The bound.
        limit: usize,
    },
    /// A path is absolute, has `..`, is no text, or is there twice.
    #[error("the archive has the path {path}, which {reason}")]
    Path {
        /// The path.
        path: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// An entry is neither a file, a folder nor a symbolic link.
    #[error("{path} of the archive is {kind}; only files, folders and symbolic links are unpacked")]
    Kind {
        /// The entry.
        path: String,
        /// What it is.
        kind: String,
    },
    /// A link leads out of the archive, or to nothing.
    #[error("the link {0} of the archive leads to nothing within it")]
    Link(String),
    /// The archive is no gzipped tar, or the disk fails.
    #[error("cannot unpack the archive")]
    Unpack(#[source] io::Error),
}

impl Archive {
    /// An archive of at most [`MAX_PACKED_BYTES`].
    pub fn new(bytes: impl Into<Bytes>) -> Result<Self, ArchiveError> {
        let bytes = bytes.into();
        if bytes.len() as u64 > MAX_PACKED_BYTES {
            return Err(ArchiveError::PackedBytes);
        }
        let digest = Sha256Digest::of(&bytes);
        Ok(Self { bytes, digest })
    }

    /// The packed bytes.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The digest of the packed bytes.
    pub fn digest(&self) -> &Sha256Digest {
        &self.digest
    }

    /// Unpacks into an empty folder. Blocks.
    pub fn unpack(&self, folder: &Path, limits: &ArchiveLimits) -> Result<(), ArchiveError> {
        // An entry without content needs up to three blocks of 512 bytes.
        let most = limits.bytes + 3 * 512 * limits.entries as u64;
        let is_exceeded = Rc::new(Cell::new(false));
        let reader = BoundedReader {
            inner: MultiGzDecoder::new(&self.bytes[..]),
            left: most,
            is_exceeded: Rc::clone(&is_exceeded),
        };
        let mut unpacking = Unpacking {
            folder: fs::canonicalize(folder).map_err(ArchiveError::Unpack)?,
            limits,
            bytes: 0,
            entries: 0,
            links: Vec::new(),
        };
        match unpacking.entries(reader) {
            Err(ArchiveError::Unpack(_)) if is_exceeded.get() => {
                Err(ArchiveError::Bytes(limits.bytes))
            }
            Err(error) => Err(error),
            Ok(()) => unpacking.make_links(),
        }
    }
}

/// Fails after so many bytes.
struct BoundedReader<R> {
    inner: R,
    left: u64,
    is_exceeded: Rc<Cell<bool>>,
}

impl<R: Read> Read for BoundedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        match self.left.checked_sub(count as u64) {
            Some(left) => {
                self.left = left;
                Ok(count)
            }
            None => {
                self.is_exceeded.set(true);
                Err(io::ErrorKind::FileTooLarge.into())
            }
        }
    }
}

struct Unpacking<'l> {
    folder: PathBuf,
    limits: &'l ArchiveLimits,
    bytes: u64,
    entries: usize,
    /// Links and their targets. They are made when all files are written, so that no file is
    /// written through one.
    links: Vec<(PathBuf, PathBuf)>,
}

impl Unpacking<'_> {
    fn entries(&mut self, reader: impl Read) -> Result<(), ArchiveError> {
        let mut archive = tar::Archive::new(reader);
        for entry in archive.entries().map_err(ArchiveError::Unpack)? {
            let mut entry = entry.map_err(ArchiveError::Unpack)?;
            self.entries += 1;
            if self.entries > self.limits.entries {
                return Err(ArchiveError::Entries(self.limits.entries));
            }
            self.entry(&mut entry)?;
        }
        Ok(())
    }

    fn entry<R: Read>(&mut self, entry: &mut Entry<'_, R>) -> Result<(), ArchiveError> {
        let kind = entry.header().entry_type();
        if kind == EntryType::XGlobalHeader {
            return Ok(());
        }
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let shown = quoted(&name);
        let path = self.path_within(&name, &shown)?;
        match kind {
            EntryType::Directory => fs::create_dir_all(&path).map_err(ArchiveError::Unpack),
            EntryType::Regular | EntryType::Continuous => self.file(entry, &path, shown),
            EntryType::Symlink => {
                let target = entry.link_name().map_err(ArchiveError::Unpack)?;
                let target = target.ok_or(ArchiveError::Link(shown))?;
                self.links.push((path, target.into_owned()));
                Ok(())
            }
            other => Err(ArchiveError::Kind {
                path: shown,
                kind: described(other),
            }),
        }
    }

    /// The path of an entry in the folder.
    fn path_within(&self, name: &str, shown: &str) -> Result<PathBuf, ArchiveError> {
        let refused = |reason| ArchiveError::Path {
            path: shown.to_owned(),
            reason,
        };
        if name.contains(char::REPLACEMENT_CHARACTER) {
            return Err(refused("is not UTF-8"));
        }
        let mut path = self.folder.clone();
        let mut depth = 0;
        for component in Path::new(name).components() {
            match component {
                Component::Normal(part) => path.push(part),
                Component::CurDir => continue,
                Component::ParentDir => return Err(refused("has ..")),
                Component::RootDir | Component::Prefix(_) => return Err(refused("is absolute")),
            }
            depth += 1;
        }
        if depth > self.limits.depth {
            return Err(ArchiveError::Depth {
                path: shown.to_owned(),
                limit: self.limits.depth,
            });
        }
        Ok(path)
    }

    fn file<R: Read>(
        &mut self,
        entry: &mut Entry<'_, R>,
        path: &Path,
        shown: String,
    ) -> Result<(), ArchiveError> {
        let limits = self.limits;
        if entry.size() > limits.file_bytes {
            let (path, limit) = (shown, limits.file_bytes);
            return Err(ArchiveError::FileBytes { path, limit });
        }
        self.bytes += entry.size();
        if self.bytes > limits.bytes {
            return Err(ArchiveError::Bytes(limits.bytes));
        }
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(ArchiveError::Unpack)?;
        }
        let mut file = fs::File::create_new(path).map_err(|error| taken(error, shown))?;
        io::copy(entry, &mut file).map_err(ArchiveError::Unpack)?;
        Ok(())
    }

    /// The operating system says where links lead: one may lead through others.
    fn make_links(&self) -> Result<(), ArchiveError> {
        let shown = |path: &Path| {
            let name = path.strip_prefix(&self.folder).unwrap_or(path);
            quoted(&name.to_string_lossy())
        };
        for (path, target) in &self.links {
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent).map_err(ArchiveError::Unpack)?;
            }
            symlink(target, path).map_err(|error| taken(error, shown(path)))?;
        }
        for (path, _) in &self.links {
            let is_within = fs::canonicalize(path).is_ok_and(|real| real.starts_with(&self.folder));
            if !is_within {
                return Err(ArchiveError::Link(shown(path)));
            }
        }
        Ok(())
    }
}

fn taken(error: io::Error, path: String) -> ArchiveError {
    if error.kind() != io::ErrorKind::AlreadyExists {
        return ArchiveError::Unpack(error);
    }
    let reason = "is there twice";
    ArchiveError::Path { path, reason }
}

fn described(kind: EntryType) -> String {
    match kind {
        EntryType::Link => "a hard link".to_owned(),
        EntryType::Char | EntryType::Block => "a device".to_owned(),
        EntryType::Fifo => "a pipe".to_owned(),
        EntryType::GNUSparse => "a sparse file".to_owned(),
        other => format!("of the type {:?}", char::from(other.as_byte())),
    }
}

#[cfg(test)]
mod tests;
