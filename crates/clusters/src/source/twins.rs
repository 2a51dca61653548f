//! Members that report one identity, the UID of the namespace `kube-system`: whether they are one cluster, and which of them is indexed.
//!
//! The UID is the member's own word, and a cluster that is restored from a backup has that of its origin. So members of one UID are compared
//! ([`super::lineage`]): those that differ are all indexed, and of those that are one cluster the established one, which is the one that there
//! are documents of, else the one that was registered first. An established member is never refused, and waits for no comparison.
//!
//! Members that come up together connect in any order: none of them is established while the first attempt to connect to an older registration
//! is under way, as that may turn out to be the same cluster.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use fleetdex_core::{
    model::{ClusterName, causes},
    planted::{Bug, planted},
};
use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use tokio::{sync::Notify, time::sleep};
use tokio_util::task::AbortOnDropHandle;

use super::{
    super::{
        connection::Connection, fetch, request::RequestError, shared::MemberState, state::Phase,
    },
    lineage::{Evidence, History, Verdict, divergence, judge},
};

/// The reason of a member that is the same cluster as another one.
pub const SAME_CLUSTER_AS: &str = "SameClusterAs";
/// The reason of a member of which that is not known yet.
pub const COMPARING: &str = "ComparingWithAnother";
/// Longest wait for each of the lists that are compared.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Time until members that could not be compared are compared again.
const RETRY: Duration = Duration::from_secs(10);
/// Failed comparisons in a row after which members count as different: one that does not answer keeps the other one waiting for at most
/// three attempts of four looks at two lists, 10 s each, and the pauses between them (260 s).
const ATTEMPTS: u32 = 3;
/// What is said of two members that were both indexed as one cluster before.
const BOTH_ESTABLISHED: &str =
    "both were indexed before, and nothing tells them apart now: remove one of the two";
/// Time until members that are one cluster are compared again: two that nothing was written to since the backup look like one.
const RECHECK: Duration = Duration::from_mins(1);

/// The UIDs of the clusters that there are documents of, by the members' names. A member may have been another cluster in another store.
pub type Established = BTreeMap<ClusterName, BTreeSet<String>>;

/// What was last seen of the members' identities. A cluster keeps it while it is disconnected, so that another registration does not take
/// over for the time of an outage.
pub struct Twins {
    seen: BTreeMap<ClusterName, Seen>,
    comparisons: BTreeMap<Pair, Comparison>,
    results: Arc<Results>,
}

/// The one that comes first, and the other.
type Pair = (ClusterName, ClusterName);

#[derive(Debug)]
struct Seen {
    /// UID of the object that registers it: another one may register another cluster.
    registration: String,
    identity: String,
    /// Whether it was indexed as this cluster.
    is_established: bool,
    /// Whether it becomes established by being indexed: no older registration could still turn out to be this cluster.
    is_eligible: bool,
}

/// A comparison that goes on for as long as both connections last.
struct Comparison {
    connections: (u64, u64),
    _task: AbortOnDropHandle<()>,
}

struct Results {
    verdicts: Mutex<BTreeMap<Pair, Verdict>>,
    version: AtomicU64,
    changed: Arc<Notify>,
}

/// A member of an identity that several have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    is_new: bool,
    age: Age,
    reach: Reach,
}

/// The order of registrations, the oldest first: those of unknown age are last, and names break ties.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Age {
    is_unknown: bool,
    created: Option<Timestamp>,
    name: ClusterName,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reach {
    Connected,
    /// The first attempt to connect is under way.
    Unknown,
    Disconnected,
}

/// What becomes of a candidate; the numbers are those of candidates before it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    /// It is indexed beside those that it differs from.
    Indexed(Vec<(usize, String)>),
    /// It is compared with that one.
    Waits(usize),
    /// It is that one.
    Refused(usize),
}

impl Twins {
    /// Nothing was seen yet. `changed` is notified of every result of a comparison.
    pub fn new(changed: Arc<Notify>) -> Self {
        let results = Results {
            verdicts: Mutex::default(),
            version: AtomicU64::new(0),
            changed,
        };
        Self {
            seen: BTreeMap::new(),
            comparisons: BTreeMap::new(),
            results: Arc::new(results),
        }
    }

    /// A number that grows with every result of a comparison.
    pub fn version(&self) -> u64 {
        self.results.version.load(Ordering::Acquire)
    }

