//! Charts and folders on this machine.

use std::{
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use flate2::{Compression, write::GzEncoder};
use fleetdex_crds::distribution::DistributionSource;
use fleetdex_rendering::archive::{Archive, ArchiveError, MAX_PACKED_BYTES};
use tar::HeaderMode;

/// What takes the place of a source.
#[derive(Clone, Debug, Default)]
pub(crate) struct LocalArchives {
    pub(crate) chart: Option<Archive>,
    pub(crate) folder: Option<Archive>,
}

/// An archive of another kind than the source is given.
#[derive(Debug, thiserror::Error)]
#[error("Distribution {name}: {flag} is given, but its source is {source_kind}")]
pub struct OtherSource {
    name: String,
    flag: &'static str,
    source_kind: &'static str,
}

/// A chart or a folder cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    /// It cannot be read.
    #[error("cannot read {path:?}")]
    Read {
        /// Its path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The archive is refused.
    #[error("cannot use {path:?}")]
    Archive {
        /// Its path.
        path: PathBuf,
        /// Why.
        source: ArchiveError,
    },
}

impl LocalArchives {
    pub(crate) fn read(chart: Option<&Path>, folder: Option<&Path>) -> Result<Self, LocalError> {
        Ok(Self {
            // helm expects a folder at the top, whatever its name.
            chart: chart.map(|path| archive(path, "chart")).transpose()?,
            folder: folder.map(|path| archive(path, ".")).transpose()?,
        })
    }
}

impl LocalArchives {
    /// What takes the place of the archive that a source names.
    pub(crate) fn of(
        &self,
        source: &DistributionSource,
        name: &str,
    ) -> Result<Option<Archive>, OtherSource> {
        let refuse = |archive: Option<&Archive>, flag, source_kind| match archive {
            None => Ok(()),
            Some(_) => Err(OtherSource {
                name: name.to_owned(),
                flag,
                source_kind,
            }),
        };
        if source.helm.is_some() {
            refuse(self.folder.as_ref(), "--folder", "helm")?;
            return Ok(self.chart.clone());
        }
        if source.kustomize.is_some() {
            refuse(self.chart.as_ref(), "--chart", "kustomize")?;
            return Ok(self.folder.clone());
        }
        Ok(None)
    }
}

/// The archive at a path, or that of the folder there, with this name at its top.
fn archive(path: &Path, top: &str) -> Result<Archive, LocalError> {
    let bytes = if path.is_dir() {
        packed(path, top)
    } else {
        bounded(path)
    };
    let bytes = bytes.map_err(|source| LocalError::Read {
        path: path.to_owned(),
        source,
    })?;
    Archive::new(bytes).map_err(|source| LocalError::Archive {
        path: path.to_owned(),
        source,
    })
}

/// The bytes of a file; of one that is too long, so many that it is refused.
fn bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = fs::File::open(path)?;
    file.take(MAX_PACKED_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn packed(folder: &Path, top: &str) -> io::Result<Vec<u8>> {
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    tar.follow_symlinks(false);
    tar.mode(HeaderMode::Deterministic);
    tar.append_dir_all(top, folder)?;
    tar.into_inner()?.finish()
}
