//! What is to run.

use std::{collections::BTreeMap, sync::Arc};

use fleetdex_clusters::MemberState;
use fleetdex_core::model::ClusterName;
use fleetdex_interpreter::rules::RuleSet;
use fleetdex_replicas::{Assignment, ReplicaName};

use crate::{RegistryView, completeness::CompletenessReport, store_locations::StoreLocations};

/// The completeness reports of the other replicas.
pub type PeerCompleteness = Arc<BTreeMap<ReplicaName, CompletenessReport>>;

/// Everything that decides what is to run.
pub struct Desired<'a> {
    /// The registries.
    pub registries: &'a [RegistryView],
    /// Registries that are being deleted: their stores stay open until their documents are deleted.
    pub leaving: &'a [RegistryView],
    /// The members.
    pub members: &'a BTreeMap<ClusterName, MemberState>,
    /// Whether these members are all that exist. Otherwise the documents of unknown clusters stay.
    pub knows_all_members: bool,
    /// The clusters that are assigned to this replica.
    pub assignment: Assignment,
    /// The rules that say what objects mean. Kinds whose rules have changed are interpreted again.
    pub rules: Arc<RuleSet>,
    /// Every location that a registry may have written to. Those that no registry names any more
    /// are emptied.
    pub recorded_locations: StoreLocations,
    /// What the other replicas have reported last.
    pub peer_completeness: PeerCompleteness,
}

impl<'a> Desired<'a> {
    /// The registries on the members, all of which are known: for a single replica, with the
    /// built-in rules, and nothing to clean up.
    pub fn new(
        registries: &'a [RegistryView],
        members: &'a BTreeMap<ClusterName, MemberState>,
    ) -> Self {
        Self {
            registries,
            leaving: &[],
            members,
            knows_all_members: true,
            assignment: Assignment::SingleReplica,
            rules: Arc::default(),
            recorded_locations: StoreLocations::default(),
            peer_completeness: Arc::default(),
        }
    }
}
