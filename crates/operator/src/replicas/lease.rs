//! The Lease of this replica, and those of the others.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use fleetdex_core::model::causes;
use fleetdex_sync::fence::Fence;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference},
    jiff::Timestamp,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, Preconditions},
};
use parking_lot::{Mutex, MutexGuard};
use tokio::{
    sync::Notify,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::share::{Assignment, Group, ReplicaName, Share};

/// Marks the Leases and reports of replicas.
pub const LABEL: &str = "fleetdex.io/replica";
/// On a Lease: the replicas that its holder goes by, with commas between.
const TOLD: &str = "fleetdex.io/replicas";
/// On a Lease: where the others reach the query API of its holder.
const ADDRESS: &str = "fleetdex.io/address";
/// Names the fields that this writes.
const FIELD_MANAGER: &str = "fleetdex-replica";
/// How often the Lease is renewed and the others are looked at.
const RENEWAL: Duration = Duration::from_secs(2);
/// Whoever has not renewed for so long is taken for dead. Four renewals: one that is lost, or slow, does not count.
const DURATION: Duration = Duration::from_secs(8);
/// From when on a replica that cannot renew sends nothing any more: before the others take it for dead, and with time for a request to
/// arrive.
const FENCED_AFTER: Duration = Duration::from_secs(6);
/// How long the control plane may take for one request.
const TIMEOUT: Duration = Duration::from_secs(2);
/// After that, the Lease of a replica that is gone is removed.
const REMOVED_AFTER: Duration = Duration::from_mins(10);

/// How a replica takes part.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its name.
    pub name: ReplicaName,
    /// The namespace of the Leases.
    pub namespace: String,
    /// Where the others reach its query API, if they can.
    pub address: Option<SocketAddr>,
}

/// Another replica that is alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its name.
    pub name: ReplicaName,
    /// Where its query API is, if it says so.
    pub address: Option<SocketAddr>,
}

/// This replica among the others; on its own if it has not been given settings. Clones are the same.
#[derive(Clone)]
pub struct Replicas(Option<Arc<Inner>>);

struct Inner {
    settings: Settings,
    leases: Api<Lease>,
    hub: Client,
    fence: Fence,
    state: Mutex<State>,
    /// Asks for a renewal now.
    wake: Notify,
    /// Notified when the share is another one.
    changed: Arc<Notify>,
}

struct State {
    /// What is to be told from the next renewal on.
    telling: Group,
    assignment: Assignment,
    /// What the others say about where they are.
    addresses: BTreeMap<ReplicaName, SocketAddr>,
    lease_uid: Option<String>,
}

/// When a Lease was last seen to have been renewed.
struct Sighting {
    renewed: Option<MicroTime>,
    at: Instant,
    duration: Duration,
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
    Taken(String),
}

impl Replicas {
    /// The only one.
    pub fn alone() -> Self {
        Self(None)
    }

    /// One of several. `changed` is notified when its share changes. It reads nothing until [`Replicas::run`] has renewed its Lease.
    pub fn join(hub: Client, settings: Settings, changed: Arc<Notify>) -> Self {
        let leases = Api::namespaced(hub.clone(), &settings.namespace);
        let assignment = Assignment {
            own: settings.name.clone(),
            alive: Group::new(),
            told: Group::new(),
            others: BTreeMap::new(),
        };
        let state = State {
            telling: Group::new(),
            assignment,
            addresses: BTreeMap::new(),
            lease_uid: None,
        };
        let inner = Inner {
            settings,
            leases,
            hub,
            fence: Fence::closed(),
            state: Mutex::new(state),
            wake: Notify::new(),
            changed,
        };
        Self(Some(Arc::new(inner)))
    }

    /// What this replica reads now.
    pub fn share(&self) -> Share {
        match &self.0 {
            None => Share::Whole,
            Some(inner) => Share::Part(Arc::new(inner.lock().assignment.clone())),
        }
    }

