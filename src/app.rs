//! `fleetdex run`: builds every part of the operator, owns every task, and stops them in order:
//! streams, writers, Lease, servers.

mod args;
mod catalog;
mod installation;
mod registries;
mod replicas;
pub(crate) mod signals;
pub(crate) mod trace_export;

use std::{env, sync::Arc, time::Duration};

use anyhow::Context as _;
use fleetdex_cli::ControlPlaneArgs;
use fleetdex_clusters::{
    Clusters, ConnectionTiming,
    connect::{Network, Protocols},
    source::{Loader, SourceKind, Sources},
    throttle::Rate,
};
use fleetdex_distributor::{DistributorContext, SetSources};
use fleetdex_interpreter::rules::RuleSet;
use fleetdex_limits::intake::Budget;
use fleetdex_operator::{controller, karmada};
use fleetdex_replicas::Replicas;
use fleetdex_server::{
    auth::{self, SecureServing},
    catalog::Catalog,
    http::{listen::Listener, serve::Server},
    read::{bindings::BindingReader, fleet::Registries, interpreters::Interpreters},
    telemetry::Telemetry,
    watch::peers::Peers,
};
use fleetdex_store::{changes::Sequence, memory::Memory};
use fleetdex_sync::enrichment::WebhookAccess;
use fleetdex_telemetry::{Liveness, Metrics, Readiness, admin, traces::TraceSettings};
use fleetdex_webhooks::{
    client::WebhookClient,
    direct::DirectCalls,
    queue::{EnrichmentQueue, QueueLimits},
    service::ServiceReader,
};
use jiff::Timestamp;
use kube::{Client, Config};
use tokio::{
    sync::{Notify, watch},
    task::{JoinHandle, JoinSet},
};
use tokio_util::sync::CancellationToken;

use self::{
    args::DistributionArgs, catalog::CatalogPublisher, registries::ReflectedRegistries,
    trace_export::TraceExport,
};
pub use self::{args::RunArgs, catalog::catalog};

/// Runs the operator until SIGTERM or SIGINT.
pub async fn run(args: RunArgs) -> anyhow::Result<()> {
    args.sources.check()?;
    let trace_settings = TraceSettings::from_environment()?;
    let cancel = signals::cancel_on_signal()?;
    let control_plane_config = args.control_plane.config().await?;
    let control_plane = ControlPlaneArgs::client(&control_plane_config)?;
    let metrics = Arc::new(Metrics::new());
    let (traces, trace_export) = TraceExport::start(trace_settings.as_ref(), &metrics)?;
    let telemetry = Telemetry {
        metrics,
        readiness: Readiness::new(),
        traces,
    };
    let server = Server::bind(&args.server, args.secure_serving.is_on()).await?;
    let admin = bind_admin(&args, &telemetry).await?;

    let owner = installation::id(&control_plane).await;
    let clusters = Arc::new(connections(&args, &control_plane, cancel.child_token()));
    let changed = Arc::new(Notify::new());
    let replicas = replicas::join(&args, &control_plane_config, &changed, server.address())?;
    let mut servers = Servers::default();
    let secure_serving = servers
        .start_secure_serving(&args, &replicas, &control_plane, &clusters, &telemetry)
        .await?;
    let peers = peers(
        &args,
        &replicas,
        control_plane_config,
        secure_serving.as_ref(),
    );
    let (catalog, catalog_reader) = watch::channel(Arc::new(Catalog::without_registries(
        "the registries and clusters have not been read yet; /readyz says why",
    )));
    let rules = watch::Sender::new(Arc::<RuleSet>::default());
    let webhooks = webhook_access(&control_plane, &telemetry);
    let server = server.with_interpreters(interpreters(&rules, &webhooks, &telemetry.metrics));
    let shared = SharedState {
        catalog: CatalogPublisher(catalog),
        rules,
        webhooks,
        registries: ReflectedRegistries::default(),
    };
    let mut server = server.with_registries(Registries::new(Arc::new(shared.registries.clone())));
    if args.distribution.distribute {
        server = server.with_bindings(BindingReader::new(control_plane.clone()));
    }
    let context = controller_context(
        &args,
        control_plane,
        &clusters,
        &replicas,
        changed,
        &telemetry,
        shared,
    )
    .await;

    let distributor = distributor(&args, &context, &cancel);
    let lease = LeaseRenewal::start(replicas);
    servers.serve_admin(admin, &telemetry)?;
    servers.tasks.spawn(server.run(
        catalog_reader,
        Arc::clone(&clusters),
        telemetry,
        secure_serving,
        peers,
        servers.ports.clone(),
    ));
    tokio::select! {
        () = controller::run(context, owner, cancel.clone()) => {}
        Some(ended) = servers.tasks.join_next() => {
            ended.context("a server ended")?;
            anyhow::bail!("a server ended without being asked to");
        }
    }
    distributor.await.context("distribution ended")?;
    // The controller has written its last changes under the Lease; only now may it be given up.
    lease.release().await?;
    clusters.stopped().await;
    servers.stop().await?;
    trace_export.finish().await?;
    tracing::info!("stopped");
    Ok(())
}

