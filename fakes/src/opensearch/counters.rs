//! Counters of requests, writes and faults.

use std::collections::BTreeMap;

use super::{bulk_lines::Action, faults::FaultKind, index::Written};

/// Counters since the creation of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Received requests, whatever their outcome.
    pub requests: u64,
    /// `_bulk` requests that were applied.
    pub bulks: u64,
    /// `_search` requests that were handled.
    pub searches: u64,
    /// `POST /_aliases` requests that were applied.
    pub alias_changes: u64,
    /// Documents stored, new or replaced.
    pub indexed: u64,
    /// Documents deleted.
    pub deleted: u64,
    /// Deletes of missing documents.
    pub absent: u64,
    /// Items rejected because of a newer version.
    pub superseded: u64,
    /// Items rejected for another reason.
    pub refused: u64,
    /// Documents stored although a newer delete existed, whose tombstone had expired.
    pub resurrected: u64,
    /// Documents stored and deleted, by index; indices that were only read are absent.
    pub written_to: BTreeMap<String, u64>,
    /// Faults that took effect; others are absent.
    pub faults: BTreeMap<FaultKind, u64>,
}

impl Counters {
    /// Returns the number of effective writes: documents stored and deleted.
    pub fn written(&self) -> u64 {
        self.indexed + self.deleted
    }

    /// Returns how often a fault took effect.
    pub fn struck(&self, kind: FaultKind) -> u64 {
        self.faults.get(&kind).copied().unwrap_or(0)
    }

    pub(super) fn note_struck(&mut self, kind: FaultKind) {
        *self.faults.entry(kind).or_default() += 1;
    }

    pub(super) fn note_written(&mut self, index: &str, action: Action, written: &Written) {
        match (action, written.existed) {
            (Action::Delete, true) => self.deleted += 1,
            (Action::Delete, false) => self.absent += 1,
            (Action::Index | Action::Create, _) => self.indexed += 1,
        }
        if action != Action::Delete || written.existed {
            *self.written_to.entry(index.to_owned()).or_default() += 1;
        }
        self.resurrected += u64::from(written.resurrected && action != Action::Delete);
    }

    pub(super) fn note_refused(&mut self, status: u16) {
        if status == 409 {
            self.superseded += 1;
        } else {
            self.refused += 1;
        }
    }
}
