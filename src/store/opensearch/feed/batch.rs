//! Writes on their way, and what becomes of them for those who watch.

use std::sync::Arc;

use super::{Feed, UNSETTLED};
use crate::{
    bulk::{Verdict, Write},
    store::{
        changes::{Change, Flight},
        document::Document,
        opensearch::packing::Packing,
    },
};

/// Writes under way.
pub(in crate::store::opensearch) struct Batch {
    pub(super) feed: Feed,
    /// Positions of those whose outcome is to be told.
    pub(in crate::store::opensearch) told: Vec<usize>,
    pub(super) packing: Arc<Packing>,
    pub(super) settled: bool,
    pub(super) _flight: Flight,
}

/// What is read of an object before it is written.
#[derive(Debug)]
pub(in crate::store::opensearch) enum Before {
    /// What was stored, if anything was.
    Known(Option<Arc<Document>>),
    /// It was too much to be read.
    Unknown,
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
    pub(in crate::store::opensearch) async fn settle(mut self, writes: &[Write], verdicts: &[Verdict], before: Vec<Before>) {
        if self.told.is_empty() {
            self.settled = true;
            if verdicts.iter().any(is_uncertain) {
                self.feed.note_dark();
            }
            return;
        }
        let indexed = |position: &usize| matches!(verdicts.get(*position), Some(Verdict::Indexed));
        let written: Vec<Write> =
            self.told.iter().filter(|position| indexed(position)).map(|position| writes[*position].clone()).collect();
        let mut packed = self.packing.pack(written).await.into_iter();
        let mut changes = Vec::new();
        let mut is_known = true;
        let mut state = self.feed.0.lock();
        for (position, before) in self.told.iter().zip(before) {
            let Some((write, verdict)) = writes.get(*position).zip(verdicts.get(*position)) else { continue };
            let key = (write.index.clone(), Arc::clone(&write.id));
            match verdict {
                Verdict::Indexed | Verdict::Deleted | Verdict::Absent => {
                    let after = if *verdict == Verdict::Indexed { packed.next().flatten() } else { None };
                    match state.unsettled.remove(&key).unwrap_or(before) {
                        Before::Known(before) => changes.push((key.0, Change { before, after })),
                        Before::Unknown => is_known = false,
                    }
                }
                Verdict::Superseded | Verdict::IndexMissing(_) => drop(state.unsettled.remove(&key)),
                // Not applied, and another shape of it comes.
                Verdict::Rejected(_) => {}
                Verdict::Retry(_) | Verdict::Blocked(_) => drop(state.unsettled.entry(key).or_insert(before)),
            }
        }
        changes.retain(|(_, change)| change.before.is_some() || change.after.is_some());
        self.feed.append(&mut state, changes);
        if !is_known {
            self.feed.0.log.restart();
        }
        drop(state);
        self.settled = true;
    }

    /// No answer came: some of it may have been applied. All of it will be tried again.
    pub(in crate::store::opensearch) fn fail(mut self, writes: &[Write], before: Vec<Before>) {
        self.settled = true;
        if self.told.is_empty() {
            return self.feed.note_dark();
        }
        let mut state = self.feed.0.lock();
        for (position, before) in self.told.iter().zip(before) {
            let Some(write) = writes.get(*position) else { continue };
            state.unsettled.entry((write.index.clone(), Arc::clone(&write.id))).or_insert(before);
        }
        if state.unsettled.len() > UNSETTLED {
            state.unsettled.clear();
            self.feed.0.log.restart();
        }
    }

    /// Nothing was sent.
    pub(in crate::store::opensearch) fn cancel(mut self) {
        self.settled = true;
    }

    pub(in crate::store::opensearch) fn packing(&self) -> &Arc<Packing> {
        &self.packing
    }
}

fn is_uncertain(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Retry(_))
}