    /// Closed when this replica must not write.
    pub fn fence(&self) -> Fence {
        self.0
            .as_ref()
            .map_or(Fence::OPEN, |inner| inner.fence.clone())
    }

    /// The settings, if there may be others.
    pub fn settings(&self) -> Option<&Settings> {
        self.0.as_ref().map(|inner| &inner.settings)
    }

    /// The control plane, if there may be others.
    pub fn hub(&self) -> Option<&Client> {
        self.0.as_ref().map(|inner| &inner.hub)
    }

    /// This replica's Lease as the owner of what it leaves behind; nothing before it is there.
    pub fn owner(&self) -> Option<OwnerReference> {
        let inner = self.0.as_ref()?;
        let uid = inner.lock().lease_uid.clone()?;
        Some(OwnerReference {
            api_version: Lease::api_version(&()).into_owned(),
            kind: Lease::kind(&()).into_owned(),
            name: object_name(&inner.settings.name),
            uid,
            ..OwnerReference::default()
        })
    }

    /// The other replicas that are alive; none as long as this one is cut off.
    pub fn others(&self) -> Group {
        self.peers()
            .unwrap_or_default()
            .into_iter()
            .map(|peer| peer.name)
            .collect()
    }

    /// The other replicas that are alive, and where they are; nothing as long as this one is cut off, and cannot know.
    pub fn peers(&self) -> Option<Vec<Peer>> {
        let Some(inner) = &self.0 else {
            return Some(Vec::new());
        };
        let state = inner.lock();
        if !state.assignment.alive.contains(&inner.settings.name) {
            return None;
        }
        let others = state
            .assignment
            .alive
            .iter()
            .filter(|name| **name != inner.settings.name);
        Some(
            others
                .map(|name| Peer {
                    name: name.clone(),
                    address: state.addresses.get(name).copied(),
                })
                .collect(),
        )
    }

    /// This replica has let go of everything that a share does not give it: the others may know.
    pub fn has_let_go(&self, share: &Share) {
        let (Some(inner), Share::Part(assignment)) = (&self.0, share) else {
            return;
        };
        let mut state = inner.lock();
        if state.telling != assignment.alive {
            state.telling.clone_from(&assignment.alive);
            drop(state);
            inner.wake.notify_one();
        }
    }

    /// Renews the Lease and looks at the others until cancelled.
    pub async fn run(self, cancel: CancellationToken) {
        let Some(inner) = &self.0 else {
            return cancel.cancelled().await;
        };
        cancel.run_until_cancelled(inner.renew_for_ever()).await;
    }

