//! What a reconcile works with, and what it retains from one to the next.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, OnceLock},
    time::Duration,
};

use fleetdex_clusters::{
    Clusters, MemberState,
    secret_hosts::SecretHosts,
    source::{Duplicates, Sources},
};
use fleetdex_core::model::ClusterName;
use fleetdex_crds::registry::{ResourceRegistry, StoreStatus};
use fleetdex_interpreter::rules::RuleSet;
use fleetdex_replicas::{Assignment, ReplicaName, Replicas};
use fleetdex_store::memory::Memory;
use fleetdex_sync::enrichment::WebhookAccess;
use fleetdex_telemetry::{Readiness, Traces, metrics::Metrics};
use kube::{
    Client,
    runtime::{
        events::{Recorder, Reporter},
        reflector::Store,
    },
};
use parking_lot::Mutex as StdMutex;
use tokio::{
    sync::{Mutex, Notify, watch},
    task::JoinSet,
};

use super::{
    cluster_caches::{ClusterCacheName, ClusterCaches},
    interpreter_configurations::{ConfigMapName, InterpreterConfigurations, RuleContext},
    repeated_failures::RepeatedFailures,
};
use crate::{
    FIELD_MANAGER,
    completeness::IncompleteReason,
    members::{MemberReconciler, MemberStates},
    opening_gate::OpeningGate,
    plan::{Plan, StreamKey},
    registry_status::ReportedEvents,
    replica_report::ReplicaReport,
    store_settings::CredentialSource,
    stores,
    stream_supervisor::{ObservedStreams, PeerCompleteness, StreamSupervisor, SupervisorOptions},
};

/// How often a status is written while only its object counts change.
pub(super) const STATUS_INTERVAL: Duration = Duration::from_secs(1);
/// How often the completeness of streams is published while it changes: with 100,000 streams that
/// takes some hundred milliseconds.
pub(super) const COMPLETENESS_INTERVAL: Duration = Duration::from_secs(1);
/// How often a replica writes its report, if that has changed.
pub(super) const REPORT_INTERVAL: Duration = Duration::from_secs(2);

/// What became of a write of a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PatchedStatus {
    /// It is written.
    Written,
    /// The registry does not exist any more.
    Gone,
    /// The registry has a newer version, which is about to arrive here.
    Outdated,
}

/// Makes what runs visible to the query API.
pub trait Publish: Send + Sync {
    /// A plan has been applied, or the state of a member has changed.
    fn publish(
        &self,
        plan: &Plan,
        supervisor: &StreamSupervisor,
        members: &BTreeMap<ClusterName, MemberState>,
    );

    /// The registries could not be read yet; `problem` says why, to users.
    fn registries_unread(&self, problem: &str);
}

/// What the controller needs.
pub struct ControllerContext {
    /// The registries, for readers of their statuses; set when they are being read.
    pub registries: Arc<OnceLock<Store<ResourceRegistry>>>,
    /// The control plane.
    pub control_plane: Client,
    /// The members.
    pub clusters: Arc<Clusters>,
    /// Where the Secrets of stores may be sent.
    pub secret_hosts: SecretHosts,
    /// The embedded store.
    pub memory: Memory,
    /// How many contexts of points in time users together may hold of each OpenSearch.
    pub list_contexts: u64,
    /// The sources of clusters.
    pub sources: Arc<Sources>,
    /// Publishes what runs to the query API.
    pub publish: Arc<dyn Publish>,
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// Begins the traces of changes.
    pub traces: Traces,
    /// The readiness of the operator.
    pub readiness: Readiness,
    /// Whether this installation writes the status of `Cluster` objects, because no Karmada does.
    pub writes_cluster_status: bool,
    /// Notified by everything that changes a status.
    pub changed: Arc<Notify>,
    /// How often every kind of every member is audited; `None`: never.
    pub audit_interval: Option<Duration>,
    /// This replica among those that the clusters are assigned to.
    pub replicas: Replicas,
    /// The `ConfigMap` with Argo CD's health scripts.
    pub argocd_health: Option<ConfigMapName>,
    /// Where the rules that say what objects mean are published.
    pub rules: watch::Sender<Arc<RuleSet>>,
    /// Asks interpreter webhooks about the objects of the streams.
    pub webhooks: WebhookAccess,
}

/// A reconcile failed and is retried.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// The registry could not be written.
    #[error("cannot write ResourceRegistry {name}")]
    Write {
        /// The registry.
        name: String,
        /// The response of the control plane.
        source: Box<kube::Error>,
    },
}

pub(super) struct Reconciler {
    pub(super) context: ControllerContext,
    pub(super) registries: Store<ResourceRegistry>,
    pub(super) caches: ClusterCaches,
    pub(super) interpreter_configurations: InterpreterConfigurations,
    pub(super) recorder: Arc<Recorder>,
    pub(super) state: Mutex<ControllerState>,
    /// The time that updates have taken since it was last read.
    pub(super) spent: StdMutex<Duration>,
    pub(super) failures: RepeatedFailures,
    /// The reports of the other replicas; only the leader reads them.
    pub(super) peer_reports: StdMutex<Arc<BTreeMap<ReplicaName, ReplicaReport>>>,
    /// The completeness reports of the other replicas.
    pub(super) peer_completeness: StdMutex<PeerCompleteness>,
    /// Keeps stores closed of which statuses record that they were never opened.
    pub(super) opening_gate: OpeningGate,
}

