//! Finds members that are the same cluster, and decides which of them is indexed.
//!
//! Members of one cluster report the same cluster UID, that of the namespace `kube-system`. The UID
//! alone proves nothing: a member may lie, and a cluster that is restored from a backup has the UID
//! of its origin. So the histories of members with one UID are compared ([`super::history`]).
//! Members that differ are all indexed. Of members that are one cluster the established one is
//! indexed, which is the one that has documents, else the one that was registered first. An
//! established member is never refused and waits for no comparison.
//!
//! Members that are started together connect in any order. None of them becomes established while
//! the first attempt to connect to an older registration has not ended, as that may turn out to be
//! the same cluster.

mod comparison;
mod decision;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetdex_core::{
    model::ClusterName,
    planted::{Bug, planted},
};
use tokio::sync::Notify;

use self::{
    comparison::{ComparisonResults, ComparisonTask, ConnectionPair, Pair},
    decision::{Candidate, CandidateOutcome, Reachability, RegistrationAge, outcomes},
};
use super::super::{connection_state::ConnectionPhase, shared::MemberState};

/// The reason of a member that is the same cluster as another one.
pub const SAME_CLUSTER_AS: &str = "SameClusterAs";
/// The reason of a member that waits until it has been compared with another one.
pub const COMPARING: &str = "ComparingWithAnother";

/// The UIDs of the clusters that have documents, by member name. A member may have been another
/// cluster in another store.
pub type IndexedClusterUids = BTreeMap<ClusterName, BTreeSet<String>>;

/// Tracks the cluster UIDs that members report. A disconnected member keeps its UID, so that
/// another registration does not take over during an outage.
pub struct Duplicates {
    observed: BTreeMap<ClusterName, ObservedIdentity>,
    comparisons: BTreeMap<Pair, ComparisonTask>,
    results: Arc<ComparisonResults>,
}

#[derive(Debug)]
struct ObservedIdentity {
    /// UID of the object that registers the member: another object may register another cluster.
    registration: String,
    cluster_uid: String,
    /// Whether the member was indexed as this cluster.
    is_established: bool,
    /// Whether being indexed makes the member established: no older registration can still turn out
    /// to be this cluster.
    is_eligible: bool,
}

/// What is decided about all members, besides their marks.
#[derive(Default)]
struct DuplicateDecisions {
    /// The connected members to compare.
    pairs: BTreeMap<Pair, ConnectionPair>,
    /// The indexed members that can become established. Being indexed beside another member of the
    /// same UID does not establish one: it may still turn out to be the same cluster.
    indexed_alone: Vec<ClusterName>,
    /// The notes on members that report one cluster UID and are all indexed.
    notes: BTreeMap<ClusterName, Vec<String>>,
}

impl DuplicateDecisions {
    fn add_note(&mut self, name: &ClusterName, note: String) {
        self.notes.entry(name.clone()).or_default().push(note);
    }
}

impl Duplicates {
    /// Nothing has been observed. `changed` is notified of every result of a comparison.
    pub fn new(changed: Arc<Notify>) -> Self {
        Self {
            observed: BTreeMap::new(),
            comparisons: BTreeMap::new(),
            results: Arc::new(ComparisonResults::new(changed)),
        }
    }

    /// A number that grows with every result of a comparison.
    pub fn version(&self) -> u64 {
        self.results.version()
    }

    /// Marks members that are the same cluster as another one, and members that still have to be
    /// compared; both lose their connection. Returns notes on members that report one cluster UID
    /// and are all indexed.
    ///
    /// While `established` is not known, no member is refused. `planned` are the members that are
    /// indexed by the plan that was made from the last result.
    ///
    /// Must be called on a tokio runtime, as it starts comparisons.
    pub fn mark(
        &mut self,
        members: &mut BTreeMap<ClusterName, MemberState>,
        established: Option<&IndexedClusterUids>,
        planned: &BTreeSet<ClusterName>,
    ) -> BTreeMap<ClusterName, String> {
        self.observe(members, established, planned);
        let mut decisions = DuplicateDecisions::default();
        for group in self.candidates_by_uid(members) {
            self.mark_group(&group, established.is_some(), members, &mut decisions);
        }
        let DuplicateDecisions {
            pairs,
            indexed_alone,
            notes,
        } = decisions;
        // No member becomes established before the stores have reported which ones already are.
        let eligible = if established.is_some() {
            self.eligible(&indexed_alone, members)
        } else {
            BTreeSet::new()
        };
        for (name, observed) in &mut self.observed {
            observed.is_eligible = eligible.contains(name);
        }
        self.compare(&pairs);
        let notes = notes
            .into_iter()
            .map(|(name, notes)| (name, notes.join("; ")))
            .collect();
        set_notes(members, &notes);
        notes
    }

