//! Copies of folder trees.

use std::{fs, path::Path};

use anyhow::{Context, Result};

/// Copies a folder tree to `target`, with hard links where the file system supports them.
pub(super) fn link_or_copy(source: &Path, target: &Path) -> Result<()> {
    walk(source, target, &|from, to| {
        fs::hard_link(from, to).or_else(|_| fs::copy(from, to).map(drop))
    })
}

/// Copies a folder tree into `target`, which may exist.
pub(super) fn copy(source: &Path, target: &Path) -> Result<()> {
    walk(source, target, &|from, to| fs::copy(from, to).map(drop))
}

fn walk(
    source: &Path,
    target: &Path,
    transfer: &dyn Fn(&Path, &Path) -> std::io::Result<()>,
) -> Result<()> {
    fs::create_dir_all(target).with_context(|| format!("creating {}", target.display()))?;
    let entries = fs::read_dir(source).with_context(|| format!("reading {}", source.display()))?;
    for entry in entries {
        let path = entry
            .with_context(|| format!("reading {}", source.display()))?
            .path();
        let to = target.join(path.file_name().context("a file without a name")?);
        if path.is_dir() {
            walk(&path, &to, transfer)?;
        } else {
            transfer(&path, &to)
                .with_context(|| format!("copying {} to {}", path.display(), to.display()))?;
        }
    }
    Ok(())
}
