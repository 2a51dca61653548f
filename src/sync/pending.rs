//! What waits to be written: the newest change per document, bounded in bytes, at most one write of a document in flight.

use std::{collections::VecDeque, mem, sync::Arc};

use ahash::AHashMap;

use crate::{
    bulk::{Write, encoded_len},
    model::{IndexName, Version},
    planted::{Bug, planted},
};

/// A document: its alias and its id.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The alias of the document's cluster.
    pub index: IndexName,
    /// The document's id.
    pub id: Arc<str>,
}

impl Key {
    /// The document that a write changes.
    pub fn of(write: &Write) -> Self {
        Self { index: write.index.clone(), id: Arc::clone(&write.id) }
    }
}

/// A write and its ticket: whatever the submitter wants back when the write is settled.
#[derive(Clone, Debug)]
pub struct Operation<T> {
    /// The change.
    pub write: Write,
    /// The submitter's.
    pub ticket: T,
}

/// When a batch is full.
#[derive(Clone, Copy, Debug)]
pub struct BatchLimits {
    /// At most this many writes.
    pub count: usize,
    /// At most this many bytes, unless one write alone is larger.
    pub bytes: usize,
}

enum Slot<T> {
    Queued(Operation<T>),
    InFlight { bytes: usize, newer: Option<Operation<T>> },
}

/// The pending changes of one store.
///
/// Guarantees: a write replaces an older one of the same document and never a newer one; two writes of one document are
/// never in flight together; every ticket comes back exactly once, from `push` or through the operations of a batch.
pub struct Pending<T> {
    slots: AHashMap<Key, Slot<T>>,
    queue: VecDeque<Key>,
    bytes: usize,
    queued_bytes: usize,
}

impl<T> Default for Pending<T> {
    fn default() -> Self {
        Self { slots: AHashMap::new(), queue: VecDeque::new(), bytes: 0, queued_bytes: 0 }
    }
}

impl<T> Pending<T> {
    /// Adds a change. Gives back the operation that is not going to be sent: an older pending one of the same document,
    /// or the given one itself when a newer one is pending.
    pub fn push(&mut self, operation: Operation<T>) -> Option<Operation<T>> {
        let size = encoded_len(&operation.write);
        let key = Key::of(&operation.write);
        match self.slots.get_mut(&key) {
            None => {
                self.slots.insert(key.clone(), Slot::Queued(operation));
                self.queue.push_back(key);
                self.bytes += size;
                self.queued_bytes += size;
                None
            }
            Some(Slot::Queued(queued)) => {
                if is_newer(queued.write.version, operation.write.version) {
                    return Some(operation);
                }
                let replaced = mem::replace(queued, operation);
                let replaced_size = encoded_len(&replaced.write);
                self.bytes = self.bytes + size - replaced_size;
                self.queued_bytes = self.queued_bytes + size - replaced_size;
                Some(replaced)
            }
            Some(Slot::InFlight { newer, .. }) => {
                if newer.as_ref().is_some_and(|newer| is_newer(newer.write.version, operation.write.version)) {
                    return Some(operation);
                }
                let replaced = newer.replace(operation);
                self.bytes = self.bytes + size - replaced.as_ref().map_or(0, |replaced| encoded_len(&replaced.write));
                replaced
            }
        }
    }

    /// Takes the oldest changes, up to the limits, and marks them as in flight.
    pub fn take(&mut self, limits: BatchLimits) -> Vec<Operation<T>> {
        let mut batch = Vec::new();
        let mut batch_bytes = 0;
        while let Some(key) = self.queue.front() {
            let Some(Slot::Queued(next)) = self.slots.get(key) else {
                self.queue.pop_front();
                continue;
            };
            let size = encoded_len(&next.write);
            if batch.len() == limits.count || (!batch.is_empty() && batch_bytes + size > limits.bytes) {
                break;
            }
            let Some(key) = self.queue.pop_front() else { break };
            if let Some(Slot::Queued(operation)) = self.slots.insert(key, Slot::InFlight { bytes: size, newer: None }) {
                batch.push(operation);
            }
            batch_bytes += size;
            self.queued_bytes -= size;
        }
        batch
    }

    /// An operation in flight has ended for good.
    pub fn settle(&mut self, key: &Key) {
        let Some(Slot::InFlight { bytes, newer }) = self.slots.remove(key) else { return };
        self.bytes -= bytes;
        if let Some(newer) = newer {
            self.bytes -= encoded_len(&newer.write);
            self.push(newer);
        }
    }

    /// An operation in flight has to be sent again. Gives it back when a newer change has come meanwhile, which is sent instead.
    pub fn retry(&mut self, operation: Operation<T>) -> Option<Operation<T>> {
        let key = Key::of(&operation.write);
        self.settle(&key);
        if let Some(Slot::Queued(newer)) = self.slots.get(&key)
            && newer.write.version >= operation.write.version
        {
            return Some(operation);
        }
        self.push(operation)
    }

