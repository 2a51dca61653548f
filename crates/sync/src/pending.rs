//! Queues the newest write of each document, with at most one write of a document in flight.

use std::{collections::VecDeque, mem, sync::Arc};

use ahash::{AHashMap, AHashSet};
use fleetdex_core::{
    model::{IndexName, NameHash, Version},
    planted::{Bug, planted},
};
use fleetdex_store::bulk::{Write, encoded_len};

/// Names a document.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PendingKey {
    /// The write alias of its cluster.
    pub index: IndexName,
    /// Its id.
    pub id: Arc<str>,
}

impl PendingKey {
    /// The document that a write changes.
    pub fn of(write: &Write) -> Self {
        Self {
            index: write.index.clone(),
            id: Arc::clone(&write.document.id),
        }
    }
}

/// A write and its ticket, which the submitter gets back when the write ends.
#[derive(Clone, Debug)]
pub struct PendingWrite<T> {
    /// The change.
    pub write: Write,
    /// The hash of the object's name, where it is known.
    pub name: Option<NameHash>,
    /// The ticket of the submitter.
    pub ticket: T,
}

/// When a batch is full.
#[derive(Clone, Copy, Debug)]
pub struct BatchLimits {
    /// At most this many writes.
    pub count: usize,
    /// At most this many bytes, unless a single write is larger.
    pub bytes: usize,
}

/// The writes of one document.
struct PendingDocument<T> {
    /// The name that the document waits for, or that it holds while others wait.
    name: Option<Name>,
    state: WriteState<T>,
}

enum WriteState<T> {
    /// Another document holds its name and is written first.
    Waiting(PendingWrite<T>),
    Queued(PendingWrite<T>),
    InFlight {
        bytes: usize,
        newer: Option<PendingWrite<T>>,
    },
}

/// The most documents that wait for one name. A member that shows more objects of one name than an
/// API server can have must not fill the queue with writes that go out one by one: beyond this they
/// are not ordered.
const MAX_WAITING: usize = 8;

/// The name of an object, and the alias of its cluster.
type Name = (IndexName, NameHash);

/// The pending writes of one store.
///
/// Guarantees:
/// - a write replaces an older write of the same document, never a newer one;
/// - two writes of one document are never in flight together;
/// - neither are writes of two documents whose objects have one name, up to `MAX_WAITING`: the
///   first one completes before the other is sent;
/// - every ticket comes back exactly once, from `push`, `retry` or the operations of a batch.
pub struct Pending<T> {
    documents: AHashMap<PendingKey, PendingDocument<T>>,
    queue: VecDeque<PendingKey>,
    /// Names of documents that are queued or in flight.
    names_in_use: AHashSet<Name>,
    /// Documents that wait for their names, in the order of arrival.
    waiting: AHashMap<Name, VecDeque<PendingKey>>,
    bytes: usize,
    queued_bytes: usize,
}

impl<T> Default for Pending<T> {
    fn default() -> Self {
        Self {
            documents: AHashMap::new(),
            queue: VecDeque::new(),
            names_in_use: AHashSet::new(),
            waiting: AHashMap::new(),
            bytes: 0,
            queued_bytes: 0,
        }
    }
}

impl<T> Pending<T> {
    /// Adds a write. Returns the operation that will not be sent: an older pending one of the same
    /// document, or the given one when a newer one is pending.
    pub fn push(&mut self, operation: PendingWrite<T>) -> Option<PendingWrite<T>> {
        let size = encoded_len(&operation.write);
        let key = PendingKey::of(&operation.write);
        let Some(document) = self.documents.get_mut(&key) else {
            self.add(key, operation);
            return None;
        };
        if document.name.is_none() {
            let name = operation.name.map(|name| (key.index.clone(), name));
            document.name = name.filter(|name| self.names_in_use.insert(name.clone()));
        }
        let is_older = |pending: &PendingWrite<T>| {
            is_newer(
                pending.write.document.version,
                operation.write.document.version,
            )
        };
        let replaced = match &mut document.state {
            WriteState::Waiting(pending)
            | WriteState::Queued(pending)
            | WriteState::InFlight {
                newer: Some(pending),
                ..
            } if is_older(pending) => {
                return Some(operation);
            }
            WriteState::Waiting(pending) => Some(mem::replace(pending, operation)),
            WriteState::Queued(pending) => {
                self.queued_bytes = self.queued_bytes + size - encoded_len(&pending.write);
                Some(mem::replace(pending, operation))
            }
            WriteState::InFlight { newer, .. } => newer.replace(operation),
        };
        self.bytes = self.bytes + size
            - replaced
                .as_ref()
                .map_or(0, |replaced| encoded_len(&replaced.write));
        replaced
    }

