//! `fleetdex local`: the contexts of a kubeconfig as one fleet, held in this process only.

mod args;
mod contexts;
mod progress;
mod resources;
mod rules;
mod status;
mod store;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anyhow::{Context as _, bail};
use fleetdex_clusters::{
    Clusters, ConnectionPhase, ConnectionTiming, Member, MemberState,
    connect::Network,
    source::{Duplicates, IndexedClusterUids, Loader, is_duplicate},
};
use fleetdex_core::model::{ClusterName, Scope, StoreName, Unit};
use fleetdex_crds::registry::{BackendStore, ResourceRegistrySpec};
use fleetdex_interpreter::rules::RuleSet;
use fleetdex_operator::{
    RegistryView,
    plan::{ClusterPlan, StreamKey},
    store_settings::CredentialSource,
    stores,
    stream_supervisor::{Desired, StreamSupervisor, SupervisorOptions},
};
use fleetdex_server::{
    catalog::Catalog,
    http::serve::Server,
    read::{fleet::Registries, interpreters::Interpreters},
    telemetry::Telemetry,
    watch::peers::Peers,
};
use fleetdex_store::{memory::Memory, opensearch::LIST_CONTEXTS};
use fleetdex_sync::progress::UnitState;
use fleetdex_telemetry::{Metrics, Readiness, Traces, traces::TraceSettings};
use tokio::{
    sync::{Notify, watch},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

pub use self::args::LocalArgs;
use self::{
    contexts::members,
    progress::{ContextProgress, Display, ProgressReporter},
    status::LocalStatus,
};
use crate::app::{catalog, signals, trace_export::TraceExport};

/// The name of the only registry.
const REGISTRY: &str = "local";
/// The owner of the indices that this command writes to an OpenSearch.
const OWNER: &str = "fleetdex local";
/// Changes within this time are handled together.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// How often the streams are maintained when nothing changes.
const MAINTENANCE_INTERVAL: Duration = Duration::from_secs(1);
/// How often each kind of each context is audited.
const AUDIT_INTERVAL: Duration = Duration::from_mins(30);

/// Reads the contexts and answers queries until SIGTERM or SIGINT.
pub async fn run(args: LocalArgs) -> anyhow::Result<()> {
    let trace_settings = TraceSettings::from_environment()?;
    let cancel = signals::cancel_on_signal()?;
    let members = members(&args).await?;
    let rules = Arc::new(rules::read(&args.rules).await?);
    let backend = args.store.backend()?;
    let status = Arc::new(LocalStatus::of(REGISTRY));
    let server = Server::bind(&args.server, false)
        .await?
        .with_registries(Registries::new(Arc::clone(&status) as Arc<_>));
    let address = server.address();
    if args.ui {
        open_page(&server);
    }
    let metrics = Arc::new(Metrics::new());
    let (traces, trace_export) = TraceExport::start(trace_settings.as_ref(), &metrics)?;
    let clusters = Arc::new(connections(members, cancel.child_token()));
    let changed = Arc::new(Notify::new());
    let supervisor = stream_supervisor(
        args.store.credentials()?,
        &metrics,
        &changed,
        traces.clone(),
    );
    // Files are read once.
    let (_rules, published) = watch::channel(Arc::clone(&rules));
    let server = server.with_interpreters(Interpreters::new(published, None, &metrics));
    let (publish, catalog_reader) = watch::channel(Arc::new(Catalog::default()));

    let mut tasks = JoinSet::new();
    let ports = CancellationToken::new();
    let telemetry = Telemetry {
        metrics,
        readiness: Readiness::new(),
        traces,
    };
    tasks.spawn(server.run(
        catalog_reader,
        Arc::clone(&clusters),
        telemetry,
        None,
        Peers::default(),
        ports.clone(),
    ));
    let local = LocalFleet {
        names: names(&args),
        backend,
        rules,
        supervisor,
        clusters,
        changed,
        publish,
        status,
    };
    let (clusters, mut supervisor) = tokio::select! {
        stopped = local.run(&args, address.to_string(), cancel.clone()) => stopped,
        Some(ended) = tasks.join_next() => {
            ended.context("the server ended")?;
            bail!("the server ended without being asked to");
        }
    };
    supervisor.shut_down().await;
    clusters.stopped().await;
    ports.cancel();
    while let Some(ended) = tasks.join_next().await {
        ended.context("the server ended")?;
    }
    trace_export.finish().await
}

/// Opens the web page, signed in, and prints the link for other browsers.
fn open_page(server: &Server) {
    let Some(path) = server.page_link() else {
        return;
    };
    let link = format!("http://{}{path}", server.address());
    eprintln!("web page: {link} (this link works once, within five minutes; later: fleetdex ui)");
    if let Err(error) = open::that_detached(&link) {
        tracing::debug!(%error, "no browser could be opened");
    }
}

/// The connections to the contexts.
fn connections(members: Vec<Member>, cancel: CancellationToken) -> Clusters {
    let (loader, network) = (
        Loader::without_control_plane(),
        Arc::new(Network::default()),
    );
    let clusters = Clusters::new(loader, network, ConnectionTiming::default(), cancel);
    clusters.set_members(members);
    clusters
}

fn stream_supervisor(
    credentials: CredentialSource,
    metrics: &Arc<Metrics>,
    changed: &Arc<Notify>,
    traces: Traces,
) -> StreamSupervisor {
    let opener = stores::opener(
        credentials,
        OWNER.to_owned(),
        Memory::new(),
        LIST_CONTEXTS,
        Arc::clone(metrics),
    );
    let options = SupervisorOptions {
        traces,
        audit_interval: Some(AUDIT_INTERVAL),
        ..SupervisorOptions::default()
    };
    StreamSupervisor::new(opener, Arc::clone(metrics), Arc::clone(changed), options)
}

fn names(args: &LocalArgs) -> Vec<String> {
    let defaults = || resources::DEFAULT.map(str::to_owned).to_vec();
    if args.resources.is_empty() {
        defaults()
    } else {
        args.resources.clone()
    }
}

/// The contexts, and what runs for them.
struct LocalFleet {
    names: Vec<String>,
    backend: Option<BackendStore>,
    rules: Arc<RuleSet>,
    supervisor: StreamSupervisor,
    clusters: Arc<Clusters>,
    changed: Arc<Notify>,
    publish: watch::Sender<Arc<Catalog>>,
    status: Arc<LocalStatus>,
}

impl LocalFleet {
    /// Reads the contexts until cancelled.
    async fn run(
        mut self,
        args: &LocalArgs,
        address: String,
        cancel: CancellationToken,
    ) -> (Arc<Clusters>, StreamSupervisor) {
        let mut connections = self.clusters.changed();
        let (mut duplicates, mut progress) = (
            Duplicates::new(Arc::clone(&self.changed)),
            ProgressReporter::default(),
        );
        let mut display = Display::default();
        while !cancel.is_cancelled() {
            let mut members = self.clusters.states();
            // Several contexts often name one cluster, each with another namespace or user.
            let planned = self.supervisor.planned_clusters();
            let _notes = duplicates.mark(&mut members, Some(&IndexedClusterUids::new()), &planned);
            let unknown = self.update_streams(&members).await;
            self.status.update(&self.supervisor, &members);
            let contexts: BTreeMap<ClusterName, ContextProgress> = members
                .iter()
                .map(|(name, member)| (name.clone(), self.context(name, member)))
                .collect();
            let update = progress.update(&contexts, &unknown);
            display.show(&contexts);
            update.lines.iter().for_each(|line| display.print(line));
            if update.completed {
                display.finish();
                display.print(&ready(args, &address));
            }
            tokio::select! {
                biased;
                () = cancel.cancelled() => {}
                _ = connections.changed() => {}
                () = self.changed.notified() => {}
                () = tokio::time::sleep(MAINTENANCE_INTERVAL) => {}
            }
            tokio::time::sleep(DEBOUNCE).await;
        }
        display.finish();
        (self.clusters, self.supervisor)
    }

    /// Makes what runs match the contexts. Returns the resources that none of them serves.
    async fn update_streams(
        &mut self,
        members: &BTreeMap<ClusterName, MemberState>,
    ) -> Vec<String> {
        let discoveries = members
            .values()
            .filter_map(|member| member.discovery.as_deref());
        let selected = resources::select(&self.names, discoveries);
        let spec = ResourceRegistrySpec {
            resource_selectors: selected.selectors,
            backend_store: self.backend.clone(),
            ..ResourceRegistrySpec::default()
        };
        let registry = RegistryView {
            name: REGISTRY.to_owned(),
            uid: REGISTRY.to_owned(),
            created: None,
            spec,
        };
        self.supervisor
            .reconcile(Desired {
                rules: Arc::clone(&self.rules),
                ..Desired::new(&[registry], members)
            })
            .await;
        if let Some(plan) = self.supervisor.plan() {
            let mut catalog = catalog(plan, &self.supervisor, members);
            catalog.set_local();
            self.publish.send_replace(Arc::new(catalog));
        }
        selected.unknown.into_iter().collect()
    }

    fn context(&self, name: &ClusterName, member: &MemberState) -> ContextProgress {
        let plan = self
            .supervisor
            .plan()
            .and_then(|plan| plan.registries.get(REGISTRY));
        let Some((store, plan)) =
            plan.and_then(|plan| Some((plan.store.as_ref()?, plan.clusters.get(name)?)))
        else {
            return ContextProgress::default();
        };
        let mut context = self.kinds(store, plan);
        context.failure = self.failure(store, member);
        context.live = self.supervisor.is_live(store, name);
        context
    }

    fn kinds(&self, store: &StoreName, plan: &ClusterPlan) -> ContextProgress {
        let mut context = ContextProgress {
            discovered: plan.discovered,
            kinds: plan.units.len(),
            ..ContextProgress::default()
        };
        for unit in &plan.units {
            let Some(progress) = self.supervisor.progress(&StreamKey {
                unit: unit.clone(),
                store: store.clone(),
            }) else {
                continue;
            };
            context.objects += progress.objects();
            match progress.state() {
                UnitState::Starting | UnitState::Listing => {}
                UnitState::Synced => context.synced += 1,
                UnitState::Failing { reason, .. } => {
                    context.failing.push(format!("{} ({reason})", kind(unit)));
                }
            }
        }
        context
    }

    /// Why a context cannot be read at all.
    fn failure(&self, store: &StoreName, member: &MemberState) -> Option<String> {
        if is_duplicate(member) {
            let reason = member.message.split(';').next().unwrap_or_default();
            return Some(format!("left out: {reason}"));
        }
        if member.connection.is_none() && member.phase != ConnectionPhase::Connecting {
            return Some(format!("not reachable: {}", member.message));
        }
        let availability = self.supervisor.availability(store)?;
        availability
            .err()
            .map(|unavailable| format!("cannot be stored: {}", unavailable.message))
    }
}

fn kind(unit: &Unit) -> String {
    match &unit.scope {
        Scope::All => unit.resource.gvk.kind.to_string(),
        Scope::Namespace(namespace) => format!("{} in {namespace}", unit.resource.gvk.kind),
    }
}

/// The command to run next. It names only the flags that it needs.
fn ready(args: &LocalArgs, address: &str) -> String {
    let server = if address == fleetdex_server::http::serve::DEFAULT_ADDRESS {
        String::new()
    } else {
        format!(" --server http://{address}")
    };
    let default = fleetdex_query_api::token_file::default_token_file();
    let token = &args.server.token_file;
    let token = if *token == default {
        String::new()
    } else {
        format!(" --token-file {}", token.display())
    };
    format!("ready: fleetdex get pods -A{server}{token} (Ctrl-C stops)")
}
