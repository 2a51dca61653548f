//! Distributes objects of the control plane to member clusters, and reports back.
//!
//! ```text
//!  policies, templates, bindings ──> control_plane ──> inputs ──┐
//!  nodes and pods of members ──────> room ──────────────────────┤
//!  Distributions, charts ──────────> sets ──────────────────────┤
//!                                                               ▼
//!        interpreting: rules, webhooks <──────────────────── planner ──> bindings
//!                                                               │ published
//!                                                               ▼
//!  copies of members ──> copies ──> applier, one for each member ──apply, delete──> member
//!                                      │
//!                                      ▼
//!                                 status_board ──> status_writer ──> bindings, templates
//! ```
//!
//! What decides is in the crate `fleetdex-distribution`, which does no I/O. Nothing is deleted on a
//! view that is not complete, nothing is written that has not changed, and nothing that Fleetdex
//! did not write is touched unless a policy says so.

mod applier;
mod applying;
mod bindings;
mod blocking;
mod changed_objects;
mod control_plane;
mod copies;
mod copy_memory;
mod held_deletions;
mod inputs;
mod interpreting;
mod karmada;
mod object_client;
mod planner;
mod published;
mod rebalancers;
mod reflector;
mod reservations;
mod room;
mod sets;
mod status_board;
mod status_writer;
mod wall_clock;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use fleetdex_clusters::{Clusters, source::Sources};
use fleetdex_core::{
    model::{ClusterName, Gvk, Resource, causes},
    planted::{Bug, planted},
};
use fleetdex_distribution::{brake::DeletionBrake, marks::CopyOrigin};
use fleetdex_interpreter::rules::RuleSet;
use fleetdex_replicas::Replicas;
use fleetdex_telemetry::metrics::Metrics;
use fleetdex_webhooks::client::CallWebhook;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client,
    runtime::events::{Recorder, Reporter},
};
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch},
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

pub use crate::sets::{
    SetFailure, SetKinds, SetSources, SetSpec, TargetCapabilities, assigned_variants, chart_hooks,
    defined_api_versions, set_hooks, set_objects,
};
use crate::{
    applier::ApplierContext,
    bindings::{BindingClient, BindingWriter},
    control_plane::{ControlPlane, ControlPlaneObjects, kinds},
    copy_memory::CopyMemory,
    held_deletions::HeldDeletions,
    interpreting::Interpreting,
    object_client::{FIELD_MANAGER, ObjectClient},
    planner::{DistributionPlanner, PlannerState},
    published::PublishedPlan,
    rebalancers::RebalancerWriter,
    room::RoomReader,
    sets::{DistributionSets, SetClients, SetReporter},
    status_board::StatusBoard,
    status_writer::StatusWriter,
    wall_clock::WallClock,
};

/// How often is looked whether this replica is the one that distributes.
const POLL: Duration = Duration::from_secs(1);
/// How often is looked whether tasks still run.
const LOOK_AT_TASKS: Duration = Duration::from_secs(10);
/// How long the control plane may take to say who it is.
const IDENTIFY_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause after the control plane did not say who it is.
const IDENTIFY_AGAIN: Duration = Duration::from_secs(5);
/// The pause before a replica that has become the leader writes: the one before it stops within
/// [`POLL`].
const TAKEOVER: Duration = Duration::from_secs(3);
/// What the copies of all members may take, in bytes of JSON text, and their nodes and pods as
/// much.
const HELD: usize = 512 << 20;

/// What distribution works with.
pub struct DistributorContext {
    /// The control plane.
    pub control_plane: Client,
    /// The member clusters.
    pub clusters: Arc<Clusters>,
    /// Where they are registered.
    pub sources: Arc<Sources>,
    /// The rules of interpreters.
    pub rules: watch::Receiver<Arc<RuleSet>>,
    /// Calls webhooks of interpreters.
    pub webhooks: Arc<dyn CallWebhook>,
    /// This replica among the others.
    pub replicas: Replicas,
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// What holds deletions.
    pub brake: DeletionBrake,
    /// What renders sets of objects.
    pub sets: SetSources,
    /// The time of day. A simulation has one of its own.
    pub clock: WallClock,
}

