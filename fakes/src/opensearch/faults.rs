//! Faults that tests inject.

use std::{collections::BTreeSet, time::Duration};

use tokio::time::Instant;

use super::call::Work;

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The server does not listen.
    ConnectionRefused,
    /// Requests are accepted and never handled; the client runs into its timeout.
    Hang,
    /// The connection breaks before a write or a change is applied.
    RequestLost,
    /// The connection breaks after a write or a change was applied.
    ResponseLost,
    /// The connection of a write or a change breaks, or the client times out, and the request is
    /// applied this much later.
    AppliedLate(Duration),
    /// 401
    Unauthorized,
    /// 403 of the security plugin
    Forbidden,
    /// 413 for `_bulk` requests of more than this number of bytes
    TooLarge(usize),
    /// 429 for whole `_bulk` and search requests
    TooManyRequests,
    /// 503
    Unavailable,
    /// 429 for this percentage of the items of `_bulk` requests; the others are applied.
    RejectedItems(u8),
    /// `index.blocks.write` on every index: 403 for every item
    WriteBlock,
    /// The disk is nearly full: 429 for every item, deletes too, and for changes of mappings and
    /// aliases.
    FloodStage,
    /// The body of the response is truncated.
    TruncatedResponse,
    /// The response to a `_bulk` request, which was applied, has an item too many or too few.
    WrongItemCount,
    /// Searches get 503.
    SearchUnavailable,
    /// Searches return partial results and report a failed shard.
    ShardFails,
    /// Searches return partial results, and a shard that is neither successful nor failed.
    ShardUnavailable,
    /// Searches return partial results and report a timeout.
    SearchTimesOut,
    /// Opening a point in time fails, unless it may be partial.
    PointInTimeFails,
    /// No index can be created: too many shards.
    ShardsFull,
}

/// The kind of a fault or of a direct change by a test, for counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultKind {
    /// [`Fault::ConnectionRefused`]
    ConnectionRefused,
    /// [`Fault::Hang`]
    Hang,
    /// [`Fault::RequestLost`]
    RequestLost,
    /// [`Fault::ResponseLost`]
    ResponseLost,
    /// [`Fault::AppliedLate`]
    AppliedLate,
    /// [`Fault::Unauthorized`]
    Unauthorized,
    /// [`Fault::Forbidden`]
    Forbidden,
    /// [`Fault::TooLarge`]
    TooLarge,
    /// [`Fault::TooManyRequests`]
    TooManyRequests,
    /// [`Fault::Unavailable`]
    Unavailable,
    /// [`Fault::RejectedItems`]
    RejectedItems,
    /// [`Fault::WriteBlock`]
    WriteBlock,
    /// [`Fault::FloodStage`]
    FloodStage,
    /// [`Fault::TruncatedResponse`]
    TruncatedResponse,
    /// [`Fault::WrongItemCount`]
    WrongItemCount,
    /// [`Fault::SearchUnavailable`]
    SearchUnavailable,
    /// [`Fault::ShardFails`]
    ShardFails,
    /// [`Fault::ShardUnavailable`]
    ShardUnavailable,
    /// [`Fault::SearchTimesOut`]
    SearchTimesOut,
    /// [`Fault::PointInTimeFails`]
    PointInTimeFails,
    /// [`Fault::ShardsFull`]
    ShardsFull,
    /// A document was rejected because of its text.
    RefusedDocument,
    /// An index was deleted.
    IndexDeleted,
    /// An alias was removed.
    AliasRemoved,
    /// The node was restarted.
    Restarted,
}

/// How long a fault lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// Affects every request that it applies to, for this duration.
    For(Duration),
    /// Affects this number of requests that it applies to.
    Times(u32),
    /// Lasts until all faults are healed.
    UntilHealed,
}

impl FaultKind {
    /// Every kind.
    pub const ALL: [Self; 25] = [
        Self::ConnectionRefused,
        Self::Hang,
        Self::RequestLost,
        Self::ResponseLost,
        Self::AppliedLate,
        Self::Unauthorized,
        Self::Forbidden,
        Self::TooLarge,
        Self::TooManyRequests,
        Self::Unavailable,
        Self::RejectedItems,
        Self::WriteBlock,
        Self::FloodStage,
        Self::TruncatedResponse,
        Self::WrongItemCount,
        Self::SearchUnavailable,
        Self::ShardFails,
        Self::ShardUnavailable,
        Self::SearchTimesOut,
        Self::PointInTimeFails,
        Self::ShardsFull,
        Self::RefusedDocument,
        Self::IndexDeleted,
        Self::AliasRemoved,
        Self::Restarted,
    ];
}

