//! Which replica reads which cluster.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    str::FromStr,
    sync::Arc,
};

use fleetdex_core::model::ClusterName;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The longest name of a replica: with its prefix it has to be a valid name of a Lease.
const MAX_NAME: usize = 200;

/// The name of a replica: usually that of its Pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct ReplicaName(Arc<str>);

/// A text is not a valid name of a replica.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a valid replica name: it must consist of lower-case letters, digits, '-' and '.', start and end with a letter or digit, and have at most {MAX_NAME} characters"
)]
pub struct InvalidReplicaName(String);

impl ReplicaName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ReplicaName {
    type Err = InvalidReplicaName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let bytes = text.as_bytes();
        let ends = bytes.first().zip(bytes.last());
        let is_valid = ends
            .is_some_and(|(first, last)| is_alphanumeric(*first) && is_alphanumeric(*last))
            && bytes.len() <= MAX_NAME
            && bytes
                .iter()
                .all(|byte| is_alphanumeric(*byte) || matches!(byte, b'-' | b'.'));
        if is_valid {
            Ok(Self(text.into()))
        } else {
            Err(InvalidReplicaName(text.to_owned()))
        }
    }
}

impl TryFrom<String> for ReplicaName {
    type Error = InvalidReplicaName;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl fmt::Display for ReplicaName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// Names of replicas.
pub type ReplicaNames = BTreeSet<ReplicaName>;

/// The clusters that a replica reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Assignment {
    /// Every cluster: there is one replica only.
    #[default]
    SingleReplica,
    /// Those that are assigned to it among several replicas.
    Replicated(Arc<Membership>),
}

impl Assignment {
    fn membership(&self) -> Option<&Membership> {
        match self {
            Self::SingleReplica => None,
            Self::Replicated(membership) => Some(membership),
        }
    }

    /// Whether this replica may continue to read a cluster.
    pub fn may_keep(&self, cluster: &ClusterName) -> bool {
        let membership = self.membership();
        membership.is_none_or(|membership| membership.may_keep(cluster.as_str()))
    }

    /// Whether this replica may start to read a cluster, and delete its documents that are not
    /// selected.
    pub fn may_start(&self, cluster: &ClusterName) -> bool {
        let membership = self.membership();
        membership.is_none_or(|membership| membership.may_start(cluster.as_str()))
    }

    /// Whether this replica does what is done once for all, such as writing statuses.
    pub fn is_leader(&self) -> bool {
        let membership = self.membership();
        membership.is_none_or(|membership| membership.may_start(LEADERSHIP))
    }

    /// How many replicas are alive, as this one observes it; zero when its own Lease is not
    /// renewed.
    pub fn alive_count(&self) -> usize {
        let membership = self.membership();
        membership.map_or(1, |membership| membership.alive.len())
    }

    /// The replicas among which the clusters are assigned, once all of them have announced the same
    /// ones; `None` during a handover.
    pub fn agreed_replicas(&self) -> Option<ReplicaNames> {
        match self {
            Self::SingleReplica => Some(ReplicaNames::new()),
            Self::Replicated(membership) => {
                membership.is_agreed().then(|| membership.alive.clone())
            }
        }
    }

    /// The other replica that reads a cluster, as far as this one knows; `None` where this one
    /// reads it.
    pub fn other_reader(&self, cluster: &ClusterName) -> Option<&ReplicaName> {
        let membership = self.membership()?;
        let reader = membership.reader(cluster.as_str())?;
        (*reader != membership.local).then_some(reader)
    }
}

/// The leader is the replica that this name is assigned to; no cluster has it.
const LEADERSHIP: &str = "";

/// The replicas that are alive, and what each has announced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// This replica.
    pub local: ReplicaName,
    /// The replicas that are alive, as this one observes it; without itself when its own Lease is
    /// not renewed.
    pub alive: ReplicaNames,
    /// The replicas that this one has announced: it reads nothing that is not assigned to it among
    /// these.
    pub announced: ReplicaNames,
    /// What the others have announced.
    pub peers: BTreeMap<ReplicaName, ReplicaNames>,
}

impl Membership {
    fn reader(&self, what: &str) -> Option<&ReplicaName> {
        assigned_replica(what, &self.alive)
    }

    fn may_keep(&self, what: &str) -> bool {
        self.reader(what) == Some(&self.local)
    }

    fn is_agreed(&self) -> bool {
        !self.alive.is_empty()
            && self.announced == self.alive
            && self.peers.values().all(|names| *names == self.alive)
    }

    fn may_start(&self, what: &str) -> bool {
        let has_released = |(name, names): (&ReplicaName, &ReplicaNames)| {
            assigned_replica(what, names) != Some(name)
        };
        self.may_keep(what)
            && assigned_replica(what, &self.announced) == Some(&self.local)
            && self.peers.iter().all(has_released)
    }
}

