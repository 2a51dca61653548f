//! Test environments: fleets with an operator each, reused by one test after another, and
//! registries.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::{
    fleet::{Fleet, OpenSearchKind, Options, Registration, idle, unique},
    objects::Objects,
    opensearch::OpenSearch,
    operator::{Operator, OperatorOptions},
    oracle::{Oracle, documents, indices},
    poll::eventually,
    proxy::FaultProxy,
};

/// Deadline of every wait. No test measures time.
pub const DEADLINE: Duration = Duration::from_secs(90);
/// The namespace of the control plane with the members' Secrets.
pub const SECRETS: &str = "fleet-secrets";

const REGISTRIES: &str = "apis/search.karmada.io/v1alpha1/resourceregistries";
const CRDS: [&str; 7] = [
    "cluster.karmada.io_clusters.yaml",
    "cluster.karmada.io_clustercaches.yaml",
    "clustercaches.karmada.io_clustercaches.yaml",
    "config.karmada.io_resourceexploringwebhookconfigurations.yaml",
    "config.karmada.io_resourceinterpretercustomizations.yaml",
    "config.karmada.io_resourceinterpreterwebhookconfigurations.yaml",
    "search.karmada.io_resourceregistries.yaml",
];

/// A fleet and an operator, for one test at a time. They stay for the next test with equal options,
/// until other servers start ([`idle`]).
#[derive(Debug)]
pub struct Stage {
    /// The servers.
    pub fleet: Arc<Fleet>,
    /// The operator, which runs and has all members registered.
    pub operator: Arc<Operator>,
    /// Objects of the control plane.
    pub hub: Objects,
    /// The fleet's OpenSearch.
    pub opensearch: OpenSearch,
    options: Options,
}

/// What a stage leaves to the next test. The operator is stopped first.
struct Servers {
    operator: Arc<Operator>,
    fleet: Arc<Fleet>,
}

impl Servers {
    async fn start(options: &Options) -> Result<Self> {
        let fleet = Fleet::start(options.clone()).await?;
        let operator = start(&fleet).await?;
        Ok(Self {
            operator: Arc::new(operator),
            fleet: Arc::new(fleet),
        })
    }

    /// Undoes what an earlier test may have left; fails if a registry is left.
    async fn reset(&self) -> Result<()> {
        self.fleet.heal().await?;
        let hub = Objects::of(self.fleet.control_plane())?;
        let left = hub.get(REGISTRIES).await?;
        let items = left["items"].as_array().context("no items")?;
        ensure!(items.is_empty(), "registries are left: {left}");
        if !self.operator.process().resume_if_running()? {
            eprintln!(
                "the operator is not running and is restarted\n{}",
                self.operator.process().log_tail(20)
            );
            self.operator.restart()?;
        }
        Ok(())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let servers = Servers {
            operator: Arc::clone(&self.operator),
            fleet: Arc::clone(&self.fleet),
        };
        idle::keep(self.options.clone(), servers);
    }
}

impl Stage {
    /// A fleet of two members, each with its own etcd, and OpenSearch: enough for nearly every
    /// test.
    pub async fn enter() -> Result<Self> {
        Self::with(Options {
            members: 2,
            opensearch: OpenSearchKind::Plain,
            own_etcds: true,
            ..Options::default()
        })
        .await
    }

    /// A fleet with these options.
    pub async fn with(options: Options) -> Result<Self> {
        let servers = Self::servers(&options).await?;
        Ok(Self {
            hub: Objects::of(servers.fleet.control_plane())?,
            opensearch: servers.fleet.opensearch()?.client()?,
            fleet: servers.fleet,
            operator: servers.operator,
            options,
        })
    }

    async fn servers(options: &Options) -> Result<Servers> {
        if let Some(servers) = idle::take::<_, Servers>(options) {
            match servers.reset().await {
                Ok(()) => return Ok(servers),
                Err(error) => {
                    eprintln!("a fleet cannot be reused and another one is started: {error:#}");
                }
            }
        }
        Servers::start(options).await
    }

    /// Objects of a member.
    pub fn member(&self, number: usize) -> Result<Objects> {
        Objects::of(self.fleet.member(number))
    }

    /// Registers a member under another name, too.
    pub async fn register(&self, number: usize, cluster: &str) -> Result<()> {
        register(
            &self.hub,
            &Registration::new(self.fleet.member(number), cluster, SECRETS),
        )
        .await
    }