    /// Marks the members of one group of candidates, and adds what else is decided about them.
    fn mark_group(
        &self,
        group: &[Candidate],
        established_known: bool,
        members: &mut BTreeMap<ClusterName, MemberState>,
        decisions: &mut DuplicateDecisions,
    ) {
        let name_of = |position: usize| &group[position].age.name;
        let verdict = |first: usize, other: usize| self.results.get(name_of(first), name_of(other));
        let outcomes = outcomes(group, established_known, verdict);
        for (position, outcome) in outcomes.iter().enumerate() {
            let name = name_of(position);
            let pairs = connected_pairs(group, &outcomes, position, members);
            decisions.pairs.extend(pairs);
            match outcome {
                CandidateOutcome::Indexed(differences) => {
                    if differences.is_empty() {
                        decisions.indexed_alone.push(name.clone());
                    }
                    for (other, why) in differences {
                        let other = name_of(*other);
                        decisions.add_note(name, difference(members, other, why));
                        decisions.add_note(other, difference(members, name, why));
                    }
                }
                CandidateOutcome::Waits(first) => mark_comparing(members, name, name_of(*first)),
                CandidateOutcome::Refused(first) => mark_duplicate(members, name, name_of(*first)),
            }
        }
    }

    /// The members that report one cluster UID, for each UID; the established and older ones first.
    fn candidates_by_uid(
        &self,
        members: &BTreeMap<ClusterName, MemberState>,
    ) -> Vec<Vec<Candidate>> {
        let mut groups: BTreeMap<&str, Vec<Candidate>> = BTreeMap::new();
        for (name, observed) in &self.observed {
            groups
                .entry(&observed.cluster_uid)
                .or_default()
                .extend(members.get(name).map(|state| candidate(state, observed)));
        }
        let mut groups: Vec<Vec<Candidate>> = groups.into_values().collect();
        for group in &mut groups {
            group.sort();
        }
        groups
    }

    fn observe(
        &mut self,
        members: &BTreeMap<ClusterName, MemberState>,
        established: Option<&IndexedClusterUids>,
        planned: &BTreeSet<ClusterName>,
    ) {
        let results = &self.results;
        self.observed.retain(|name, observed| {
            let is_registered = members
                .get(name)
                .is_some_and(|state| state.member.uid == observed.registration);
            if !is_registered {
                results.forget(name);
            }
            is_registered
        });
        let stored = |name: &ClusterName| established.and_then(|established| established.get(name));
        for (name, state) in members {
            let reported = state
                .connection
                .as_ref()
                .and_then(|connection| connection.uid.clone());
            let before = self.observed.get(name);
            // A member that has not connected since the start is the cluster of its documents.
            let remembered = || {
                before
                    .is_none()
                    .then(|| stored(name)?.first().cloned())
                    .flatten()
            };
            let Some(cluster_uid) = reported.or_else(remembered) else {
                continue;
            };
            let is_stored = stored(name).is_some_and(|stored| stored.contains(&cluster_uid));
            let same = before.filter(|before| before.cluster_uid == cluster_uid);
            if before.is_some() && same.is_none() {
                self.results.forget(name);
            }
            let is_indexed =
                |before: &ObservedIdentity| before.is_eligible && planned.contains(name);
            let is_established =
                is_stored || same.is_some_and(|before| before.is_established || is_indexed(before));
            let registration = state.member.uid.clone();
            self.observed.insert(
                name.clone(),
                ObservedIdentity {
                    registration,
                    cluster_uid,
                    is_established,
                    is_eligible: false,
                },
            );
        }
    }

    /// The indexed members that become established by being indexed: they are connected, and the
    /// cluster UID of every older registration is known or its first attempt to connect has ended.
    fn eligible(
        &self,
        indexed: &[ClusterName],
        members: &BTreeMap<ClusterName, MemberState>,
    ) -> BTreeSet<ClusterName> {
        let is_undecided = |state: &&MemberState| {
            Reachability::of(state) == Reachability::Unknown
                && !self.observed.contains_key(&state.member.name)
        };
        let oldest_undecided = members
            .values()
            .filter(is_undecided)
            .map(RegistrationAge::of)
            .min();
        let is_eligible = |name: &&ClusterName| {
            let Some(state) = members
                .get(*name)
                .filter(|state| state.connection.is_some())
            else {
                return false;
            };
            oldest_undecided
                .as_ref()
                .is_none_or(|oldest| RegistrationAge::of(state) < *oldest)
        };
        indexed.iter().filter(is_eligible).cloned().collect()
    }