    /// Adds the first write of a document.
    fn add(&mut self, key: PendingKey, operation: PendingWrite<T>) {
        self.bytes += encoded_len(&operation.write);
        let name = operation
            .name
            .filter(|_| !planted(Bug::IgnoreNames))
            .map(|name| (key.index.clone(), name));
        let Some(name) = name else {
            return self.enqueue(key, None, operation);
        };
        if self.names_in_use.insert(name.clone()) {
            return self.enqueue(key, Some(name), operation);
        }
        let waiting = self.waiting.entry(name.clone()).or_default();
        if waiting.len() == MAX_WAITING {
            return self.enqueue(key, None, operation);
        }
        waiting.push_back(key.clone());
        self.documents.insert(
            key,
            PendingDocument {
                name: Some(name),
                state: WriteState::Waiting(operation),
            },
        );
    }

    fn enqueue(&mut self, key: PendingKey, name: Option<Name>, operation: PendingWrite<T>) {
        self.queued_bytes += encoded_len(&operation.write);
        self.queue.push_back(key.clone());
        self.documents.insert(
            key,
            PendingDocument {
                name,
                state: WriteState::Queued(operation),
            },
        );
    }

    /// Passes a name on to the next document that waits for it.
    fn release(&mut self, name: Name) {
        while let Some(key) = self.waiting.get_mut(&name).and_then(VecDeque::pop_front) {
            if let Some(PendingDocument {
                state: WriteState::Waiting(operation),
                ..
            }) = self.documents.remove(&key)
            {
                return self.enqueue(key, Some(name), operation);
            }
        }
        self.waiting.remove(&name);
        self.names_in_use.remove(&name);
    }

    /// Takes the oldest writes up to the limits, which are in flight then.
    pub fn take(&mut self, limits: BatchLimits) -> Vec<PendingWrite<T>> {
        let mut batch = Vec::new();
        let mut batch_bytes = 0;
        while let Some(key) = self.queue.front() {
            let Some(document) = self.documents.get_mut(key) else {
                self.queue.pop_front();
                continue;
            };
            let WriteState::Queued(next) = &document.state else {
                self.queue.pop_front();
                continue;
            };
            let size = encoded_len(&next.write);
            if batch.len() == limits.count
                || (!batch.is_empty() && batch_bytes + size > limits.bytes)
            {
                break;
            }
            if let WriteState::Queued(operation) = mem::replace(
                &mut document.state,
                WriteState::InFlight {
                    bytes: size,
                    newer: None,
                },
            ) {
                batch.push(operation);
            }
            self.queue.pop_front();
            batch_bytes += size;
            self.queued_bytes -= size;
        }
        batch
    }

    /// Ends an operation in flight.
    pub fn complete(&mut self, key: &PendingKey) {
        let Some(PendingDocument {
            name,
            state: WriteState::InFlight { bytes, newer },
        }) = self.documents.remove(key)
        else {
            return;
        };
        self.bytes -= bytes;
        match (newer, name) {
            // It keeps the name, because its write was pushed before those that wait for the name.
            (Some(newer), name) => self.enqueue(key.clone(), name, newer),
            (None, Some(name)) => self.release(name),
            (None, None) => {}
        }
    }