/// Distributes until cancelled, while this replica is the leader and Karmada does not distribute.
pub async fn run(context: DistributorContext, cancel: CancellationToken) {
    let reporter = Reporter {
        controller: FIELD_MANAGER.to_owned(),
        instance: None,
    };
    let recorder = Arc::new(Recorder::new(context.control_plane.clone(), reporter));
    let karmada = karmada::watch(context.control_plane.clone());
    let forever = async {
        let uid = identify(&context.control_plane).await;
        let may_distribute = || {
            let is_leader = context.replicas.assignment().is_leader();
            (is_leader || planted(Bug::DistributionFollowerWrites))
                && context.replicas.fence().is_open()
                && !*karmada.distributes.borrow()
        };
        loop {
            sleep(POLL).await;
            if !may_distribute() {
                continue;
            }
            if context.replicas.config().is_some() {
                sleep(TAKEOVER).await;
            }
            tracing::info!("distribution starts");
            let running = Distribution::start(&context, &uid, &recorder);
            while may_distribute() && !running.has_ended() {
                sleep(POLL).await;
            }
            if running.has_ended() {
                tracing::error!("a task of the distribution has ended; it starts again");
            }
            drop(running);
            tracing::info!("distribution stops");
        }
    };
    tokio::select! {
        () = cancel.cancelled() => {}
        () = forever => {}
    }
}

/// The UID of the control plane, that of its namespace `kube-system`.
async fn identify(control_plane: &Client) -> Arc<str> {
    let namespaces = Api::<Namespace>::all(control_plane.clone());
    loop {
        match timeout(IDENTIFY_TIMEOUT, namespaces.get("kube-system")).await {
            Ok(Ok(namespace)) => {
                if let Some(uid) = namespace.metadata.uid {
                    return uid.into();
                }
            }
            Err(_) => {
                tracing::warn!(
                    "namespace kube-system, whose UID marks what is distributed, was not read in time"
                );
            }
            Ok(Err(error)) => {
                tracing::warn!(error = %causes(&error), "cannot read namespace kube-system, whose UID marks what is distributed");
            }
        }
        sleep(IDENTIFY_AGAIN).await;
    }
}

/// The running tasks. Dropping it ends them.
struct Distribution {
    tasks: Vec<AbortOnDropHandle<()>>,
}

impl Distribution {
    /// Whether a task has ended, which none does by itself.
    fn has_ended(&self) -> bool {
        self.tasks.iter().any(AbortOnDropHandle::is_finished)
    }

    fn start(context: &DistributorContext, uid: &Arc<str>, recorder: &Arc<Recorder>) -> Self {
        let changed: Arc<Notify> = Arc::default();
        let board = Arc::new(StatusBoard::new(Arc::clone(&changed), context.clock));
        let (published, plans) = watch::channel(Arc::new(PublishedPlan::default()));
        let control_plane = ControlPlane::new(context.control_plane.clone(), Arc::clone(&changed));
        let interpreting = Interpreting::new(context.rules.clone(), Arc::clone(&context.webhooks));
        let bindings = binding_client(context);
        let objects = control_plane.objects().clone();
        let (sets, set_reporter) = sets_of(context, &changed, &board, objects, &plans, recorder);
        let hook_runner = sets.hook_runner(
            Arc::clone(&context.clusters),
            Arc::clone(uid),
            context.replicas.fence(),
        );
        let status_writer = StatusWriter {
            board: Arc::clone(&board),
            objects: control_plane.objects().clone(),
            served: control_plane.served(),
            bindings: bindings.clone(),
            client: context.control_plane.clone(),
            fence: context.replicas.fence(),
            interpreting: interpreting.clone(),
            sent: Mutex::default(),
            incomplete: Mutex::default(),
            clock: context.clock,
        };
        let appliers = ApplierContext {
            clusters: Arc::clone(&context.clusters),
            published: plans,
            board: Arc::clone(&board),
            interpreting: interpreting.clone(),
            fence: context.replicas.fence(),
            held: CopyMemory::limited_to(HELD),
            objects: control_plane.objects().clone(),
            control_plane: Arc::clone(uid),
            held_deletions: HeldDeletions {
                board: Arc::clone(&board),
                recorder: Arc::clone(recorder),
                metrics: context.metrics.distribution(),
            },
            metrics: context.metrics.distribution(),
        };
        let planner = DistributionPlanner {
            control_plane,
            clusters: Arc::clone(&context.clusters),
            sources: Arc::clone(&context.sources),
            interpreting,
            bindings: BindingWriter {
                client: bindings,
                origin: CopyOrigin {
                    control_plane: Arc::clone(uid),
                    cluster: "".into(),
                },
                right: Mutex::default(),
            },
            rebalancers: RebalancerWriter {
                client: client_of(context, kinds::REBALANCER, "workloadrebalancers", false),
                clock: context.clock,
            },
            room: RoomReader::new(CopyMemory::limited_to(HELD)),
            sets,
            board,
            published,
            changed,
            brake: context.brake,
            clock: context.clock,
            state: PlannerState::default(),
        };
        let tasks = [
            tokio::spawn(planner.run()),
            tokio::spawn(status_writer.run()),
            tokio::spawn(set_reporter.run()),
            tokio::spawn(hook_runner.run()),
            tokio::spawn(run_appliers(appliers)),
        ];
        Self {
            tasks: tasks.into_iter().map(AbortOnDropHandle::new).collect(),
        }
    }
}

