//! The Lease of this replica, and what it observes of the others.

use std::{collections::BTreeMap, future::Future, net::SocketAddr, sync::Arc, time::Duration};

use super::write_fence::WriteFence;
use fleetdex_core::model::causes;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, Preconditions},
};
use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, sleep, timeout},
};

use super::{
    assignment::{Membership, ReplicaName, ReplicaNames},
    config::ReplicaConfig,
    lease_object::{REPLICA_LABEL, address, join_names, new_lease, object_name, replica_of},
    observed_leases::ObservedLeases,
};

/// The field manager of server-side apply.
const FIELD_MANAGER: &str = "fleetdex-replica";
/// How often the Lease is renewed and the others are listed.
const RENEWAL: Duration = Duration::from_secs(2);
/// A replica that has not renewed for so long counts as dead. These are four renewals, so one that
/// is lost, or slow, does not matter.
const DURATION: Duration = Duration::from_secs(8);
/// After this time without a renewal a replica sends nothing any more: before the others consider
/// it dead, and with time for a request to arrive.
const FENCED_AFTER: Duration = Duration::from_secs(6);
/// How long the control plane may take for one request.
const TIMEOUT: Duration = Duration::from_secs(2);
/// How long after its last renewal the Lease of a dead replica is deleted.
const REMOVED_AFTER: Duration = Duration::from_mins(10);

/// Renews the Lease of this replica, and observes those of the others.
pub(super) struct LeaseHolder {
    pub(super) config: ReplicaConfig,
    leases: Api<Lease>,
    pub(super) control_plane: Client,
    pub(super) fence: WriteFence,
    pub(super) state: Mutex<LeaseState>,
    /// Wakes the renewal before its time.
    pub(super) wake: Notify,
    /// Notified when the assignment changes.
    changed: Arc<Notify>,
}

pub(super) struct LeaseState {
    /// The replicas to announce from the next renewal on.
    pub(super) announcing: ReplicaNames,
    pub(super) membership: Membership,
    /// Where the query APIs of the replicas are reached, as their Leases state.
    pub(super) addresses: BTreeMap<ReplicaName, SocketAddr>,
    pub(super) lease_uid: Option<String>,
}

/// Why a renewal failed.
#[derive(Debug, thiserror::Error)]
enum RenewalError {
    #[error("the control plane does not answer within {} s", TIMEOUT.as_secs())]
    Timeout,
    #[error("cannot {doing} in namespace {namespace}")]
    Refused {
        doing: &'static str,
        namespace: String,
        source: Box<kube::Error>,
    },
    #[error(
        "another process renews the Lease {0}: give each replica a name of its own (--replica-name)"
    )]
    HeldByAnother(String),
}

impl LeaseHolder {
    pub(super) fn new(control_plane: Client, config: ReplicaConfig, changed: Arc<Notify>) -> Self {
        let leases = Api::namespaced(control_plane.clone(), &config.namespace);
        let membership = Membership {
            local: config.name.clone(),
            alive: ReplicaNames::new(),
            announced: ReplicaNames::new(),
            peers: BTreeMap::new(),
        };
        let state = LeaseState {
            announcing: ReplicaNames::new(),
            membership,
            addresses: BTreeMap::new(),
            lease_uid: None,
        };
        Self {
            config,
            leases,
            control_plane,
            fence: WriteFence::closed(),
            state: Mutex::new(state),
            wake: Notify::new(),
            changed,
        }
    }

