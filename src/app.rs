//! The operator: builds everything, owns every task, and stops in order: streams, writers, servers.

use std::{
    borrow::Cow, collections::BTreeMap, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration,
};

use anyhow::Context as _;
use clap::Args;
use fleetdex_clusters::{
    Clusters, MemberState, Timing,
    connect::Network,
    secret_hosts::SecretHosts,
    source::{Loader, SourceArgs, SourceKind, Sources, is_left_to_another},
    throttle::Rate,
};
use fleetdex_core::{
    model::{ClusterName, Scope, SelectableField, StoreName, Unit},
    query::ResourceName,
};
use fleetdex_limits::intake::{BoundLayer, Budget};
use fleetdex_operator::{
    controller::{self, Publish},
    fleet::Fleet,
    gaps::Gap,
    karmada,
    plan::Plan,
    replicas::{self, ReplicaName, Replicas},
};
use fleetdex_server::{
    Catalog, Entry, Followed, Reach, Server, ServerArgs, Telemetry,
    catalog::qualified,
    front::{self, Entrance, FrontArgs},
    listen::Listener,
    peers::Peers,
};
use fleetdex_store::{Checkpoints, changes::Sequence, memory::Memory, opensearch::LIST_CONTEXTS};
use fleetdex_sync::{checkpoints, filter::ObjectFilter, pipeline::Pipeline};
use fleetdex_telemetry::{
    Metrics, Readiness,
    admin::{self, AdminArgs},
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, Config,
    client::ClientBuilder,
    config::{KubeConfigOptions, Kubeconfig},
};
use tokio::{
    sync::{Notify, watch},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

/// How the control plane answers a small request.
const HUB_TIMEOUT: Duration = Duration::from_secs(10);

/// `fleetdex run`
#[derive(Args, Clone, Debug)]
pub struct RunArgs {
    /// Kubeconfig of the control plane; without it `KUBECONFIG` counts, then ~/.kube/config, then the Pod's service account.
    #[arg(long, env = "FLEETDEX_KUBECONFIG")]
    pub kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig; without it its current one.
    #[arg(long, env = "FLEETDEX_CONTEXT")]
    pub context: Option<String>,

    /// Seconds between probes of a member; discovery is refreshed as often, so that new CRDs are seen.
    #[arg(long, env = "FLEETDEX_PROBE_INTERVAL", default_value_t = 10.0, value_parser = seconds)]
    pub probe_interval: f64,

    /// Seconds from a failed connection attempt to the next.
    #[arg(long, env = "FLEETDEX_CONNECT_RETRY", default_value_t = 30.0, value_parser = seconds)]
    pub connect_retry: f64,

    /// Requests per second to each member in the long run; probes are not counted, and a watch counts once.
    #[arg(long, env = "FLEETDEX_MEMBER_QPS", default_value_t = 20.0, value_parser = requests_per_second)]
    pub member_qps: f64,

    /// Requests to each member that may go out at once after a quiet time.
    #[arg(long, env = "FLEETDEX_MEMBER_BURST", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub member_burst: u32,

    /// Leave the status of Cluster objects alone, because a Karmada control plane writes it.
    #[arg(long, env = "FLEETDEX_LEAVE_CLUSTER_STATUS")]
    pub leave_cluster_status: bool,

    /// Seconds between two audits of a kind of a member, on the average: what is stored is compared with what is there. 0: never.
    #[arg(long, env = "FLEETDEX_AUDIT_INTERVAL", default_value_t = 1_800.0, value_parser = seconds_or_never)]
    pub audit_interval: f64,

    /// Contexts of points in time that the pages of users' lists may hold of each OpenSearch together, one user half of them. A node has 300
    /// (`search.max_open_pit_context`), which all replicas share.
    #[arg(long, env = "FLEETDEX_LIST_CONTEXTS", default_value_t = LIST_CONTEXTS, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub list_contexts: u64,

    /// Share the clusters with the other replicas of this installation: each has a Lease, and reads what falls to it.
    #[arg(long, env = "FLEETDEX_REPLICAS")]
    pub replicas: bool,

    /// Name of this replica, which no other one has; without it the host's name, which is that of the Pod.
    #[arg(long, env = "FLEETDEX_REPLICA_NAME", requires = "replicas")]
    pub replica_name: Option<ReplicaName>,

    /// Namespace of the replicas' Leases and reports; without it that of the Pod or of the kubeconfig.
    #[arg(long, env = "FLEETDEX_REPLICA_NAMESPACE", requires = "replicas")]
    pub replica_namespace: Option<String>,

    /// Where the other replicas reach the query API of this one, so that watches there are told what this one reads; without it the address at which
    /// it is served, if that is a certain one.
    #[arg(long, value_name = "IP:PORT", env = "FLEETDEX_REPLICA_ADDRESS", requires = "replicas", value_parser = socket_address)]
    pub replica_address: Option<SocketAddr>,

    /// The sources of clusters.
    #[command(flatten)]
    pub sources: SourceArgs,

    /// Where Secrets may be sent.
    #[command(flatten)]
    pub secret_hosts: SecretHosts,

    /// The query API.
    #[command(flatten)]
    pub server: ServerArgs,

    /// Who may ask besides the holder of the token file.
    #[command(flatten)]
    pub front: FrontArgs,

    /// The admin port.
    #[command(flatten)]
    pub admin: AdminArgs,
}

/// An address and a port. An IPv6 address may stand without brackets, because Kubernetes tells those of Pods so.
fn socket_address(text: &str) -> Result<SocketAddr, String> {
    let bare = || {
        let (address, port) = text.rsplit_once(':')?;
        Some(SocketAddr::new(address.parse().ok()?, port.parse().ok()?))
    };
    text.parse()
        .ok()
        .or_else(bare)
        .ok_or_else(|| "an address and a port, such as 10.1.2.3:8443".to_owned())
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err("a number of seconds from 0.1 to 86400".to_owned()),
    }
}