/// What renders sets of objects, and what reports on them.
fn sets_of(
    context: &DistributorContext,
    changed: &Arc<Notify>,
    board: &Arc<StatusBoard>,
    objects: ControlPlaneObjects,
    plans: &watch::Receiver<Arc<PublishedPlan>>,
    recorder: &Arc<Recorder>,
) -> (DistributionSets, SetReporter) {
    let client = client_of(context, kinds::SET, "distributions", true);
    let clients = SetClients {
        distributions: client.clone(),
        secrets: client_of(context, ("v1", "Secret"), "secrets", true),
        recorder: Arc::clone(recorder),
        metrics: context.metrics.distribution(),
    };
    let sets = DistributionSets::new(
        context.control_plane.clone(),
        clients,
        context.sets.clone(),
        Arc::clone(changed),
    );
    let reporter = SetReporter {
        reports: sets.reports(),
        board: Arc::clone(board),
        objects,
        published: plans.clone(),
        changed: Arc::clone(changed),
        client,
        clock: context.clock,
    };
    (sets, reporter)
}

fn binding_client(context: &DistributorContext) -> BindingClient {
    BindingClient {
        namespaced: client_of(context, kinds::BINDING, "resourcebindings", true),
        cluster_scoped: client_of(
            context,
            kinds::CLUSTER_BINDING,
            "clusterresourcebindings",
            false,
        ),
        sets: Arc::default(),
    }
}

/// A client for a kind of the control plane.
fn client_of(
    context: &DistributorContext,
    (api_version, kind): (&str, &str),
    plural: &str,
    namespaced: bool,
) -> ObjectClient {
    let resource = Resource {
        gvk: Gvk::from_api_version(api_version, kind),
        plural: plural.into(),
        namespaced,
    };
    let client = context.control_plane.clone();
    ObjectClient::new(client, resource, context.replicas.fence())
}

/// Runs an applier for each member.
async fn run_appliers(context: ApplierContext) {
    let mut members = context.clusters.changed();
    let mut running: BTreeMap<ClusterName, AbortOnDropHandle<()>> = BTreeMap::new();
    loop {
        let names = context.clusters.names();
        running.retain(|name, task| {
            if task.is_finished() {
                tracing::error!(cluster = %name, "the distribution to a cluster has ended; it starts again");
                return false;
            }
            let is_member = names.contains(name);
            if !is_member {
                context.board.forget_cluster(name.as_str());
                context.metrics.forget_cluster(name);
            }
            is_member
        });
        for name in names {
            running.entry(name.clone()).or_insert_with(|| {
                let task = tokio::spawn(applier::run(context.clone(), name));
                AbortOnDropHandle::new(task)
            });
        }
        tokio::select! {
            changed = members.changed() => if changed.is_err() {
                return;
            },
            () = sleep(LOOK_AT_TASKS) => {}
        }
    }
}