    /// Shows members that are another one's cluster as such, without a connection, and those of which that is not known yet as waiting. Gives what is
    /// to be said of members that only report one identity. While `established` is not known no member is refused. `planned`: the members that
    /// are indexed according to the plan that was made of the last answer.
    ///
    /// Begins comparisons, so that it must be called on a tokio runtime.
    pub fn mark(
        &mut self,
        members: &mut BTreeMap<ClusterName, MemberState>,
        established: Option<&Established>,
        planned: &BTreeSet<ClusterName>,
    ) -> BTreeMap<ClusterName, String> {
        self.look(members, established, planned);
        let mut groups: BTreeMap<&str, Vec<Candidate>> = BTreeMap::new();
        for (name, seen) in &self.seen {
            groups
                .entry(&seen.identity)
                .or_default()
                .extend(members.get(name).map(|state| candidate(state, seen)));
        }
        let mut notes: BTreeMap<ClusterName, Vec<String>> = BTreeMap::new();
        let (mut wanted, mut indexed) = (BTreeMap::new(), Vec::new());
        for mut group in groups.into_values() {
            group.sort();
            let verdict = |first: usize, other: usize| {
                self.results
                    .get(&group[first].age.name, &group[other].age.name)
            };
            let outcomes = outcomes(&group, established.is_some(), verdict);
            for (position, outcome) in outcomes.iter().enumerate() {
                let name = &group[position].age.name;
                wanted.extend(connected_pairs(&group, &outcomes, position, members));
                match outcome {
                    Outcome::Indexed(differences) => {
                        // One that is indexed beside another one is not established by that: it may still turn out to be the same cluster.
                        if differences.is_empty() {
                            indexed.push(name.clone());
                        }
                        for (other, why) in differences {
                            let other = &group[*other].age.name;
                            notes
                                .entry(name.clone())
                                .or_default()
                                .push(difference(members, other, why));
                            notes
                                .entry(other.clone())
                                .or_default()
                                .push(difference(members, name, why));
                        }
                    }
                    Outcome::Waits(first) => wait(members, name, &group[*first].age.name),
                    Outcome::Refused(first) => shelve(members, name, &group[*first].age.name),
                }
            }
        }
        // Until the stores have said who was there before, no member becomes established beside those.
        let eligible = if established.is_some() {
            self.eligible(&indexed, members)
        } else {
            BTreeSet::new()
        };
        for (name, seen) in &mut self.seen {
            seen.is_eligible = eligible.contains(name);
        }
        self.compare(&wanted);
        let notes: BTreeMap<ClusterName, String> = notes
            .into_iter()
            .map(|(name, notes)| (name, notes.join("; ")))
            .collect();
        for (name, note) in &notes {
            if let Some(state) = members
                .get_mut(name)
                .filter(|state| state.connection.is_some())
            {
                state.note = Some(note.clone().into());
            }
        }
        notes
    }

    fn look(
        &mut self,
        members: &BTreeMap<ClusterName, MemberState>,
        established: Option<&Established>,
        planned: &BTreeSet<ClusterName>,
    ) {
        let results = &self.results;
        self.seen.retain(|name, seen| {
            let is_here = members
                .get(name)
                .is_some_and(|state| state.member.uid == seen.registration);
            if !is_here {
                results.forget(name);
            }
            is_here
        });
        let stored = |name: &ClusterName| established.and_then(|established| established.get(name));
        for (name, state) in members {
            let reported = state
                .connection
                .as_ref()
                .and_then(|connection| connection.uid.clone());
            let before = self.seen.get(name);
            // One that has not connected since the start is what its documents are of.
            let remembered = || {
                before
                    .is_none()
                    .then(|| stored(name)?.first().cloned())
                    .flatten()
            };
            let Some(identity) = reported.or_else(remembered) else {
                continue;
            };
            let is_stored = stored(name).is_some_and(|stored| stored.contains(&identity));
            let same = before.filter(|before| before.identity == identity);
            if before.is_some() && same.is_none() {
                self.results.forget(name);
            }
            let is_indexed = |before: &Seen| before.is_eligible && planned.contains(name);
            let is_established =
                is_stored || same.is_some_and(|before| before.is_established || is_indexed(before));
            let registration = state.member.uid.clone();
            self.seen.insert(
                name.clone(),
                Seen {
                    registration,
                    identity,
                    is_established,
                    is_eligible: false,
                },
            );
        }
    }

    /// The indexed members that become established by that: those that are connected, with no older registration of which it is not known yet
    /// which cluster it is, because the first attempt to connect to it is under way.
    fn eligible(
        &self,
        indexed: &[ClusterName],
        members: &BTreeMap<ClusterName, MemberState>,
    ) -> BTreeSet<ClusterName> {
        let is_undecided = |state: &&MemberState| {
            reach(state) == Reach::Unknown && !self.seen.contains_key(&state.member.name)
        };
        let oldest_undecided = members.values().filter(is_undecided).map(age).min();
        let is_eligible = |name: &&ClusterName| {
            let Some(state) = members
                .get(*name)
                .filter(|state| state.connection.is_some())
            else {
                return false;
            };
            oldest_undecided
                .as_ref()
                .is_none_or(|oldest| age(state) < *oldest)
        };
        indexed.iter().filter(is_eligible).cloned().collect()
    }

