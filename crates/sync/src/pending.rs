//! What waits to be written: the newest change per document, bounded in bytes, at most one write of a document in flight.

use std::{collections::VecDeque, mem, sync::Arc};

use ahash::{AHashMap, AHashSet};
use fleetdex_core::{
    model::{IndexName, NameHash, Version},
    planted::{Bug, planted},
};
use fleetdex_store::bulk::{Write, encoded_len};

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
        Self {
            index: write.index.clone(),
            id: Arc::clone(&write.id),
        }
    }
}

/// A write and its ticket: whatever the submitter wants back when the write is settled.
#[derive(Clone, Debug)]
pub struct Operation<T> {
    /// The change.
    pub write: Write,
    /// The name of the object, where it is known.
    pub name: Option<NameHash>,
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

/// The changes of one document.
struct Slot<T> {
    /// The name that it has to wait for, or that others wait for because of it.
    name: Option<Name>,
    state: State<T>,
}

enum State<T> {
    /// Another document has its name, and comes first.
    Waiting(Operation<T>),
    Queued(Operation<T>),
    InFlight {
        bytes: usize,
        newer: Option<Operation<T>>,
    },
}

/// Documents that wait for one name. A member that shows more objects of one name than an API server can have must not fill the room of all with what
/// is written one by one: they are not kept in order.
const MAX_WAITING: usize = 8;

/// A name, and the alias of the cluster.
type Name = (IndexName, NameHash);

/// The pending changes of one store.
///
/// Guarantees: a write replaces an older one of the same document and never a newer one; two writes of one document are
/// never in flight together, nor are writes of two documents whose objects have one name, up to `MAX_WAITING`: the one that came first is
/// settled before the other is sent. Every ticket comes back exactly once, from `push` or through the operations of a batch.
pub struct Pending<T> {
    slots: AHashMap<Key, Slot<T>>,
    queue: VecDeque<Key>,
    /// Names of documents that are queued or in flight.
    taken: AHashSet<Name>,
    /// Documents that wait for their names, in the order in which they came.
    waiting: AHashMap<Name, VecDeque<Key>>,
    bytes: usize,
    queued_bytes: usize,
}

impl<T> Default for Pending<T> {
    fn default() -> Self {
        Self {
            slots: AHashMap::new(),
            queue: VecDeque::new(),
            taken: AHashSet::new(),
            waiting: AHashMap::new(),
            bytes: 0,
            queued_bytes: 0,
        }
    }
}

impl<T> Pending<T> {
    /// Adds a change. Gives back the operation that is not going to be sent: an older pending one of the same document,
    /// or the given one itself when a newer one is pending.
    pub fn push(&mut self, operation: Operation<T>) -> Option<Operation<T>> {
        let size = encoded_len(&operation.write);
        let key = Key::of(&operation.write);
        let Some(slot) = self.slots.get_mut(&key) else {
            self.add(key, operation);
            return None;
        };
        if slot.name.is_none() {
            let name = operation.name.map(|name| (key.index.clone(), name));
            slot.name = name.filter(|name| self.taken.insert(name.clone()));
        }
        let is_older =
            |pending: &Operation<T>| is_newer(pending.write.version, operation.write.version);
        let replaced = match &mut slot.state {
            State::Waiting(pending)
            | State::Queued(pending)
            | State::InFlight {
                newer: Some(pending),
                ..
            } if is_older(pending) => {
                return Some(operation);
            }
            State::Waiting(pending) => Some(mem::replace(pending, operation)),
            State::Queued(pending) => {
                self.queued_bytes = self.queued_bytes + size - encoded_len(&pending.write);
                Some(mem::replace(pending, operation))
            }
            State::InFlight { newer, .. } => newer.replace(operation),
        };
        self.bytes = self.bytes + size
            - replaced
                .as_ref()
                .map_or(0, |replaced| encoded_len(&replaced.write));
        replaced
    }

    /// Adds the first change of a document.
    fn add(&mut self, key: Key, operation: Operation<T>) {
        self.bytes += encoded_len(&operation.write);
        let name = operation
            .name
            .filter(|_| !planted(Bug::IgnoreNames))
            .map(|name| (key.index.clone(), name));
        let Some(name) = name else {
            return self.enqueue(key, None, operation);
        };
        if self.taken.insert(name.clone()) {
            return self.enqueue(key, Some(name), operation);
        }
        let waiting = self.waiting.entry(name.clone()).or_default();
        if waiting.len() == MAX_WAITING {
            return self.enqueue(key, None, operation);
        }
        waiting.push_back(key.clone());
        self.slots.insert(
            key,
            Slot {
                name: Some(name),
                state: State::Waiting(operation),
            },
        );
    }

    fn enqueue(&mut self, key: Key, name: Option<Name>, operation: Operation<T>) {
        self.queued_bytes += encoded_len(&operation.write);
        self.queue.push_back(key.clone());
        self.slots.insert(
            key,
            Slot {
                name,
                state: State::Queued(operation),
            },
        );
    }