    /// Gives the Lease back: the others need not wait for it to expire. To be called when nothing is written any more.
    pub async fn leave(&self) {
        let Some(inner) = &self.0 else { return };
        inner.fence.close();
        let name = object_name(&inner.settings.name);
        match timeout(
            TIMEOUT,
            inner.leases.delete(&name, &DeleteParams::default()),
        )
        .await
        {
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
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    async fn renew_for_ever(&self) {
        // Tells this life of the process from others of the same name.
        let holder = format!("{}_{:016x}", self.settings.name, rand::random::<u64>());
        let mut sightings: BTreeMap<ReplicaName, Sighting> = BTreeMap::new();
        let mut is_failing = false;
        loop {
            let renewed = self.renew(&holder, &mut sightings).await;
            self.note(&renewed, &mut is_failing);
            tokio::select! {
                biased;
                () = self.wake.notified() => {}
                () = sleep(RENEWAL) => {}
            }
        }
    }

    fn note(&self, renewed: &Result<(), RenewalError>, is_failing: &mut bool) {
        match renewed {
            Ok(()) if *is_failing => {
                tracing::info!(replica = %self.settings.name, "the Lease is renewed again");
            }
            Ok(()) => {}
            Err(error) if !*is_failing => {
                let error = causes(error);
                tracing::warn!(replica = %self.settings.name, %error, "cannot renew the Lease; without it this replica reads nothing");
            }
            Err(error) => {
                tracing::debug!(replica = %self.settings.name, error = %causes(error), "cannot renew the Lease");
            }
        }
        *is_failing = renewed.is_err();
    }

    async fn renew(
        &self,
        holder: &str,
        sightings: &mut BTreeMap<ReplicaName, Sighting>,
    ) -> Result<(), RenewalError> {
        let started = Instant::now();
        let telling = self.lock().telling.clone();
        let outcome = self.exchange(holder, &telling).await;
        let leases = match outcome {
            Ok((own_uid, leases)) => {
                self.fence.hold_open(started, FENCED_AFTER);
                self.lock().lease_uid = Some(own_uid);
                leases
            }
            Err(error) => {
                // Whether the others have been told, and what they tell by now, is not known.
                let is_open = self.fence.is_open();
                self.update(|assignment| {
                    assignment.told = Group::new();
                    if !is_open {
                        assignment.alive = Group::new();
                    }
                });
                return Err(error);
            }
        };
        let others = self.look(&leases, sightings);
        self.lock().addresses = leases
            .iter()
            .filter_map(|lease| Some((replica_of(lease)?, address(lease)?)))
            .collect();
        self.update(|assignment| {
            assignment.alive = others
                .keys()
                .cloned()
                .chain([self.settings.name.clone()])
                .collect();
            assignment.told = telling;
            assignment.others = others;
        });
        self.remove_old(&leases, sightings).await;
        Ok(())
    }

    /// Renews, then reads what all tell: in this order, so that of two replicas at least one sees what the other one told.
    async fn exchange(
        &self,
        holder: &str,
        telling: &Group,
    ) -> Result<(String, Vec<Lease>), RenewalError> {
        let name = object_name(&self.settings.name);
        let patch = Patch::Apply(self.lease(holder, telling));
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        let own = self
            .ask(
                "renew a Lease",
                self.leases.patch(&name, &parameters, &patch),
            )
            .await?;
        let found = self
            .ask(
                "list Leases",
                self.leases.list(&ListParams::default().labels(LABEL)),
            )
            .await?;
        let is_own = |lease: &&Lease| lease.name_any() == name;
        let holder_found = found
            .items
            .iter()
            .find(is_own)
            .and_then(|lease| lease.spec.as_ref()?.holder_identity.clone());
        if holder_found.as_deref() != Some(holder) {
            return Err(RenewalError::Taken(name));
        }
        Ok((own.uid().unwrap_or_default(), found.items))
    }

    async fn ask<T>(
        &self,
        doing: &'static str,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, RenewalError> {
        let answer = timeout(TIMEOUT, request)
            .await
            .map_err(|_| RenewalError::Timeout)?;
        let namespace = || self.settings.namespace.clone();
        answer.map_err(|source| RenewalError::Refused {
            doing,
            namespace: namespace(),
            source: Box::new(source),
        })
    }

    fn lease(&self, holder: &str, telling: &Group) -> Lease {
        let address = self
            .settings
            .address
            .map(|address| (ADDRESS.to_owned(), address.to_string()));
        let annotations = [(TOLD.to_owned(), text(telling))]
            .into_iter()
            .chain(address)
            .collect();
        Lease {
            metadata: ObjectMeta {
                name: Some(object_name(&self.settings.name)),
                labels: Some(BTreeMap::from([(LABEL.to_owned(), "true".to_owned())])),
                annotations: Some(annotations),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(holder.to_owned()),
                lease_duration_seconds: i32::try_from(DURATION.as_secs()).ok(),
                renew_time: Some(MicroTime(Timestamp::now())),
                ..LeaseSpec::default()
            }),
        }
    }

    /// The others that are alive, and what they tell. No clock but this process's own counts: a Lease lives as long as it is seen to
    /// change.
    fn look(
        &self,
        leases: &[Lease],
        sightings: &mut BTreeMap<ReplicaName, Sighting>,
    ) -> BTreeMap<ReplicaName, Group> {
        let mut others = BTreeMap::new();
        let mut found = BTreeSet::new();
        for lease in leases {
            let Some(name) = replica_of(lease).filter(|name| *name != self.settings.name) else {
                continue;
            };
            found.insert(name.clone());
            if sighting(sightings, &name, lease).is_alive() {
                others.insert(name, told(lease));
            }
        }
        sightings.retain(|name, _| found.contains(name));
        others
    }

    fn update(&self, change: impl FnOnce(&mut Assignment)) {
        let mut state = self.lock();
        let before = state.assignment.clone();
        change(&mut state.assignment);
        let (alive_before, alive) = (&before.alive, &state.assignment.alive);
        if alive_before != alive {
            tracing::info!(replica = %self.settings.name, alive = text(alive), "the replicas that share the clusters");
        }
        let is_news = state.assignment != before;
        drop(state);
        if is_news {
            self.changed.notify_one();
        }
    }

    async fn remove_old(&self, leases: &[Lease], sightings: &BTreeMap<ReplicaName, Sighting>) {
        for lease in leases {
            let is_old = |sighting: &Sighting| sighting.at.elapsed() >= REMOVED_AFTER;
            if !replica_of(lease)
                .and_then(|name| sightings.get(&name))
                .is_some_and(is_old)
            {
                continue;
            }
            // As it was seen: one that is renewed just now stays.
            let as_seen = Preconditions {
                uid: lease.uid(),
                resource_version: lease.resource_version(),
            };
            let parameters = DeleteParams {
                preconditions: Some(as_seen),
                ..DeleteParams::default()
            };
            if let Err(error) = self
                .ask(
                    "delete a Lease",
                    self.leases.delete(&lease.name_any(), &parameters),
                )
                .await
            {
                tracing::debug!(lease = lease.name_any(), error = %causes(&error), "an old Lease stays for now");
            }
        }
    }
}

impl Sighting {
    fn is_alive(&self) -> bool {
        self.at.elapsed() < self.duration
    }
}

fn sighting<'s>(
    sightings: &'s mut BTreeMap<ReplicaName, Sighting>,
    name: &ReplicaName,
    lease: &Lease,
) -> &'s Sighting {
    let spec = lease.spec.as_ref();
    let renewed = spec.and_then(|spec| spec.renew_time.clone());
    let seconds = spec
        .and_then(|spec| spec.lease_duration_seconds)
        .and_then(|seconds| u64::try_from(seconds).ok());
    let duration = seconds.map_or(DURATION, Duration::from_secs);
    let new = || Sighting {
        renewed: renewed.clone(),
        at: Instant::now(),
        duration,
    };
    let seen = sightings.entry(name.clone()).or_insert_with(new);
    if seen.renewed != renewed || seen.duration != duration {
        *seen = new();
    }
    seen
}

/// The name of a replica's Lease and of its report.
pub fn object_name(replica: &ReplicaName) -> String {
    format!("fleetdex-replica-{replica}")
}

/// The replica that a Lease or a report is of.
pub fn replica_of(object: &impl Resource) -> Option<ReplicaName> {
    object
        .meta()
        .name
        .as_deref()?
        .strip_prefix("fleetdex-replica-")?
        .parse()
        .ok()
}

fn told(lease: &Lease) -> Group {
    let names = lease
        .annotations()
        .get(TOLD)
        .map(String::as_str)
        .unwrap_or_default();
    names
        .split(',')
        .filter_map(|name| name.parse().ok())
        .collect()
}

fn address(lease: &Lease) -> Option<SocketAddr> {
    lease.annotations().get(ADDRESS)?.parse().ok()
}

fn text(group: &Group) -> String {
    group
        .iter()
        .map(ReplicaName::as_str)
        .collect::<Vec<_>>()
        .join(",")
}
