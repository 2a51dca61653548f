//! This replica among the others, for the rest of the process.

use std::{net::SocketAddr, sync::Arc};

use super::write_fence::WriteFence;
use k8s_openapi::{
    api::coordination::v1::Lease, apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{Client, Resource};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{
    assignment::{Assignment, ReplicaName, ReplicaNames},
    config::ReplicaConfig,
    lease::LeaseHolder,
    lease_object::object_name,
};

/// Another replica that is alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerReplica {
    /// Its name.
    pub name: ReplicaName,
    /// Where its query API is reached, if its Lease states that.
    pub address: Option<SocketAddr>,
}

/// This replica among the others; the only one if it has no [`ReplicaConfig`]. Clones share their
/// state.
#[derive(Clone)]
pub struct Replicas(Option<Arc<LeaseHolder>>);

impl Replicas {
    /// The only replica.
    pub fn alone() -> Self {
        Self(None)
    }

    /// One of several replicas. `changed` is notified when its assignment changes. It reads nothing
    /// until [`Replicas::run`] has renewed its Lease.
    pub fn join(control_plane: Client, config: ReplicaConfig, changed: Arc<Notify>) -> Self {
        Self(Some(Arc::new(LeaseHolder::new(
            control_plane,
            config,
            changed,
        ))))
    }

    /// The clusters that this replica reads now.
    pub fn assignment(&self) -> Assignment {
        match &self.0 {
            None => Assignment::SingleReplica,
            Some(holder) => {
                Assignment::Replicated(Arc::new(holder.state.lock().membership.clone()))
            }
        }
    }

    /// Closed while this replica must not write.
    pub fn fence(&self) -> WriteFence {
        self.0
            .as_ref()
            .map_or(WriteFence::OPEN, |holder| holder.fence.clone())
    }

    /// The configuration, if there may be other replicas.
    pub fn config(&self) -> Option<&ReplicaConfig> {
        self.0.as_ref().map(|holder| &holder.config)
    }

    /// The control plane, if there may be other replicas.
    pub fn control_plane(&self) -> Option<&Client> {
        self.0.as_ref().map(|holder| &holder.control_plane)
    }

    /// This replica's Lease as the owner of the objects that it creates; `None` before the Lease
    /// exists.
    pub fn owner(&self) -> Option<OwnerReference> {
        let holder = self.0.as_ref()?;
        let uid = holder.state.lock().lease_uid.clone()?;
        Some(OwnerReference {
            api_version: Lease::api_version(&()).into_owned(),
            kind: Lease::kind(&()).into_owned(),
            name: object_name(&holder.config.name),
            uid,
            ..OwnerReference::default()
        })
    }

    /// The names of the other replicas that are alive; none while this one cannot renew its Lease.
    pub fn peer_names(&self) -> ReplicaNames {
        self.peers()
            .unwrap_or_default()
            .into_iter()
            .map(|peer| peer.name)
            .collect()
    }

    /// The other replicas that are alive, and where they are; `None` while this one cannot renew
    /// its Lease, and does not know.
    pub fn peers(&self) -> Option<Vec<PeerReplica>> {
        let Some(holder) = &self.0 else {
            return Some(Vec::new());
        };
        let state = holder.state.lock();
        if !state.membership.alive.contains(&holder.config.name) {
            return None;
        }
        let peers = state
            .membership
            .alive
            .iter()
            .filter(|name| **name != holder.config.name);
        Some(
            peers
                .map(|name| PeerReplica {
                    name: name.clone(),
                    address: state.addresses.get(name).copied(),
                })
                .collect(),
        )
    }

    /// Announces to the others that this replica has released everything that the assignment does
    /// not give it.
    pub fn announce_released(&self, assignment: &Assignment) {
        let (Some(holder), Assignment::Replicated(membership)) = (&self.0, assignment) else {
            return;
        };
        let mut state = holder.state.lock();
        if state.announcing != membership.alive {
            state.announcing.clone_from(&membership.alive);
            drop(state);
            holder.wake.notify_one();
        }
    }

    /// Renews the Lease and lists the others until cancelled.
    pub async fn run(self, cancel: CancellationToken) {
        let Some(holder) = &self.0 else {
            return cancel.cancelled().await;
        };
        cancel.run_until_cancelled(holder.renew_for_ever()).await;
    }

    /// Deletes the Lease, so that the others need not wait for it to expire. To be called when
    /// nothing is written any more.
    pub async fn leave(&self) {
        if let Some(holder) = &self.0 {
            holder.release().await;
        }
    }
}