    /// Nothing more is to be written of the document that had a name.
    fn release(&mut self, name: Name) {
        while let Some(key) = self.waiting.get_mut(&name).and_then(VecDeque::pop_front) {
            if let Some(Slot {
                state: State::Waiting(operation),
                ..
            }) = self.slots.remove(&key)
            {
                return self.enqueue(key, Some(name), operation);
            }
        }
        self.waiting.remove(&name);
        self.taken.remove(&name);
    }

    /// Takes the oldest changes, up to the limits, and marks them as in flight.
    pub fn take(&mut self, limits: BatchLimits) -> Vec<Operation<T>> {
        let mut batch = Vec::new();
        let mut batch_bytes = 0;
        while let Some(key) = self.queue.front() {
            let Some(slot) = self.slots.get_mut(key) else {
                self.queue.pop_front();
                continue;
            };
            let State::Queued(next) = &slot.state else {
                self.queue.pop_front();
                continue;
            };
            let size = encoded_len(&next.write);
            if batch.len() == limits.count
                || (!batch.is_empty() && batch_bytes + size > limits.bytes)
            {
                break;
            }
            if let State::Queued(operation) = mem::replace(
                &mut slot.state,
                State::InFlight {
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

    /// An operation in flight has ended for good.
    pub fn settle(&mut self, key: &Key) {
        let Some(Slot {
            name,
            state: State::InFlight { bytes, newer },
        }) = self.slots.remove(key)
        else {
            return;
        };
        self.bytes -= bytes;
        match (newer, name) {
            // It keeps its name, as its changes came before those that wait for that.
            (Some(newer), name) => self.enqueue(key.clone(), name, newer),
            (None, Some(name)) => self.release(name),
            (None, None) => {}
        }
    }

    /// An operation in flight has to be sent again. Gives it back when a newer change has come meanwhile, which is sent instead.
    pub fn retry(&mut self, operation: Operation<T>) -> Option<Operation<T>> {
        let key = Key::of(&operation.write);
        let Some(Slot {
            name,
            state: State::InFlight { bytes, newer },
        }) = self.slots.remove(&key)
        else {
            return self.push(operation);
        };
        self.bytes -= bytes;
        let (next, given_back) = match newer {
            Some(newer) if newer.write.version >= operation.write.version => {
                (newer, Some(operation))
            }
            older => {
                self.bytes -= older.as_ref().map_or(0, |older| encoded_len(&older.write));
                self.bytes += encoded_len(&operation.write);
                (operation, older)
            }
        };
        self.enqueue(key, name, next);
        given_back
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
        match &self.slots.get(key)?.state {
            State::Waiting(operation) | State::Queued(operation) => Some(operation.write.version),
            State::InFlight { newer, .. } => newer.as_ref().map(|newer| newer.write.version),
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

    use fleetdex_core::model::{IndexPrefix, JsonLine};
    use proptest::prelude::*;

    use super::*;

    /// Documents 2 and 3 have one name, and 4 and 5.
    fn operation(id: u8, version: u64, ticket: usize) -> Operation<usize> {
        Operation {
            name: (id > 1).then(|| NameHash::new("v1/Pod/", "web", &format!("{}", id / 2))),
            write: Write {
                index: IndexPrefix::default().all(),
                id: format!("id{id}").into(),
                version: version.to_string().parse().unwrap(),
                body: Some(JsonLine::new(vec![b'x'; usize::from(id) * 10])),
            },
            ticket,
        }
    }

    const LIMITS: BatchLimits = BatchLimits {
        count: 3,
        bytes: 1000,
    };

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

    #[test]
    fn an_object_is_written_when_the_deletion_of_its_namesake_is_settled() {
        let mut pending = Pending::default();
        for (id, version) in [(2, 5), (3, 7), (1, 8), (2, 6)] {
            pending.push(operation(id, version, usize::from(id)));
        }
        let ids = |batch: &[Operation<usize>]| {
            batch
                .iter()
                .map(|operation| operation.write.id.to_string())
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
        pending.settle(&Key::of(&batch[0].write));
        let batch = pending.take(LIMITS);
        assert_eq!(
            (ids(&batch), batch[0].write.version.get()),
            (vec!["id2".to_owned()], 9)
        );
        pending.settle(&Key::of(&batch[0].write));
        assert_eq!(ids(&pending.take(LIMITS)), ["id3"]);
    }

    #[test]
    fn objects_of_one_name_do_not_fill_the_room_of_all() {
        let mut pending = Pending::default();
        let name = operation(2, 1, 0).name;
        for id in 20..120 {
            pending.push(Operation {
                name,
                ..operation(id, 1, usize::from(id))
            });
        }
        let all = BatchLimits {
            count: 1_000,
            bytes: 1 << 20,
        };
        assert_eq!(pending.take(all).len(), 100 - MAX_WAITING);
        // A change without a name takes part from the first one on that has it.
        let (unnamed, named) = (
            Operation {
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
                            prop_assert!(operation.name.is_none() || flying.iter().all(|other| other.name != operation.name));
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
            prop_assert!(pending.taken.is_empty() && pending.waiting.is_empty());
            prop_assert_eq!(back.len(), tickets);
            prop_assert_eq!(stored, newest);
        }
    }
}
