//! Writes on their way, and what becomes of them for those who watch.

use std::{collections::BTreeSet, sync::Arc};

use fleetdex_core::model::IndexName;

use super::{
    Feed, Phase,
    unsettled::{Before, Key},
};
use crate::{
    bulk::{Verdict, Write},
    changes::Flight,
    opensearch::packing::Packing,
};

impl Feed {
    /// A batch is about to be written.
    pub(in crate::opensearch) fn begin(&self, writes: &[Write]) -> Batch {
        let state = self.0.lock();
        let mut told = Vec::new();
        if *self.0.phase.borrow() != Phase::Asleep {
            let targets: BTreeSet<&IndexName> = writes.iter().map(|write| &write.index).collect();
            let is_told = |target: &&IndexName| {
                state.joining.contains_key(*target)
                    || state.live.values().any(|live| live == *target)
            };
            let told_targets: BTreeSet<&IndexName> = targets.into_iter().filter(is_told).collect();
            told = (0..writes.len())
                .filter(|position| told_targets.contains(&writes[*position].index))
                .collect();
        }
        let packing = Arc::clone(&state.packing);
        Batch {
            feed: self.clone(),
            told,
            packing,
            settled: false,
            _flight: self.0.log.under_way().start(),
        }
    }
}

/// Writes under way.
pub(in crate::opensearch) struct Batch {
    pub(super) feed: Feed,
    /// Positions of those whose outcome is to be told.
    pub(in crate::opensearch) told: Vec<usize>,
    pub(super) packing: Arc<Packing>,
    pub(super) settled: bool,
    pub(super) _flight: Flight,
}

impl Drop for Batch {
    /// Nobody knows what became of it, and nobody will try it again.
    fn drop(&mut self) {
        if !self.settled && !self.told.is_empty() {
            self.feed.0.log.restart();
        }
    }
}

impl Batch {
    /// The batch was answered. `before` is what was stored of those whose outcome is to be told, in their order.
    pub(in crate::opensearch) async fn settle(
        mut self,
        writes: &[Write],
        verdicts: &[Verdict],
        before: Vec<Before>,
    ) {
        if self.told.is_empty() {
            self.settled = true;
            if verdicts.iter().any(is_uncertain) {
                self.feed.note_dark();
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
            .told
            .iter()
            .filter(may_be_stored)
            .filter_map(|position| writes.get(*position).cloned())
            .collect();
        let mut packed = self.packing.pack(written).await.into_iter();
        let mut changes = Vec::new();
        let mut is_known = true;
        let mut state = self.feed.0.lock();
        for (position, before) in self.told.iter().zip(before) {
            let Some((write, verdict)) = writes.get(*position).zip(verdicts.get(*position)) else {
                continue;
            };
            let key = (write.index.clone(), Arc::clone(&write.id));
            match verdict {
                Verdict::Indexed | Verdict::Deleted | Verdict::Absent => {
                    let after = if *verdict == Verdict::Indexed {
                        packed.next().flatten()
                    } else {
                        None
                    };
                    match state.unsettled.settle(&key, before, after.as_ref()) {
                        Some(all) => {
                            changes.extend(all.into_iter().map(|change| (key.0.clone(), change)));
                        }
                        None => is_known = false,
                    }
                }
                // What another process has written it tells, but not what that has replaced of these writes.
                Verdict::Superseded => is_known &= !state.unsettled.remove(&key),
                Verdict::IndexMissing(_) => drop(state.unsettled.remove(&key)),
                // Not applied, and another shape of it comes.
                Verdict::Rejected(_) => {}
                Verdict::Retry(_) => state.unsettled.add(key, before, packed.next().flatten()),
                Verdict::Blocked(_) => state.unsettled.add(key, before, None),
            }
        }
        self.feed.append(&mut state, changes);
        if !is_known || state.unsettled.has_forgotten() {
            self.feed.0.log.restart();
        }
        drop(state);
        self.settled = true;
    }

    /// No answer came: some of it may have been applied. All of it, or something newer, will be tried again.
    pub(in crate::opensearch) async fn fail(mut self, writes: &[Write], before: Vec<Before>) {
        if self.told.is_empty() {
            self.settled = true;
            return self.feed.note_dark();
        }
        let sent: Vec<Write> = self
            .told
            .iter()
            .filter_map(|position| writes.get(*position).cloned())
            .collect();
        let keys: Vec<Key> = sent
            .iter()
            .map(|write| (write.index.clone(), Arc::clone(&write.id)))
            .collect();
        let packed = self.packing.pack(sent).await;
        let mut state = self.feed.0.lock();
        for ((key, before), sent) in keys.into_iter().zip(before).zip(packed) {
            state.unsettled.add(key, before, sent);
        }
        if state.unsettled.has_forgotten() {
            self.feed.0.log.restart();
        }
        drop(state);
        self.settled = true;
    }

    /// Nothing was sent.
    pub(in crate::opensearch) fn cancel(mut self) {
        self.settled = true;
    }

    pub(in crate::opensearch) fn packing(&self) -> &Arc<Packing> {
        &self.packing
    }
}

fn is_uncertain(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Retry(_))
}