fn requests_per_second(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if (0.1..=10_000.0).contains(&rate) => Ok(rate),
        _ => Err("a number of requests from 0.1 to 10000".to_owned()),
    }
}

fn seconds_or_never(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds == 0.0 || (1.0..=604_800.0).contains(&seconds) => Ok(seconds),
        _ => Err("a number of seconds from 1 to 604800, or 0 for never".to_owned()),
    }
}

/// Runs the operator until it is told to stop.
pub async fn run(args: RunArgs) -> anyhow::Result<()> {
    args.sources.check()?;
    let cancel = stop_on_signal()?;
    let hub_config = hub_config(&args).await?;
    let hub = hub_client(&hub_config)?;
    let metrics = Arc::new(Metrics::new());
    let readiness = Readiness::new();
    let server = Server::bind(&args.server, args.front.is_on()).await?;
    let admin = Listener::bind(args.admin.admin_address, admin::ADDRESS_FLAG)
        .await?
        .counting(Arc::clone(&metrics));
    tracing::info!(address = %admin.address(), "serving metrics and health");

    let owner = owner(&hub).await;
    let karmada_serves_clusters = karmada::serves_clusters(&hub).await;
    let clusters = Arc::new(connections(&args, &hub, cancel.child_token()));
    let (catalog, catalog_reader) = watch::channel(Arc::new(Catalog::default()));
    let changed = Arc::new(Notify::new());
    let replicas = replicas(&args, &hub, &changed, server.address())?;
    let writes_cluster_status = args.sources.has(SourceKind::Karmada)
        && !args.leave_cluster_status
        && !karmada_serves_clusters;
    let sources = Sources::new(
        hub.clone(),
        args.sources.clone(),
        Arc::clone(&metrics),
        readiness.clone(),
        Arc::clone(&changed),
    );
    let mut tasks = JoinSet::new();
    // The ports stay open until everything is written, so that a drain can be watched.
    let ports = CancellationToken::new();
    let telemetry = Telemetry {
        metrics: Arc::clone(&metrics),
        readiness: readiness.clone(),
    };
    let started = entrance(
        &args, &replicas, &hub, &clusters, &telemetry, &mut tasks, &ports,
    );
    let entrance = started.await?;
    let peers = match &entrance {
        Some(entrance) if args.replicas => {
            Peers::new(replicas.clone(), hub_config, entrance.recognition.clone())
        }
        _ => Peers::default(),
    };
    let context = controller::Context {
        hub,
        clusters: Arc::clone(&clusters),
        secret_hosts: args.secret_hosts.clone(),
        memory: Memory::numbered(sequence(&replicas)),
        list_contexts: args.list_contexts,
        publish: Arc::new(CatalogWriter(catalog)),
        metrics: Arc::clone(&metrics),
        readiness: readiness.clone(),
        sources: Arc::new(sources),
        writes_cluster_status,
        changed,
        replicas: replicas.clone(),
        audit_interval: Some(args.audit_interval)
            .filter(|seconds| *seconds > 0.0)
            .map(Duration::from_secs_f64),
    };

    let leases = CancellationToken::new();
    let renewals = tokio::spawn(replicas.clone().run(leases.clone()));
    tasks.spawn(admin.serve(
        admin::router(Arc::clone(&metrics), readiness.clone()),
        ports.clone(),
    ));
    tasks.spawn(server.run(
        catalog_reader,
        Arc::clone(&clusters),
        telemetry,
        entrance,
        peers,
        ports.clone(),
    ));
    tokio::select! {
        () = controller::run(context, owner, cancel.clone()) => {}
        Some(ended) = tasks.join_next() => {
            ended.context("a server ended")?;
            anyhow::bail!("a server ended although nobody asked it to");
        }
    }
    // Only now: what was left to write has been written under the Lease.
    leases.cancel();
    renewals.await.context("the renewal of the Lease ended")?;
    replicas.leave().await;
    clusters.stopped().await;
    ports.cancel();
    all_ended(tasks).await?;
    tracing::info!("stopped");
    Ok(())
}

