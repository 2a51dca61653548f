//! The simulated clusters and their store, each in a process of its own, and their registration.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};

use crate::{
    fleet::{
        Fleet,
        ports::Port,
        process::{Process, Start},
        unique,
    },
    objects::Objects,
    operator::{Usage, built_program, usage_of},
    poll::eventually,
};

/// Name of the registry, prefix of its indices, and group of the kinds of the simulated clusters.
pub const NAME: &str = "bench";
const NAMESPACE: &str = "default";
/// Requests at a time that create the registrations.
const CONCURRENCY: usize = 16;
/// So many that a process has enough files: a socket to listen and one for each connection.
const CLUSTERS_PER_PROCESS: usize = 2_500;
/// How long the simulated servers may take to start: they create all objects before.
const START_DEADLINE: Duration = Duration::from_mins(5);

/// How many clusters, and what each of them has.
#[derive(Clone, Copy, Debug)]
pub struct SimulatedFleetSpec {
    pub clusters: usize,
    pub kinds: usize,
    /// Objects of each kind.
    pub objects: usize,
}

/// The processes, and the control plane that the clusters are registered with.
#[derive(Debug)]
pub struct SimulatedFleet {
    spec: SimulatedFleetSpec,
    clusters: Vec<Process>,
    store: Process,
    store_url: String,
    urls: Vec<String>,
    hub: Objects,
    control_plane: u32,
}

impl SimulatedFleet {
    /// Starts the clusters and the store, and installs the CRDs.
    pub async fn start(fleet: &Fleet, spec: SimulatedFleetSpec) -> Result<Self> {
        let mut clusters = Vec::new();
        let mut ready_files = Vec::new();
        for first in (0..spec.clusters).step_by(CLUSTERS_PER_PROCESS) {
            let count = (spec.clusters - first).min(CLUSTERS_PER_PROCESS);
            let (process, ready_file) = start_clusters(fleet, spec, first, count)?;
            clusters.push(process);
            ready_files.push(ready_file);
        }
        let port = Port::reserve()?;
        let store = process(
            fleet,
            "opensearch",
            vec![format!("--listen=127.0.0.1:{}", port.number())],
        )?;
        install_crds(fleet).await?;
        let urls = eventually("the simulated clusters answer", START_DEADLINE, || async {
            clusters.iter().try_for_each(Process::check_running)?;
            let mut urls = Vec::new();
            for file in &ready_files {
                urls.extend(addresses(file)?);
            }
            anyhow::Ok(urls)
        })
        .await?;
        Ok(Self {
            spec,
            clusters,
            store,
            store_url: format!("http://127.0.0.1:{}", port.number()),
            urls,
            hub: Objects::of(fleet.control_plane())?,
            control_plane: fleet
                .control_plane()
                .process()
                .pid()
                .context("the control plane does not run")?,
        })
    }

    pub fn check_running(&self) -> Result<()> {
        self.clusters.iter().try_for_each(Process::check_running)?;
        self.store.check_running()
    }

    /// Creates a Secret and a Cluster for each.
    pub async fn register(&self) -> Result<()> {
        let registrations = self
            .urls
            .iter()
            .enumerate()
            .map(|(number, url)| async move {
                let name = format!("cluster-{number:05}");
                let secrets = format!("api/v1/namespaces/{NAMESPACE}/secrets");
                self.hub.create(&secrets, &secret(&name)).await?;
                self.hub
                    .create(
                        "apis/cluster.karmada.io/v1alpha1/clusters",
                        &cluster(&name, url),
                    )
                    .await
                    .map(drop)
            });
        stream::iter(registrations)
            .buffer_unordered(CONCURRENCY)
            .try_collect::<()>()
            .await
    }

    /// Registers every kind of every cluster, and returns when.
    pub async fn apply_registry(&self) -> Result<Instant> {
        let selectors: Vec<Value> = (0..self.spec.kinds)
            .map(|kind| json!({ "apiVersion": format!("{NAME}.example.com/v1"), "kind": format!("Kind{kind}") }))
            .collect();
        let registry = json!({
            "apiVersion": "search.karmada.io/v1alpha1",
            "kind": "ResourceRegistry",
            "metadata": { "name": NAME },
            "spec": {
                "targetCluster": { "labelSelector": { "matchLabels": { "bench": NAME } } },
                "resourceSelectors": selectors,
                "backendStore": { "openSearch": { "addresses": [self.store_url], "indexPrefix": NAME, "numberOfReplicas": 0 } },
            },
        });
        let started = Instant::now();
        self.hub
            .create(
                "apis/search.karmada.io/v1alpha1/resourceregistries",
                &registry,
            )
            .await?;
        Ok(started)
    }

