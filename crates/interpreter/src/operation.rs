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
        self.names().0
    }

    /// The name in `ResourceExploringWebhookConfiguration`; `None` for an operation that is younger
    /// than the proposal.
    pub fn proposal_name(self) -> Option<&'static str> {
        self.names().1
    }

    fn names(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::InterpretReplica => ("InterpretReplica", Some("ExploreReplica")),
            Self::InterpretComponent => ("InterpretComponent", None),
            Self::ReviseReplica => ("ReviseReplica", Some("ExploreReplicaRevising")),
            Self::Retain => ("Retain", Some("ExploreRetaining")),
            Self::AggregateStatus => ("AggregateStatus", Some("ExploreStatusAggregating")),
            Self::InterpretStatus => ("InterpretStatus", Some("ExploreStatus")),
            Self::InterpretHealth => ("InterpretHealth", Some("ExploreHealthy")),
            Self::InterpretDependency => ("InterpretDependency", Some("ExploreDependencies")),
            Self::Prune => ("Prune", Some("ExplorePacking")),
        }
    }

    /// The operation of a name in either dialect and any case.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| {
            let (released, proposed) = operation.names();
            let mut names = [Some(released), proposed].into_iter().flatten();
            names.any(|known| known.eq_ignore_ascii_case(name))
        })
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}