/// The replica that something is assigned to, by rendezvous hashing: when a replica leaves, only
/// its clusters move. The hash is the same in every version and on every machine, because all
/// replicas have to come to the same result.
fn assigned_replica<'n>(what: &str, names: &'n ReplicaNames) -> Option<&'n ReplicaName> {
    let weight = |name: &ReplicaName| {
        let mut hash = Sha256::new();
        hash.update(name.as_str());
        hash.update([0]);
        hash.update(what);
        hash.finalize()
    };
    names.iter().max_by_key(|name| weight(name))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn replica(number: usize) -> ReplicaName {
        format!("fleetdex-{number}").parse().unwrap()
    }

    fn names(numbers: impl IntoIterator<Item = usize>) -> ReplicaNames {
        numbers.into_iter().map(replica).collect()
    }

    #[test]
    fn a_replica_name_is_valid_as_the_name_of_a_lease() {
        for good in ["a", "fleetdex-7d9f-x2x", "0.b"] {
            assert!(good.parse::<ReplicaName>().is_ok(), "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a_b", "a b", &"a".repeat(MAX_NAME + 1)] {
            assert!(bad.parse::<ReplicaName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn clusters_are_spread_evenly_and_only_those_of_a_replica_that_leaves_move() {
        let (three, two) = (names(0..3), names(0..2));
        let mut counts: BTreeMap<&ReplicaName, usize> = BTreeMap::new();
        for number in 0..900 {
            let cluster = format!("member{number}");
            let before = assigned_replica(&cluster, &three).unwrap();
            *counts.entry(before).or_default() += 1;
            if *before != replica(2) {
                assert_eq!(assigned_replica(&cluster, &two), Some(before), "{cluster}");
            }
        }
        assert!(
            counts.values().all(|count| (250..350).contains(count)),
            "{counts:?}"
        );
    }

    #[test]
    fn a_replica_starts_to_read_a_cluster_only_after_the_others_have_released_it() {
        let cluster: ClusterName = "member1".parse().unwrap();
        let both = names(0..2);
        let winner = assigned_replica("member1", &both).unwrap().clone();
        let loser = both.iter().find(|name| **name != winner).unwrap().clone();
        let alone = ReplicaNames::from([loser.clone()]);
        let assignment = |peers: &ReplicaNames, announced: &ReplicaNames| {
            let peers = BTreeMap::from([(loser.clone(), peers.clone())]);
            Assignment::Replicated(Arc::new(Membership {
                local: winner.clone(),
                alive: both.clone(),
                announced: announced.clone(),
                peers,
            }))
        };
        assert!(
            !assignment(&alone, &both).may_start(&cluster),
            "the loser still assigns every cluster to itself"
        );
        assert!(
            !assignment(&both, &alone).may_start(&cluster),
            "the winner has not announced both yet"
        );
        assert!(assignment(&both, &both).may_start(&cluster));
        assert!(
            assignment(&ReplicaNames::new(), &both).may_start(&cluster),
            "a replica that has announced nothing reads nothing"
        );
        assert_eq!(assignment(&both, &both).other_reader(&cluster), None);
    }

    /// A replica of the model below.
    #[derive(Clone, Default)]
    struct ModelReplica {
        alive: ReplicaNames,
        announced: ReplicaNames,
        /// What the others had announced, as of the last list of Leases, which never precedes the
        /// last renewal.
        observed: BTreeMap<ReplicaName, ReplicaNames>,
        reads: BTreeSet<usize>,
    }

    impl ModelReplica {
        fn assignment(&self, local: usize) -> Assignment {
            let (alive, announced, peers) = (
                self.alive.clone(),
                self.announced.clone(),
                self.observed.clone(),
            );
            Assignment::Replicated(Arc::new(Membership {
                local: replica(local),
                alive,
                announced,
                peers,
            }))
        }
    }

    fn cluster(number: usize) -> ClusterName {
        format!("member{number}").parse().unwrap()
    }

    proptest! {
        /// Whatever each replica believes about which are alive, and however slow it is: no two
        /// replicas read one cluster.
        #[test]
        fn no_cluster_is_read_twice(steps in prop::collection::vec((0..3_usize, 0..4_u8, prop::bits::u8::between(0, 3)), 1..200)) {
            let mut replicas = vec![ModelReplica::default(); 3];
            for (at, step, bits) in steps {
                match step {
                    0 => {
                        replicas[at].alive = names((0..3).filter(|other| *other == at || bits & (1 << other) != 0));
                        let assignment = replicas[at].assignment(at);
                        replicas[at].reads.retain(|number| assignment.may_keep(&cluster(*number)));
                    }
                    1 => {
                        replicas[at].announced = replicas[at].alive.clone();
                        // Until the next list, nothing is known of the others.
                        let others = (0..3).filter(|other| *other != at);
                        replicas[at].observed = others.map(|other| (replica(other), names([other]))).collect();
                    }
                    2 => {
                        let peers = (0..3).filter(|other| *other != at);
                        replicas[at].observed = peers.map(|other| (replica(other), replicas[other].announced.clone())).collect();
                    }
                    _ => {
                        let assignment = replicas[at].assignment(at);
                        replicas[at].reads.extend((0..8).filter(|number| assignment.may_start(&cluster(*number))));
                    }
                }
                for number in 0..8 {
                    let readers = replicas.iter().filter(|replica| replica.reads.contains(&number)).count();
                    prop_assert!(readers <= 1, "member{number} has {readers} readers");
                }
            }
        }
    }
}