    /// Begins the comparisons that are wanted and not under way, and ends the others. What they have shown stays.
    fn compare(&mut self, wanted: &BTreeMap<Pair, (Connection, Connection)>) {
        let is_wanted = |pair: &Pair, comparison: &Comparison| {
            wanted
                .get(pair)
                .is_some_and(|(first, other)| (first.id, other.id) == comparison.connections)
        };
        self.comparisons
            .retain(|pair, comparison| is_wanted(pair, comparison));
        for (pair, (first, other)) in wanted {
            self.comparisons.entry(pair.clone()).or_insert_with(|| {
                let task = compare(
                    pair.clone(),
                    first.clone(),
                    other.clone(),
                    Arc::clone(&self.results),
                );
                Comparison {
                    connections: (first.id, other.id),
                    _task: AbortOnDropHandle::new(tokio::spawn(task)),
                }
            });
        }
    }
}

impl Results {
    /// Of two members, whichever of them came first when they were compared.
    fn get(&self, first: &ClusterName, other: &ClusterName) -> Option<Verdict> {
        let verdicts = self.lock();
        let of = |first: &ClusterName, other: &ClusterName| {
            verdicts.get(&(first.clone(), other.clone())).cloned()
        };
        of(first, other).or_else(|| of(other, first))
    }

    fn set(&self, pair: &Pair, verdict: Verdict) {
        let mut verdicts = self.lock();
        let flipped = verdicts.remove(&(pair.1.clone(), pair.0.clone()));
        let before = verdicts.insert(pair.clone(), verdict.clone()).or(flipped);
        drop(verdicts);
        if before != Some(verdict) {
            self.version.fetch_add(1, Ordering::AcqRel);
            self.changed.notify_one();
        }
    }

