//! Runs the program of an image as a container does, without an engine.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

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

/// A chart and a folder, and what asks for them.
const SOURCES: [(&str, &str); 6] = [
    (
        "web/Chart.yaml",
        "apiVersion: v2\nname: web\nversion: 1.0.0\n",
    ),
    (
        "web/templates/object.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n\
         data:\n  rendered: {{ .Values.rendered }}\n",
    ),
    (
        "folder/kustomization.yaml",
        "resources: [object.yaml]\npatches: [{patch: '{apiVersion: v1, kind: ConfigMap, metadata: \
         {name: web}, data: {rendered: as it shall be}}'}]\n",
    ),
    (
        "folder/object.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n",
    ),
    (
        "chart.yaml",
        "apiVersion: distribute.fleetdex.io/v1alpha1\nkind: Distribution\nmetadata: {name: web}\n\
         spec: {source: {helm: {values: {rendered: as it shall be}}}}\n",
    ),
    (
        "folder.yaml",
        "apiVersion: distribute.fleetdex.io/v1alpha1\nkind: Distribution\nmetadata: {name: web}\n\
         spec: {source: {kustomize: {}}}\n",
    ),
];

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

    /// Renders a chart and a folder by the programs of the image, which have nothing else there.
    pub(super) fn render(&self) -> Result<()> {
        let folder = tempfile::tempdir().context("creating a folder for a chart")?;
        for (file, text) in SOURCES {
            let path = folder.path().join(file);
            let parent = path.parent().unwrap_or(folder.path());
            fs::create_dir_all(parent).context("creating the folder of a chart")?;
            fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        }
        for (file, flag, source) in [
            ("chart.yaml", "--chart", "web"),
            ("folder.yaml", "--folder", "folder"),
        ] {
            let mut program = Command::new(&self.launcher);
            program.args(["render", "-f"]).arg(folder.path().join(file));
            program.arg(flag).arg(folder.path().join(source));
            for (flag, name) in [("--helm", "helm"), ("--kustomize", "kustomize")] {
                // The variable PATH is that of this process here.
                program
                    .arg(flag)
                    .arg(Path::new("/usr/local/bin").join(name));
            }
            let printed = run(&mut program, "the programs of the image, and Landlock")?;
            let is_rendered = printed.contains("rendered: as it shall be");
            ensure!(is_rendered, "{file} is rendered to:\n{printed}");
        }
        Ok(())
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