pub(super) struct ControllerState {
    pub(super) supervisor: StreamSupervisor,
    pub(super) member_reconciler: MemberReconciler,
    pub(super) members: MemberStates,
    pub(super) inputs: Option<PlanInputs>,
    /// When the status of each registry was written last, as long as that delays the next one.
    pub(super) written: BTreeMap<String, std::time::Instant>,
    /// What the Events of each registry have reported.
    pub(super) reported_events: BTreeMap<String, ReportedEvents>,
    /// The locations that may have documents of each registry, by its UID.
    pub(super) locations: BTreeMap<String, Vec<StoreStatus>>,
    /// The locations that the status of each registry records, by its UID.
    pub(super) recorded_locations: BTreeMap<String, Vec<StoreStatus>>,
    /// Whether this replica led when `locations` was last updated, so that no other replica has
    /// changed them since.
    pub(super) was_leader: bool,
    /// The incomplete streams as last published, and when.
    pub(super) published: Option<(BTreeMap<StreamKey, IncompleteReason>, std::time::Instant)>,
    /// Whether they have changed since.
    pub(super) publication_is_due: bool,
}

/// The inputs of a plan, by version. While they are the same, there is nothing to plan.
#[derive(PartialEq)]
pub(super) struct PlanInputs {
    pub(super) members: u64,
    pub(super) sources: u64,
    /// How often the comparison of members for duplicates had a new result.
    pub(super) compared: u64,
    pub(super) registries: BTreeMap<String, RegistryVersion>,
    pub(super) caches: BTreeMap<ClusterCacheName, Option<i64>>,
    /// The version of the rules that say what objects mean.
    pub(super) rules: u64,
    pub(super) observed: ObservedStreams,
    /// The locations that may have documents of each registry.
    pub(super) locations: BTreeMap<String, Vec<StoreStatus>>,
    pub(super) assignment: Assignment,
}

/// What decides how a registry is planned.
#[derive(PartialEq)]
pub(super) struct RegistryVersion {
    pub(super) generation: Option<i64>,
    pub(super) is_leaving: bool,
    pub(super) is_recorded: bool,
}

impl Reconciler {
    /// Starts the reflectors of `ClusterCache` objects and of interpreter configurations; nothing
    /// else runs yet.
    pub(super) fn new(
        context: ControllerContext,
        owner: String,
        registries: Store<ResourceRegistry>,
        tasks: &mut JoinSet<()>,
    ) -> Self {
        // Set once: there is one controller in a process.
        let _already_set = context.registries.set(registries.clone());
        let reporter = Reporter {
            controller: FIELD_MANAGER.to_owned(),
            instance: None,
        };
        let recorder = Arc::new(Recorder::new(context.control_plane.clone(), reporter));
        let rule_context = rule_context(&context, &recorder);
        let opening_gate = OpeningGate::new(Arc::clone(&context.changed));
        Self {
            registries,
            caches: ClusterCaches::watch(&context.control_plane, &context.changed, tasks),
            interpreter_configurations: InterpreterConfigurations::watch(rule_context, tasks),
            recorder,
            state: Mutex::new(ControllerState {
                supervisor: stream_supervisor(&context, owner, &opening_gate),
                member_reconciler: member_reconciler(&context),
                members: MemberStates::default(),
                inputs: None,
                written: BTreeMap::new(),
                reported_events: BTreeMap::new(),
                locations: BTreeMap::new(),
                recorded_locations: BTreeMap::new(),
                was_leader: false,
                published: None,
                publication_is_due: false,
            }),
            spent: StdMutex::default(),
            failures: RepeatedFailures::default(),
            peer_reports: StdMutex::default(),
            peer_completeness: StdMutex::default(),
            opening_gate,
            context,
        }
    }
}

fn rule_context(context: &ControllerContext, recorder: &Arc<Recorder>) -> RuleContext {
    RuleContext {
        control_plane: context.control_plane.clone(),
        argocd_health: context.argocd_health.clone(),
        rules: context.rules.clone(),
        changed: Arc::clone(&context.changed),
        readiness: context.readiness.clone(),
        replicas: context.replicas.clone(),
        recorder: Arc::clone(recorder),
    }
}

fn stream_supervisor(
    context: &ControllerContext,
    owner: String,
    opening_gate: &OpeningGate,
) -> StreamSupervisor {
    let credentials =
        CredentialSource::Secrets(context.control_plane.clone(), context.secret_hosts.clone());
    let opener = stores::opener(
        credentials,
        owner,
        context.memory.clone(),
        context.list_contexts,
        Arc::clone(&context.metrics),
    );
    StreamSupervisor::new(
        opening_gate.guard(opener),
        Arc::clone(&context.metrics),
        Arc::clone(&context.changed),
        SupervisorOptions {
            fence: context.replicas.fence(),
            traces: context.traces.clone(),
            audit_interval: context.audit_interval,
            webhooks: Some(context.webhooks.clone()),
            ..SupervisorOptions::default()
        },
    )
}

fn member_reconciler(context: &ControllerContext) -> MemberReconciler {
    MemberReconciler {
        control_plane: context.control_plane.clone(),
        clusters: Arc::clone(&context.clusters),
        sources: Arc::clone(&context.sources),
        metrics: Arc::clone(&context.metrics),
        writes_cluster_status: context.writes_cluster_status,
        duplicates: Duplicates::new(Arc::clone(&context.changed)),
        known: BTreeSet::new(),
        certificates: BTreeMap::new(),
    }
}