    /// Registers a member under another name behind a proxy, through which the operator reaches it.
    pub async fn register_behind_proxy(&self, number: usize, cluster: &str) -> Result<FaultProxy> {
        let member = self.fleet.member(number);
        let proxy = FaultProxy::start(member.url())?;
        register(
            &self.hub,
            &Registration::new(member, cluster, SECRETS).through(&proxy.url()),
        )
        .await?;
        Ok(proxy)
    }

    /// Creates or changes the Secret of this name in the members' namespace.
    pub async fn put_secret(&self, name: &str, secret: &Value) -> Result<()> {
        self.hub.apply(&secret_path(name), secret).await.map(drop)
    }

    /// Removes a registration of [`register`](Self::register) or
    /// [`register_behind_proxy`](Self::register_behind_proxy).
    pub async fn unregister(&self, cluster: &str) -> Result<()> {
        self.hub.delete(&cluster_path(cluster)).await?;
        self.hub.delete(&secret_path(cluster)).await
    }

    /// Another operator for the same control plane, with flags besides the usual ones.
    pub async fn another_operator(&self, more_flags: &[&str]) -> Result<Operator> {
        start_operator(&self.fleet, more_flags).await
    }

    /// How often the stream of each unit was started since the operator's log began.
    pub fn stream_starts(&self) -> Result<BTreeMap<String, usize>> {
        let path = self.operator.process().log();
        let log =
            fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        let mut starts = BTreeMap::new();
        for line in log
            .lines()
            .filter(|line| line.contains("starting a stream"))
        {
            let (_, fields) = line
                .split_once("unit=")
                .with_context(|| format!("no unit in {line}"))?;
            let (unit, _) = fields
                .split_once(" revision=")
                .with_context(|| format!("no end of the unit in {line}"))?;
            *starts.entry(unit.to_owned()).or_default() += 1;
        }
        Ok(starts)
    }
}

/// Starts the operator on a control plane with CRDs and all members registered.
async fn start(fleet: &Fleet) -> Result<Operator> {
    prepare(fleet).await?;
    start_operator(fleet, &[]).await
}

/// Starts an operator for a fleet that is [prepared](prepare), and waits until it is ready.
pub async fn start_operator(fleet: &Fleet, more_flags: &[&str]) -> Result<Operator> {
    let more_flags = more_flags.iter().map(|&flag| flag.to_owned());
    let operator = Operator::start(OperatorOptions {
        arguments: flags().into_iter().chain(more_flags).collect(),
        ..OperatorOptions::of(fleet)
    })?;
    operator.wait_ready(DEADLINE).await?;
    Ok(operator)
}

/// The clusters that a replica reads.
pub async fn clusters_read_by(replica: &Operator) -> Result<BTreeSet<String>> {
    let metrics = replica.metrics().await?;
    let mut read = BTreeSet::new();
    for line in metrics
        .lines()
        .filter(|line| line.starts_with("fleetdex_units{") && !line.ends_with(" 0"))
    {
        let (_, rest) = line
            .split_once("cluster=\"")
            .with_context(|| format!("no cluster in {line}"))?;
        let (cluster, _) = rest
            .split_once('"')
            .with_context(|| format!("no end of the cluster in {line}"))?;
        read.insert(cluster.to_owned());
    }
    Ok(read)
}

/// Probes and reconnects every second, so that faults and recoveries are noticed soon. Allows
/// several registrations of one member.
pub fn flags() -> Vec<String> {
    [
        "--probe-interval=1",
        "--connect-retry=1",
        "--allow-same-cluster",
    ]
    .map(str::to_owned)
    .to_vec()
}

/// Installs the CRDs of Fleetdex and registers every member under its own name.
pub async fn prepare(fleet: &Fleet) -> Result<()> {
    let kubectl = fleet.control_plane().kubectl()?;
    for file in CRDS {
        kubectl
            .apply_server_side(&repository_file(&format!("crds/{file}"))?)
            .await?;
    }
    let hub = Objects::of(fleet.control_plane())?;
    hub.create_namespace(SECRETS).await?;
    // A CRD is served shortly after it is accepted.
    eventually("the CRDs are served", DEADLINE, || async {
        hub.get("apis/cluster.karmada.io/v1alpha1/clusters").await?;
        hub.get("apis/cluster.karmada.io/v1alpha1/clustercaches")
            .await?;
        hub.get("apis/clustercaches.karmada.io/v1alpha1/clustercaches")
            .await?;
        for kind in [
            "resourceexploringwebhookconfigurations",
            "resourceinterpretercustomizations",
            "resourceinterpreterwebhookconfigurations",
        ] {
            hub.get(&format!("apis/config.karmada.io/v1alpha1/{kind}"))
                .await?;
        }
        hub.get(REGISTRIES).await
    })
    .await?;
    for member in fleet.members() {
        register(&hub, &Registration::new(member, member.name(), SECRETS)).await?;
    }
    Ok(())
}