    /// Fails until the registry is ready.
    pub async fn check_ready(&self) -> Result<()> {
        let registry = self.hub.get(&registry_path()).await?;
        let conditions = registry["status"]["conditions"].as_array();
        let ready = conditions
            .into_iter()
            .flatten()
            .find(|condition| condition["type"] == "Ready");
        ensure!(
            ready.is_some_and(|ready| ready["status"] == "True"),
            "{} {}",
            registry["status"]["summary"],
            ready.map_or("no condition", |ready| ready["message"]
                .as_str()
                .unwrap_or_default())
        );
        Ok(())
    }

    /// The size of the registry as JSON, with its managed fields.
    pub async fn registry_bytes(&self) -> Result<usize> {
        Ok(self.hub.get(&registry_path()).await?.to_string().len())
    }

    /// The control plane.
    pub fn hub(&self) -> &Objects {
        &self.hub
    }

    pub fn control_plane_usage(&self) -> Result<Usage> {
        usage_of(self.control_plane)
    }
}

fn registry_path() -> String {
    format!("apis/search.karmada.io/v1alpha1/resourceregistries/{NAME}")
}

/// Starts some of the clusters, and returns the file with their addresses.
fn start_clusters(
    fleet: &Fleet,
    spec: SimulatedFleetSpec,
    first: usize,
    count: usize,
) -> Result<(Process, PathBuf)> {
    let ready_file = fleet.dir().join(format!("{}.ready", unique("clusters")));
    let arguments = vec![
        format!("--clusters={count}"),
        // Clusters of one seed would be the same.
        format!("--seed={}", first + 1),
        format!("--kinds={}", spec.kinds),
        format!("--kind-objects={}", spec.objects),
        "--objects=0".to_owned(),
        "--cached-events=1000".to_owned(),
        "--tls".to_owned(),
        format!("--ready-file={}", ready_file.display()),
    ];
    Ok((process(fleet, "apiserver", arguments)?, ready_file))
}

fn process(fleet: &Fleet, program: &str, arguments: Vec<String>) -> Result<Process> {
    let name = unique(program);
    let start = Start {
        program: built_program(program)?,
        arguments,
        folder: fleet.dir().to_owned(),
        ..Start::default()
    };
    let log = fleet.dir().join(format!("{name}.log"));
    let process = Process::new(&name, start, log, fleet.process_group());
    process.spawn()?;
    Ok(process)
}

async fn install_crds(fleet: &Fleet) -> Result<()> {
    let kubectl = fleet.control_plane().kubectl()?;
    for crd in fleetdex_cli::crd::all() {
        kubectl.apply_server_side(&crd.yaml()?).await?;
    }
    kubectl
        .run("wait --for=condition=Established crd --all --timeout=60s")
        .await
        .map(drop)
}

fn addresses(ready_file: &Path) -> Result<Vec<String>> {
    let lines = fs::read_to_string(ready_file).context("no addresses yet")?;
    let url = |line: &str| {
        let ready: Value =
            serde_json::from_str(line).context("a line of the simulated clusters")?;
        ready["url"]
            .as_str()
            .map(str::to_owned)
            .context("a line without a URL")
    };
    lines.lines().map(url).collect()
}

fn secret(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": { "name": name, "annotations": { "fleetdex.io/allowed-hosts": "127.0.0.1" } },
        // The token is not checked, but required.
        "data": { "token": STANDARD.encode(name) },
    })
}

fn cluster(name: &str, url: &str) -> Value {
    json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "metadata": { "name": name, "labels": { "bench": NAME } },
        "spec": {
            "syncMode": "Push",
            "apiEndpoint": url,
            "insecureSkipTLSVerification": true,
            "secretRef": { "namespace": NAMESPACE, "name": name },
        },
    })
}
