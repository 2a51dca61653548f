//! An image in an archive, as the image format of OCI lays it out.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::parts::command::run;

/// Unpacks the root file system of one architecture into a new folder, and checks how the image is
/// run.
pub(super) fn unpack(archive: &Path, architecture: &str, root: &Path) -> Result<()> {
    let layout = tempfile::tempdir().context("creating a folder for the image")?;
    untar(archive, layout.path())?;
    let layout = Layout(layout.path());
    let index = json(&layout.0.join("index.json"))?;
    let manifest = layout.manifest_of(&index, architecture)?;
    let config = layout.blob(&manifest["config"])?;
    let config = &json(&config)?["config"];
    ensure!(
        config["User"] == "65532:65532",
        "the image's user is {}",
        config["User"]
    );
    ensure!(
        config["Entrypoint"][0] == "/usr/local/bin/fleetdex",
        "the image's entrypoint is {}",
        config["Entrypoint"]
    );
    // Where `fleetdex run` finds helm and kustomize.
    ensure!(
        config["Env"]
            .as_array()
            .is_some_and(|all| all.iter().any(|one| one == "PATH=/usr/local/bin")),
        "the image's environment is {}",
        config["Env"]
    );
    fs::create_dir_all(root).with_context(|| format!("creating {}", root.display()))?;
    for layer in manifest["layers"].as_array().into_iter().flatten() {
        untar(&layout.blob(layer)?, root)?;
    }
    Ok(())
}

/// The folder of an image.
struct Layout<'p>(&'p Path);

impl Layout<'_> {
    /// The file that a descriptor names.
    fn blob(&self, descriptor: &Value) -> Result<PathBuf> {
        let digest = descriptor["digest"].as_str().context("no digest")?;
        Ok(self.0.join("blobs").join(digest.replace(':', "/")))
    }

    /// The manifest for an architecture; indices lead to further indices.
    fn manifest_of(&self, index: &Value, architecture: &str) -> Result<Value> {
        for descriptor in index["manifests"].as_array().into_iter().flatten() {
            let platform = &descriptor["platform"]["architecture"];
            if !platform.is_null() && platform != architecture {
                continue;
            }
            let named = json(&self.blob(descriptor)?)?;
            return if named["manifests"].is_array() {
                self.manifest_of(&named, architecture)
            } else {
                Ok(named)
            };
        }
        anyhow::bail!("the image is not for {architecture}")
    }
}

fn json(path: &Path) -> Result<Value> {
    let text = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("parsing {}", path.display()))
}

fn untar(archive: &Path, folder: &Path) -> Result<()> {
    let mut tar = Command::new("tar");
    tar.arg("-xf").arg(archive).arg("-C").arg(folder);
    run(&mut tar, "tar").map(drop)
}
