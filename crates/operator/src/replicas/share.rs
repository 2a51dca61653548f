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

/// Longest name of a replica: with what is put before it, it has to be the name of a Lease.
const MAX_NAME: usize = 200;

/// Names a replica: usually its Pod's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct ReplicaName(Arc<str>);

/// A text is no name of a replica.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no name of a replica: it has to be of lower-case letters, digits, '-' and '.', begin and end with a letter or digit, and have at most {MAX_NAME} characters"
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

/// Some replicas.
pub type Group = BTreeSet<ReplicaName>;

/// What a replica reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Share {
    /// Everything: there is one replica only.
    #[default]
    Whole,
    /// What falls to it.
    Part(Arc<Assignment>),
}

impl Share {
    /// Whether a cluster that this replica reads stays with it.
    pub fn keeps(&self, cluster: &ClusterName) -> bool {
        match self {
            Self::Whole => true,
            Self::Part(assignment) => assignment.keeps(cluster.as_str()),
        }
    }

    /// Whether this replica may begin to read a cluster, and remove what should not be there.
    pub fn may_begin(&self, cluster: &ClusterName) -> bool {
        match self {
            Self::Whole => true,
            Self::Part(assignment) => assignment.may_begin(cluster.as_str()),
        }
    }

    /// Whether what is to be done once for all replicas, such as writing a status, is this one's to do.
    pub fn leads(&self) -> bool {
        match self {
            Self::Whole => true,
            Self::Part(assignment) => assignment.may_begin(LEADERSHIP),
        }
    }

    /// How many replicas are alive, as this one sees it; none when its own Lease is not renewed.
    pub fn alive(&self) -> usize {
        match self {
            Self::Whole => 1,
            Self::Part(assignment) => assignment.alive.len(),
        }
    }

    /// The replicas among which everything is shared out, once all of them go by the same ones; nothing while anything is being handed over.
    pub fn settled_group(&self) -> Option<Group> {
        match self {
            Self::Whole => Some(Group::new()),
            Self::Part(assignment) => assignment.is_settled().then(|| assignment.alive.clone()),
        }
    }

    /// The replica that reads a cluster, as far as this one knows; nothing where that is itself.
    pub fn other_reader(&self, cluster: &ClusterName) -> Option<&ReplicaName> {
        match self {
            Self::Whole => None,
            Self::Part(assignment) => assignment
                .reader(cluster.as_str())
                .filter(|name| **name != assignment.own),
        }
    }
}

/// What the leader has; no cluster has this name.
const LEADERSHIP: &str = "";

/// Who is there, and what they have said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// This replica.
    pub own: ReplicaName,
    /// The replicas that are alive, as this one sees it; without itself when its own Lease is not renewed.
    pub alive: Group,
    /// By which this one has told the others that it goes: it reads nothing that does not fall to it among these.
    pub told: Group,
    /// By which the others say that they go.
    pub others: BTreeMap<ReplicaName, Group>,
}

impl Assignment {
    fn reader(&self, what: &str) -> Option<&ReplicaName> {
        chosen(what, &self.alive)
    }

    fn keeps(&self, what: &str) -> bool {
        self.reader(what) == Some(&self.own)
    }

    fn is_settled(&self) -> bool {
        !self.alive.is_empty()
            && self.told == self.alive
            && self.others.values().all(|group| *group == self.alive)
    }

    fn may_begin(&self, what: &str) -> bool {
        let has_let_go = |(name, group): (&ReplicaName, &Group)| chosen(what, group) != Some(name);
        self.keeps(what)
            && chosen(what, &self.told) == Some(&self.own)
            && self.others.iter().all(has_let_go)
    }
}