fn hub_client(config: &kube::Config) -> anyhow::Result<Client> {
    let client = ClientBuilder::try_from(config.clone())
        .context("cannot make a client for the control plane")?;
    Ok(client.with_layer(&BoundLayer::default()).build())
}

/// What serves the query API to others than the holder of the token file, if anything should.
async fn entrance(
    args: &RunArgs,
    replicas: &Replicas,
    hub: &Client,
    clusters: &Arc<Clusters>,
    telemetry: &Telemetry,
    tasks: &mut JoinSet<()>,
    ports: &CancellationToken,
) -> anyhow::Result<Option<Entrance>> {
    if !args.front.is_on() {
        return Ok(None);
    }
    let namespace = replicas
        .settings()
        .map(|settings| settings.namespace.as_str());
    let (hub, clusters) = (hub.clone(), Arc::clone(clusters));
    let started = front::start(
        &args.front,
        namespace,
        hub,
        clusters,
        telemetry,
        tasks,
        ports,
    );
    let started = started.await;
    Ok(Some(
        started.context("cannot serve the query API to others")?,
    ))
}

/// The numbers of this replica's changes.
fn sequence(replicas: &Replicas) -> Sequence {
    Sequence::of_replica(replicas.settings().map(|settings| settings.name.as_str()))
}

async fn all_ended(mut tasks: JoinSet<()>) -> anyhow::Result<()> {
    while let Some(ended) = tasks.join_next().await {
        ended.context("a server ended")?;
    }
    Ok(())
}

/// What connects to the members.
fn connections(args: &RunArgs, hub: &Client, cancel: CancellationToken) -> Clusters {
    let timing = Timing {
        probe_interval: Duration::from_secs_f64(args.probe_interval),
        connect_retry: Duration::from_secs_f64(args.connect_retry),
        ..Timing::default()
    };
    let rate = Rate {
        per_second: args.member_qps,
        burst: args.member_burst,
    };
    let network = Network {
        rate,
        budget: Budget::default(),
    };
    let loader = Loader::new(hub.clone(), args.secret_hosts.clone());
    Clusters::new(loader, Arc::new(network), timing, cancel)
}

