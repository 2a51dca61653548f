//! What a reconcile works with, and what it keeps from one to the next.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use fleetdex_api::registry::{ResourceRegistry, ResourceRegistryStatus, StoreStatus};
use fleetdex_clusters::{Clusters, MemberState, secret_hosts::SecretHosts, source::Sources};
use fleetdex_core::model::{ClusterName, StoreName};
use fleetdex_store::memory::Memory;
use fleetdex_telemetry::{Readiness, metrics::Metrics};
use kube::{
    Client, ResourceExt,
    runtime::{events::Recorder, reflector::Store},
};
use parking_lot::Mutex as StdMutex;
use tokio::sync::{Mutex, Notify};

use super::caches::{CacheName, Caches};
use crate::{
    RegistryView,
    fleet::Fleet,
    gaps::{Gap, ShareGaps},
    members::{Members, Roster},
    plan::{Plan, Stream},
    replicas::{ReplicaName, Replicas, Report, Share},
};

/// The status counts objects; while they change it is written this often.
pub(super) const STATUS_INTERVAL: Duration = Duration::from_secs(1);
/// How often what answers lack is made known while it changes: with 100,000 streams that takes some hundred milliseconds.
pub(super) const GAPS_INTERVAL: Duration = Duration::from_secs(1);
/// How often a replica makes known how far its share is, if that has changed.
pub(super) const REPORT_INTERVAL: Duration = Duration::from_secs(2);

/// What the outside may see of the plan that runs.
pub trait Publish: Send + Sync {
    /// A plan has been applied, or the state of a member has changed.
    fn publish(&self, plan: &Plan, fleet: &Fleet, members: &BTreeMap<ClusterName, MemberState>);
}

/// What the controller needs.
pub struct Context {
    /// The control plane.
    pub hub: Client,
    /// The members.
    pub clusters: Arc<Clusters>,
    /// Where the Secrets of stores may be sent.
    pub secret_hosts: SecretHosts,
    /// The embedded store.
    pub memory: Memory,
    /// Contexts of points in time that users may hold together of each OpenSearch.
    pub list_contexts: u64,
    /// Where they come from.
    pub sources: Arc<Sources>,
    /// Where what runs is made known to the query server.
    pub publish: Arc<dyn Publish>,
    /// Counts.
    pub metrics: Arc<Metrics>,
    /// Whether the operator can work.
    pub readiness: Readiness,
    /// Whether the status of `Cluster` objects is ours to write, because no Karmada does.
    pub writes_cluster_status: bool,
    /// Notified by everything that changes a status.
    pub changed: Arc<Notify>,
    /// How often every kind of every member is audited; absent: never.
    pub audit_interval: Option<Duration>,
    /// Those that share the members.
    pub replicas: Replicas,
}

/// A reconcile failed and is repeated.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// The registry could not be changed.
    #[error("cannot write ResourceRegistry {name}")]
    Write {
        /// The registry.
        name: String,
        /// What the control plane said.
        source: Box<kube::Error>,
    },
}

pub(super) struct Reconciler {
    pub(super) context: Context,
    pub(super) registries: Store<ResourceRegistry>,
    pub(super) caches: Caches,
    pub(super) recorder: Arc<Recorder>,
    pub(super) state: Mutex<State>,
    /// What the other replicas know of their shares; read by the leader alone.
    pub(super) reports: StdMutex<Arc<BTreeMap<ReplicaName, Report>>>,
    /// What the other replicas say that answers lack.
    pub(super) gaps: StdMutex<Arc<BTreeMap<ReplicaName, ShareGaps>>>,
}

pub(super) struct State {
    pub(super) fleet: Fleet,
    pub(super) roster: Roster,
    pub(super) members: Members,
    pub(super) inputs: Option<Seen>,
    /// What was last written, and when, for each registry.
    pub(super) written: BTreeMap<String, (ResourceRegistryStatus, std::time::Instant)>,
    /// Where documents of each registry may be, by its UID.
    pub(super) places: BTreeMap<String, Vec<StoreStatus>>,
    /// Those that have been written into the status of the registry.
    pub(super) recorded: BTreeMap<String, Vec<StoreStatus>>,
    /// Whether this replica led when `places` was last brought up to date, so that nobody else has written them since.
    pub(super) led: bool,
    /// What answers lack as it was last made known, and when.
    pub(super) published: Option<(BTreeMap<Stream, Gap>, std::time::Instant)>,
    /// Whether that has changed since.
    pub(super) gaps_are_due: bool,
}

/// What a plan is made from, by version: while it is the same, there is nothing to plan.
#[derive(PartialEq)]
pub(super) struct Seen {
    pub(super) members: u64,
    pub(super) sources: u64,
    /// How often it turned out whether two members are one cluster.
    pub(super) compared: u64,
    pub(super) registries: BTreeMap<String, (Option<i64>, bool)>,
    pub(super) caches: BTreeMap<CacheName, Option<i64>>,
    pub(super) open_stores: BTreeSet<StoreName>,
    pub(super) rebuilding: BTreeSet<(StoreName, ClusterName)>,
    pub(super) unfilled: BTreeSet<Stream>,
    /// Where documents of each registry may be.
    pub(super) places: BTreeMap<String, Vec<StoreStatus>>,
    pub(super) arrived: Option<BTreeSet<(StoreName, ClusterName)>>,
    pub(super) remembered: usize,
    pub(super) share: Share,
}

/// A registry as planning sees it.
pub(super) fn registry_view(registry: &ResourceRegistry) -> RegistryView {
    RegistryView {
        name: registry.name_any(),
        uid: registry.uid().unwrap_or_default(),
        created: registry
            .metadata
            .creation_timestamp
            .as_ref()
            .map(|time| time.0),
        spec: registry.spec.clone(),
    }
}
