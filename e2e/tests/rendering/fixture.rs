//! Sources in a scratch folder, and what renders them.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context as _, Result, ensure};
use e2e::{operator::fleetdex_program, parts::Part};
use flate2::{Compression, write::GzEncoder};
use fleetdex_rendering::{
    archive::Archive,
    programs::Programs,
    renderer::{RenderLimits, Renderer},
    source::{HelmSource, RenderSource},
};
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use tokio::process::Command;

/// A scratch folder, and the programs.
pub struct Workshop {
    folder: TempDir,
    pub helm: PathBuf,
    pub kustomize: PathBuf,
}

/// What a program printed.
#[derive(Debug)]
pub struct Printed {
    pub success: bool,
    pub out: String,
    pub err: String,
}

impl Workshop {
    pub fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            helm: Part::Helm.ensure().unwrap(),
            kustomize: Part::Kustomize.ensure().unwrap(),
        }
    }

    /// A path in the scratch folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes files, with their folders.
    pub fn write(&self, files: &[(&str, &str)]) {
        for (name, text) in files {
            let path = self.path(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    /// Writes a chart of these templates, called `web`.
    pub fn chart(&self, templates: &[(&str, &str)]) -> PathBuf {
        self.write(&[("web/Chart.yaml", CHART)]);
        for (name, text) in templates {
            self.write(&[(&format!("web/{name}"), text)]);
        }
        self.path("web")
    }

    /// Runs a program in the scratch folder.
    pub async fn run(&self, program: &Path, arguments: &[&str]) -> Result<Printed> {
        let output = Command::new(program)
            .args(arguments)
            .current_dir(self.folder.path())
            .env("HOME", self.folder.path())
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await
            .with_context(|| format!("running {}", program.display()))?;
        Ok(Printed {
            success: output.status.success(),
            out: String::from_utf8(output.stdout)?,
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    /// Runs helm itself, which has to succeed.
    pub async fn run_helm(&self, arguments: &[&str]) -> Result<String> {
        let printed = self.run(&self.helm, arguments).await?;
        ensure!(printed.success, "helm {arguments:?}: {}", printed.err);
        Ok(format!("{}{}", printed.out, printed.err))
    }

    /// Runs `fleetdex render` on a Distribution in the namespace `shop`.
    pub async fn render(&self, source: &Value, arguments: &[&str]) -> Result<Printed> {
        let distribution = json!({
            "apiVersion": "distribute.fleetdex.io/v1alpha1", "kind": "Distribution",
            "metadata": {"name": "web", "namespace": "shop"}, "spec": {"source": source},
        });
        self.write(&[("distribution.json", &distribution.to_string())]);
        let helm = format!("--helm={}", self.helm.display());
        let kustomize = format!("--kustomize={}", self.kustomize.display());
        let command = ["render", "-f", "distribution.json", &helm, &kustomize];
        let command = [&command[..], arguments].concat();
        self.run(&fleetdex_program()?, &command).await
    }

    /// The objects that it prints.
    pub async fn objects(&self, source: &Value, arguments: &[&str]) -> Result<Vec<Value>> {
        let arguments = [arguments, &["-o", "json"]].concat();
        let printed = self.render(source, &arguments).await?;
        ensure!(printed.success, "{}", printed.err);
        let list: Value = serde_json::from_str(&printed.out)?;
        list["items"].as_array().cloned().context("no items")
    }

    /// What `fleetdex render` uses, with these bounds.
    pub fn renderer(&self, limits: RenderLimits) -> Renderer {
        let programs = Programs::find(
            fleetdex_program().unwrap(),
            Some(self.helm.clone()),
            Some(self.kustomize.clone()),
        );
        Renderer::new(programs, limits)
    }
}

/// A chart as a source, with these values.
pub fn of_chart(folder: &Path, values: Map<String, Value>) -> RenderSource {
    RenderSource::Helm(HelmSource {
        chart: packed(folder, "web"),
        release_name: "web".to_owned(),
        namespace: "shop".to_owned(),
        values,
    })
}

/// A folder as an archive, with this name at its top.
pub fn packed(folder: &Path, top: &str) -> Archive {
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    tar.append_dir_all(top, folder).unwrap();
    Archive::new(tar.into_inner().unwrap().finish().unwrap()).unwrap()
}

/// Kinds and names, in order.
pub fn names(objects: &[Value]) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or("none").to_owned();
    let names = objects.iter().map(|one| {
        let (kind, name) = (text(&one["kind"]), text(&one["metadata"]["name"]));
        format!("{kind} {name}")
    });
    names.collect()
}

const CHART: &str = "apiVersion: v2\nname: web\nversion: 1.2.3\n";
