//! How much a queue holds, and how much it may.

use std::ops::{AddAssign, SubAssign};

use crate::limits::{CALLS, CALLS_OF_WEBHOOK, RESERVED_CALLS};

/// Webhooks with anything queued. Fleets have a handful; the state of an idle one is dropped.
pub const WEBHOOKS: usize = 256;

/// A number of parts and of their bytes: those that are held, or the most that may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Parts: one for each webhook that a job asks.
    pub parts: usize,
    /// The bytes that their jobs were submitted with.
    pub bytes: usize,
}

impl Held {
    pub(super) fn of(bytes: usize) -> Self {
        Self { parts: 1, bytes }
    }

    /// Whether `more` fits beside this. One part alone fits always: there is no other way for it.
    pub(super) fn fits(self, more: Self, most: Held) -> bool {
        self.parts == 0
            || self.parts.saturating_add(more.parts) <= most.parts
                && self.bytes.saturating_add(more.bytes) <= most.bytes
    }

    pub(super) fn half(self) -> Self {
        Self {
            parts: self.parts / 2,
            bytes: self.bytes / 2,
        }
    }
}

impl AddAssign for Held {
    fn add_assign(&mut self, other: Self) {
        self.parts = self.parts.saturating_add(other.parts);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

impl SubAssign for Held {
    fn sub_assign(&mut self, other: Self) {
        self.parts = self.parts.saturating_sub(other.parts);
        self.bytes = self.bytes.saturating_sub(other.bytes);
    }
}

/// How much a queue may hold and do at a time.
#[derive(Clone, Copy, Debug)]
pub struct QueueLimits {
    /// What all webhooks together may hold.
    pub total: Held,
    /// What one webhook may hold, so that one that hangs does not fill the queue.
    pub webhook: Held,
    /// What may wait for another attempt, of one webhook: new objects always find room beside those
    /// that failed.
    pub retries: Held,
    /// Calls under way.
    pub calls: usize,
    /// Calls under way for one webhook.
    pub calls_of_webhook: usize,
    /// Calls that each webhook may have under way when others take all.
    pub reserved_calls: usize,
}

/// Bytes of objects that wait, by default.
const DEFAULT_BYTES: usize = 48 << 20;

impl QueueLimits {
    /// Limits for so many bytes. An object has 4 KiB or more in memory, hence one part per 4 KiB.
    pub fn of_bytes(bytes: usize) -> Self {
        let total = Held {
            parts: (bytes / 4096).max(4),
            bytes,
        };
        let webhook = total.half().half();
        Self {
            total,
            webhook,
            retries: webhook.half(),
            calls: CALLS,
            calls_of_webhook: CALLS_OF_WEBHOOK,
            reserved_calls: RESERVED_CALLS,
        }
    }
}

impl Default for QueueLimits {
    /// 48 MiB, and 12,288 objects. A quarter is more than the largest object.
    fn default() -> Self {
        Self::of_bytes(DEFAULT_BYTES)
    }
}