    /// Starts the comparisons of these pairs that do not run yet, and ends all others. Their
    /// results stay.
    fn compare(&mut self, pairs: &BTreeMap<Pair, ConnectionPair>) {
        self.comparisons.retain(|pair, comparison| {
            pairs
                .get(pair)
                .is_some_and(|connections| comparison.uses(connections))
        });
        for (pair, connections) in pairs {
            self.comparisons
                .entry(pair.clone())
                .or_insert_with(|| ComparisonTask::start(pair, connections, &self.results));
        }
    }
}

/// Whether a member is not indexed because it is the same cluster as another one.
pub fn is_duplicate(member: &MemberState) -> bool {
    member.reason == SAME_CLUSTER_AS
}

fn candidate(state: &MemberState, observed: &ObservedIdentity) -> Candidate {
    let is_new = !observed.is_established || planted(Bug::DisplaceEstablished);
    Candidate {
        is_new,
        age: RegistrationAge::of(state),
        reachability: Reachability::of(state),
    }
}

/// The pairs of a candidate and indexed candidates before it that are both connected, so that they
/// can be compared.
fn connected_pairs(
    candidates: &[Candidate],
    outcomes: &[CandidateOutcome],
    position: usize,
    members: &BTreeMap<ClusterName, MemberState>,
) -> Vec<(Pair, ConnectionPair)> {
    let connection = |candidate: &Candidate| members.get(&candidate.age.name)?.connection.clone();
    let other = &candidates[position];
    let pairs = candidates[..position]
        .iter()
        .zip(outcomes)
        .filter_map(|(first, outcome)| {
            let is_indexed = matches!(outcome, CandidateOutcome::Indexed(_));
            let connections = (connection(first)?, connection(other)?);
            is_indexed.then(|| {
                (
                    (first.age.name.clone(), other.age.name.clone()),
                    connections,
                )
            })
        });
    pairs.collect()
}

fn difference(
    members: &BTreeMap<ClusterName, MemberState>,
    other: &ClusterName,
    why: &str,
) -> String {
    format!(
        "the UID of its namespace kube-system is also that of {other} ({}), as after a restore from a backup: both are indexed, as {why}",
        origin(members, other)
    )
}

/// Sets the notes of the connected members.
fn set_notes(
    members: &mut BTreeMap<ClusterName, MemberState>,
    notes: &BTreeMap<ClusterName, String>,
) {
    for (name, note) in notes {
        if let Some(state) = members
            .get_mut(name)
            .filter(|state| state.connection.is_some())
        {
            state.note = Some(note.clone().into());
        }
    }
}

fn origin(members: &BTreeMap<ClusterName, MemberState>, name: &ClusterName) -> String {
    members
        .get(name)
        .map(|state| state.member.origin.clone())
        .unwrap_or_default()
}

fn mark_comparing(
    members: &mut BTreeMap<ClusterName, MemberState>,
    name: &ClusterName,
    first: &ClusterName,
) {
    let origin = origin(members, first);
    let Some(member) = members.get_mut(name) else {
        return;
    };
    member.phase = ConnectionPhase::Connecting;
    member.connection = None;
    member.note = None;
    member.reason = COMPARING;
    member.message = format!(
        "the UID of its namespace kube-system is also that of {first} ({origin}): it is indexed as soon as it is known that the two are not \
         one cluster"
    );
}

fn mark_duplicate(
    members: &mut BTreeMap<ClusterName, MemberState>,
    name: &ClusterName,
    first: &ClusterName,
) {
    let origin = origin(members, first);
    let Some(member) = members.get_mut(name) else {
        return;
    };
    member.phase = ConnectionPhase::Disconnected;
    member.connection = None;
    member.note = None;
    member.reason = SAME_CLUSTER_AS;
    member.message = format!(
        "it is the same cluster as {first} ({origin}), which is indexed: the UID of the namespace kube-system and all resourceVersions are \
         the same; remove one of the two, or allow both with --allow-same-cluster"
    );
}

#[cfg(test)]
mod tests;