    /// Queues an operation in flight again. Returns it if a newer write of the document is sent
    /// instead.
    pub fn retry(&mut self, operation: PendingWrite<T>) -> Option<PendingWrite<T>> {
        let key = PendingKey::of(&operation.write);
        let Some(PendingDocument {
            name,
            state: WriteState::InFlight { bytes, newer },
        }) = self.documents.remove(&key)
        else {
            return self.push(operation);
        };
        self.bytes -= bytes;
        let (next, superseded) = match newer {
            Some(newer) if newer.write.document.version >= operation.write.document.version => {
                (newer, Some(operation))
            }
            older => {
                self.bytes -= older.as_ref().map_or(0, |older| encoded_len(&older.write));
                self.bytes += encoded_len(&operation.write);
                (operation, older)
            }
        };
        self.enqueue(key, name, next);
        superseded
    }

    /// Bytes of all writes, queued or in flight.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of the writes that can be taken.
    pub fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// The number of documents with a write, queued or in flight.
    pub fn len(&self) -> usize {
        self.documents.len()
    }

    /// Whether nothing is pending.
    pub fn is_empty(&self) -> bool {
        self.documents.is_empty()
    }

    /// The number of writes that can be taken.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// The version that is queued for a document, for tests and diagnostics.
    pub fn version(&self, key: &PendingKey) -> Option<Version> {
        match &self.documents.get(key)?.state {
            WriteState::Waiting(operation) | WriteState::Queued(operation) => {
                Some(operation.write.document.version)
            }
            WriteState::InFlight { newer, .. } => {
                newer.as_ref().map(|newer| newer.write.document.version)
            }
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

    use fleetdex_core::model::{Document, IndexPrefix, JsonLine};
    use proptest::prelude::*;

    use super::*;

    /// Documents 2 and 3 have the same name; so do 4 and 5.
    fn operation(id: u8, version: u64, ticket: usize) -> PendingWrite<usize> {
        PendingWrite {
            name: (id > 1).then(|| NameHash::new("v1/Pod/", "web", &format!("{}", id / 2))),
            write: Write {
                index: IndexPrefix::default().all(),
                document: Document {
                    id: format!("id{id}").into(),
                    version: version.to_string().parse().unwrap(),
                    body: Some(JsonLine::new(vec![b'x'; usize::from(id) * 10])),
                    is_partial: false,
                },
            },
            ticket,
        }
    }

    const LIMITS: BatchLimits = BatchLimits {
        count: 3,
        bytes: 1000,
    };

    #[test]
    fn the_newest_write_of_a_document_replaces_an_older_one() {
        let mut pending = Pending::default();
        assert!(pending.push(operation(1, 5, 0)).is_none());
        assert_eq!(pending.push(operation(1, 7, 1)).unwrap().ticket, 0);
        assert_eq!(pending.push(operation(1, 6, 2)).unwrap().ticket, 2);
        let batch = pending.take(LIMITS);
        assert_eq!(batch.len(), 1);
        assert_eq!(batch[0].write.document.version.get(), 7);
    }

    #[test]
    fn a_write_of_a_document_in_flight_waits() {
        let mut pending = Pending::default();
        pending.push(operation(1, 5, 0));
        let batch = pending.take(LIMITS);
        pending.push(operation(1, 6, 1));
        assert!(pending.take(LIMITS).is_empty());
        pending.complete(&PendingKey::of(&batch[0].write));
        assert_eq!(pending.take(LIMITS)[0].ticket, 1);
    }

    #[test]
    fn a_newer_write_replaces_a_retry() {
        let mut pending = Pending::default();
        pending.push(operation(1, 5, 0));
        let mut batch = pending.take(LIMITS);
        pending.push(operation(1, 6, 1));
        assert_eq!(pending.retry(batch.remove(0)).unwrap().ticket, 0);
        assert_eq!(pending.take(LIMITS)[0].ticket, 1);
    }

    #[test]
    fn an_object_is_written_after_the_deletion_of_its_namesake_completes() {
        let mut pending = Pending::default();
        for (id, version) in [(2, 5), (3, 7), (1, 8), (2, 6)] {
            pending.push(operation(id, version, usize::from(id)));
        }
        let ids = |batch: &[PendingWrite<usize>]| {
            batch
                .iter()
                .map(|operation| operation.write.document.id.to_string())
                .collect::<Vec<_>>()
        };
        let mut batch = pending.take(LIMITS);
        assert_eq!(ids(&batch), ["id2", "id1"]);
        assert!(pending.retry(batch.remove(0)).is_none());
        assert_eq!(
            pending.queued_bytes(),
            encoded_len(&operation(2, 6, 0).write)
        );
        let batch = pending.take(LIMITS);
        assert_eq!(ids(&batch), ["id2"]);
        pending.push(operation(2, 9, 4));
        pending.complete(&PendingKey::of(&batch[0].write));
        let batch = pending.take(LIMITS);
        assert_eq!(
            (ids(&batch), batch[0].write.document.version.get()),
            (vec!["id2".to_owned()], 9)
        );
        pending.complete(&PendingKey::of(&batch[0].write));
        assert_eq!(ids(&pending.take(LIMITS)), ["id3"]);
    }

    #[test]
    fn objects_of_one_name_do_not_fill_the_queue() {
        let mut pending = Pending::default();
        let name = operation(2, 1, 0).name;
        for id in 20..120 {
            pending.push(PendingWrite {
                name,
                ..operation(id, 1, usize::from(id))
            });
        }
        let all = BatchLimits {
            count: 1_000,
            bytes: 1 << 20,
        };
        assert_eq!(pending.take(all).len(), 100 - MAX_WAITING);
        // A write without a name is ordered from the first write with a name on.
        let (unnamed, named) = (
            PendingWrite {
                name: None,
                ..operation(6, 1, 0)
            },
            operation(6, 2, 0),
        );
        pending.push(unnamed);
        pending.push(named);
        pending.push(operation(7, 3, 0));
        assert_eq!(pending.take(all).len(), 1);
    }

    #[derive(Debug, Clone)]
    enum PendingStep {
        Push(u8, u64),
        Take,
        Settle,
        Retry,
    }

    fn step() -> impl Strategy<Value = PendingStep> {
        prop_oneof![
            4 => (0_u8..6, 1_u64..20).prop_map(|(id, version)| PendingStep::Push(id, version)),
            2 => Just(PendingStep::Take),
            2 => Just(PendingStep::Settle),
            1 => Just(PendingStep::Retry),
        ]
    }

    proptest! {
        #[test]
        fn the_store_ends_with_the_newest_version_and_every_ticket_comes_back_once(steps in prop::collection::vec(step(), 0..200)) {
            let mut pending = Pending::default();
            let mut in_flight: Vec<PendingWrite<usize>> = Vec::new();
            let mut stored: BTreeMap<Arc<str>, u64> = BTreeMap::new();
            let mut newest: BTreeMap<Arc<str>, u64> = BTreeMap::new();
            let mut back = BTreeSet::new();
            let mut tickets = 0;
            let mut steps = steps;
            // Drain at the end.
            steps.extend(std::iter::repeat_n([PendingStep::Take, PendingStep::Settle, PendingStep::Settle, PendingStep::Settle], 300).flatten());
            for step in steps {
                let returned = match step {
                    PendingStep::Push(id, version) => {
                        let operation = operation(id, version, tickets);
                        tickets += 1;
                        let best = newest.entry(Arc::clone(&operation.write.document.id)).or_default();
                        *best = version.max(*best);
                        pending.push(operation)
                    }
                    PendingStep::Take => {
                        for operation in pending.take(LIMITS) {
                            prop_assert!(in_flight.iter().all(|other| other.write.document.id != operation.write.document.id));
                            prop_assert!(operation.name.is_none() || in_flight.iter().all(|other| other.name != operation.name));
                            in_flight.push(operation);
                        }
                        None
                    }
                    PendingStep::Settle => {
                        if in_flight.is_empty() { continue }
                        let operation = in_flight.remove(0);
                        pending.complete(&PendingKey::of(&operation.write));
                        let version = stored.entry(Arc::clone(&operation.write.document.id)).or_default();
                        *version = operation.write.document.version.get().max(*version);
                        Some(operation)
                    }
                    PendingStep::Retry => {
                        if in_flight.is_empty() { continue }
                        let operation = in_flight.remove(0);
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
            prop_assert!(pending.names_in_use.is_empty() && pending.waiting.is_empty());
            prop_assert_eq!(back.len(), tickets);
            prop_assert_eq!(stored, newest);
        }
    }
}
