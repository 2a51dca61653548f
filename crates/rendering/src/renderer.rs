//! Renders sources by programs.

use std::{
    ffi::OsString,
    fs, io,
    path::{Component, Path, PathBuf},
    time::Duration,
};

use fleetdex_core::model::{is_dns_label, quoted};
use serde_json::json;
use tempfile::TempDir;
use tokio::{
    sync::{OnceCell, Semaphore},
    task::{self, JoinError},
};

use crate::{
    archive::{ArchiveError, ArchiveLimits},
    blocking::run_blocking,
    child::{RendererCall, RendererFailure, RendererOutput},
    digest::Sha256Digest,
    hooks::UnsupportedHook,
    inputs,
    manifests::{self, ManifestError, SourcedObject},
    programs::{MissingProgram, Programs, RenderProgram},
    rendered::RenderedSet,
    source::{
        Capabilities, HelmSource, KustomizeOverlay, KustomizeSource, MAX_RELEASE_NAME,
        RenderSource, is_release_name,
    },
};

/// Where archives are unpacked, within the scratch folder.
const UNPACKED: &str = "unpacked";
/// The object that has the notes of a chart. helm prints them nowhere when it renders; a template
/// can include them.
const NOTES_FILE: &str = "templates/fleetdex.io-notes.yaml";
const NOTES_TEMPLATE: &str = r#"{{ dict "apiVersion" "v1" "kind" "ConfigMap" "metadata" (dict "name" "notes") "data" (dict "notes" (include (print .Template.BasePath "/NOTES.txt") .)) | toJson }}"#;

/// The bounds of a rendering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RenderLimits {
    /// After which time a renderer is stopped.
    pub deadline: Duration,
    /// The most bytes that a renderer prints.
    pub output_bytes: u64,
    /// The bounds of archives.
    pub archive: ArchiveLimits,
    /// How many renderers run at a time; each has its bounds of memory.
    pub concurrent: usize,
}

impl Default for RenderLimits {
    fn default() -> Self {
        Self {
            deadline: Duration::from_mins(1),
            output_bytes: 32 << 20,
            archive: ArchiveLimits::default(),
            concurrent: 2,
        }
    }
}

