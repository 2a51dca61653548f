//! `fleetdex local`: the contexts of a kubeconfig as one fleet, in this process and nowhere else.

mod progress;
mod resources;

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context as _, bail};
use clap::Args;
use fleetdex_api::registry::{BackendStore, OpenSearch, ResourceRegistrySpec};
use fleetdex_clusters::{
    Clusters, Member, MemberState, Phase, Timing,
    connect::Network,
    secret_hosts::SecretHosts,
    source::{Established, Loader, Twins, contexts, is_left_to_another, read_kubeconfig},
};
use fleetdex_core::model::{ClusterName, Scope, StoreName, Unit};
use fleetdex_operator::{
    RegistryView,
    fleet::Fleet,
    plan::{ClusterPlan, Stream},
    replicas::Share,
    stores,
};
use fleetdex_server::{Catalog, Server, ServerArgs, Telemetry, peers::Peers};
use fleetdex_store::{memory::Memory, opensearch::LIST_CONTEXTS};
use fleetdex_sync::progress::UnitState;
use fleetdex_telemetry::{Metrics, Readiness};
use tokio::{
    sync::{Notify, watch},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use self::progress::{Context, Display, Progress};
use crate::app::{catalog, stop_on_signal};

/// The one registry that there is.
const REGISTRY: &str = "local";
/// Names what this program has written to an OpenSearch.
const OWNER: &str = "fleetdex local";
/// Changes that come within this time are looked at together.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// How often to look when nothing is told.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How often each kind of each context is compared with what is held.
const AUDIT_INTERVAL: Duration = Duration::from_mins(30);

/// `fleetdex local`
#[derive(Args, Clone, Debug)]
#[command(after_help = "In another terminal: fleetdex get pods -A -l app=web")]
pub struct LocalArgs {
    /// The kubeconfig; without it what kubectl reads counts: `KUBECONFIG`, then ~/.kube/config.
    #[arg(long, env = "FLEETDEX_KUBECONFIG")]
    pub kubeconfig: Option<PathBuf>,

    /// Only these contexts (repeatable, or separated by commas); without it all of them.
    #[arg(
        long = "context",
        value_name = "CONTEXT",
        value_delimiter = ',',
        env = "FLEETDEX_CONTEXT"
    )]
    pub contexts: Vec<String>,

    /// Only these resources, as kubectl calls them (repeatable, or separated by commas); without it the common ones.
    #[arg(
        long = "resource",
        value_name = "RESOURCE",
        value_delimiter = ',',
        env = "FLEETDEX_RESOURCE"
    )]
    pub resources: Vec<String>,

    /// Keep the objects in this OpenSearch instead of in memory.
    #[arg(long, value_name = "URL", env = "FLEETDEX_OPENSEARCH")]
    pub opensearch: Option<String>,

    /// What its indices begin with.
    #[arg(
        long,
        value_name = "PREFIX",
        default_value = "fleetdex_local",
        requires = "opensearch",
        env = "FLEETDEX_INDEX_PREFIX"
    )]
    pub index_prefix: String,

    /// The query API.
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Reads the contexts and answers queries until it is told to stop.
pub async fn run(args: LocalArgs) -> anyhow::Result<()> {
    let cancel = stop_on_signal()?;
    let members = members(&args).await?;
    let server = Server::bind(&args.server, false).await?;
    let address = server.address();
    let metrics = Arc::new(Metrics::new());
    let (loader, network) = (
        Loader::without_control_plane(),
        Arc::new(Network::default()),
    );
    let clusters = Arc::new(Clusters::new(
        loader,
        network,
        Timing::default(),
        cancel.child_token(),
    ));
    clusters.set_members(members);
    let changed = Arc::new(Notify::new());
    let opener = stores::opener(
        None,
        SecretHosts::default(),
        OWNER.to_owned(),
        Memory::new(),
        LIST_CONTEXTS,
    );
    let fleet =
        Fleet::new(opener, Arc::clone(&metrics), Arc::clone(&changed)).audit_every(AUDIT_INTERVAL);
    let (publish, catalog_reader) = watch::channel(Arc::new(Catalog::default()));

    let mut tasks = JoinSet::new();
    let ports = CancellationToken::new();
    let telemetry = Telemetry {
        metrics,
        readiness: Readiness::new(),
    };
    tasks.spawn(server.run(
        catalog_reader,
        Arc::clone(&clusters),
        telemetry,
        None,
        Peers::default(),
        ports.clone(),
    ));
    let local = Local {
        names: names(&args),
        backend: backend(&args),
        fleet,
        clusters,
        changed,
        publish,
    };
    let (clusters, mut fleet) = tokio::select! {
        stopped = local.run(&args, address.to_string(), cancel.clone()) => stopped,
        Some(ended) = tasks.join_next() => {
            ended.context("the server ended")?;
            bail!("the server ended although nobody asked it to");
        }
    };
    fleet.shut_down().await;
    clusters.stopped().await;
    ports.cancel();
    while let Some(ended) = tasks.join_next().await {
        ended.context("the server ended")?;
    }
    Ok(())
}