/// Creates the Secret and the Cluster of a member.
pub async fn register(hub: &Objects, registration: &Registration) -> Result<()> {
    let name = registration.cluster["metadata"]["name"]
        .as_str()
        .context("a Cluster without a name")?;
    hub.apply(&secret_path(name), &registration.secret).await?;
    hub.apply(&cluster_path(name), &registration.cluster)
        .await
        .map(drop)
}

/// The path of a `Cluster`.
pub fn cluster_path(name: &str) -> String {
    format!("apis/cluster.karmada.io/v1alpha1/clusters/{name}")
}

/// The path of a member's Secret.
pub fn secret_path(name: &str) -> String {
    format!("api/v1/namespaces/{SECRETS}/secrets/{name}")
}

/// A file of the repository.
pub fn repository_file(path: &str) -> Result<String> {
    let full = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    fs::read_to_string(&full).with_context(|| format!("reading {}", full.display()))
}

/// A `ResourceRegistry` with an index prefix of its own.
#[derive(Debug, Clone)]
pub struct Registry {
    /// Its name.
    pub name: String,
    /// The prefix of its indices.
    pub prefix: String,
    /// Its spec; [`apply`](Self::apply) writes changes.
    pub spec: Value,
    hub: Objects,
    opensearch: OpenSearch,
}

impl Registry {
    /// Selects `selectors` in the clusters of these names, with the stage's OpenSearch as store. It
    /// is not applied yet.
    pub fn new(stage: &Stage, name: &str, clusters: &[&str], selectors: &Value) -> Result<Self> {
        Self::in_fleet(&stage.fleet, name, clusters, selectors)
    }

    /// As [`new`](Self::new), applied and ready.
    pub async fn ready(
        stage: &Stage,
        name: &str,
        clusters: &[&str],
        selectors: &Value,
    ) -> Result<Self> {
        let registry = Self::new(stage, name, clusters, selectors)?;
        registry.apply_until_ready().await?;
        Ok(registry)
    }

    /// As [`new`](Self::new), for a fleet without a stage.
    pub fn in_fleet(
        fleet: &Fleet,
        name: &str,
        clusters: &[&str],
        selectors: &Value,
    ) -> Result<Self> {
        let name = unique(name);
        let prefix = name.replace('-', "_");
        let opensearch = fleet.opensearch()?;
        let spec = json!({
            "targetCluster": { "clusterNames": clusters },
            "resourceSelectors": selectors,
            "backendStore": { "openSearch": {
                "addresses": [opensearch.url()], "indexPrefix": prefix, "numberOfReplicas": 0,
            } },
        });
        let hub = Objects::of(fleet.control_plane())?;
        Ok(Self {
            name,
            prefix,
            spec,
            hub,
            opensearch: opensearch.client()?,
        })
    }

    /// Another registry with the same store and the same spec.
    #[must_use]
    pub fn sibling(&self, name: &str) -> Self {
        Self {
            name: unique(name),
            ..self.clone()
        }
    }

    /// Its path on the control plane.
    pub fn path(&self) -> String {
        format!("{REGISTRIES}/{}", self.name)
    }

    /// Creates or updates it.
    pub async fn apply(&self) -> Result<()> {
        let object = json!({
            "apiVersion": "search.karmada.io/v1alpha1", "kind": "ResourceRegistry",
            "metadata": { "name": self.name }, "spec": self.spec,
        });
        self.hub.apply(&self.path(), &object).await.map(drop)
    }

    /// Its store's connection settings.
    pub fn store(&mut self) -> &mut Value {
        &mut self.spec["backendStore"]["openSearch"]
    }

    /// Its status; an error while any condition has an older `observedGeneration`.
    pub async fn status(&self) -> Result<Value> {
        let mut object = self.hub.get(&self.path()).await?;
        let generation = &object["metadata"]["generation"];
        let conditions = object["status"]["conditions"]
            .as_array()
            .context("no conditions yet")?;
        let is_current = conditions
            .iter()
            .all(|condition| condition["observedGeneration"] == *generation);
        ensure!(
            is_current,
            "the status is not of generation {generation} yet: {}",
            object["status"]
        );
        Ok(object["status"].take())
    }

