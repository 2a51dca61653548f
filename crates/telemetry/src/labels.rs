//! The labels of metrics: closed sets of values, and clusters, kinds and stores.

use std::sync::Arc;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};

/// The type of an event of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the event types of the watch protocol")]
pub enum EventType {
    Added,
    Modified,
    Deleted,
    Bookmark,
    Error,
}

/// Why a unit was listed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RelistReason {
    /// 410: the resourceVersion to resume the watch from is gone.
    Expired,
    /// The watch failed, and its state is in doubt.
    Error,
}

/// The result of one item of a bulk request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BulkVerdict {
    /// The document was created or updated.
    Indexed,
    /// The document was deleted.
    Deleted,
    /// The store already holds a newer version (409).
    Superseded,
    /// The document to delete did not exist (404).
    Absent,
    /// The item is sent again later (429, 5xx).
    Retried,
    /// The store refused the document; a fallback document replaces it.
    Rejected,
    /// A fallback document was stored.
    Fallback,
    /// The item was dropped because its index is gone; all objects of its cluster are read again.
    GivenUp,
}

/// The outcome of a whole bulk request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BulkOutcome {
    /// The store answered item by item.
    Answered,
    /// The store refused the request, or the connection failed.
    Failed,
}

/// How a document differs from its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Drift {
    /// The object has no document.
    Missing,
    /// The document is of another version than the object.
    Differing,
    /// The document has no object, or one that no registry selects.
    Surplus,
}

/// Why a response was aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AbortReason {
    /// The client read nothing of it for too long.
    SlowClient,
    /// It was not finished at its deadline.
    DeadlineExceeded,
}

/// Why a connection to a port of this process was closed or refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CloseReason {
    /// The limit of connections was reached.
    Refused,
    /// It was idle, and was closed for a new connection.
    Evicted,
    /// It had been idle for too long.
    Idle,
}

/// The phase of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UnitPhase {
    /// It reads the complete list.
    Listing,
    /// It watches changes.
    Watching,
    /// It failed and waits to retry.
    Waiting,
    /// It cannot work until someone acts: the kind is not served, or access is denied.
    Failed,
}

impl UnitPhase {
    /// Every phase, so that each gets a gauge.
    pub const ALL: [Self; 4] = [Self::Listing, Self::Watching, Self::Waiting, Self::Failed];
}

/// Implements [`EncodeLabelValue`] with the value of each variant.
macro_rules! label_values {
    ($($label:ident { $($variant:ident => $value:literal),+ })+) => {$(
        impl EncodeLabelValue for $label {
            fn encode(&self, encoder: &mut LabelValueEncoder) -> Result<(), std::fmt::Error> {
                let value = match self { $(Self::$variant => $value),+ };
                value.encode(encoder)
            }
        }
    )+};
}

label_values! {
    EventType { Added => "added", Modified => "modified", Deleted => "deleted", Bookmark => "bookmark", Error => "error" }
    RelistReason { Expired => "expired", Error => "error" }
    BulkVerdict { Indexed => "indexed", Deleted => "deleted", Superseded => "superseded", Absent => "absent", Retried => "retried", Rejected => "rejected", Fallback => "fallback", GivenUp => "given_up" }
    Drift { Missing => "missing", Differing => "differing", Surplus => "surplus" }
    AbortReason { SlowClient => "slow_client", DeadlineExceeded => "deadline_exceeded" }
    CloseReason { Refused => "refused", Evicted => "evicted", Idle => "idle" }
    BulkOutcome { Answered => "answered", Failed => "failed" }
    UnitPhase { Listing => "listing", Watching => "watching", Waiting => "waiting", Failed => "failed" }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
pub(super) struct UnitLabels {
    pub(super) cluster: Arc<str>,
    pub(super) kind: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct EventLabels {
    pub(super) cluster: Arc<str>,
    pub(super) kind: Arc<str>,
    pub(super) event: EventType,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RelistLabels {
    pub(super) cluster: Arc<str>,
    pub(super) kind: Arc<str>,
    pub(super) reason: RelistReason,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct DriftLabels {
    pub(super) cluster: Arc<str>,
    pub(super) kind: Arc<str>,
    pub(super) drift: Drift,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ClusterLabels {
    pub(super) cluster: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct SourceLabels {
    pub(super) source: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ReasonLabels {
    pub(super) reason: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct PhaseLabels {
    pub(super) cluster: Arc<str>,
    pub(super) phase: UnitPhase,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct StoreLabels {
    pub(super) store: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OutcomeLabels {
    pub(super) store: Arc<str>,
    pub(super) outcome: BulkOutcome,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct VerdictLabels {
    pub(super) store: Arc<str>,
    pub(super) verdict: BulkVerdict,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct CodeLabels {
    pub(super) code: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct LimitLabels {
    pub(super) limit: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct AbortLabels {
    pub(super) reason: AbortReason,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct CloseLabels {
    pub(super) reason: CloseReason,
}