async fn bind_admin(args: &RunArgs, telemetry: &Telemetry) -> anyhow::Result<Listener> {
    let admin = Listener::bind(args.admin.admin_address, admin::ADDRESS_FLAG)
        .await?
        .counting(Arc::clone(&telemetry.metrics));
    tracing::info!(address = %admin.address(), "serving metrics and health");
    Ok(admin)
}

/// Whether the status of `Cluster` objects is written here: a Karmada control plane writes its own.
async fn writes_cluster_status(args: &RunArgs, control_plane: &Client) -> bool {
    let karmada_serves_clusters = karmada::serves_clusters(control_plane).await;
    args.sources.has(SourceKind::Karmada) && !args.leave_cluster_status && !karmada_serves_clusters
}

/// The connections to the members.
fn connections(args: &RunArgs, control_plane: &Client, cancel: CancellationToken) -> Clusters {
    let timing = ConnectionTiming {
        probe_interval: Duration::from_secs_f64(args.probe_interval),
        connect_retry: Duration::from_secs_f64(args.connect_retry),
        ..ConnectionTiming::default()
    };
    let rate = Rate {
        per_second: args.member_qps,
        burst: args.member_burst,
    };
    let network = Network {
        rate,
        budget: Budget::default(),
        protocols: if args.member_http1 {
            Protocols::Http1
        } else {
            Protocols::Http2AndHttp1
        },
    };
    let loader = Loader::new(control_plane.clone(), args.secret_hosts.clone());
    Clusters::new(loader, Arc::new(network), timing, cancel)
}

/// The other replicas whose changes watches here need. Without secure serving they cannot be
/// reached.
fn peers(
    args: &RunArgs,
    replicas: &Replicas,
    control_plane_config: Config,
    secure_serving: Option<&SecureServing>,
) -> Peers {
    match secure_serving {
        Some(serving) if args.replicas => Peers::new(
            replicas.clone(),
            control_plane_config,
            serving.peer_trust.clone(),
        ),
        _ => Peers::default(),
    }
}

/// Distributes objects in a task of its own, if the flags ask for it.
fn distributor(
    args: &RunArgs,
    context: &controller::ControllerContext,
    cancel: &CancellationToken,
) -> JoinHandle<()> {
    if !args.distribution.distribute {
        return tokio::spawn(async {});
    }
    let WebhookAccess { client, queue, .. } = context.webhooks.clone();
    let context = DistributorContext {
        control_plane: context.control_plane.clone(),
        clusters: Arc::clone(&context.clusters),
        sources: Arc::clone(&context.sources),
        rules: context.rules.subscribe(),
        webhooks: Arc::new(DirectCalls::new(client, queue)),
        replicas: context.replicas.clone(),
        metrics: Arc::clone(&context.metrics),
        brake: args.distribution.deletion_brake,
        sets: set_sources(args),
        clock: Timestamp::now,
    };
    tokio::spawn(fleetdex_distributor::run(context, cancel.child_token()))
}

/// What renders the objects of `Distribution`s.
fn set_sources(args: &RunArgs) -> SetSources {
    let DistributionArgs {
        programs,
        source_hosts,
        ..
    } = &args.distribution;
    SetSources {
        // The renderers are started by this program.
        sandbox: env::current_exe().unwrap_or_else(|_| "fleetdex".into()),
        helm: programs.helm.clone(),
        kustomize: programs.kustomize.clone(),
        source_hosts: source_hosts.clone(),
        secret_hosts: args.secret_hosts.clone(),
    }
}

/// What the controller shares with the query API.
struct SharedState {
    catalog: CatalogPublisher,
    rules: watch::Sender<Arc<RuleSet>>,
    webhooks: WebhookAccess,
    registries: ReflectedRegistries,
}

/// Resource interpreters for the query API, whose calls respect the breakers of the queue.
fn interpreters(
    rules: &watch::Sender<Arc<RuleSet>>,
    webhooks: &WebhookAccess,
    metrics: &Metrics,
) -> Interpreters {
    let WebhookAccess { client, queue, .. } = webhooks.clone();
    let direct = DirectCalls::new(client, queue);
    Interpreters::new(rules.subscribe(), Some(Arc::new(direct)), metrics)
}

