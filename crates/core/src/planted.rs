//! Bugs that a build with the feature `planted-bugs` can switch on, one at a time: `make mutants` shows that the simulation finds each of
//! them. Without the feature none of them is there.

/// A bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// An item that the store was too busy for counts as stored.
    DropThrottledItem,
    /// A write counts as stored when it is sent.
    AcknowledgeBeforeResponse,
    /// A list that broke off counts as complete: what it did not show is deleted.
    PruneOnInterruptedList,
    /// HTTP 410 is tried again like any failure.
    IgnoreExpired,
    /// Deletions are not passed on.
    ForgetDelete,
    /// The objects of the last page of several are not looked at.
    SkipLastPage,
    /// "9" is newer than "10".
    CompareVersionsAsText,
    /// A watch goes on behind the next event.
    LoseEventAtReconnect,
    /// A write that is sent again carries no version.
    RetryWithoutVersion,
    /// Deletions carry no version, so that nothing orders them with other writes.
    UnorderedDeletes,
    /// Queries are answered from a generation before it is complete.
    ShowHalfFilled,
    /// Checkpoints of one index are taken for those of another one.
    TrustOtherCheckpoints,
    /// A restored etcd is not noticed.
    IgnoreRestore,
    /// Checkpoints run ahead of what is stored.
    CheckpointBeforeAcknowledgement,
    /// The checkpoints of documents that were removed stay.
    KeepSweptCheckpoints,
    /// A refused document is dropped.
    DropRefusedDocument,
    /// A place that no registry names any more is forgotten.
    ForgetOldPlace,
    /// A replica that stops declares that everything is told while writes are under way.
    LeaveWithWritesUnderWay,
    /// A replica says how far its log is only where that holds a change: others wait for ever for a number without one.
    PositionOfChangesOnly,
    /// After changes of another replica were lost, a list counts as up to date that OpenSearch has not been refreshed for.
    ListBeforeRefresh,
    /// A continue token is good for whoever has it.
    TakeTokenOfAnother,
    /// A continue token is good for any question.
    TakeTokenForAnotherQuestion,
    /// Further pages show what the first one could, whatever the caller may see by now.
    ForgetPermissionOfFurtherPages,
    /// A list that is cut off keeps its point in time.
    LeavePointInTimeOpen,
    /// Lists of other users end for those of one who begins very many.
    EndListsOfOthers,
    /// One user gets every place for requests that is free.
    TakeAllPlaces,
    /// A line break between two tokens of an object is left in a line of a bulk request.
    LineBreakInBulk,
    /// What was read of members counts as read for ever.
    BudgetNotGivenBack,
    /// The limit of a body does not count what comes out of decompression: a body may be as long as it likes.
    LimitBeforeDecompression,
    /// An object says by itself which cluster it is of.
    TrustMemberCluster,
    /// A line of a watch may be as long as it likes.
    EndlessLine,
    /// It is forgotten which members were indexed, so that an older one that shows their history takes their place.
    DisplaceEstablished,
    /// The UID that a member reports is its identity: a cluster that was restored from a backup is its origin.
    TrustReportedUid,
    /// Objects of one name are written as they come: one may be told before the deletion of an earlier one.
    IgnoreNames,
    /// A list deletes what is stored under the names of other objects when it has written those.
    DeleteNamesakesLast,
}

impl Bug {
    /// All of them.
    pub const ALL: &[Self] = &[
        Self::DropThrottledItem,
        Self::AcknowledgeBeforeResponse,
        Self::PruneOnInterruptedList,
        Self::IgnoreExpired,
        Self::ForgetDelete,
        Self::SkipLastPage,
        Self::CompareVersionsAsText,
        Self::LoseEventAtReconnect,
        Self::RetryWithoutVersion,
        Self::UnorderedDeletes,
        Self::ShowHalfFilled,
        Self::TrustOtherCheckpoints,
        Self::IgnoreRestore,
        Self::CheckpointBeforeAcknowledgement,
        Self::KeepSweptCheckpoints,
        Self::DropRefusedDocument,
        Self::ForgetOldPlace,
        Self::LeaveWithWritesUnderWay,
        Self::PositionOfChangesOnly,
        Self::ListBeforeRefresh,
        Self::TakeTokenOfAnother,
        Self::TakeTokenForAnotherQuestion,
        Self::ForgetPermissionOfFurtherPages,
        Self::LeavePointInTimeOpen,
        Self::EndListsOfOthers,
        Self::TakeAllPlaces,
        Self::LineBreakInBulk,
        Self::BudgetNotGivenBack,
        Self::LimitBeforeDecompression,
        Self::TrustMemberCluster,
        Self::EndlessLine,
        Self::DisplaceEstablished,
        Self::TrustReportedUid,
        Self::IgnoreNames,
        Self::DeleteNamesakesLast,
    ];
}

#[cfg(not(feature = "planted-bugs"))]
mod active {
    use super::Bug;

    /// Whether a bug is switched on.
    pub const fn planted(_: Bug) -> bool {
        false
    }

    /// A write of this document is sent again.
    pub const fn note_retry(_: &str) {}

    /// Whether a write of this document was sent again.
    pub const fn was_retried(_: &str) -> bool {
        false
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

    /// A write of this document is sent again.
    pub fn note_retry(id: &str) {
        if planted(Bug::RetryWithoutVersion) {
            RETRIED.with_borrow_mut(|retried| retried.insert(id.to_owned()));
        }
    }

    /// Whether a write of this document was sent again.
    pub fn was_retried(id: &str) -> bool {
        RETRIED.with_borrow(|retried| retried.contains(id))
    }
}

#[cfg(feature = "planted-bugs")]
pub use active::plant;
pub use active::{note_retry, planted, was_retried};
