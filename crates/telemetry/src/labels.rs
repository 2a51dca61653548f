//! The labels of metrics: closed sets of values, and clusters, kinds and stores.

use std::sync::Arc;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};

use super::families::{LabelSet, LabelValues, MetricLabel};

/// Defines types of label values, with the value of each variant.
macro_rules! label_values {
    ($($(#[$meta:meta])* $label:ident { $($(#[$doc:meta])* $variant:ident => $value:literal,)+ })+) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $label {
            $($(#[$doc])* $variant,)+
        }

        impl $label {
            /// Every variant, in the order of the type.
            pub const ALL: [Self; [$($value),+].len()] = [$(Self::$variant),+];

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

        impl $set {
            pub(super) fn new($($label: impl Into<$type>),+) -> Self {
                Self { $($label: $label.into()),+ }
            }
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
    /// The type of an event of a watch.
    #[expect(missing_docs, reason = "the event types of the watch protocol")]
    EventType {
        Added => "added",
        Modified => "modified",
        Deleted => "deleted",
        Bookmark => "bookmark",
        Error => "error",
    }

    /// Why a unit was listed again.
    RelistReason {
        /// 410: the resourceVersion to resume the watch from is gone.
        Expired => "expired",
        /// The watch failed, and its state is in doubt.
        Error => "error",
    }

    /// The result of one item of a bulk request.
    BulkVerdict {
        /// The document was created or updated.
        Indexed => "indexed",
        /// The document was deleted.
        Deleted => "deleted",
        /// The store already holds a newer version (409).
        Superseded => "superseded",
        /// The document to delete did not exist (404).
        Absent => "absent",
        /// The item is sent again later (429, 5xx).
        Retried => "retried",
        /// The store refused the document; a fallback document replaces it.
        Rejected => "rejected",
        /// A fallback document was stored.
        Fallback => "fallback",
        /// The item was dropped because its index is gone; all objects of its cluster are read
        /// again.
        GivenUp => "given_up",
    }

    /// The outcome of a whole bulk request.
    BulkOutcome {
        /// The store answered item by item.
        Answered => "answered",
        /// The store refused the request, or the connection failed.
        Failed => "failed",
    }

    /// How a document differs from its object.
    Drift {
        /// The object has no document.
        Missing => "missing",
        /// The document is of another version than the object.
        Differing => "differing",
        /// The document has no object, or one that no registry selects.
        Surplus => "surplus",
    }

    /// What a task does.
    TaskKind {
        /// Answers a request.
        Request => "request",
        /// Follows the objects of a kind in a member.
        Stream => "stream",
    }

    /// Why a response was aborted.
    AbortReason {
        /// The client read nothing of it for too long.
        SlowClient => "slow_client",
        /// It was not finished at its deadline.
        DeadlineExceeded => "deadline_exceeded",
    }

    /// Why a connection to a port of this process was closed or refused.
    CloseReason {
        /// The limit of connections was reached.
        Refused => "refused",
        /// It was idle, and was closed for a new connection.
        Evicted => "evicted",
        /// It had been idle for too long.
        Idle => "idle",
    }

    /// Why a span of a trace was dropped.
    DropReason {
        /// Too many spans waited for the collector.
        QueueFull => "queue_full",
        /// The collector did not accept it.
        NotAccepted => "not_accepted",
    }

    /// The phase of a unit.
    UnitPhase {
        /// It reads the complete list.
        Listing => "listing",
        /// It watches changes.
        Watching => "watching",
        /// It failed and waits to retry.
        Waiting => "waiting",
        /// It cannot work until someone acts: the kind is not served, or access is denied.
        Failed => "failed",
    }

    /// What a certificate is used for.
    CertificateUse {
        /// The query API is served with it.
        Serving => "serving",
        /// Fleetdex authenticates with it to a member.
        MemberClient => "member_client",
        /// Fleetdex authenticates with it to OpenSearch.
        StoreClient => "store_client",
    }
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
