//! The operations of resource interpreters, with their names in both dialects.

use std::fmt;

/// One question that an interpreter answers about an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// How many replicas an object declares, and what each one requires.
    InterpretReplica,
    /// The pod templates of an object with several, such as a job with a driver and workers.
    InterpretComponent,
    /// The object with another number of replicas.
    ReviseReplica,
    /// The desired object with the values that its member owns.
    Retain,
    /// The object with the status of all members in one.
    AggregateStatus,
    /// The part of the status that is reported.
    InterpretStatus,
    /// Whether the object is healthy.
    InterpretHealth,
    /// The objects that the object needs.
    InterpretDependency,
    /// The object without what belongs to the cluster that it comes from. Only the proposal's
    /// webhooks are asked.
    Prune,
}

impl Operation {
    /// All operations.
    pub const ALL: [Self; 9] = [
        Self::InterpretReplica,
        Self::InterpretComponent,
        Self::ReviseReplica,
        Self::Retain,
        Self::AggregateStatus,
        Self::InterpretStatus,
        Self::InterpretHealth,
        Self::InterpretDependency,
        Self::Prune,
    ];

    /// The name in `ResourceInterpreterWebhookConfiguration`.
    pub fn name(self) -> &'static str {
        match self {
            Self::InterpretReplica => "InterpretReplica",
            Self::InterpretComponent => "InterpretComponent",
            Self::ReviseReplica => "ReviseReplica",
            Self::Retain => "Retain",
            Self::AggregateStatus => "AggregateStatus",
            Self::InterpretStatus => "InterpretStatus",
            Self::InterpretHealth => "InterpretHealth",
            Self::InterpretDependency => "InterpretDependency",
            Self::Prune => "Prune",
        }
    }

    /// The name in `ResourceExploringWebhookConfiguration`; `None` for an operation that is younger
    /// than the proposal.
    pub fn proposal_name(self) -> Option<&'static str> {
        Some(match self {
            Self::InterpretReplica => "ExploreReplica",
            Self::InterpretComponent => return None,
            Self::ReviseReplica => "ExploreReplicaRevising",
            Self::Retain => "ExploreRetaining",
            Self::AggregateStatus => "ExploreStatusAggregating",
            Self::InterpretStatus => "ExploreStatus",
            Self::InterpretHealth => "ExploreHealthy",
            Self::InterpretDependency => "ExploreDependencies",
            Self::Prune => "ExplorePacking",
        })
    }

    /// The operation of a name in either dialect and any case.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| {
            operation.name().eq_ignore_ascii_case(name)
                || operation
                    .proposal_name()
                    .is_some_and(|proposed| proposed.eq_ignore_ascii_case(name))
        })
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}
