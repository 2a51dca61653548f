//! Renderings within limits beside the bare programs, and how often a chart is rendered for many
//! clusters.

use std::{
    cell::Cell,
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use flate2::{Compression, write::GzEncoder};
use fleetdex_rendering::{
    archive::Archive,
    cache::RenderCache,
    programs::Programs,
    renderer::{RenderLimits, Renderer},
    source::{Capabilities, HelmSource, KustomizeOverlay, KustomizeSource, RenderSource},
    variants::{best_variant, render_targets},
};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Map, json};
use tokio::process::Command;

use super::{
    figures::{Figures, verdict},
    sizes::Sizes,
};
use crate::{operator::fleetdex_program, parts::Part};

/// Renderings at a time: as many as the operator has.
const CONCURRENT: usize = 2;
/// Least ratio of the rate to that of the bare programs: each rendering unpacks an archive, starts
/// a process more, and parses what is printed.
const RATIO: f64 = 0.5;
const CLUSTERS: usize = 1_000;
/// The versions that these clusters have.
const VERSIONS: [&str; 2] = ["1.35.2", "1.36.0"];
/// What each of them serves besides the built-in kinds.
const API_VERSIONS: [&str; 2] = ["example.com/v1", "example.com/v1/Widget"];
/// What the renderings of the clusters may take.
const CACHE: usize = 64 << 20;

const KUSTOMIZATION: &str = "resources: [../base]\nnamePrefix: eu-\nreplicas: [{name: web, count: 3}]\n\
                             images: [{name: nginx, newTag: '1.29'}]\n\
                             configMapGenerator: [{name: settings, literals: [a=b]}]\n";
const BASE: &str = "resources: [web.yaml]\n";
const DEPLOYMENT: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  \
                          replicas: 1\n  selector: {matchLabels: {app: web}}\n  template:\n    \
                          metadata: {labels: {app: web}}\n    spec: {containers: [{name: web, image: nginx}]}\n";

/// A chart and a folder, and what renders them.
struct Sources {
    folder: tempfile::TempDir,
    helm: PathBuf,
    kustomize: PathBuf,
    renderer: Renderer,
}

/// Measures renderings; needs no servers.
pub(super) async fn measure(sizes: &Sizes, figures: &mut Figures) -> Result<()> {
    let count = sizes.renderings;
    println!("{count} renderings of a chart and of a folder …");
    let sources = Sources::new().await?;
    let chart = sources.path("web");
    let bare = |_| {
        run(
            &sources.helm,
            &["template", "web", "web"],
            sources.folder.path(),
        )
    };
    let bare = rate(count, bare).await?;
    let limited = |number: usize| {
        let values = json!({"replicaCount": number});
        let source = of_chart(&chart, values.as_object().cloned().unwrap_or_default());
        sources.rendered(source)
    };
    let limited = rate(count, limited).await?;
    report("chart", limited, bare, figures);
    let folder = sources.path("folder");
    let bare = |_| {
        run(
            &sources.kustomize,
            &["build", "folder/eu"],
            sources.folder.path(),
        )
    };
    let bare = rate(count, bare).await?;
    let limited = |number: usize| sources.rendered(of_folder(&folder, number));
    let limited = rate(count, limited).await?;
    report("folder", limited, bare, figures);
    many_clusters(&sources, figures).await
}