fn replicas(
    args: &RunArgs,
    hub: &Client,
    changed: &Arc<Notify>,
    served: SocketAddr,
) -> anyhow::Result<Replicas> {
    if !args.replicas {
        return Ok(Replicas::alone());
    }
    let name = match &args.replica_name {
        Some(name) => name.clone(),
        None => host_name()?
            .parse()
            .context("the host's name does not do; name this replica with --replica-name")?,
    };
    let namespace = args
        .replica_namespace
        .clone()
        .unwrap_or_else(|| hub.default_namespace().to_owned());
    let address = replica_address(args, served);
    tracing::info!(replica = %name, namespace, address = address.map(tracing::field::display), "sharing the clusters with the other replicas");
    Ok(Replicas::join(
        hub.clone(),
        replicas::Settings {
            name,
            namespace,
            address,
        },
        Arc::clone(changed),
    ))
}

/// Where the others reach the query API, if that is served to anybody but this machine's users.
fn replica_address(args: &RunArgs, served: SocketAddr) -> Option<SocketAddr> {
    if !args.front.is_on() {
        return None;
    }
    let known = args
        .replica_address
        .or_else(|| Some(served).filter(|address| !address.ip().is_unspecified()));
    if known.is_none() {
        tracing::warn!(
            "the other replicas cannot reach this one, so they tell no changes of the clusters that it reads; say where it is with --replica-address"
        );
    }
    known
}

fn host_name() -> anyhow::Result<String> {
    let name = hostname::get()
        .context("cannot read the host's name; name this replica with --replica-name")?;
    Ok(name.to_string_lossy().to_ascii_lowercase())
}

/// Cancelled by SIGTERM and SIGINT; a second one ends the process at once.
pub(crate) fn stop_on_signal() -> anyhow::Result<CancellationToken> {
    use tokio::signal::unix::{SignalKind, signal};
    let cancel = CancellationToken::new();
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let root = cancel.clone();
    // Lives as long as the process: a second signal ends it at once.
    tokio::spawn(async move {
        for stops_gracefully in [true, false] {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if stops_gracefully {
                tracing::info!(
                    "stopping: finishing what is under way (a second signal ends this at once)"
                );
                root.cancel();
            } else {
                std::process::exit(130);
            }
        }
    });
    Ok(cancel)
}

async fn hub_config(args: &RunArgs) -> anyhow::Result<Config> {
    let options = KubeConfigOptions {
        context: args.context.clone(),
        ..KubeConfigOptions::default()
    };
    let mut config = match &args.kubeconfig {
        Some(path) => {
            let kubeconfig = Kubeconfig::read_from(path)
                .with_context(|| format!("cannot read the kubeconfig {}", path.display()))?;
            Config::from_custom_kubeconfig(kubeconfig, &options)
                .await
                .with_context(|| {
                    format!(
                        "the kubeconfig {} does not make a connection",
                        path.display()
                    )
                })?
        }
        None if args.context.is_some() => Config::from_kubeconfig(&options)
            .await
            .context("no kubeconfig has that context; name one with --kubeconfig")?,
        None => Config::infer()
            .await
            .context("found no control plane; name a kubeconfig with --kubeconfig")?,
    };
    config.default_retry = false;
    Ok(config)
}

/// Names this installation in the indices: the control plane's identity, which survives reinstallation.
async fn owner(hub: &Client) -> String {
    let namespace = Api::<Namespace>::all(hub.clone());
    match tokio::time::timeout(HUB_TIMEOUT, namespace.get("kube-system")).await {
        Ok(Ok(found)) => found.metadata.uid.unwrap_or_default(),
        Ok(Err(error)) => {
            tracing::warn!(%error, "cannot read namespace kube-system; indices are marked with the name \"fleetdex\" as their owner");
            "fleetdex".to_owned()
        }
        Err(_) => {
            tracing::warn!(
                "the control plane does not answer; indices are marked with the name \"fleetdex\" as their owner"
            );
            "fleetdex".to_owned()
        }
    }
}

/// Tells the query server what is registered.
struct CatalogWriter(watch::Sender<Arc<Catalog>>);

impl Publish for CatalogWriter {
    fn publish(&self, plan: &Plan, fleet: &Fleet, members: &BTreeMap<ClusterName, MemberState>) {
        self.0.send_replace(Arc::new(catalog(plan, fleet, members)));
    }
}