impl Fault {
    /// Returns the kind.
    pub fn kind(self) -> FaultKind {
        match self {
            Self::ConnectionRefused => FaultKind::ConnectionRefused,
            Self::Hang => FaultKind::Hang,
            Self::RequestLost => FaultKind::RequestLost,
            Self::ResponseLost => FaultKind::ResponseLost,
            Self::AppliedLate(_) => FaultKind::AppliedLate,
            Self::Unauthorized => FaultKind::Unauthorized,
            Self::Forbidden => FaultKind::Forbidden,
            Self::TooLarge(_) => FaultKind::TooLarge,
            Self::TooManyRequests => FaultKind::TooManyRequests,
            Self::Unavailable => FaultKind::Unavailable,
            Self::RejectedItems(_) => FaultKind::RejectedItems,
            Self::WriteBlock => FaultKind::WriteBlock,
            Self::FloodStage => FaultKind::FloodStage,
            Self::TruncatedResponse => FaultKind::TruncatedResponse,
            Self::WrongItemCount => FaultKind::WrongItemCount,
            Self::SearchUnavailable => FaultKind::SearchUnavailable,
            Self::ShardFails => FaultKind::ShardFails,
            Self::ShardUnavailable => FaultKind::ShardUnavailable,
            Self::SearchTimesOut => FaultKind::SearchTimesOut,
            Self::PointInTimeFails => FaultKind::PointInTimeFails,
            Self::ShardsFull => FaultKind::ShardsFull,
        }
    }

    /// Whether it affects the transport of a request or of its response.
    pub(super) fn affects_transport_of(self, work: Work, bytes: usize) -> bool {
        let is_change = matches!(work, Work::Bulk | Work::Admin);
        match self {
            Self::ConnectionRefused
            | Self::Hang
            | Self::Unauthorized
            | Self::Forbidden
            | Self::Unavailable => true,
            Self::RequestLost | Self::ResponseLost | Self::AppliedLate(_) => is_change,
            Self::TooLarge(limit) => work == Work::Bulk && bytes > limit,
            Self::TooManyRequests => matches!(work, Work::Bulk | Work::Search | Work::PointInTime),
            _ => false,
        }
    }
}

/// The active faults.
#[derive(Debug, Default)]
pub(super) struct Faults(Vec<Active>);

#[derive(Debug)]
struct Active {
    fault: Fault,
    until: Option<Instant>,
    left: Option<u32>,
}

/// The faults that affect the handling of a request.
#[derive(Clone, Debug, Default)]
pub(super) struct Conditions {
    /// Kinds of active faults.
    pub active: BTreeSet<FaultKind>,
    /// Percentage of items that the full queue rejects.
    pub rejected_items: Option<u8>,
    /// Documents with this text are rejected.
    pub refused_text: Option<String>,
}

impl Faults {
    /// Adds a fault.
    pub fn add(&mut self, fault: Fault, span: Span, now: Instant) {
        let (until, left) = match span {
            Span::For(time) => (Some(now + time), None),
            Span::Times(times) => (None, Some(times)),
            Span::UntilHealed => (None, None),
        };
        self.0.push(Active { fault, until, left });
    }

    /// Ends all faults.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns the first active fault that `is_applicable` accepts.
    pub fn find(&mut self, now: Instant, is_applicable: impl Fn(Fault) -> bool) -> Option<Fault> {
        self.0.retain(|active| {
            active.until.is_none_or(|until| now < until) && active.left != Some(0)
        });
        self.0
            .iter()
            .map(|active| active.fault)
            .find(|fault| is_applicable(*fault))
    }

    /// Records that a fault took effect.
    pub fn strike(&mut self, kind: FaultKind) {
        let active = self.0.iter_mut().find(|active| active.fault.kind() == kind);
        if let Some(left) = active.and_then(|active| active.left.as_mut()) {
            *left = left.saturating_sub(1);
        }
    }

    /// Returns the faults that affect a request that is handled now.
    pub fn conditions(&mut self, now: Instant, refused_text: Option<&String>) -> Conditions {
        self.find(now, |_| false);
        let percent = |active: &Active| match active.fault {
            Fault::RejectedItems(percent) => Some(percent),
            _ => None,
        };
        Conditions {
            active: self.0.iter().map(|active| active.fault.kind()).collect(),
            rejected_items: self.0.iter().find_map(percent),
            refused_text: refused_text.cloned(),
        }
    }
}
