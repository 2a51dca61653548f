//! Writes under way, and up to where everything is acknowledged.

use fleetdex_core::{
    model::Version,
    planted::{Bug, planted},
};

/// A version, and how many objects there were at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Every change up to it is stored.
    pub version: Version,
    /// How many objects there were then.
    pub objects: u64,
}

/// Which writes are under way, and what they stand for.
///
/// Writes belong to one of two sides in turn. A mark is set by changing sides: when nothing of the side before is under way any more,
/// everything up to the mark is acknowledged, although later writes are not.
#[derive(Debug, Default)]
pub(super) struct Flow {
    under_way: [u64; 2],
    side: usize,
    reached: Option<Mark>,
    marked: Option<Mark>,
    acknowledged: Option<Mark>,
    /// A write was given up: nothing later can be acknowledged.
    broken: bool,
}

impl Flow {
    /// A write begins; the side that it belongs to.
    pub(super) fn begin(&mut self) -> usize {
        self.under_way[self.side] += 1;
        self.side
    }

    /// A write of a side ends; one that is not settled was given up.
    pub(super) fn end(&mut self, side: usize, settled: bool) {
        self.under_way[side] -= 1;
        self.broken |= !settled;
    }

    /// How many writes are under way.
    pub(super) fn under_way(&self) -> u64 {
        self.under_way.iter().sum()
    }

    /// The last mark up to which everything is acknowledged.
    pub(super) fn acknowledged(&self) -> Option<Mark> {
        self.acknowledged
    }

    /// Whether nothing later can be acknowledged.
    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }

    /// Writes that are under way stay where they are; there is just no mark that waits for them.
    pub(super) fn forget_marks(&mut self) {
        *self = Self {
            under_way: self.under_way,
            side: self.side,
            ..Self::default()
        };
    }

    /// Everything up to a mark is stored.
    pub(super) fn resume(&mut self, mark: Mark) {
        self.forget_marks();
        (self.reached, self.acknowledged) = (Some(mark), Some(mark));
    }

    /// What is acknowledged counts for nothing.
    pub(super) fn distrust(&mut self) {
        self.forget_marks();
        self.broken = true;
    }

    /// Everything up to a mark has begun.
    pub(super) fn reach(&mut self, mark: Mark) {
        self.reached = Some(mark);
    }

    /// Acknowledges a mark if it can be, and sets the next one. Whether anything was acknowledged.
    pub(super) fn advance(&mut self) -> bool {
        let before = self.acknowledged;
        if planted(Bug::CheckpointBeforeAcknowledgement) {
            self.acknowledged = self.reached;
            return self.acknowledged != before;
        }
        while !self.broken && self.under_way[1 - self.side] == 0 {
            if let Some(mark) = self.marked.take() {
                self.acknowledged = Some(mark);
            }
            if self.reached.is_none() || self.reached == self.acknowledged {
                break;
            }
            self.marked = self.reached;
            self.side = 1 - self.side;
        }
        self.acknowledged != before
    }
}