/// What can be asked for, of what is planned and runs.
pub fn catalog(
    plan: &Plan,
    fleet: &Fleet,
    members: &BTreeMap<ClusterName, MemberState>,
) -> Catalog {
    let mut catalog = Catalog::default();
    for name in plan.registries.keys() {
        catalog.add_registry(name);
    }
    let fields = add_stores(&mut catalog, plan, fleet);
    add_kinds(&mut catalog, plan, fleet, members, &fields);
    for (cluster, member) in members {
        for (name, version, definition) in member
            .definitions
            .iter()
            .flat_map(|definitions| definitions.iter())
        {
            catalog.add_columns(cluster, name, version, &definition.columns);
        }
    }
    add_stale(&mut catalog, members);
    add_unread(&mut catalog, plan, fleet, members);
    for (stream, gap) in fleet.gaps() {
        let resource = ResourceName::from(&stream.unit.resource);
        let sentence = gap_sentence(&resource, &stream.unit, &gap);
        let namespace = match stream.unit.scope {
            Scope::All => None,
            Scope::Namespace(namespace) => Some(namespace),
        };
        catalog.add_gap((stream.unit.cluster, namespace), resource, sentence);
    }
    add_followed(&mut catalog, plan, fleet, members);
    for ((store, cluster), _) in plan.scopes.iter().filter(|(_, coverage)| !coverage.certain) {
        catalog.add_uncertain(cluster.clone(), store.clone());
    }
    catalog
}

/// Adds the stores that are open. Gives the selectable fields that each has besides those of the kinds.
fn add_stores<'p>(
    catalog: &mut Catalog,
    plan: &'p Plan,
    fleet: &Fleet,
) -> BTreeMap<&'p StoreName, Vec<SelectableField>> {
    let mut fields = BTreeMap::new();
    // What is kept elsewhere by now may still be answered from where it was.
    for name in fleet.old_stores() {
        if let Some(open) = fleet.pipeline(name).and_then(Pipeline::store) {
            catalog.add_store(name.clone(), open);
        }
    }
    for (name, store) in &plan.stores {
        if let Some(open) = fleet.pipeline(name).and_then(Pipeline::store) {
            catalog.add_store(name.clone(), open);
        }
        let extra: Vec<SelectableField> = store
            .field_paths
            .iter()
            .map(SelectableField::optional)
            .collect();
        fields.insert(name, extra);
    }
    fields
}

/// Adds what each store has of each cluster.
fn add_kinds(
    catalog: &mut Catalog,
    plan: &Plan,
    fleet: &Fleet,
    members: &BTreeMap<ClusterName, MemberState>,
    fields: &BTreeMap<&StoreName, Vec<SelectableField>>,
) {
    let (rebuilding, unfilled) = (fleet.rebuilding(), fleet.unfilled());
    for (stream, unit_plan) in &plan.units {
        let unit = &stream.unit;
        let discovery = members
            .get(&unit.cluster)
            .and_then(|member| member.discovery.as_ref());
        let served = discovery.and_then(|discovery| {
            discovery
                .served
                .iter()
                .find(|served| served.resource == unit.resource)
        });
        let Some(served) = served else { continue };
        let is_filled = !unfilled.contains(stream);
        let defined: Vec<SelectableField> = unit_plan
            .fields
            .iter()
            .filter(|_| is_filled)
            .map(SelectableField::optional)
            .collect();
        for route in &unit_plan.routes {
            let in_store = fleet
                .stand_in(&route.registry, &unit.cluster)
                .unwrap_or(&route.store);
            let extra = fields.get(in_store).map_or(&[][..], Vec::as_slice);
            let fields = if defined.is_empty() {
                Cow::Borrowed(extra)
            } else {
                Cow::Owned([&defined, extra].concat())
            };
            let is_rebuilding = || rebuilding.contains(&(in_store.clone(), unit.cluster.clone()));
            let store = plan.stores.get(in_store);
            let any_path = *in_store == StoreName::embedded()
                || store.is_some_and(|store| store.projection.is_full() && !is_rebuilding());
            catalog.add(Entry {
                served,
                cluster: &unit.cluster,
                store: in_store,
                fields: &fields,
                any_path,
            });
            catalog.add_reach(
                &ResourceName::from(&unit.resource),
                in_store,
                &unit.cluster,
                &reach(&route.filter),
            );
        }
    }
}