impl Sources {
    async fn new() -> Result<Self> {
        let folder = tempfile::tempdir().context("creating a folder for a chart")?;
        let (helm, kustomize) = (Part::Helm.ensure()?, Part::Kustomize.ensure()?);
        run(&helm, &["create", "web"], folder.path()).await?;
        for (file, text) in [
            ("base/kustomization.yaml", BASE),
            ("base/web.yaml", DEPLOYMENT),
            ("eu/kustomization.yaml", KUSTOMIZATION),
        ] {
            let path = folder.path().join("folder").join(file);
            let parent = path.parent().unwrap_or(folder.path());
            fs::create_dir_all(parent).context("creating a folder of kustomize")?;
            fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        }
        let programs = Programs::find(
            fleetdex_program()?,
            Some(helm.clone()),
            Some(kustomize.clone()),
        );
        let limits = RenderLimits {
            concurrent: CONCURRENT,
            ..RenderLimits::default()
        };
        Ok(Self {
            folder,
            helm,
            kustomize,
            renderer: Renderer::new(programs, limits),
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    async fn rendered(&self, source: Result<RenderSource>) -> Result<()> {
        let capabilities = Capabilities::new(VERSIONS[0], []);
        let set = self.renderer.render(&source?, &capabilities).await?;
        ensure!(!set.objects.is_empty(), "nothing is rendered");
        Ok(())
    }
}

/// How many of them end in a second.
#[expect(clippy::cast_precision_loss, reason = "some hundred")]
async fn rate<F: Future<Output = Result<()>>>(
    count: usize,
    render: impl Fn(usize) -> F,
) -> Result<f64> {
    let started = Instant::now();
    let running = stream::iter(0..count).map(render);
    let running = running.buffer_unordered(CONCURRENT);
    running.try_collect::<Vec<()>>().await?;
    Ok(count as f64 / started.elapsed().as_secs_f64())
}

fn report(name: &str, limited: f64, bare: f64, figures: &mut Figures) {
    let ratio = limited / bare;
    figures.set(&format!("render_{name}_per_second"), limited);
    figures.set(&format!("render_{name}_bare_per_second"), bare);
    figures.set(&format!("render_{name}_ratio"), ratio);
    figures.line(
        &format!("renderings of a {name}"),
        format!(
            "{limited:.1}/s beside {bare:.1}/s of the bare program, {ratio:.2} x; at least {RATIO} \
             x: {}",
            verdict(ratio >= RATIO)
        ),
    );
}

/// Renders a chart for a thousand clusters of two versions, as the operator does: once for each
/// version.
async fn many_clusters(sources: &Sources, figures: &mut Figures) -> Result<()> {
    println!("a chart for {CLUSTERS} clusters …");
    let source = of_chart(&sources.path("web"), Map::new())?;
    let clusters = (0..CLUSTERS).map(|number| {
        let version = VERSIONS[number % VERSIONS.len()];
        Capabilities::new(version, API_VERSIONS.map(str::to_owned))
    });
    let clusters: Vec<Capabilities> = clusters.collect();
    let cache = RenderCache::new(CACHE);
    let renderings = Cell::new(0_u32);
    let started = Instant::now();
    let targets = render_targets(&clusters);
    for target in &targets {
        let inputs = sources.renderer.inputs(&source, target).await?;
        let render = async || {
            renderings.set(renderings.get() + 1);
            sources.renderer.render(&source, target).await
        };
        cache.get_or_render(&inputs, render).await?;
    }
    for cluster in &clusters {
        let found = best_variant(&targets, cluster).and_then(|at| targets.get(at));
        ensure!(
            found == Some(cluster),
            "a cluster has the rendering of another version"
        );
    }
    let (seconds, renderings) = (started.elapsed().as_secs_f64(), f64::from(renderings.get()));
    figures.set("render_clusters_renderings", renderings);
    figures.set("render_clusters_seconds", seconds);
    let expected = VERSIONS.len();
    figures.line(
        "a chart for 1,000 clusters of two versions",
        format!(
            "{renderings} renderings in {seconds:.2} s; {expected}: {}",
            verdict((renderings - 2.0).abs() < f64::EPSILON)
        ),
    );
    Ok(())
}

fn of_chart(folder: &Path, values: Map<String, serde_json::Value>) -> Result<RenderSource> {
    Ok(RenderSource::Helm(HelmSource {
        chart: packed(folder, "web")?,
        release_name: "web".to_owned(),
        namespace: "shop".to_owned(),
        values,
    }))
}

fn of_folder(folder: &Path, number: usize) -> Result<RenderSource> {
    Ok(RenderSource::Kustomize(KustomizeSource {
        folder: packed(folder, ".")?,
        path: "eu".to_owned(),
        overlay: KustomizeOverlay {
            namespace: format!("shop{number}"),
            ..KustomizeOverlay::default()
        },
    }))
}

/// A folder as an archive, with this name at its top.
fn packed(folder: &Path, top: &str) -> Result<Archive> {
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    tar.append_dir_all(top, folder)
        .context("packing a folder")?;
    Ok(Archive::new(tar.into_inner()?.finish()?)?)
}

async fn run(program: &Path, arguments: &[&str], folder: &Path) -> Result<()> {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .env("HOME", folder)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .with_context(|| format!("running {}", program.display()))?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {error}", program.display());
    Ok(())
}
