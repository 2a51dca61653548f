//! The labels of metrics: closed sets of words, and clusters, kinds and stores.

use std::sync::Arc;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};

/// What a watch delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the events of the watch protocol")]
pub enum WatchEvent {
    Added,
    Modified,
    Deleted,
    Bookmark,
    Error,
}

/// Why a list was made although the unit had been listed before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RelistReason {
    /// 410: the version that the watch would resume from is gone.
    Expired,
    /// The watch failed in a way that leaves its state in doubt.
    Error,
}

/// What became of one item of a bulk request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BulkVerdict {
    /// Created or updated.
    Indexed,
    /// Deleted.
    Deleted,
    /// The store holds a newer version already (409).
    Superseded,
    /// The document to delete was not there (404).
    Absent,
    /// Sent again later (429, 5xx).
    Retried,
    /// Refused by the store; a fallback document takes its place.
    Rejected,
    /// A fallback document was stored.
    Fallback,
    /// Not written, because its index is gone; everything of its cluster is read again.
    GivenUp,
}

/// How a bulk request as a whole ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BulkOutcome {
    /// Answered item by item.
    Answered,
    /// Refused as a whole, or the connection failed.
    Failed,
}

/// In which way a document is not what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Drift {
    /// The object has none.
    Missing,
    /// It is of another version than the object.
    Differing,
    /// There is no such object, or it is not wanted.
    Surplus,
}

/// Why an answer was ended before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AnswerCut {
    /// The client took nothing of it for too long.
    Unread,
    /// It went on after it had to be over.
    Over,
}

/// Why a connection to one of our ports was ended, or not begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConnectionEnd {
    /// There was no room for it.
    Refused,
    /// It was idle, and another one needed the room.
    Displaced,
    /// It had been idle for too long.
    Idle,
}

/// Where a unit is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UnitPhase {
    /// Reading the complete list.
    Listing,
    /// Following changes.
    Watching,
    /// Failed, and waiting to try again.
    Waiting,
    /// Cannot work until something outside changes: kind not served, access denied.
    Failed,
}

impl UnitPhase {
    /// Every phase, so that a gauge can be written for each.
    pub const ALL: [Self; 4] = [Self::Listing, Self::Watching, Self::Waiting, Self::Failed];
}

/// Gives the variants the words that stand in series.
macro_rules! label_words {
    ($($label:ident { $($variant:ident => $word:literal),+ })+) => {$(
        impl EncodeLabelValue for $label {
            fn encode(&self, encoder: &mut LabelValueEncoder) -> Result<(), std::fmt::Error> {
                let word = match self { $(Self::$variant => $word),+ };
                word.encode(encoder)
            }
        }
    )+};
}

label_words! {
    WatchEvent { Added => "added", Modified => "modified", Deleted => "deleted", Bookmark => "bookmark", Error => "error" }
    RelistReason { Expired => "expired", Error => "error" }
    BulkVerdict { Indexed => "indexed", Deleted => "deleted", Superseded => "superseded", Absent => "absent", Retried => "retried", Rejected => "rejected", Fallback => "fallback", GivenUp => "given_up" }
    Drift { Missing => "missing", Differing => "differing", Surplus => "surplus" }
    AnswerCut { Unread => "unread", Over => "over" }
    ConnectionEnd { Refused => "refused", Displaced => "displaced", Idle => "idle" }
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
    pub(super) event: WatchEvent,
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
pub(super) struct PlaceLabels {
    pub(super) places: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct CutLabels {
    pub(super) reason: AnswerCut,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct EndLabels {
    pub(super) reason: ConnectionEnd,
}
