//! Reads the text of a kubeconfig file, and replaces the file in one step.

use std::{
    fs, io,
    io::Write as _,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown},
    path::{Path, PathBuf},
};

/// Links in a row that are followed, as on Linux.
const MAX_LINKS: usize = 40;
/// The part of a file's mode that concerns its owner.
const OWNER_MODE: u32 = 0o700;

/// Returns the file to which a symbolic link leads, whether it exists or not.
pub(super) fn follow_links(path: &Path) -> PathBuf {
    let mut target = path.to_owned();
    for _ in 0..MAX_LINKS {
        let Ok(link) = fs::read_link(&target) else {
            break;
        };
        target = target.parent().unwrap_or(Path::new("")).join(link);
    }
    target
}

/// Reads UTF-8, or UTF-16 after a byte order mark, as [`kube::config::Kubeconfig::read_from`] does.
pub(super) fn read_text(path: &Path) -> io::Result<String> {
    let bytes = fs::read(path)?;
    let text = match bytes.as_slice() {
        [0xFF, 0xFE, units @ ..] => utf16(units, u16::from_le_bytes),
        [0xFE, 0xFF, units @ ..] => utf16(units, u16::from_be_bytes),
        [0xEF, 0xBB, 0xBF, text @ ..] | text => String::from_utf8(text.to_vec()).ok(),
    };
    text.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "it is not Unicode text"))
}

fn utf16(bytes: &[u8], decode: fn([u8; 2]) -> u16) -> Option<String> {
    let (units, []) = bytes.as_chunks::<2>() else {
        return None;
    };
    let units: Vec<u16> = units.iter().copied().map(decode).collect();
    String::from_utf16(&units).ok()
}

/// Replaces a file in one step. An existing file keeps its owner, group and mode. A new file is
/// readable by its owner alone, and so is one that is `private`, or whose owner and group this
/// process may not set.
pub fn replace(path: &Path, text: &str, private: bool) -> io::Result<()> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let mut temporary = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
    temporary.write_all(text.as_bytes())?;
    let file = temporary.as_file();
    if let Ok(existing) = fs::metadata(path) {
        let mut permissions = existing.permissions();
        if !set_owner(file, &existing)? || private {
            permissions.set_mode(permissions.mode() & OWNER_MODE);
        }
        file.set_permissions(permissions)?;
    }
    file.sync_all()?;
    temporary.persist(path)?;
    Ok(())
}

/// Gives a file the owner and the group of `existing`. Returns whether it has them now.
fn set_owner(file: &fs::File, existing: &fs::Metadata) -> io::Result<bool> {
    let created = file.metadata()?;
    let (owner, group) = (existing.uid(), existing.gid());
    if (created.uid(), created.gid()) == (owner, group) {
        return Ok(true);
    }
    Ok(fchown(file, Some(owner), Some(group)).is_ok())
}