async fn controller_context(
    args: &RunArgs,
    control_plane: Client,
    clusters: &Arc<Clusters>,
    replicas: &Replicas,
    changed: Arc<Notify>,
    telemetry: &Telemetry,
    shared: SharedState,
) -> controller::ControllerContext {
    let sources = Sources::new(
        control_plane.clone(),
        args.sources.clone(),
        Arc::clone(&telemetry.metrics),
        telemetry.readiness.clone(),
        Arc::clone(&changed),
    );
    let writes_cluster_status = writes_cluster_status(args, &control_plane).await;
    let replica = replicas.config().map(|config| config.name.as_str());
    controller::ControllerContext {
        registries: shared.registries.0,
        control_plane,
        clusters: Arc::clone(clusters),
        secret_hosts: args.secret_hosts.clone(),
        memory: Memory::numbered(Sequence::of_replica(replica)),
        list_contexts: args.list_contexts,
        publish: Arc::new(shared.catalog),
        metrics: Arc::clone(&telemetry.metrics),
        traces: telemetry.traces.clone(),
        readiness: telemetry.readiness.clone(),
        sources: Arc::new(sources),
        writes_cluster_status,
        changed,
        replicas: replicas.clone(),
        audit_interval: Some(args.audit_interval)
            .filter(|seconds| *seconds > 0.0)
            .map(Duration::from_secs_f64),
        argocd_health: args.argocd_health_config_map.clone(),
        rules: shared.rules,
        webhooks: shared.webhooks,
    }
}

/// Asks interpreter webhooks; Services are those of the control plane.
fn webhook_access(control_plane: &Client, telemetry: &Telemetry) -> WebhookAccess {
    let metrics = telemetry.metrics.webhooks();
    let services = Arc::new(ServiceReader::new(control_plane.clone()));
    WebhookAccess::new(
        Arc::new(WebhookClient::new(services, metrics.clone())),
        EnrichmentQueue::new(QueueLimits::default(), metrics),
    )
}

/// The servers of the query API and of the admin port.
#[derive(Default)]
struct Servers {
    tasks: JoinSet<()>,
    /// Cancelled last: the ports stay open until everything is written, so that a drain can be
    /// watched.
    ports: CancellationToken,
}

impl Servers {
    /// Serves the query API over TLS with Kubernetes' authentication, if the flags ask for it.
    /// Otherwise only the holder of the token file can query.
    async fn start_secure_serving(
        &mut self,
        args: &RunArgs,
        replicas: &Replicas,
        control_plane: &Client,
        clusters: &Arc<Clusters>,
        telemetry: &Telemetry,
    ) -> anyhow::Result<Option<SecureServing>> {
        if !args.secure_serving.is_on() {
            return Ok(None);
        }
        let namespace = replicas.config().map(|config| config.namespace.as_str());
        let serving = auth::start(
            &args.secure_serving,
            namespace,
            control_plane.clone(),
            Arc::clone(clusters),
            telemetry,
            &mut self.tasks,
            &self.ports,
        );
        let serving = serving
            .await
            .context("cannot serve the query API over TLS")?;
        Ok(Some(serving))
    }

    fn serve_admin(&mut self, admin: Listener, telemetry: &Telemetry) -> anyhow::Result<()> {
        let liveness = Liveness::default();
        tokio::spawn(liveness.clone().beat());
        let metrics = Arc::clone(&telemetry.metrics);
        let router = admin::router(metrics, telemetry.readiness.clone(), &liveness);
        let ended = admin
            .serve_apart("admin", router, self.ports.clone())
            .context("cannot start the thread of the admin port")?;
        self.tasks.spawn(ended);
        Ok(())
    }

    /// Closes the ports, and waits until every server has ended.
    async fn stop(mut self) -> anyhow::Result<()> {
        self.ports.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            ended.context("a server ended")?;
        }
        Ok(())
    }
}

/// The task that renews the Lease of this replica.
struct LeaseRenewal {
    replicas: Replicas,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl LeaseRenewal {
    fn start(replicas: Replicas) -> Self {
        let stop = CancellationToken::new();
        let task = tokio::spawn(replicas.clone().run(stop.clone()));
        Self {
            replicas,
            stop,
            task,
        }
    }

    /// Stops renewing, and deletes the Lease.
    async fn release(self) -> anyhow::Result<()> {
        self.stop.cancel();
        self.task.await.context("the renewal of the Lease ended")?;
        self.replicas.leave().await;
        Ok(())
    }
}