/// A source cannot be rendered.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// A program is not installed.
    #[error(transparent)]
    Program(#[from] MissingProgram),
    /// The archive is refused.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The renderer fails, or reaches a bound.
    #[error(transparent)]
    Renderer(#[from] RendererFailure),
    /// What is rendered is not objects.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// A hook cannot be run.
    #[error(transparent)]
    Hook(#[from] UnsupportedHook),
    /// The name of the release is invalid.
    #[error(
        "{name} is no name of a release: use lower-case letters, digits, '-' and '.', at most \
         {MAX_RELEASE_NAME} characters",
        name = quoted(.0)
    )]
    ReleaseName(String),
    /// The namespace is invalid.
    #[error(
        "{name} is no namespace: use lower-case letters, digits and '-', at most 63",
        name = quoted(.0)
    )]
    Namespace(String),
    /// The archive is not one of a chart.
    #[error("the archive is no chart: it has to have one folder, and Chart.yaml in that")]
    NoChart,
    /// The folder has no kustomization at this path.
    #[error("the folder has no {0}: path is a folder within it, without . and ..")]
    NoPath(String),
    /// Scratch files cannot be written.
    #[error("cannot prepare a rendering in a temporary folder")]
    Scratch(#[source] io::Error),
    /// A task of ours ended early.
    #[error("a rendering was interrupted")]
    Interrupted(#[from] JoinError),
}

/// Renders sources, a bounded number at a time.
#[derive(Debug)]
pub struct Renderer {
    programs: Programs,
    limits: RenderLimits,
    permits: Semaphore,
    helm_version: OnceCell<String>,
    kustomize_version: OnceCell<String>,
}

impl Renderer {
    /// A renderer by these programs.
    pub fn new(programs: Programs, limits: RenderLimits) -> Self {
        Self {
            programs,
            permits: Semaphore::new(limits.concurrent),
            limits,
            helm_version: OnceCell::new(),
            kustomize_version: OnceCell::new(),
        }
    }

    /// The version of a program, which is asked once.
    pub async fn version(&self, program: RenderProgram) -> Result<&str, RenderError> {
        let version = match program {
            RenderProgram::Helm => &self.helm_version,
            RenderProgram::Kustomize => &self.kustomize_version,
        };
        let version = version.get_or_try_init(async || {
            let scratch = task::spawn_blocking(new_scratch).await??;
            let arguments = program.version_arguments().iter().map(OsString::from);
            let output = self.run(program, arguments.collect(), scratch.path());
            Ok::<_, RenderError>(output.await?.out.trim().to_owned())
        });
        Ok(version.await?)
    }

    /// The digest of everything that a rendering depends on: key of [`crate::cache::RenderCache`].
    pub async fn inputs(
        &self,
        source: &RenderSource,
        capabilities: &Capabilities,
    ) -> Result<Sha256Digest, RenderError> {
        let program = match source {
            RenderSource::Helm(_) => RenderProgram::Helm,
            RenderSource::Kustomize(_) => RenderProgram::Kustomize,
            RenderSource::Manifests(_) => {
                return Ok(inputs::digest_of(source, &Capabilities::default(), ""));
            }
        };
        let renderer = format!("{program} {}", self.version(program).await?);
        Ok(inputs::digest_of(source, capabilities, &renderer))
    }

    /// Renders a source. Twice the same inputs may give different random values.
    pub async fn render(
        &self,
        source: &RenderSource,
        capabilities: &Capabilities,
    ) -> Result<RenderedSet, RenderError> {
        let inputs = self.inputs(source, capabilities).await?;
        let output = match source {
            RenderSource::Helm(helm) => self.helm(helm, capabilities).await?,
            RenderSource::Kustomize(kustomize) => self.kustomize(kustomize).await?,
            RenderSource::Manifests(text) => RendererOutput {
                out: text.clone(),
                err: String::new(),
            },
        };
        let RendererOutput { out, err } = output;
        let mut objects = run_blocking(move || manifests::parse(&out)).await??;
        let notes = take_notes(&mut objects);
        let mut set = RenderedSet::of(inputs, objects)?;
        set.notes = notes;
        set.warnings = err.lines().map(str::to_owned).collect();
        Ok(set)
    }

    async fn helm(
        &self,
        source: &HelmSource,
        capabilities: &Capabilities,
    ) -> Result<RendererOutput, RenderError> {
        if !is_release_name(&source.release_name) {
            return Err(RenderError::ReleaseName(source.release_name.clone()));
        }
        check_namespace(&source.namespace)?;
        let limits = self.limits.archive;
        let prepared = source.clone();
        let prepare = task::spawn_blocking(move || prepare_chart(&prepared, &limits));
        let (scratch, chart) = prepare.await??;
        let mut arguments: Vec<OsString> = vec![
            "template".into(),
            source.release_name.clone().into(),
            chart.into(),
        ];
        arguments.push(format!("--namespace={}", source.namespace).into());
        arguments.extend(["--values=values.json", "--include-crds"].map(OsString::from));
        if !capabilities.kubernetes_version().is_empty() {
            arguments.push(format!("--kube-version={}", capabilities.kubernetes_version()).into());
        }
        let versions = capabilities.api_versions();
        arguments.extend(versions.map(|version| format!("--api-versions={version}").into()));
        self.run(RenderProgram::Helm, arguments, scratch.path())
            .await
    }

    async fn kustomize(&self, source: &KustomizeSource) -> Result<RendererOutput, RenderError> {
        if !source.overlay.namespace.is_empty() {
            check_namespace(&source.overlay.namespace)?;
        }
        let limits = self.limits.archive;
        let prepared = source.clone();
        let prepare = task::spawn_blocking(move || prepare_folder(&prepared, &limits));
        let (scratch, folder) = prepare.await??;
        let arguments = vec!["build".into(), folder.into()];
        self.run(RenderProgram::Kustomize, arguments, scratch.path())
            .await
    }

    async fn run(
        &self,
        program: RenderProgram,
        arguments: Vec<OsString>,
        scratch: &Path,
    ) -> Result<RendererOutput, RenderError> {
        let call = RendererCall {
            sandbox: &self.programs.sandbox,
            program,
            path: self.programs.path(program)?,
            arguments,
            scratch,
            deadline: self.limits.deadline,
            output_bytes: self.limits.output_bytes,
        };
        // The semaphore is never closed.
        let _permit = self.permits.acquire().await.ok();
        Ok(call.run().await?)
    }
}

fn check_namespace(namespace: &str) -> Result<(), RenderError> {
    if is_dns_label(namespace) {
        return Ok(());
    }
    Err(RenderError::Namespace(namespace.to_owned()))
}

/// A new folder, with the folders that a renderer expects. By its real path, as kustomize compares
/// such.
fn new_scratch() -> Result<TempDir, RenderError> {
    let parent = fs::canonicalize(std::env::temp_dir()).map_err(RenderError::Scratch)?;
    let scratch = tempfile::Builder::new()
        .prefix("fleetdex-render-")
        .tempdir_in(parent)
        .map_err(RenderError::Scratch)?;
    for folder in ["home", UNPACKED] {
        fs::create_dir(scratch.path().join(folder)).map_err(RenderError::Scratch)?;
    }
    Ok(scratch)
}

/// Unpacks a chart and writes its values; returns the chart's folder within the scratch folder.
fn prepare_chart(
    source: &HelmSource,
    limits: &ArchiveLimits,
) -> Result<(TempDir, PathBuf), RenderError> {
    let scratch = new_scratch()?;
    let unpacked = scratch.path().join(UNPACKED);
    source.chart.unpack(&unpacked, limits)?;
    let mut folders = fs::read_dir(&unpacked).map_err(RenderError::Scratch)?;
    let (Some(Ok(chart)), None) = (folders.next(), folders.next()) else {
        return Err(RenderError::NoChart);
    };
    let folder = chart.path();
    if !folder.join("Chart.yaml").is_file() {
        return Err(RenderError::NoChart);
    }
    if folder.join("templates/NOTES.txt").is_file() {
        fs::write(folder.join(NOTES_FILE), NOTES_TEMPLATE).map_err(RenderError::Scratch)?;
    }
    let values = json!(source.values).to_string();
    fs::write(scratch.path().join("values.json"), values).map_err(RenderError::Scratch)?;
    let chart = Path::new(UNPACKED).join(chart.file_name());
    Ok((scratch, chart))
}

/// Takes the notes of a chart out of its objects.
fn take_notes(objects: &mut Vec<SourcedObject>) -> String {
    let is_notes = |one: &SourcedObject| {
        let file = one.file.split_once('/');
        file.is_some_and(|(_, file)| file == NOTES_FILE)
    };
    let Some(position) = objects.iter().position(is_notes) else {
        return String::new();
    };
    let notes = objects.remove(position).object;
    notes["data"]["notes"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

/// Unpacks a folder and writes what is changed of it as a kustomization over it; returns the
/// folder to build, within the scratch folder.
fn prepare_folder(
    source: &KustomizeSource,
    limits: &ArchiveLimits,
) -> Result<(TempDir, PathBuf), RenderError> {
    let scratch = new_scratch()?;
    let unpacked = scratch.path().join(UNPACKED);
    source.folder.unpack(&unpacked, limits)?;
    let path = Path::new(source.path.trim_start_matches("./"));
    let is_plain = path
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    if !is_plain || !unpacked.join(path).is_dir() {
        return Err(RenderError::NoPath(quoted(&source.path)));
    }
    let folder = Path::new(UNPACKED).join(path);
    if source.overlay == KustomizeOverlay::default() {
        return Ok((scratch, folder));
    }
    let mut kustomization = json!(source.overlay);
    kustomization["resources"] = json!([Path::new("..").join(folder)]);
    let overlay = scratch.path().join("overlay");
    fs::create_dir(&overlay).map_err(RenderError::Scratch)?;
    fs::write(
        overlay.join("kustomization.yaml"),
        kustomization.to_string(),
    )
    .map_err(RenderError::Scratch)?;
    Ok((scratch, "overlay".into()))
}
