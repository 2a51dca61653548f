//! Batches in flight, and how their outcomes become changes.

use std::{collections::BTreeSet, sync::Arc};

use fleetdex_core::model::IndexName;

use super::{
    Feed, FeedPhase,
    log_documents::DocumentPacking,
    unacknowledged::{IndexedId, PreviousState},
};
use crate::{
    bulk::{Verdict, Write},
    changes::InFlightWrite,
};

impl Feed {
    pub(crate) fn begin_batch(&self, writes: &[Write]) -> TrackedBatch {
        let state = self.0.state.lock();
        let mut tracked = Vec::new();
        if *self.0.phase.borrow() != FeedPhase::Inactive {
            let targets: BTreeSet<&IndexName> = writes.iter().map(|write| &write.index).collect();
            let is_tracked = |target: &&IndexName| {
                state.pending.contains_key(*target)
                    || state.live.values().any(|live| live == *target)
            };
            let tracked_targets: BTreeSet<&IndexName> =
                targets.into_iter().filter(is_tracked).collect();
            tracked = (0..writes.len())
                .filter(|position| tracked_targets.contains(&writes[*position].index))
                .collect();
        }
        let packing = Arc::clone(&state.packing);
        TrackedBatch {
            feed: self.clone(),
            tracked,
            packing,
            is_settled: false,
            _in_flight: self.0.log.in_flight.start(),
        }
    }
}

/// A batch in flight.
pub(crate) struct TrackedBatch {
    pub(super) feed: Feed,
    /// Positions of the writes whose outcome is recorded.
    pub(crate) tracked: Vec<usize>,
    pub(super) packing: Arc<DocumentPacking>,
    pub(super) is_settled: bool,
    pub(super) _in_flight: InFlightWrite,
}

impl Drop for TrackedBatch {
    /// The outcome is unknown, and nothing will retry the batch.
    fn drop(&mut self) {
        if !self.is_settled && !self.tracked.is_empty() {
            self.feed.0.log.restart();
        }
    }
}

impl TrackedBatch {
    /// Records the outcome of a batch. `before` holds the previous states of the tracked writes, in
    /// their order.
    pub(crate) async fn settle(
        mut self,
        writes: &[Write],
        verdicts: &[Verdict],
        before: Vec<PreviousState>,
    ) {
        if self.tracked.is_empty() {
            self.is_settled = true;
            if verdicts.iter().any(is_uncertain) {
                self.feed.note_uncertain();
            }
            return;
        }
        let may_be_stored = |position: &&usize| {
            matches!(
                verdicts.get(**position),
                Some(Verdict::Indexed | Verdict::Retry(_))
            )
        };
        let written: Vec<Write> = self
            .tracked
            .iter()
            .filter(may_be_stored)
            .filter_map(|position| writes.get(*position).cloned())
            .collect();
        let mut packed = self.packing.pack(written).await.into_iter();
        let mut changes = Vec::new();
        let mut is_complete = true;
        let mut state = self.feed.0.state.lock();
        for (position, before) in self.tracked.iter().zip(before) {
            let Some((write, verdict)) = writes.get(*position).zip(verdicts.get(*position)) else {
                continue;
            };
            let key = (write.index.clone(), Arc::clone(&write.document.id));
            match verdict {
                Verdict::Indexed | Verdict::Deleted | Verdict::Absent => {
                    let after = if *verdict == Verdict::Indexed {
                        packed.next().flatten()
                    } else {
                        None
                    };
                    match state
                        .unacknowledged
                        .acknowledge(&key, before, after.as_ref())
                    {
                        Some(all) => {
                            changes.extend(all.into_iter().map(|change| (key.0.clone(), change)));
                        }
                        None => is_complete = false,
                    }
                }
                // The process that wrote the newer version records it, but not what that replaced
                // of these writes.
                Verdict::Superseded => is_complete &= !state.unacknowledged.remove(&key),
                Verdict::IndexMissing(_) => drop(state.unacknowledged.remove(&key)),
                // Not applied; the document follows in another shape.
                Verdict::Rejected(_) => {}
                Verdict::Retry(_) => state
                    .unacknowledged
                    .add(key, before, packed.next().flatten()),
                Verdict::Blocked(_) => state.unacknowledged.add(key, before, None),
            }
        }
        self.feed.append(&mut state, changes);
        if !is_complete || state.unacknowledged.clear_if_too_large() {
            self.feed.0.log.restart();
        }
        drop(state);
        self.is_settled = true;
    }

    /// Records that no response came: some of the batch may have been applied. All of it, or
    /// something newer, will be sent again.
    pub(crate) async fn fail(mut self, writes: &[Write], before: Vec<PreviousState>) {
        if self.tracked.is_empty() {
            self.is_settled = true;
            return self.feed.note_uncertain();
        }
        let sent: Vec<Write> = self
            .tracked
            .iter()
            .filter_map(|position| writes.get(*position).cloned())
            .collect();
        let keys: Vec<IndexedId> = sent
            .iter()
            .map(|write| (write.index.clone(), Arc::clone(&write.document.id)))
            .collect();
        let packed = self.packing.pack(sent).await;
        let mut state = self.feed.0.state.lock();
        for ((key, before), sent) in keys.into_iter().zip(before).zip(packed) {
            state.unacknowledged.add(key, before, sent);
        }
        if state.unacknowledged.clear_if_too_large() {
            self.feed.0.log.restart();
        }
        drop(state);
        self.is_settled = true;
    }

    /// Discards a batch of which nothing was sent.
    pub(crate) fn cancel(mut self) {
        self.is_settled = true;
    }
}

fn is_uncertain(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Retry(_))
}
