//! Faults: what goes wrong on command.

use std::{collections::BTreeSet, time::Duration};

use tokio::time::Instant;

use super::call::Work;

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nobody listens.
    ConnectionRefused,
    /// Requests are taken and never handled; the client waits for its own timeout.
    Hang,
    /// The connection breaks before a write or a change is applied.
    RequestLost,
    /// The connection breaks after a write or a change was applied.
    ResponseLost,
    /// The connection of a write or a change breaks, or the client times out, and the request is applied this much later.
    AppliedLate(Duration),
    /// 401
    Unauthorized,
    /// 403 of the security plugin
    Forbidden,
    /// 413 for `_bulk` requests of more bytes than these
    TooLarge(usize),
    /// 429 for whole `_bulk` and search requests
    TooManyRequests,
    /// 503
    Unavailable,
    /// 429 for so many of a hundred items of `_bulk` requests; the others are applied.
    RejectedItems(u8),
    /// `index.blocks.write` on every index: 403 for every item
    WriteBlock,
    /// The disk is nearly full: 429 for every item, deletes too, and for changes of mappings and aliases.
    FloodStage,
    /// The body of the answer ends in the middle.
    TruncatedResponse,
    /// The answer to a `_bulk` request, which was applied, has an item too many or too few.
    WrongItemCount,
    /// Searches get 503.
    SearchUnavailable,
    /// Searches find a part and say that a shard failed.
    ShardFails,
    /// Searches find a part and say that they timed out.
    SearchTimesOut,
    /// No point in time can be opened; one that may be partial is.
    PointInTimeFails,
    /// No index can be made: too many shards.
    ShardsFull,
}

/// A fault without its details, and what is done behind the client's back, for counting.
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
    /// [`Fault::SearchTimesOut`]
    SearchTimesOut,
    /// [`Fault::PointInTimeFails`]
    PointInTimeFails,
    /// [`Fault::ShardsFull`]
    ShardsFull,
    /// A document was refused for the text in it.
    RefusedDocument,
    /// An index was deleted.
    IndexDeleted,
    /// An alias was removed.
    AliasRemoved,
    /// The node was killed and started again.
    Restarted,
}

/// How long a fault lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// Strikes every request that it can strike, for this long.
    For(Duration),
    /// Strikes the next so many requests that it can strike.
    Times(u32),
    /// Strikes until everything is healed.
    UntilHealed,
}

impl FaultKind {
    /// Every kind.
    pub const ALL: [Self; 24] = [
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
    /// The fault without its details.
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
            Self::SearchTimesOut => FaultKind::SearchTimesOut,
            Self::PointInTimeFails => FaultKind::PointInTimeFails,
            Self::ShardsFull => FaultKind::ShardsFull,
        }
    }

    /// Whether it can strike a request on the way to the server or back.
    pub(super) fn is_on_the_way_of(self, work: Work, bytes: usize) -> bool {
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

/// The faults that are there now.
#[derive(Debug, Default)]
pub(super) struct Faults(Vec<Active>);

#[derive(Debug)]
struct Active {
    fault: Fault,
    until: Option<Instant>,
    left: Option<u32>,
}

/// What goes wrong while a request is handled.
#[derive(Clone, Debug, Default)]
pub(super) struct Conditions {
    /// Faults that are there.
    pub active: BTreeSet<FaultKind>,
    /// Of a hundred items, how many the queue has no room for.
    pub rejected_items: Option<u8>,
    /// Documents with this text are refused.
    pub refused_text: Option<String>,
}

impl Faults {
    /// Adds one.
    pub fn add(&mut self, fault: Fault, span: Span, now: Instant) {
        let (until, left) = match span {
            Span::For(time) => (Some(now + time), None),
            Span::Times(times) => (None, Some(times)),
            Span::UntilHealed => (None, None),
        };
        self.0.push(Active { fault, until, left });
    }

    /// Ends all.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The first of those that are there for which this holds.
    pub fn find(&mut self, now: Instant, is_meant: impl Fn(Fault) -> bool) -> Option<Fault> {
        self.0.retain(|active| {
            active.until.is_none_or(|until| now < until) && active.left != Some(0)
        });
        self.0
            .iter()
            .map(|active| active.fault)
            .find(|fault| is_meant(*fault))
    }

    /// Notes that one had an effect.
    pub fn strike(&mut self, kind: FaultKind) {
        let active = self.0.iter_mut().find(|active| active.fault.kind() == kind);
        if let Some(left) = active.and_then(|active| active.left.as_mut()) {
            *left = left.saturating_sub(1);
        }
    }

    /// What goes wrong while a request is handled now.
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
