//! What is known of one registry for its status: of the clusters that this replica reads, and of
//! the others as their replicas report.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetdex_core::model::{ClusterName, FieldPath, Unit};
use fleetdex_crds::registry::{OpenSearch, ResourceRegistry};
use fleetdex_replicas::{Assignment, ReplicaName};
use fleetdex_store::ShardUse;
use fleetdex_sync::{
    pipeline::Availability,
    progress::{Progress, UnitStatus},
};

use crate::{
    members::MemberStates,
    plan::{Plan, RegistryPlan, StreamKey},
    registry_status::{MemberHealth, StoreAccess},
    replica_report::{ReplicaReport, cluster_key, stream_key},
    stream_supervisor::StreamSupervisor,
};

/// A registry and everything that its status is made from.
pub(super) struct ObservedRegistry<'a> {
    pub(super) name: &'a str,
    pub(super) plan: &'a RegistryPlan,
    pub(super) applied: &'a Plan,
    pub(super) supervisor: &'a StreamSupervisor,
    pub(super) members: &'a MemberStates,
    /// The clusters that this replica reads for the registry.
    pub(super) assignment: Assignment,
    pub(super) peer_reports: Arc<BTreeMap<ReplicaName, ReplicaReport>>,
}

/// The replica that reads a cluster.
enum ClusterReader<'a> {
    /// This one, or none.
    Local,
    /// Another one, with its report unless it has not written one yet.
    Peer(Option<&'a ReplicaReport>),
}

impl ObservedRegistry<'_> {
    /// Whether its store can be used; `None` while that is unknown.
    pub(super) fn availability(&self) -> Availability {
        self.supervisor.availability(self.plan.store.as_ref()?)
    }

    /// The shards of its store, if they are known and limited.
    pub(super) fn shard_use(&self) -> Option<ShardUse> {
        let store = self.plan.store.as_ref()?;
        self.supervisor.pipeline(store)?.store.shard_use()
    }

    /// How its store is reached.
    pub(super) fn store_access(&self) -> StoreAccess {
        let store = self.plan.store.as_ref();
        store
            .and_then(|store| self.applied.stores.get(store))
            .and_then(|plan| plan.config.as_ref())
            .map_or(StoreAccess::Embedded, store_access)
    }

    /// The health of a member; `None` for one that is not known.
    pub(super) fn health(&self, cluster: &ClusterName) -> Option<MemberHealth> {
        match self.reader(cluster) {
            ClusterReader::Peer(report) => report?.health.get(cluster.as_str()).cloned(),
            ClusterReader::Local => member_health(self.members, cluster),
        }
    }

    /// Whether queries of a cluster are answered from what its streams write.
    pub(super) fn is_live(&self, cluster: &ClusterName) -> bool {
        let Some(store) = &self.plan.store else {
            return false;
        };
        match self.reader(cluster) {
            ClusterReader::Peer(report) => {
                report.is_some_and(|report| report.live.contains(&cluster_key(store, cluster)))
            }
            ClusterReader::Local => self.supervisor.is_live(store, cluster),
        }
    }

    /// The progress of a unit whose stream runs, here or at another replica, with as many objects
    /// as the registry selects of it.
    pub(super) fn progress(&self, unit: &Unit) -> Option<UnitStatus> {
        let stream = self.stream(unit)?;
        let mut status = match self.reader(&unit.cluster) {
            ClusterReader::Peer(report) => report?.units.get(&stream_key(&stream)).cloned(),
            ClusterReader::Local => self.supervisor.progress(&stream).map(Progress::status),
        }?;
        let plan = self.applied.streams.get(&stream);
        if let Some(selection) = plan.and_then(|plan| plan.selections.get(self.name)) {
            // Not counted before the first list has ended.
            status.objects = status.selected.get(selection).copied().unwrap_or_default();
        }
        Some(status)
    }

    /// The paths that its selectors of a unit name and that are not selectable fields.
    pub(super) fn selector_paths(&self, unit: &Unit) -> BTreeSet<FieldPath> {
        self.stream(unit)
            .and_then(|stream| self.applied.streams.get(&stream))
            .map(|plan| plan.selector_paths(self.name, &unit.resource.gvk))
            .unwrap_or_default()
    }

    fn stream(&self, unit: &Unit) -> Option<StreamKey> {
        Some(StreamKey {
            unit: unit.clone(),
            store: self.plan.store.clone()?,
        })
    }

    fn reader(&self, cluster: &ClusterName) -> ClusterReader<'_> {
        match self.assignment.other_reader(cluster) {
            Some(name) => ClusterReader::Peer(self.peer_reports.get(name)),
            None => ClusterReader::Local,
        }
    }
}

fn store_access(config: &OpenSearch) -> StoreAccess {
    let named = |reference: &Option<fleetdex_crds::registry::SecretReference>| {
        reference
            .as_ref()
            .is_some_and(|reference| !reference.name.is_empty() || !reference.namespace.is_empty())
    };
    let is_anonymous = !named(&config.secret_ref)
        && !named(&config.client_cert_secret_ref)
        && config.aws.is_none();
    if is_anonymous {
        StoreAccess::Anonymous
    } else {
        StoreAccess::Authenticated
    }
}

pub(super) fn member_health(members: &MemberStates, cluster: &ClusterName) -> Option<MemberHealth> {
    let state = members.states.get(cluster)?;
    let note = members.notes.get(cluster).cloned();
    Some(MemberHealth::of(state, note))
}

/// The sources in which a registry may find more clusters: none if it names its clusters and all of
/// them have been found.
pub(super) fn unread_sources<'m>(
    members: &'m MemberStates,
    registry: &ResourceRegistry,
    plan: &RegistryPlan,
) -> &'m [String] {
    let all_found =
        !registry.spec.target_cluster.cluster_names.is_empty() && plan.not_found.is_empty();
    if all_found {
        &[]
    } else {
        &members.unread_sources
    }
}
