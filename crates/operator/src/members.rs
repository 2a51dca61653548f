//! The members of the fleet: what the sources say, told to the supervisor, and what comes of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetdex_api::cluster::Cluster;
use fleetdex_clusters::{
    Clusters, Member, MemberState, Phase,
    source::{Established, SAME_CLUSTER_AS, Snapshot, Sources, Twins, is_left_to_another},
    status as cluster_status,
};
use fleetdex_core::model::{ClusterName, causes};
use fleetdex_telemetry::metrics::Metrics;
use kube::{Api, Client, ResourceExt};

/// The reason of a registration whose name another member has.
const NAME_TAKEN: &str = "NameTaken";

/// The members, and what there is to tell about them.
#[derive(Clone, Debug, Default)]
pub struct Members {
    /// Where each of them stands.
    pub states: BTreeMap<ClusterName, MemberState>,
    /// Sources that have not been read yet: there may be more members, of which nothing may be deleted.
    pub unread: Vec<String>,
    /// What is wrong with the registration of a member that works.
    pub notes: BTreeMap<ClusterName, String>,
}

/// Keeps the supervisor up to date.
pub struct Roster {
    /// The control plane.
    pub hub: Client,
    /// The supervisor.
    pub clusters: Arc<Clusters>,
    /// Where members come from.
    pub sources: Arc<Sources>,
    /// Counts.
    pub metrics: Arc<Metrics>,
    /// Whether the status of `Cluster` objects is ours to write.
    pub writes_cluster_status: bool,
    /// Which members are the same cluster.
    pub twins: Twins,
    /// Members that were told last.
    pub known: BTreeSet<ClusterName>,
}

impl Roster {
    /// Tells the supervisor which members there are, and answers what it knows of them. `leads`: whether this replica writes statuses.
    /// `established`: which clusters there are documents of; nothing while that is not known. `planned`: which members the plan indexes that was
    /// made of the last answer.
    pub async fn update(
        &mut self,
        leads: bool,
        established: Option<&Established>,
        planned: &BTreeSet<ClusterName>,
    ) -> Members {
        let Snapshot {
            members,
            taken,
            unread,
            clusters,
        } = self.sources.snapshot();
        self.clusters.set_members(members);
        let mut states = self.clusters.states();
        self.count(&states);
        let mut notes = BTreeMap::new();
        if !self.sources.allow_same_cluster() {
            notes = self.twins.mark(&mut states, established, planned);
        }
        let twins = states
            .values()
            .filter(|state| is_left_to_another(state))
            .count();
        self.metrics.set_clusters_left_out(SAME_CLUSTER_AS, twins);
        self.metrics
            .set_clusters_left_out(NAME_TAKEN, taken.values().map(Vec::len).sum());
        if self.writes_cluster_status && leads {
            self.write_cluster_statuses(&clusters, &states, &taken)
                .await;
        }
        for (name, others) in &taken {
            notes
                .entry(name.clone())
                .and_modify(|known| *known = format!("{known}; {}", note(others)))
                .or_insert_with(|| note(others));
        }
        Members {
            states,
            unread,
            notes,
        }
    }

    fn count(&mut self, states: &BTreeMap<ClusterName, MemberState>) {
        for (name, member) in states {
            self.metrics
                .set_cluster_up(name, member.connection.is_some());
        }
        for gone in self.known.iter().filter(|name| !states.contains_key(*name)) {
            self.metrics.forget_cluster(gone);
        }
        self.known = states.keys().cloned().collect();
    }

    async fn write_cluster_statuses(
        &self,
        clusters: &[Arc<Cluster>],
        states: &BTreeMap<ClusterName, MemberState>,
        taken: &BTreeMap<ClusterName, Vec<Member>>,
    ) {
        let api = Api::<Cluster>::all(self.hub.clone());
        for cluster in clusters {
            let name = cluster.name_any();
            let Some((name_of_member, state)) =
                states.iter().find(|(member, _)| member.as_str() == name)
            else {
                continue;
            };
            let uid = cluster.uid().unwrap_or_default();
            let other = taken
                .get(name_of_member)
                .and_then(|others| others.iter().find(|other| other.uid == uid));
            let left_out = other.map(|other| left_out(other, state));
            if let Err(error) =
                cluster_status::write(&api, cluster, left_out.as_ref().unwrap_or(state)).await
            {
                tracing::warn!(cluster = %name, error = %causes(&error), "cannot write the status of a Cluster");
            }
        }
    }
}

fn note(others: &[Member]) -> String {
    let origins: Vec<&str> = others.iter().map(|other| other.origin.as_str()).collect();
    format!(
        "{NAME_TAKEN}: left out, because they name their cluster so too and are younger: {}",
        origins.join(", ")
    )
}

/// What is shown of a `Cluster` whose name another member has.
fn left_out(other: &Member, first: &MemberState) -> MemberState {
    MemberState {
        member: Arc::new(other.clone()),
        phase: Phase::Disconnected,
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