/// Adds the clusters that are not connected, whose objects are as they were.
fn add_stale(catalog: &mut Catalog, members: &BTreeMap<ClusterName, MemberState>) {
    for (name, member) in members
        .iter()
        .filter(|(_, member)| member.connection.is_none() && !is_left_to_another(member))
    {
        // Not the message, which names addresses and Secrets: those who run the server read it in the status.
        catalog.add_stale(
            name.clone(),
            member.since,
            format!("disconnected since {} ({})", member.since, member.reason),
        );
    }
}

/// Adds the clusters of which nothing has been read since the start, and what is stored of them.
fn add_unread(
    catalog: &mut Catalog,
    plan: &Plan,
    fleet: &Fleet,
    members: &BTreeMap<ClusterName, MemberState>,
) {
    for (store, cluster) in plan.scopes.keys() {
        let Some(member) = members
            .get(cluster)
            .filter(|member| member.discovery.is_none() && !is_left_to_another(member))
        else {
            continue;
        };
        let why = match fleet.share_of(store).other_reader(cluster) {
            // It may be followed there, but what it serves is not known here.
            Some(replica) => format!("{}; replica {replica} reads it", member.reason),
            None => member.reason.to_owned(),
        };
        catalog.add_unread(
            cluster.clone(),
            format!("not read since the start of Fleetdex ({why})"),
        );
        let remembered = fleet
            .pipeline(store)
            .and_then(|pipeline| pipeline.remembered(cluster));
        if let Some(remembered) = remembered {
            let any_path = plan
                .stores
                .get(store)
                .is_some_and(|plan| plan.is_embedded() || plan.projection.is_full());
            add_remembered(catalog, (store, any_path), &remembered, member.since, &why);
        }
    }
}

/// Adds the streams that can be verified here, and where the others are.
fn add_followed(
    catalog: &mut Catalog,
    plan: &Plan,
    fleet: &Fleet,
    members: &BTreeMap<ClusterName, MemberState>,
) {
    for stream in plan.units.keys() {
        let share = fleet.share_of(&stream.store);
        if let Some(replica) = share.other_reader(&stream.unit.cluster) {
            catalog.add_elsewhere(stream.unit.cluster.clone(), replica.to_string());
        }
        let why_not = || match share.other_reader(&stream.unit.cluster) {
            Some(replica) => format!("replica {replica} follows it; verify there"),
            None => why_not_followed(members.get(&stream.unit.cluster)),
        };
        let audit = fleet.audit(stream).cloned().ok_or_else(why_not);
        catalog.add_followed(Followed {
            unit: stream.unit.clone(),
            store: stream.store.clone(),
            audit,
        });
    }
}

/// What of a cluster's objects a filter lets into a store.
fn reach(filter: &ObjectFilter) -> Reach {
    if filter.decides_by_namespace() {
        Reach::of_namespaces(filter.namespaces(), filter.excluded_namespaces())
    } else {
        Reach::some_of(filter.namespaces())
    }
}

/// What a store holds of a cluster that has not said yet what it serves, as its checkpoints tell. `since` counts where these do not say when.
fn add_remembered(
    catalog: &mut Catalog,
    (store, any_path): (&StoreName, bool),
    remembered: &Checkpoints,
    since: Timestamp,
    why: &str,
) {
    let cluster = &remembered.cluster;
    for resource in checkpoints::resources(remembered) {
        catalog.add_remembered(cluster, store, resource, any_path);
    }
    let at = remembered.at.unwrap_or(since);
    catalog.add_stale(
        cluster.clone(),
        at,
        format!("not read since the start of Fleetdex, and as it was at {at} ({why})"),
    );
}