    /// Waits for a condition with this status and reason, and a message that contains `part`.
    /// Returns the message.
    pub async fn until(
        &self,
        condition: &str,
        status: &str,
        reason: &str,
        part: &str,
    ) -> Result<String> {
        let what = format!("{}: {condition}={status} {reason} ({part})", self.name);
        eventually(&what, DEADLINE, || async {
            let seen = self.status().await?;
            let conditions = seen["conditions"].as_array().context("no conditions")?;
            let found = conditions
                .iter()
                .find(|found| found["type"] == condition)
                .with_context(|| format!("no {condition} in {seen}"))?;
            let message = found["message"].as_str().unwrap_or_default();
            let matches =
                found["status"] == status && found["reason"] == reason && message.contains(part);
            ensure!(matches, "{seen}");
            Ok(message.to_owned())
        })
        .await
    }

    /// Waits until it is ready.
    pub async fn until_ready(&self) -> Result<()> {
        self.until("Ready", "True", "Ready", "").await.map(drop)
    }

    /// [Applies](Self::apply) it, and waits until it is ready.
    pub async fn apply_until_ready(&self) -> Result<()> {
        self.apply().await?;
        self.until_ready().await
    }

    /// Waits until one of its clusters is in a phase, with a message that contains `part`.
    pub async fn until_phase(&self, cluster: &str, phase: &str, part: &str) -> Result<Value> {
        let what = format!("{}: {cluster} is {phase} ({part})", self.name);
        eventually(&what, DEADLINE, || async {
            let seen = self.status().await?;
            let clusters = seen["clusters"].as_array().context("no clusters")?;
            let found = clusters
                .iter()
                .find(|found| found["name"] == cluster)
                .with_context(|| format!("no {cluster} in {seen}"))?;
            let matches = found["phase"] == phase && found.to_string().contains(part);
            ensure!(matches, "{seen}");
            Ok(found.clone())
        })
        .await
    }

    /// Waits until it is not ready, for this reason, with a message that contains `part`.
    pub async fn until_not_ready(&self, reason: &str, part: &str) -> Result<String> {
        self.until("Ready", "False", reason, part).await
    }

    /// Waits until its store fails, for this reason, with a message that contains `part`.
    pub async fn until_store_fails(&self, reason: &str, part: &str) -> Result<String> {
        self.until("StoreReachable", "False", reason, part).await
    }

    /// Waits until one of its clusters has failed, with a message that contains `part`.
    pub async fn until_failed(&self, cluster: &str, part: &str) -> Result<Value> {
        self.until_phase(cluster, "Failed", part).await
    }

    /// An oracle for its documents.
    pub fn oracle(&self) -> Oracle {
        Oracle::new(&self.opensearch, &self.prefix)
    }

    /// Deletes it, without waiting.
    pub async fn delete(&self) -> Result<()> {
        self.hub.delete(&self.path()).await
    }

    /// Waits until the object is deleted.
    pub async fn until_absent(&self) -> Result<()> {
        eventually(&format!("{} is deleted", self.name), DEADLINE, || async {
            let found = self.hub.find(&self.path()).await?;
            ensure!(found.is_none(), "{found:?}");
            Ok(())
        })
        .await
    }

    /// Deletes it, waits until the object is deleted, and checks that no documents and indices are
    /// left.
    pub async fn remove(&self) -> Result<()> {
        self.delete().await?;
        self.until_absent().await?;
        let left = documents(&self.opensearch, &self.prefix).await?;
        ensure!(
            left.is_empty(),
            "{} is gone and left {} documents",
            self.name,
            left.len()
        );
        let left = indices(&self.opensearch, &self.prefix).await?;
        ensure!(left.is_empty(), "{} is gone and left {left:?}", self.name);
        Ok(())
    }
}

/// Waits until `check` succeeds, for at most [`DEADLINE`]; see [`eventually`].
pub async fn until<T, F>(what: &str, check: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    eventually(what, DEADLINE, check).await
}

/// Waits until the documents equal the objects of the clusters. Returns the number of documents.
pub async fn until_equal(oracle: &Oracle) -> Result<usize> {
    eventually("the store holds exactly the objects", DEADLINE, || {
        oracle.compare()
    })
    .await
}