async fn members(args: &LocalArgs) -> anyhow::Result<Vec<Member>> {
    let path = args.kubeconfig.as_deref();
    let place = || {
        path.map_or_else(
            || "your kubeconfig".to_owned(),
            |path| path.display().to_string(),
        )
    };
    let kubeconfig = read_kubeconfig(path)
        .await
        .with_context(|| format!("cannot read {}", place()))?;
    let found = contexts(&kubeconfig, path, &args.contexts);
    if !found.absent.is_empty() {
        let there: Vec<&str> = kubeconfig
            .contexts
            .iter()
            .map(|context| context.name.as_str())
            .collect();
        bail!(
            "{} has no context {}; it has {}",
            place(),
            found.absent.join(", "),
            there.join(", ")
        );
    }
    if found.members.is_empty() {
        bail!(
            "{} has no contexts; name another file with --kubeconfig",
            place()
        );
    }
    Ok(found.members)
}

fn names(args: &LocalArgs) -> Vec<String> {
    let defaults = || resources::DEFAULT.map(str::to_owned).to_vec();
    if args.resources.is_empty() {
        defaults()
    } else {
        args.resources.clone()
    }
}

fn backend(args: &LocalArgs) -> Option<BackendStore> {
    let address = args.opensearch.clone()?;
    let open_search = OpenSearch {
        addresses: vec![address],
        index_prefix: Some(args.index_prefix.clone()),
        number_of_replicas: Some(0),
        ..OpenSearch::default()
    };
    Some(BackendStore {
        open_search: Some(open_search),
    })
}

/// The fleet of the contexts.
struct Local {
    names: Vec<String>,
    backend: Option<BackendStore>,
    fleet: Fleet,
    clusters: Arc<Clusters>,
    changed: Arc<Notify>,
    publish: watch::Sender<Arc<Catalog>>,
}

impl Local {
    /// Follows the contexts until cancelled.
    async fn run(
        mut self,
        args: &LocalArgs,
        address: String,
        cancel: CancellationToken,
    ) -> (Arc<Clusters>, Fleet) {
        let mut connections = self.clusters.changed();
        let (mut twins, mut progress) =
            (Twins::new(Arc::clone(&self.changed)), Progress::default());
        let mut display = Display::new();
        while !cancel.is_cancelled() {
            let mut members = self.clusters.states();
            // Several contexts often name one cluster, each with another namespace or user.
            let planned = self.fleet.planned_clusters();
            let _notes = twins.mark(&mut members, Some(&Established::new()), &planned);
            let unknown = self.follow(&members).await;
            let contexts: BTreeMap<ClusterName, Context> = members
                .iter()
                .map(|(name, member)| (name.clone(), self.context(name, member)))
                .collect();
            let news = progress.news(&contexts, &unknown);
            display.show(&contexts);
            news.lines.iter().for_each(|line| display.say(line));
            if news.completed {
                display.finish();
                display.say(&ready(args, &address));
            }
            tokio::select! {
                biased;
                () = cancel.cancelled() => {}
                _ = connections.changed() => {}
                () = self.changed.notified() => {}
                () = tokio::time::sleep(LOOK_INTERVAL) => {}
            }
            tokio::time::sleep(DEBOUNCE).await;
        }
        display.finish();
        (self.clusters, self.fleet)
    }

    /// Makes what runs follow the contexts. Gives the resources that none of them serves.
    async fn follow(&mut self, members: &BTreeMap<ClusterName, MemberState>) -> Vec<String> {
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
        self.fleet
            .follow(&[registry], &[], members, &Share::Whole)
            .await;
        if let Some(plan) = self.fleet.plan() {
            let mut catalog = catalog(plan, &self.fleet, members);
            catalog.set_local();
            self.publish.send_replace(Arc::new(catalog));
        }
        selected.unknown.into_iter().collect()
    }

    fn context(&self, name: &ClusterName, member: &MemberState) -> Context {
        let plan = self
            .fleet
            .plan()
            .and_then(|plan| plan.registries.get(REGISTRY));
        let Some((store, plan)) =
            plan.and_then(|plan| Some((plan.store.as_ref()?, plan.clusters.get(name)?)))
        else {
            return Context::default();
        };
        let mut context = self.kinds(store, plan);
        context.trouble = self.trouble(store, member);
        context.live = self.fleet.is_live(store, name);
        context
    }

    fn kinds(&self, store: &StoreName, plan: &ClusterPlan) -> Context {
        let mut context = Context {
            discovered: plan.discovered,
            kinds: plan.units.len(),
            ..Context::default()
        };
        for unit in &plan.units {
            let Some(progress) = self.fleet.progress(&Stream {
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
    fn trouble(&self, store: &StoreName, member: &MemberState) -> Option<String> {
        if is_left_to_another(member) {
            let reason = member.message.split(';').next().unwrap_or_default();
            return Some(format!("left out: {reason}"));
        }
        if member.connection.is_none() && member.phase != Phase::Connecting {
            return Some(format!("not reachable: {}", member.message));
        }
        let availability = self.fleet.pipeline(store)?.availability()?;
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

/// What to do now. The flags are only named where they are needed.
fn ready(args: &LocalArgs, address: &str) -> String {
    let server = if address == fleetdex_server::DEFAULT_ADDRESS {
        String::new()
    } else {
        format!(" --server http://{address}")
    };
    let default = fleetdex_server::auth::default_token_file();
    let token = &args.server.token_file;
    let token = if *token == default {
        String::new()
    } else {
        format!(" --token-file {}", token.display())
    };
    format!("ready: fleetdex get pods -A{server}{token} (Ctrl-C stops)")
}