/// What an answer lacks, as a sentence.
fn gap_sentence(resource: &ResourceName, unit: &Unit, gap: &Gap) -> String {
    let what = match &unit.scope {
        Scope::All => format!("{} of cluster {}", qualified(resource), unit.cluster),
        Scope::Namespace(namespace) => format!(
            "{} in namespace {namespace} of cluster {}",
            qualified(resource),
            unit.cluster
        ),
    };
    match gap {
        Gap::FirstList => format!("{what} are being read and are not shown completely yet"),
        // Not what the member or the store says, which may name addresses: that is in the status of the registry.
        Gap::Failing {
            reason,
            is_shown: false,
            ..
        } => format!("{what} are not shown ({reason})"),
        Gap::Failing {
            reason,
            is_shown: true,
            ..
        } => format!("{what} are as they were last read ({reason})"),
        Gap::Disconnected => {
            format!(
                "{what} are as they were last read (their cluster is disconnected from the replica that reads it)"
            )
        }
        Gap::Unknown(replica) => {
            format!(
                "whether {what} are shown completely is not known yet: replica {replica}, which reads them, has not said"
            )
        }
    }
}

/// Why a stream of the plan does not run.
fn why_not_followed(member: Option<&MemberState>) -> String {
    match member {
        Some(MemberState {
            connection: None,
            since,
            reason,
            message,
            ..
        }) => {
            format!("the cluster is disconnected since {since}: {reason}: {message}")
        }
        Some(_) => "its stream has not begun".to_owned(),
        None => "the cluster is not a member".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use fleetdex_core::query::Permitted;
    use fleetdex_server::{
        request::{ListRequest, NativePath},
        target::target,
    };
    use fleetdex_store::{Checkpoint, KindOfUnit};

    use super::*;

    #[test]
    fn what_a_store_holds_of_a_member_that_is_down_since_the_start_is_shown_and_said_to_be_old() {
        let cluster: ClusterName = "member1".parse().unwrap();
        let store: StoreName = "main".parse().unwrap();
        let kind = KindOfUnit {
            kind: "Pod".into(),
            namespaced: true,
        };
        let checkpoint = Checkpoint {
            plan: "all".to_owned(),
            version: "7".parse().unwrap(),
            objects: 3,
            kind: Some(kind),
        };
        let at: Timestamp = "2026-02-03T10:00:00Z".parse().unwrap();
        let remembered = Checkpoints {
            cluster: cluster.clone(),
            generation: 1,
            index: "a".into(),
            units: [("v1/pods".to_owned(), checkpoint)].into(),
            at: Some(at),
        };
        let mut catalog = Catalog::default();
        catalog.add_store(store.clone(), Arc::new(Memory::new()));
        catalog.add_unread(
            cluster.clone(),
            "not read since the start of Fleetdex (dial)".to_owned(),
        );
        let native = |plural: &str| NativePath {
            version: "v1".to_owned(),
            plural: plural.to_owned(),
            ..NativePath::default()
        };
        let ask = |catalog: &Catalog, plural: &str| {
            target(
                catalog,
                &ListRequest {
                    native: native(plural),
                    ..ListRequest::default()
                },
                Permitted::Everything,
            )
        };
        let refused = ask(&catalog, "pods").err().unwrap();
        assert_eq!(
            (refused.code(), refused.to_string().as_str()),
            (
                404,
                "pods are not known yet: cluster member1, which may have them, is not read since the start of Fleetdex (dial)"
            )
        );
        add_remembered(
            &mut catalog,
            (&store, true),
            &remembered,
            Timestamp::UNIX_EPOCH,
            "dial",
        );
        let found = ask(&catalog, "pods").unwrap();
        assert_eq!(found.as_of, [(cluster, at)].into());
        assert_eq!(
            found.warnings,
            [
                "cluster member1 is not read since the start of Fleetdex, and as it was at 2026-02-03T10:00:00Z (dial)"
            ]
        );
        assert!(ask(&catalog, "nodes").is_err());
    }

    #[test]
    fn the_address_of_a_replica_may_be_told_as_kubernetes_tells_those_of_pods() {
        for (text, address) in [
            ("10.1.2.3:8443", "10.1.2.3:8443"),
            ("fd00::7:8443", "[fd00::7]:8443"),
            ("[fd00::7]:8443", "[fd00::7]:8443"),
        ] {
            assert_eq!(socket_address(text).unwrap().to_string(), address);
        }
        for wrong in ["", "10.1.2.3", "fleetdex-0:8443", ":8443"] {
            assert!(socket_address(wrong).is_err(), "{wrong}");
        }
    }
}