/// The one of a group that something falls to, by rendezvous hashing: when one leaves, only what it had goes to others.
/// A hash that is the same in every version and on every machine: all replicas have to come to the same.
fn chosen<'g>(what: &str, group: &'g Group) -> Option<&'g ReplicaName> {
    let weight = |name: &ReplicaName| {
        let mut hash = Sha256::new();
        hash.update(name.as_str());
        hash.update([0]);
        hash.update(what);
        hash.finalize()
    };
    group.iter().max_by_key(|name| weight(name))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn replica(number: usize) -> ReplicaName {
        format!("fleetdex-{number}").parse().unwrap()
    }

    fn group(numbers: impl IntoIterator<Item = usize>) -> Group {
        numbers.into_iter().map(replica).collect()
    }

    #[test]
    fn names_are_those_that_a_lease_may_have() {
        for good in ["a", "fleetdex-7d9f-x2x", "0.b"] {
            assert!(good.parse::<ReplicaName>().is_ok(), "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a_b", "a b", &"a".repeat(MAX_NAME + 1)] {
            assert!(bad.parse::<ReplicaName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn clusters_are_spread_evenly_and_only_those_of_a_replica_that_leaves_move() {
        let (three, two) = (group(0..3), group(0..2));
        let mut counts: BTreeMap<&ReplicaName, usize> = BTreeMap::new();
        for number in 0..900 {
            let cluster = format!("member{number}");
            let before = chosen(&cluster, &three).unwrap();
            *counts.entry(before).or_default() += 1;
            if *before != replica(2) {
                assert_eq!(chosen(&cluster, &two), Some(before), "{cluster}");
            }
        }
        assert!(
            counts.values().all(|count| (250..350).contains(count)),
            "{counts:?}"
        );
    }

    #[test]
    fn nobody_begins_before_the_others_have_let_go() {
        let cluster: ClusterName = "member1".parse().unwrap();
        let both = group(0..2);
        let winner = chosen("member1", &both).unwrap().clone();
        let loser = both.iter().find(|name| **name != winner).unwrap().clone();
        let alone = Group::from([loser.clone()]);
        let share = |others: &Group, told: &Group| {
            let others = BTreeMap::from([(loser.clone(), others.clone())]);
            Share::Part(Arc::new(Assignment {
                own: winner.clone(),
                alive: both.clone(),
                told: told.clone(),
                others,
            }))
        };
        assert!(
            !share(&alone, &both).may_begin(&cluster),
            "the loser still goes by itself alone"
        );
        assert!(
            !share(&both, &alone).may_begin(&cluster),
            "the winner has not told yet"
        );
        assert!(share(&both, &both).may_begin(&cluster));
        assert!(
            share(&Group::new(), &both).may_begin(&cluster),
            "one that has told nothing reads nothing"
        );
        assert_eq!(share(&both, &both).other_reader(&cluster), None);
    }

    /// A replica of the model below.
    #[derive(Clone, Default)]
    struct Model {
        alive: Group,
        told: Group,
        /// What the others had told, as of the last look, which is never before the last telling.
        seen: BTreeMap<ReplicaName, Group>,
        reads: BTreeSet<usize>,
    }

    impl Model {
        fn assignment(&self, own: usize) -> Share {
            let (alive, told, others) = (self.alive.clone(), self.told.clone(), self.seen.clone());
            Share::Part(Arc::new(Assignment {
                own: replica(own),
                alive,
                told,
                others,
            }))
        }
    }

    fn cluster(number: usize) -> ClusterName {
        format!("member{number}").parse().unwrap()
    }

    proptest! {
        /// Whatever each believes of who is alive, and however slow it is: nobody reads what another one reads.
        #[test]
        fn no_cluster_is_read_twice(steps in prop::collection::vec((0..3_usize, 0..4_u8, prop::bits::u8::between(0, 3)), 1..200)) {
            let mut replicas = vec![Model::default(); 3];
            for (at, step, bits) in steps {
                match step {
                    0 => {
                        replicas[at].alive = group((0..3).filter(|other| *other == at || bits & (1 << other) != 0));
                        let share = replicas[at].assignment(at);
                        replicas[at].reads.retain(|number| share.keeps(&cluster(*number)));
                    }
                    1 => {
                        replicas[at].told = replicas[at].alive.clone();
                        // Until it has looked again, nothing is known of the others.
                        let everybody = (0..3).filter(|other| *other != at);
                        replicas[at].seen = everybody.map(|other| (replica(other), group([other]))).collect();
                    }
                    2 => {
                        let others = (0..3).filter(|other| *other != at);
                        replicas[at].seen = others.map(|other| (replica(other), replicas[other].told.clone())).collect();
                    }
                    _ => {
                        let share = replicas[at].assignment(at);
                        replicas[at].reads.extend((0..8).filter(|number| share.may_begin(&cluster(*number))));
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
