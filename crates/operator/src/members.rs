//! The members of the fleet: passes what the sources of clusters contain to the connections, and
//! collects the state of each member.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetdex_clusters::{
    Clusters, Connection, ConnectionPhase, Member, MemberState, cluster_status_writer,
    source::{
        Duplicates, IndexedClusterUids, MemberSnapshot, SAME_CLUSTER_AS, Sources, is_duplicate,
    },
};
use fleetdex_core::model::{ClusterName, causes};
use fleetdex_crds::cluster::Cluster;
use fleetdex_telemetry::metrics::{CertificateInUse, CertificateUse, Metrics};
use kube::{Api, Client, ResourceExt};

/// The reason of a registration under a name that another member has.
const NAME_TAKEN: &str = "NameTaken";

/// The members, and what the status says about them.
#[derive(Clone, Debug, Default)]
pub struct MemberStates {
    /// The state of each.
    pub states: BTreeMap<ClusterName, MemberState>,
    /// Sources that have not been read yet. There may be more members, whose documents must not be
    /// deleted.
    pub unread_sources: Vec<String>,
    /// What is wrong with the registration of a member that works.
    pub notes: BTreeMap<ClusterName, String>,
}

/// Keeps the connections to members in line with the sources.
pub struct MemberReconciler {
    /// The control plane.
    pub control_plane: Client,
    /// The connections to the members.
    pub clusters: Arc<Clusters>,
    /// The sources of clusters.
    pub sources: Arc<Sources>,
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// Whether this installation writes the status of `Cluster` objects.
    pub writes_cluster_status: bool,
    /// Which members are the same cluster.
    pub duplicates: Duplicates,
    /// The members of the last update.
    pub known: BTreeSet<ClusterName>,
    /// The client certificates of the last update, and when they end.
    pub certificates: BTreeMap<ClusterName, (i64, CertificateInUse)>,
}

impl MemberReconciler {
    /// Sets the members, and returns their states. `is_leader`: whether this replica writes
    /// statuses. `indexed`: which clusters have documents; `None` while that is unknown. `planned`:
    /// the members that the plan of the last update indexes.
    pub async fn update(
        &mut self,
        is_leader: bool,
        indexed: Option<&IndexedClusterUids>,
        planned: &BTreeSet<ClusterName>,
    ) -> MemberStates {
        let MemberSnapshot {
            members,
            name_conflicts,
            unread_sources,
            cluster_objects,
        } = self.sources.snapshot();
        self.clusters.set_members(members);
        let mut states = self.clusters.states();
        self.update_metrics(&states);
        let mut notes = BTreeMap::new();
        if !self.sources.allow_same_cluster() {
            notes = self.duplicates.mark(&mut states, indexed, planned);
        }
        let duplicates = states.values().filter(|state| is_duplicate(state)).count();
        self.metrics
            .set_clusters_ignored(SAME_CLUSTER_AS, duplicates);
        self.metrics
            .set_clusters_ignored(NAME_TAKEN, name_conflicts.values().map(Vec::len).sum());
        if self.writes_cluster_status && is_leader {
            self.write_cluster_statuses(&cluster_objects, &states, &name_conflicts)
                .await;
        }
        for (name, others) in &name_conflicts {
            notes
                .entry(name.clone())
                .and_modify(|known| *known = format!("{known}; {}", note(others)))
                .or_insert_with(|| note(others));
        }
        MemberStates {
            states,
            unread_sources,
            notes,
        }
    }

    fn update_metrics(&mut self, states: &BTreeMap<ClusterName, MemberState>) {
        for (name, member) in states {
            self.metrics
                .set_cluster_up(name, member.connection.is_some());
        }
        self.update_certificates(states);
        for gone in self.known.iter().filter(|name| !states.contains_key(*name)) {
            self.metrics.forget_cluster(gone);
        }
        self.known = states.keys().cloned().collect();
    }

    fn update_certificates(&mut self, states: &BTreeMap<ClusterName, MemberState>) {
        let mut before = std::mem::take(&mut self.certificates);
        for (name, member) in states {
            let connection = member.connection.as_ref();
            let Some(not_after) = connection.and_then(Connection::client_certificate_not_after)
            else {
                continue;
            };
            let in_use = match before.remove(name) {
                Some((known, in_use)) if known == not_after => in_use,
                _ => self.metrics.certificate_in_use(
                    CertificateUse::MemberClient,
                    name.as_str(),
                    not_after,
                ),
            };
            self.certificates.insert(name.clone(), (not_after, in_use));
        }
    }

    async fn write_cluster_statuses(
        &self,
        clusters: &[Arc<Cluster>],
        states: &BTreeMap<ClusterName, MemberState>,
        name_conflicts: &BTreeMap<ClusterName, Vec<Member>>,
    ) {
        let api = Api::<Cluster>::all(self.control_plane.clone());
        for cluster in clusters {
            let name = cluster.name_any();
            let Some((name_of_member, state)) =
                states.iter().find(|(member, _)| member.as_str() == name)
            else {
                continue;
            };
            let uid = cluster.uid().unwrap_or_default();
            let other = name_conflicts
                .get(name_of_member)
                .and_then(|others| others.iter().find(|other| other.uid == uid));
            let conflicting_state = other.map(|other| left_out(other, state));
            if let Err(error) = cluster_status_writer::write(
                &api,
                cluster,
                conflicting_state.as_ref().unwrap_or(state),
            )
            .await
            {
                tracing::warn!(cluster = %name, error = %causes(&error), "cannot write the status of a Cluster");
            }
        }
    }
}

fn note(others: &[Member]) -> String {
    let origins: Vec<&str> = others.iter().map(|other| other.origin.as_str()).collect();
    format!(
        "{NAME_TAKEN}: these younger registrations of the same name are left out: {}",
        origins.join(", ")
    )
}

/// The state of a `Cluster` whose name another member has.
fn left_out(other: &Member, first: &MemberState) -> MemberState {
    MemberState {
        member: Arc::new(other.clone()),
        phase: ConnectionPhase::Disconnected,
        reason: NAME_TAKEN,
        message: format!(
            "{} was registered under this name first; rename one of the two",
            first.member.origin
        ),
        since: first.since,
        connection: None,
        discovery: None,
        definitions: None,
        kubernetes_version: None,
        note: None,
    }
}
