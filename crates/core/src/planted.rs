//! Planted bugs. A build with the feature `planted-bugs` can switch them on, one at a time;
//! `make mutants` shows that the simulation finds each of them. A build without the feature has
//! none of them.

/// Defines the bugs and the list of all of them.
macro_rules! bugs {
    ($($(#[doc = $doc:literal])+ $bug:ident,)*) => {
        /// A planted bug.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Bug {
            $($(#[doc = $doc])+ $bug,)*
        }

        impl Bug {
            /// All planted bugs.
            pub const ALL: &[Self] = &[$(Self::$bug),*];
        }
    };
}

bugs! {
    /// An item that a busy store refused (429) counts as stored.
    DropThrottledItem,
    /// A write counts as stored when it is sent.
    AcknowledgeBeforeResponse,
    /// An interrupted list counts as complete, so objects that it did not show are deleted.
    PruneOnInterruptedList,
    /// HTTP 410 is retried like any failure.
    IgnoreExpired,
    /// Deletions are dropped.
    ForgetDelete,
    /// The objects of the last of several pages are skipped.
    SkipLastPage,
    /// "9" is newer than "10".
    CompareVersionsAsText,
    /// A watch resumes behind the next event.
    LoseEventAtReconnect,
    /// A retried write has no version.
    RetryWithoutVersion,
    /// Deletions have no version, so that they are not ordered with other writes.
    UnorderedDeletes,
    /// Queries see an index revision before it is complete.
    ShowHalfFilled,
    /// Checkpoints of another index are used.
    TrustOtherCheckpoints,
    /// A restored etcd is not noticed.
    IgnoreRestore,
    /// Checkpoints are ahead of the acknowledged writes.
    CheckpointBeforeAcknowledgement,
    /// The checkpoints of garbage-collected documents stay.
    KeepSweptCheckpoints,
    /// A refused document is dropped.
    DropRefusedDocument,
    /// A store location that no registry names any more is forgotten.
    ForgetOldPlace,
    /// A replica that stops declares its log complete while writes are in flight.
    LeaveWithWritesUnderWay,
    /// A replica announces the position of its log only with a change: others wait for ever for a
    /// number without one.
    PositionOfChangesOnly,
    /// After changes of another replica were lost, a list counts as current although OpenSearch was
    /// not refreshed for it.
    ListBeforeRefresh,
    /// Objects that moved to another store are watched there from the versions of the former one.
    WatchFromFormerStore,
    /// A continue token is valid for any user.
    TakeTokenOfAnother,
    /// A continue token is valid for any query.
    TakeTokenForAnotherQuestion,
    /// Further pages ignore permissions that the caller has lost since the first page.
    ForgetPermissionOfFurtherPages,
    /// A list whose client disconnects keeps its point in time open.
    LeavePointInTimeOpen,
    /// Lists of other users are ended for one user who begins very many.
    EndListsOfOthers,
    /// One user gets every free permit for requests.
    TakeAllPlaces,
    /// A line break between two tokens of an object stays in a line of a bulk request.
    LineBreakInBulk,
    /// Memory for responses of members is never released.
    BudgetNotGivenBack,
    /// The limit of a body applies before decompression, so a decompressed body has no bound.
    LimitBeforeDecompression,
    /// The field `cluster` of an object decides its cluster.
    TrustMemberCluster,
    /// A line of a watch has no bound.
    EndlessLine,
    /// The indexed members are forgotten, so that an older member with the same history replaces
    /// one of them.
    DisplaceEstablished,
    /// The reported UID alone identifies a member, so that a cluster that was restored from a
    /// backup counts as the original.
    TrustReportedUid,
    /// Objects of one name are written unordered, so that watchers may see one before the deletion
    /// of an earlier one.
    IgnoreNames,
    /// A list deletes stored objects after it has written newer objects of the same names.
    DeleteNamesakesLast,
    /// The answer of a webhook is written over newer versions of its object.
    AnswerOverNewer,
    /// An object that the queue for webhooks has no room for is never asked about.
    ForgetFullQueue,
    /// Answers that were lost with a process are never asked for again.
    ForgetLostAnswers,
    /// Answers that an earlier write of the same version replaced, because the store applied it
    /// late, are never asked for again.
    ForgetLateWrites,
    /// A cluster that moves to another index keeps the checkpoints of the former one: what was
    /// written meanwhile is missing there.
    MoveWithoutList,
    /// The alias over all clusters shows every partition of a shared index, also one that is being
    /// filled.
    ShowTheNeighbour,
    /// With a cluster, another one is removed from an index that both share.
    DropTheNeighbour,
    /// A search that lacks shards which are neither successful nor failed counts as whole.
    IgnoreMissingShards,
    /// Documents that were made by former rules stay as they are while their objects do not change.
    KeepDocumentsOfOtherRules,
    /// Copies are deleted although the templates have not been read yet.
    DistributionDeletesOnIncompleteView,
    /// Copies of another control plane are taken for ours.
    DistributionIgnoresControlPlane,
    /// A deletion does not say which UID is meant.
    DistributionDeletesAnyUid,
    /// An object that cannot be placed is deleted where it is.
    DistributionDeletesUnschedulable,
    /// An object whose policy is gone is deleted.
    DistributionDeletesWithoutPolicy,
    /// Objects that a policy preserves are deleted with their template.
    DistributionDeletesPreserved,
    /// Objects are written before their bindings.
    DistributionWritesBeforeBinding,
    /// A cluster that an object leaves is not noted on its binding.
    DistributionForgetsLeaving,
    /// The bindings of objects that are gone stay.
    DistributionKeepsBindings,
    /// A field that a template does not have any more is not noticed.
    DistributionKeepsRemovedFields,
    /// Every look at an object writes it.
    DistributionAppliesForEver,
    /// Any number of deletions is done at once.
    DistributionIgnoresBrake,
    /// The brake forgets the deletions that a user lets go.
    DistributionIgnoresRelease,
    /// A replica that is not the leader writes.
    DistributionFollowerWrites,
    /// An object whose namespace is missing is not tried again.
    DistributionForgetsMissingNamespace,
    /// An object whose write failed is not tried again.
    DistributionForgetsFailure,
    /// The deletion of a copy by a user of the member is not noticed.
    DistributionForgetsHandDeletion,
    /// The replicas that an autoscaler has set are overwritten.
    DistributionOverwritesAutoscaler,
    /// An object of another owner is taken over.
    DistributionOverwritesConflicts,
    /// An object that has taken the place of a copy is taken over.
    DistributionOverwritesReplaced,
    /// An object that is evicted gracefully is deleted at once.
    DistributionEvictsAtOnce,
    /// An object that is evicted stays for ever.
    DistributionEvictsNever,
    /// A new plan does not know which evictions have begun.
    DistributionForgetsEvictions,
    /// A wave begins although clusters before it are not healthy.
    SetIgnoresHealth,
    /// A wave begins as soon as those before it are healthy, however long they have to be so.
    SetIgnoresHealthyFor,
    /// What a cluster has said of the former revision's objects counts for those of the new one.
    SetCountsFormerReports,
    /// Waves begin although the rollout is paused.
    SetIgnoresPause,
    /// A revision that has failed counts as the last one that was healthy.
    SetFailureBecomesStable,
    /// An undo leaves the undone revision in one of its clusters.
    SetUndoForgetsCluster,
    /// A process that starts does not know what its predecessors have rolled out.
    SetForgetsRollout,
    /// Objects that left a set stay.
    SetKeepsPruned,
    /// A `Distribution` is let go before its objects are.
    SetFinalizerGoesEarly,
    /// A source that cannot be rendered counts as an empty one.
    SetFailureEmptiesSet,
}

impl Bug {
    /// Whether it is one of the distribution of objects, which has a simulation of its own.
    pub fn is_of_distribution(self) -> bool {
        format!("{self:?}").starts_with("Distribution")
    }

    /// Whether it is one of sets and their rollouts, which have a simulation of their own.
    pub fn is_of_sets(self) -> bool {
        format!("{self:?}").starts_with("Set")
    }
}

#[cfg(not(feature = "planted-bugs"))]
mod active {
    use super::Bug;

    /// Whether a bug is switched on.
    pub const fn planted(_: Bug) -> bool {
        false
    }

    /// Notes that a write of this document is retried.
    pub const fn note_retry(_: &str) {}

    /// Whether a write of this document was retried.
    pub const fn was_retried(_: &str) -> bool {
        false
    }

    /// Runs `work` without a bug: that of an oracle, which uses the same code.
    pub fn without_bugs<T>(work: impl FnOnce() -> T) -> T {
        work()
    }
}

#[cfg(feature = "planted-bugs")]
mod active {
    use std::{
        cell::{Cell, RefCell},
        collections::HashSet,
    };

    use super::Bug;

    thread_local! {
        static ACTIVE: Cell<Option<Bug>> = const { Cell::new(None) };
        static RETRIED: RefCell<HashSet<String>> = RefCell::default();
    }

    /// Switches one bug on for this thread, or all off.
    pub fn plant(bug: Option<Bug>) {
        ACTIVE.set(bug);
        RETRIED.take();
    }

    /// Whether a bug is switched on.
    pub fn planted(bug: Bug) -> bool {
        ACTIVE.get() == Some(bug)
    }

    /// Runs `work` without a bug: that of an oracle, which uses the same code.
    pub fn without_bugs<T>(work: impl FnOnce() -> T) -> T {
        let active = ACTIVE.take();
        let result = work();
        ACTIVE.set(active);
        result
    }

    /// Notes that a write of this document is retried.
    pub fn note_retry(id: &str) {
        if planted(Bug::RetryWithoutVersion) {
            RETRIED.with_borrow_mut(|retried| retried.insert(id.to_owned()));
        }
    }

    /// Whether a write of this document was retried.
    pub fn was_retried(id: &str) -> bool {
        RETRIED.with_borrow(|retried| retried.contains(id))
    }
}

#[cfg(feature = "planted-bugs")]
pub use active::plant;
pub use active::{note_retry, planted, was_retried, without_bugs};
