//! The log of changes that queries can see, bounded, and those who follow it.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

use super::{codec::Unpacker, contents::Change, document::Document, filter::Filter, hit};
use crate::{
    model::ClusterName,
    query::{Hit, Query, QueryError, ResourceName},
    store::StoreError,
};

/// Changes that the log holds.
const CHANGES: usize = 65_536;
/// Bytes of the documents in them. Most are stored anyhow; those that have been replaced are kept by the log alone.
const BYTES: usize = 32 << 20;
/// Changes that are looked at in one go: a fraction of a millisecond, a few when all of them are wanted.
const LOOK: usize = 256;

/// The log does not hold what is asked for: it is too long ago, or of another process. Whoever follows has to list again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the changes after {after} are not known any more; list again, and watch from there")]
pub struct TooOld {
    /// The sequence number that was to be continued.
    pub after: u64,
}

/// A watch cannot begin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WatchError {
    /// It cannot continue where it should.
    #[error(transparent)]
    TooOld(#[from] TooOld),
    /// Its query cannot be answered.
    #[error(transparent)]
    Query(#[from] QueryError),
}

/// What became of an object, as a watch with a selector sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// It is new, or selected only now.
    Added,
    /// It is selected as before.
    Modified,
    /// It is gone, or not selected any more; the object is as it was last.
    Deleted,
}

/// One event of a watch.
#[derive(Clone, Debug)]
pub struct Event {
    /// Grows by one with every change of any object.
    pub sequence: u64,
    /// What happened.
    pub kind: EventKind,
    /// The object.
    pub object: Hit,
}

/// Changes that were made in one step.
struct Batch {
    /// Sequence number of the first.
    first: u64,
    changes: Vec<Change>,
    bytes: usize,
}

impl Batch {
    fn last(&self) -> u64 {
        self.first + self.changes.len() as u64 - 1
    }
}

#[derive(Default)]
struct Held {
    batches: VecDeque<Arc<Batch>>,
    changes: usize,
    bytes: usize,
}

/// The newest changes, each with its number.
pub(super) struct Log {
    held: Mutex<Held>,
    /// Number of the last change.
    newest: watch::Sender<u64>,
}

impl Log {
    /// Nothing has changed yet, after this number.
    pub(super) fn new(sequence: u64) -> Self {
        Self { held: Mutex::default(), newest: watch::Sender::new(sequence) }
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of the last change.
    pub(super) fn sequence(&self) -> u64 {
        *self.newest.borrow()
    }

    /// Adds changes, in their order, and wakes who follows.
    pub(super) fn append(&self, changes: &[Change]) {
        if changes.is_empty() {
            return;
        }
        let bytes = changes
            .iter()
            .filter_map(|change| change.after.as_ref().or(change.before.as_ref()))
            .map(|document| document.footprint())
            .sum();
        let mut held = self.lock();
        let batch = Batch { first: self.sequence() + 1, changes: changes.to_vec(), bytes };
        let last = batch.last();
        held.changes += batch.changes.len();
        held.bytes += batch.bytes;
        held.batches.push_back(Arc::new(batch));
        while held.batches.len() > 1 && (held.changes > CHANGES || held.bytes > BYTES) {
            if let Some(oldest) = held.batches.pop_front() {
                held.changes -= oldest.changes.len();
                held.bytes -= oldest.bytes;
            }
        }
        // Within the lock: the number of a change that is not in the log yet would be too new.
        self.newest.send_replace(last);
    }

    /// The batch with the change after this one; nothing if that has not come yet.
    fn after(&self, after: u64) -> Result<Option<Arc<Batch>>, TooOld> {
        let held = self.lock();
        let newest = self.sequence();
        if after == newest {
            return Ok(None);
        }
        let next = held.batches.partition_point(|batch| batch.last() <= after);
        match held.batches.get(next).filter(|batch| after < newest && batch.first <= after + 1) {
            Some(batch) => Ok(Some(Arc::clone(batch))),
            None => Err(TooOld { after }),
        }
    }
}

/// Follows the changes of what a query selects.
pub struct Watch {
    log: Arc<Log>,
    newest: watch::Receiver<u64>,
    after: u64,
    resource: ResourceName,
    clusters: Vec<ClusterName>,
    filter: Filter,
}

impl Watch {
    pub(super) fn new(log: Arc<Log>, query: &Query, after: u64) -> Result<Self, WatchError> {
        let filter = Filter::new(query)?;
        log.after(after)?;
        let newest = log.newest.subscribe();
        Ok(Self { log, newest, after, resource: query.resource.clone(), clusters: query.clusters.clone(), filter })
    }

    /// Number of the last change that has been looked at, selected or not: from there another watch can go on.
    pub fn sequence(&self) -> u64 {
        self.after
    }

    /// The next events; waits for them. May be dropped and called again without loss.
    pub async fn next(&mut self) -> Result<Vec<Event>, StoreError> {
        loop {
            self.newest.mark_unchanged();
            match self.log.after(self.after) {
                Err(_) => return Err(StoreError::Expired),
                Ok(Some(batch)) => {
                    let events = self.events(&batch)?;
                    if !events.is_empty() {
                        return Ok(events);
                    }
                }
                // The sender lives in the log, which is held here.
                Ok(None) => drop(self.newest.changed().await),
            }
        }
    }

    /// The events of some changes of a batch, which count as looked at.
    fn events(&mut self, batch: &Batch) -> Result<Vec<Event>, StoreError> {
        let skipped = usize::try_from(self.after + 1 - batch.first).unwrap_or(usize::MAX);
        let mut unpacker = Unpacker::new();
        let mut events = Vec::new();
        let mut sequence = self.after;
        for change in batch.changes.iter().skip(skipped).take(LOOK) {
            sequence += 1;
            let before = change.before.as_ref().filter(|document| self.selects(document));
            let after = change.after.as_ref().filter(|document| self.selects(document));
            let (kind, document) = match (before, after) {
                (None, None) => continue,
                (None, Some(new)) => (EventKind::Added, new),
                (Some(_), Some(new)) => (EventKind::Modified, new),
                (Some(old), None) => (EventKind::Deleted, change.after.as_ref().unwrap_or(old)),
            };
            events.push(Event { sequence, kind, object: hit(document, &mut unpacker)? });
        }
        self.after = sequence;
        Ok(events)
    }

    fn selects(&self, document: &Document) -> bool {
        let origin = &document.origin;
        let of_cluster = self.clusters.is_empty() || self.clusters.contains(&origin.cluster);
        of_cluster && origin.resource == self.resource && self.filter.matches(document)
    }
}