    /// Closes the fence, and deletes the Lease.
    pub(super) async fn release(&self) {
        self.fence.close();
        let name = object_name(&self.config.name);
        match timeout(TIMEOUT, self.leases.delete(&name, &DeleteParams::default())).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => {
                tracing::warn!(lease = name, error = %causes(&error), "cannot delete the Lease; it expires by itself");
            }
            Err(_) => tracing::warn!(
                lease = name,
                "cannot delete the Lease in time; it expires by itself"
            ),
        }
    }

    pub(super) async fn renew_for_ever(&self) {
        // Distinguishes this process from others, earlier ones included, of the same replica name.
        let holder = format!("{}_{:016x}", self.config.name, rand::random::<u64>());
        let mut observed = ObservedLeases::default();
        let mut is_failing = false;
        loop {
            let renewed = self.renew(&holder, &mut observed).await;
            self.log_outcome(&renewed, &mut is_failing);
            tokio::select! {
                biased;
                () = self.wake.notified() => {}
                () = sleep(RENEWAL) => {}
            }
        }
    }

    fn log_outcome(&self, renewed: &Result<(), RenewalError>, is_failing: &mut bool) {
        match renewed {
            Ok(()) if *is_failing => {
                tracing::info!(replica = %self.config.name, "the Lease is renewed again");
            }
            Ok(()) => {}
            Err(error) if !*is_failing => {
                let error = causes(error);
                tracing::warn!(replica = %self.config.name, %error, "cannot renew the Lease; without it this replica reads nothing");
            }
            Err(error) => {
                tracing::debug!(replica = %self.config.name, error = %causes(error), "cannot renew the Lease");
            }
        }
        *is_failing = renewed.is_err();
    }

    async fn renew(&self, holder: &str, observed: &mut ObservedLeases) -> Result<(), RenewalError> {
        let started = Instant::now();
        let announcing = self.state.lock().announcing.clone();
        let outcome = self.renew_and_list(holder, &announcing).await;
        let leases = match outcome {
            Ok((lease_uid, leases)) => {
                self.fence.extend(started, FENCED_AFTER);
                self.state.lock().lease_uid = Some(lease_uid);
                leases
            }
            Err(error) => {
                // Whether the others have read the announcement, and what they announce now, is
                // unknown.
                let is_open = self.fence.is_open();
                self.update(|membership| {
                    membership.announced = ReplicaNames::new();
                    if !is_open {
                        membership.alive = ReplicaNames::new();
                    }
                });
                return Err(error);
            }
        };
        let peers = observed.observe(&leases, &self.config.name, DURATION, Instant::now());
        self.state.lock().addresses = leases
            .iter()
            .filter_map(|lease| Some((replica_of(lease)?, address(lease)?)))
            .collect();
        self.update(|membership| {
            membership.alive = peers
                .keys()
                .cloned()
                .chain([self.config.name.clone()])
                .collect();
            membership.announced = announcing;
            membership.peers = peers;
        });
        self.delete_expired(&leases, observed).await;
        Ok(())
    }

    /// Renews, then lists all Leases. In this order at least one of two replicas reads the
    /// announcement of the other.
    async fn renew_and_list(
        &self,
        holder: &str,
        announcing: &ReplicaNames,
    ) -> Result<(String, Vec<Lease>), RenewalError> {
        let name = object_name(&self.config.name);
        let lease = new_lease(&self.config, holder, announcing, DURATION);
        let patch = Patch::Apply(lease);
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        let renewed = self
            .request(
                "renew a Lease",
                self.leases.patch(&name, &parameters, &patch),
            )
            .await?;
        let found = self
            .request(
                "list Leases",
                self.leases
                    .list(&ListParams::default().labels(REPLICA_LABEL)),
            )
            .await?;
        let is_own = |lease: &&Lease| lease.name_any() == name;
        let holder_found = found
            .items
            .iter()
            .find(is_own)
            .and_then(|lease| lease.spec.as_ref()?.holder_identity.clone());
        if holder_found.as_deref() != Some(holder) {
            return Err(RenewalError::HeldByAnother(name));
        }
        Ok((renewed.uid().unwrap_or_default(), found.items))
    }

    async fn request<T>(
        &self,
        doing: &'static str,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, RenewalError> {
        let response = timeout(TIMEOUT, request)
            .await
            .map_err(|_| RenewalError::Timeout)?;
        let namespace = || self.config.namespace.clone();
        response.map_err(|source| RenewalError::Refused {
            doing,
            namespace: namespace(),
            source: Box::new(source),
        })
    }

    fn update(&self, change: impl FnOnce(&mut Membership)) {
        let mut state = self.state.lock();
        let before = state.membership.clone();
        change(&mut state.membership);
        let (alive_before, alive) = (&before.alive, &state.membership.alive);
        if alive_before != alive {
            tracing::info!(replica = %self.config.name, alive = join_names(alive), "the replicas among which clusters are assigned have changed");
        }
        let is_news = state.membership != before;
        drop(state);
        if is_news {
            self.changed.notify_one();
        }
    }

    async fn delete_expired(&self, leases: &[Lease], observed: &ObservedLeases) {
        for lease in leases {
            let is_expired = |name| observed.is_unrenewed_for(&name, REMOVED_AFTER, Instant::now());
            if !replica_of(lease).is_some_and(is_expired) {
                continue;
            }
            // Only as it was listed: a Lease that is renewed right now stays.
            let as_seen = Preconditions {
                uid: lease.uid(),
                resource_version: lease.resource_version(),
            };
            let parameters = DeleteParams {
                preconditions: Some(as_seen),
                ..DeleteParams::default()
            };
            if let Err(error) = self
                .request(
                    "delete a Lease",
                    self.leases.delete(&lease.name_any(), &parameters),
                )
                .await
            {
                tracing::debug!(lease = lease.name_any(), error = %causes(&error), "cannot delete an expired Lease; it is retried");
            }
        }
    }
}