    fn forget(&self, name: &ClusterName) {
        self.lock()
            .retain(|(first, other), _| first != name && other != name);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Pair, Verdict>> {
        self.verdicts.lock()
    }
}

/// Whether a member is left to another one.
pub fn is_left_to_another(member: &MemberState) -> bool {
    member.reason == SAME_CLUSTER_AS
}

fn candidate(state: &MemberState, seen: &Seen) -> Candidate {
    let is_new = !seen.is_established || planted(Bug::DisplaceEstablished);
    Candidate {
        is_new,
        age: age(state),
        reach: reach(state),
    }
}

fn age(state: &MemberState) -> Age {
    let created = state.member.created;
    Age {
        is_unknown: created.is_none(),
        created,
        name: state.member.name.clone(),
    }
}

fn reach(state: &MemberState) -> Reach {
    match (&state.connection, state.phase) {
        (Some(_), _) => Reach::Connected,
        (None, Phase::Disconnected) => Reach::Disconnected,
        (None, _) => Reach::Unknown,
    }
}

/// What becomes of candidates, in their order. `is_settled`: whether it is known which of them are established.
fn outcomes(
    candidates: &[Candidate],
    is_settled: bool,
    verdict: impl Fn(usize, usize) -> Option<Verdict>,
) -> Vec<Outcome> {
    let mut outcomes: Vec<Outcome> = Vec::with_capacity(candidates.len());
    for (position, candidate) in candidates.iter().enumerate() {
        let mut outcome = Outcome::Indexed(Vec::new());
        let earlier = outcomes
            .iter()
            .enumerate()
            .filter(|(_, outcome)| matches!(outcome, Outcome::Indexed(_)));
        for (first, _) in earlier {
            let found = verdict(first, position);
            let next = match (found, candidates[first].reach) {
                (Some(Verdict::Same), _) if !candidate.is_new => {
                    add(&mut outcome, first, BOTH_ESTABLISHED.to_owned())
                }
                (None, _) if !candidate.is_new => None,
                (Some(Verdict::Same), _) if is_settled => Some(Outcome::Refused(first)),
                (Some(Verdict::Different(why)), _) => add(&mut outcome, first, why),
                (None, _) if candidate.reach != Reach::Connected => None,
                (None, Reach::Disconnected) => add(
                    &mut outcome,
                    first,
                    "they cannot be compared while one is not connected".to_owned(),
                ),
                (Some(Verdict::Same), _) | (None, Reach::Connected | Reach::Unknown) => {
                    Some(Outcome::Waits(first))
                }
            };
            if let Some(next) = next {
                outcome = next;
                break;
            }
        }
        outcomes.push(outcome);
    }
    outcomes
}

/// Adds a difference; decides nothing.
fn add(outcome: &mut Outcome, first: usize, why: String) -> Option<Outcome> {
    if let Outcome::Indexed(differences) = outcome {
        differences.push((first, why));
    }
    None
}

/// The pairs of a candidate and those before it that have to be compared and can be.
fn connected_pairs(
    candidates: &[Candidate],
    outcomes: &[Outcome],
    position: usize,
    members: &BTreeMap<ClusterName, MemberState>,
) -> Vec<(Pair, (Connection, Connection))> {
    let connection = |candidate: &Candidate| members.get(&candidate.age.name)?.connection.clone();
    let other = &candidates[position];
    let pairs = candidates[..position]
        .iter()
        .zip(outcomes)
        .filter_map(|(first, outcome)| {
            let is_indexed = matches!(outcome, Outcome::Indexed(_));
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

async fn compare(pair: Pair, first: Connection, other: Connection, results: Arc<Results>) {
    let mut failures = 0;
    loop {
        let pause = match evidence(&first, &other).await {
            Ok(evidence) => {
                let verdict = judge(&evidence);
                tracing::info!(first = %pair.0, other = %pair.1, ?verdict, "compared two members that report the UID of one cluster");
                results.set(&pair, verdict.clone());
                match verdict {
                    Verdict::Same => RECHECK,
                    Verdict::Different(_) => return,
                }
            }
            Err(error) => {
                tracing::debug!(first = %pair.0, other = %pair.1, error = %causes(&error), "members of one UID cannot be compared yet");
                failures += 1;
                if failures == ATTEMPTS && results.get(&pair.0, &pair.1).is_none() {
                    let why = format!(
                        "they could not be compared {ATTEMPTS} times ({})",
                        causes(&error)
                    );
                    results.set(&pair, Verdict::Different(why));
                }
                RETRY
            }
        };
        sleep(pause).await;
    }
}

async fn evidence(first: &Connection, other: &Connection) -> Result<Evidence, RequestError> {
    let before = fetch::history(&first.client, TIMEOUT).await?;
    let between = fetch::history(&other.client, TIMEOUT).await?;
    let after = fetch::history(&first.client, TIMEOUT).await?;
    let last = fetch::history(&other.client, TIMEOUT).await?;
    let mut history =
        History::Unreadable("one of them lets neither namespaces nor leases be listed".to_owned());
    for looks in before.iter().zip(&between).zip(after.iter().zip(&last)) {
        let ((Some(before), Some(between)), (Some(after), Some(last))) = looks else {
            continue;
        };
        // In both directions: what is between two looks at one that lies is what that one pleases.
        match divergence(before, between, after).or_else(|| divergence(between, after, last)) {
            Some(what) => {
                history = History::Diverged(what);
                break;
            }
            None => history = History::Alike,
        }
    }
    let same_address = first.address().is_some() && first.address() == other.address();
    Ok(Evidence {
        same_address,
        same_authorities: first.trust() == other.trust(),
        history,
    })
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

fn origin(members: &BTreeMap<ClusterName, MemberState>, name: &ClusterName) -> String {
    members
        .get(name)
        .map(|state| state.member.origin.clone())
        .unwrap_or_default()
}

fn wait(members: &mut BTreeMap<ClusterName, MemberState>, name: &ClusterName, first: &ClusterName) {
    let origin = origin(members, first);
    let Some(member) = members.get_mut(name) else {
        return;
    };
    member.phase = Phase::Connecting;
    member.connection = None;
    member.note = None;
    member.reason = COMPARING;
    member.message = format!(
        "the UID of its namespace kube-system is also that of {first} ({origin}): it is indexed as soon as it is known that the two are not \
         one cluster"
    );
}

fn shelve(
    members: &mut BTreeMap<ClusterName, MemberState>,
    name: &ClusterName,
    first: &ClusterName,
) {
    let origin = origin(members, first);
    let Some(member) = members.get_mut(name) else {
        return;
    };
    member.phase = Phase::Disconnected;
    member.connection = None;
    member.note = None;
    member.reason = SAME_CLUSTER_AS;
    member.message = format!(
        "it is the same cluster as {first} ({origin}), which is indexed: the UID of the namespace kube-system and all resourceVersions are \
         the same; remove one of the two, or allow both with --allow-same-cluster"
    );
}

#[cfg(test)]
#[path = "twins_tests.rs"]
mod tests;
