//! Tracks writes in flight, and the position up to which everything is acknowledged.

use std::{collections::BTreeMap, sync::Arc};

use fleetdex_core::{
    model::Version,
    planted::{Bug, planted},
};
use tokio::time::Instant;

use super::write_ages::WriteAges;

/// Where a write in flight is counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteInFlight {
    /// The side of [`AckTracker`].
    side: usize,
    /// The generation of [`WriteAges`].
    generation: usize,
}

/// How many objects each selection of a unit has, by its id; see `sink::Filters`.
/// Empty if all registries of the unit select the same objects.
pub type SelectionCounts = Arc<BTreeMap<Arc<str>, u64>>;

/// A position in the stream of a unit: a version, and the number of objects at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamPosition {
    /// The resourceVersion.
    pub version: Version,
    /// How many objects existed at this version.
    pub objects: u64,
    /// How many of them each selection had.
    pub selected: SelectionCounts,
}

/// Tracks the writes in flight, and which position their acknowledgement proves.
///
/// Each write belongs to one of two sides. The tracker awaits a position by changing sides: when no
/// write of the former side is in flight any more, everything up to the position is acknowledged,
/// although later writes are not.
#[derive(Debug, Default)]
pub(super) struct AckTracker {
    in_flight: [u64; 2],
    side: usize,
    reached: Option<StreamPosition>,
    awaited: Option<StreamPosition>,
    acknowledged: Option<StreamPosition>,
    ages: WriteAges,
    /// A write was dropped: no later position can be acknowledged.
    broken: bool,
}

impl AckTracker {
    pub(super) fn begin(&mut self, now: Instant) -> WriteInFlight {
        self.in_flight[self.side] += 1;
        WriteInFlight {
            side: self.side,
            generation: self.ages.begin(now),
        }
    }

    /// Ends a write. A write that is not acknowledged was dropped.
    pub(super) fn end(&mut self, write: WriteInFlight, acknowledged: bool) {
        self.in_flight[write.side] -= 1;
        self.ages.end(write.generation);
        self.broken |= !acknowledged;
    }

    /// No write in flight is older than this; `None` if there is none.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.ages.oldest()
    }

    /// How many writes are in flight.
    pub(super) fn in_flight(&self) -> u64 {
        self.in_flight.iter().sum()
    }

    /// The last position up to which every write has begun.
    pub(super) fn reached(&self) -> Option<&StreamPosition> {
        self.reached.as_ref()
    }

    /// The last position up to which everything is acknowledged.
    pub(super) fn acknowledged(&self) -> Option<&StreamPosition> {
        self.acknowledged.as_ref()
    }

    /// Whether no later position can be acknowledged.
    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }

    /// Forgets every position. Writes in flight keep their sides.
    pub(super) fn forget_positions(&mut self) {
        *self = Self {
            in_flight: self.in_flight,
            side: self.side,
            ages: self.ages,
            ..Self::default()
        };
    }

    /// Starts at a position up to which everything is stored.
    pub(super) fn resume(&mut self, position: StreamPosition) {
        self.forget_positions();
        (self.reached, self.acknowledged) = (Some(position.clone()), Some(position));
    }

    /// Discards what is acknowledged, until the next list.
    pub(super) fn require_list(&mut self) {
        self.forget_positions();
        self.broken = true;
    }

    /// Notes that every write up to a position has begun.
    pub(super) fn reach(&mut self, position: StreamPosition) {
        self.reached = Some(position);
    }

    /// Acknowledges the awaited position if possible, and awaits the next one. Returns whether any
    /// was acknowledged.
    pub(super) fn advance(&mut self) -> bool {
        if planted(Bug::CheckpointBeforeAcknowledgement) {
            let is_new = self.acknowledged != self.reached;
            self.acknowledged.clone_from(&self.reached);
            return is_new;
        }
        let mut is_new = false;
        while !self.broken && self.in_flight[1 - self.side] == 0 {
            if let Some(position) = self.awaited.take() {
                is_new |= self.acknowledged.as_ref() != Some(&position);
                self.acknowledged = Some(position);
            }
            if self.reached.is_none() || self.reached == self.acknowledged {
                break;
            }
            self.awaited.clone_from(&self.reached);
            self.side = 1 - self.side;
        }
        is_new
    }
}