    /// Bytes of all changes, in flight or not.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes that can be taken.
    pub fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// Documents with a change, in flight or not.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether nothing is pending.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Changes that can be taken.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// The version pending for a document, for tests and diagnostics.
    pub fn version(&self, key: &Key) -> Option<Version> {
        match self.slots.get(key)? {
            Slot::Queued(operation) => Some(operation.write.version),
            Slot::InFlight { newer, .. } => newer.as_ref().map(|newer| newer.write.version),
        }
    }
}

fn is_newer(left: Version, right: Version) -> bool {
    if planted(Bug::CompareVersionsAsText) {
        return left.to_string() > right.to_string();
    }
    left > right
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;
    use crate::model::{IndexPrefix, JsonLine};

    fn operation(id: u8, version: u64, ticket: usize) -> Operation<usize> {
        Operation {
            write: Write {
                index: IndexPrefix::default().all(),
                id: format!("id{id}").into(),
                version: version.to_string().parse().unwrap(),
                body: Some(JsonLine::new(vec![b'x'; usize::from(id) * 10])),
            },
            ticket,
        }
    }

    const LIMITS: BatchLimits = BatchLimits { count: 3, bytes: 1000 };

    #[test]
    fn the_newest_change_of_a_document_wins_and_an_older_one_comes_back() {
        let mut pending = Pending::default();
        assert!(pending.push(operation(1, 5, 0)).is_none());
        assert_eq!(pending.push(operation(1, 7, 1)).unwrap().ticket, 0);
        assert_eq!(pending.push(operation(1, 6, 2)).unwrap().ticket, 2);
        let batch = pending.take(LIMITS);
        assert_eq!(batch.len(), 1);
        assert_eq!(batch[0].write.version.get(), 7);
    }

    #[test]
    fn a_change_of_a_document_in_flight_waits() {
        let mut pending = Pending::default();
        pending.push(operation(1, 5, 0));
        let batch = pending.take(LIMITS);
        pending.push(operation(1, 6, 1));
        assert!(pending.take(LIMITS).is_empty());
        pending.settle(&Key::of(&batch[0].write));
        assert_eq!(pending.take(LIMITS)[0].ticket, 1);
    }

    #[test]
    fn a_retry_gives_way_to_a_newer_change() {
        let mut pending = Pending::default();
        pending.push(operation(1, 5, 0));
        let mut batch = pending.take(LIMITS);
        pending.push(operation(1, 6, 1));
        assert_eq!(pending.retry(batch.remove(0)).unwrap().ticket, 0);
        assert_eq!(pending.take(LIMITS)[0].ticket, 1);
    }

    #[derive(Debug, Clone)]
    enum Step {
        Push(u8, u64),
        Take,
        Settle,
        Retry,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0_u8..6, 1_u64..20).prop_map(|(id, version)| Step::Push(id, version)),
            2 => Just(Step::Take),
            2 => Just(Step::Settle),
            1 => Just(Step::Retry),
        ]
    }

    proptest! {
        #[test]
        fn the_store_ends_with_the_newest_version_and_every_ticket_comes_back_once(steps in prop::collection::vec(step(), 0..200)) {
            let mut pending = Pending::default();
            let mut flying: Vec<Operation<usize>> = Vec::new();
            let mut stored: BTreeMap<Arc<str>, u64> = BTreeMap::new();
            let mut newest: BTreeMap<Arc<str>, u64> = BTreeMap::new();
            let mut back = BTreeSet::new();
            let mut tickets = 0;
            let mut steps = steps;
            // Drain at the end, in whatever state the steps left.
            steps.extend(std::iter::repeat_n([Step::Take, Step::Settle, Step::Settle, Step::Settle], 300).flatten());
            for step in steps {
                let returned = match step {
                    Step::Push(id, version) => {
                        let operation = operation(id, version, tickets);
                        tickets += 1;
                        let best = newest.entry(Arc::clone(&operation.write.id)).or_default();
                        *best = version.max(*best);
                        pending.push(operation)
                    }
                    Step::Take => {
                        for operation in pending.take(LIMITS) {
                            prop_assert!(flying.iter().all(|other| other.write.id != operation.write.id));
                            flying.push(operation);
                        }
                        None
                    }
                    Step::Settle => {
                        if flying.is_empty() { continue }
                        let operation = flying.remove(0);
                        pending.settle(&Key::of(&operation.write));
                        let version = stored.entry(Arc::clone(&operation.write.id)).or_default();
                        *version = operation.write.version.get().max(*version);
                        Some(operation)
                    }
                    Step::Retry => {
                        if flying.is_empty() { continue }
                        let operation = flying.remove(0);
                        pending.retry(operation)
                    }
                };
                if let Some(operation) = returned {
                    prop_assert!(back.insert(operation.ticket), "ticket {} came back twice", operation.ticket);
                }
            }
            prop_assert!(pending.is_empty());
            prop_assert_eq!(pending.bytes(), 0);
            prop_assert_eq!(pending.queued_bytes(), 0);
            prop_assert_eq!(back.len(), tickets);
            prop_assert_eq!(stored, newest);
        }
    }
}
