//! Runs the program of an image as a container does, without an engine.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use crate::{
    fleet::target_folder,
    parts::{command::run, system::on_path},
};

/// Mounts, and then runs the program as the image's user. The inner user namespace makes the user
/// who calls it that user, so that files of the mounted folders can be read. It stays the same
/// process.
const LAUNCHER: &str = r#"#!/bin/sh
exec unshare --user --map-root-user --mount sh -euc '
root=$1 mounts=$2
shift 2
mount --bind "$root" "$root"
IFS=:
for mounted in $mounts; do mount --rbind "$mounted" "$root$mounted"; done
unset IFS
mount -o remount,ro,bind "$root"
folder=$(pwd)
[ -d "$root$folder" ] || folder=/
exec unshare --user --map-user=65532 --map-group=65532 --root="$root" --wd="$folder" /usr/local/bin/fleetdex "$@"
' fleetdex '{root}' '{mounts}' "$@"
"#;

/// An unpacked image: its root file system, read-only, in which there is nothing else but `/proc`,
/// the names of hosts, and the folders of this repository and of temporary files, where tests keep
/// their kubeconfigs.
pub(super) struct Container {
    root: PathBuf,
    launcher: PathBuf,
}

impl Container {
    pub(super) fn new(root: PathBuf, repository: PathBuf) -> Result<Self> {
        let files = ["/etc/hosts", "/etc/resolv.conf"].map(PathBuf::from);
        let folders = [
            PathBuf::from("/proc"),
            repository,
            target_folder()?,
            env::temp_dir(),
        ];
        let mut mounted: Vec<PathBuf> = files
            .into_iter()
            .chain(folders)
            .filter(|path| path.exists())
            .collect();
        mounted.dedup();
        for path in &mounted {
            let place = root.join(path.strip_prefix("/").unwrap_or(path));
            let made = if path.is_dir() {
                fs::create_dir_all(&place)
            } else {
                let folder = place.parent().unwrap_or(&root);
                fs::create_dir_all(folder).and_then(|()| fs::write(&place, ""))
            };
            made.with_context(|| format!("creating {}", place.display()))?;
        }
        let mounts = mounted.iter().map(|path| path.display().to_string());
        let launcher = LAUNCHER
            .replace("{root}", &root.display().to_string())
            .replace("{mounts}", &mounts.collect::<Vec<_>>().join(":"));
        // The demo's shell finds it by its name.
        let folder = root.with_extension("launcher");
        fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
        let path = folder.join("fleetdex");
        fs::write(&path, launcher).with_context(|| format!("writing {}", path.display()))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))
            .context("making the launcher executable")?;
        Ok(Self {
            root,
            launcher: path,
        })
    }

    /// A program that runs that of the image with its arguments.
    pub(super) fn launcher(&self) -> &Path {
        &self.launcher
    }

    /// What `fleetdex --version` prints.
    pub(super) fn version(&self) -> Result<String> {
        version(&mut Command::new(&self.launcher))
    }

    /// The same with an emulator of another processor, outside of the root file system; `None`
    /// without that emulator.
    pub(super) fn version_with(&self, emulator: &str) -> Result<Option<String>> {
        let Some(emulator) = on_path(emulator) else {
            return Ok(None);
        };
        let program = self.root.join("usr/local/bin/fleetdex");
        version(Command::new(emulator).arg(program)).map(Some)
    }
}

fn version(program: &mut Command) -> Result<String> {
    let needs = "unshare of util-linux 2.38 or newer, and user namespaces";
    Ok(run(program.arg("--version"), needs)?.trim().to_owned())
}
