//! The status of the only registry, as an operator would write it.

use std::collections::{BTreeMap, BTreeSet};

use fleetdex_clusters::MemberState;
use fleetdex_core::model::{ClusterName, StoreName, Unit};
use fleetdex_crds::registry::ResourceRegistryStatus;
use fleetdex_operator::{
    plan::StreamKey,
    registry_status::{MemberHealth, StatusInputs, StoreAccess, status},
    stream_supervisor::StreamSupervisor,
};
use fleetdex_query_api::answer::RegistryReport;
use fleetdex_server::read::fleet::RegistrySource;
use fleetdex_sync::progress::Progress;
use jiff::Timestamp;
use parking_lot::Mutex;

/// The status, brought up to date with each pass over the contexts.
#[derive(Debug)]
pub(super) struct LocalStatus {
    registry: &'static str,
    status: Mutex<ResourceRegistryStatus>,
}

impl RegistrySource for LocalStatus {
    fn statuses(&self) -> Vec<RegistryReport> {
        vec![RegistryReport {
            name: self.registry.to_owned(),
            status: self.status.lock().clone(),
        }]
    }
}

impl LocalStatus {
    /// The status of the registry with this name.
    pub(super) fn of(registry: &'static str) -> Self {
        Self {
            registry,
            status: Mutex::default(),
        }
    }

    /// Makes the status what runs now.
    pub(super) fn update(
        &self,
        supervisor: &StreamSupervisor,
        members: &BTreeMap<ClusterName, MemberState>,
    ) {
        let Some(plan) = supervisor
            .plan()
            .and_then(|plan| plan.registries.get(self.registry))
        else {
            return;
        };
        let store = plan.store.as_ref();
        let is_embedded = store.is_none_or(|name| *name == StoreName::embedded());
        let before = self.status.lock().conditions.clone();
        let progress = |unit: &Unit| {
            let key = StreamKey {
                unit: unit.clone(),
                store: store?.clone(),
            };
            supervisor.progress(&key).map(Progress::status)
        };
        let inputs = StatusInputs {
            deleting: None,
            stores: Vec::new(),
            former_locations: Vec::new(),
            plan,
            store: store.and_then(|name| supervisor.availability(name)),
            shards: store
                .and_then(|name| supervisor.pipeline(name))
                .and_then(|pipeline| pipeline.store.shard_use()),
            store_access: if is_embedded {
                StoreAccess::Embedded
            } else {
                StoreAccess::Authenticated
            },
            health: &|name| Some(MemberHealth::of(members.get(name)?, None)),
            live: &|name| store.is_some_and(|store| supervisor.is_live(store, name)),
            unread_sources: &[],
            progress: &progress,
            selector_paths: &|_| BTreeSet::new(),
            generation: None,
            before: &before,
            now: Timestamp::now(),
        };
        let current = status(&inputs);
        *self.status.lock() = current;
    }
}
