//! The labels of metrics: closed sets of values, and clusters, kinds and stores.

use std::sync::Arc;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};

use super::families::{LabelSet, LabelValues, MetricLabel};

/// The type of an event of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the event types of the watch protocol")]
pub enum EventType {
    Added,
    Modified,
    Deleted,
    Bookmark,
    Error,
}

/// Why a unit was listed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RelistReason {
    /// 410: the resourceVersion to resume the watch from is gone.
    Expired,
    /// The watch failed, and its state is in doubt.
    Error,
}

/// The result of one item of a bulk request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

/// What a task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TaskKind {
    /// Answers a request.
    Request,
    /// Follows the objects of a kind in a member.
    Stream,
}

/// Why a response was aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AbortReason {
    /// The client read nothing of it for too long.
    SlowClient,
    /// It was not finished at its deadline.
    DeadlineExceeded,
}

/// Why a connection to a port of this process was closed or refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CloseReason {
    /// The limit of connections was reached.
    Refused,
    /// It was idle, and was closed for a new connection.
    Evicted,
    /// It had been idle for too long.
    Idle,
}

/// Why a span of a trace was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DropReason {
    /// Too many spans waited for the collector.
    QueueFull,
    /// The collector did not accept it.
    NotAccepted,
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

/// What a certificate is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CertificateUse {
    /// The query API is served with it.
    Serving,
    /// Fleetdex authenticates with it to a member.
    MemberClient,
    /// Fleetdex authenticates with it to OpenSearch.
    StoreClient,
}

/// Implements [`EncodeLabelValue`] with the value of each variant.
macro_rules! label_values {
    ($($label:ident { $($variant:ident => $value:literal),+ })+) => {$(
        impl $label {
            /// The value in labels of metrics and attributes of spans.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $value),+ }
            }
        }

        impl EncodeLabelValue for $label {
            fn encode(&self, encoder: &mut LabelValueEncoder) -> Result<(), std::fmt::Error> {
                self.as_str().encode(encoder)
            }
        }

        impl LabelValues for $label {
            const VALUES: &'static [&'static str] = &[$($value),+];
        }
    )+};
}

pub(super) use label_values;

/// Defines sets of labels. After `=` are the possible values of a label that is a string.
macro_rules! label_sets {
    ($($set:ident { $($label:ident: $type:ty $(= $values:expr)?),+ })+) => {$(
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
        pub(super) struct $set {
            $(pub(super) $label: $type,)+
        }

        impl LabelSet for $set {
            const LABELS: &'static [MetricLabel] = &[$(MetricLabel {
                name: stringify!($label),
                values: label_sets!(@values $type $(, $values)?),
            }),+];
        }
    )+};
    (@values $type:ty) => { <$type as LabelValues>::VALUES };
    (@values $type:ty, $values:expr) => { &$values };
}

pub(super) use label_sets;

label_values! {
    EventType { Added => "added", Modified => "modified", Deleted => "deleted", Bookmark => "bookmark", Error => "error" }
    RelistReason { Expired => "expired", Error => "error" }
    BulkVerdict { Indexed => "indexed", Deleted => "deleted", Superseded => "superseded", Absent => "absent", Retried => "retried", Rejected => "rejected", Fallback => "fallback", GivenUp => "given_up" }
    Drift { Missing => "missing", Differing => "differing", Surplus => "surplus" }
    AbortReason { SlowClient => "slow_client", DeadlineExceeded => "deadline_exceeded" }
    CloseReason { Refused => "refused", Evicted => "evicted", Idle => "idle" }
    BulkOutcome { Answered => "answered", Failed => "failed" }
    TaskKind { Request => "request", Stream => "stream" }
    DropReason { QueueFull => "queue_full", NotAccepted => "not_accepted" }
    CertificateUse { Serving => "serving", MemberClient => "member_client", StoreClient => "store_client" }
    UnitPhase { Listing => "listing", Watching => "watching", Waiting => "waiting", Failed => "failed" }
}

/// The limits of requests that can be reached.
const LIMITS: [&str; 14] = [
    "access_reviews",
    "computing",
    "discovery",
    "interpreter_calls",
    "interpreter_runs",
    "long_running",
    "object_requests",
    "query_memory",
    "replication",
    "requests",
    "search_pages",
    "searches",
    "sessions",
    "token_reviews",
];

label_sets! {
    UnitLabels { cluster: Arc<str>, kind: Arc<str> }
    EventLabels { cluster: Arc<str>, kind: Arc<str>, event: EventType }
    RelistLabels { cluster: Arc<str>, kind: Arc<str>, reason: RelistReason }
    DriftLabels { cluster: Arc<str>, kind: Arc<str>, drift: Drift }
    ClusterLabels { cluster: Arc<str> }
    SourceLabels { source: Arc<str> }
    ReasonLabels { reason: Arc<str> = ["NameTaken", "SameClusterAs"] }
    PhaseLabels { cluster: Arc<str>, phase: UnitPhase }
    StoreLabels { store: Arc<str> }
    OutcomeLabels { store: Arc<str>, outcome: BulkOutcome }
    VerdictLabels { store: Arc<str>, verdict: BulkVerdict }
    CodeLabels { code: u16 }
    LimitLabels { limit: Arc<str> = LIMITS }
    AbortLabels { reason: AbortReason }
    CloseLabels { reason: CloseReason }
    DropLabels { reason: DropReason }
    TaskLabels { task: TaskKind }
    CertificateLabels { certificate: CertificateUse, name: Arc<str> }
}
