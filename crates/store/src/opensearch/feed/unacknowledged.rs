//! Objects with unacknowledged writes: a request without a response may have been applied, and
//! lists may show that.

use std::{collections::HashMap, sync::Arc};

use fleetdex_core::model::IndexName;

use crate::{changes::Change, document::StoredDocument};

/// Memory limit, equal to that of the log and twice the pipeline's queue; exceeded only if objects
/// keep changing while OpenSearch does not respond.
const MAX_BYTES: usize = 16 << 20;
/// About what an object takes besides its documents.
const OBJECT_BYTES: usize = 256;

/// A document: the write alias of its revision, and its id.
pub(super) type IndexedId = (IndexName, Arc<str>);

/// The state of an object before a write.
#[derive(Clone, Debug)]
pub(crate) enum PreviousState {
    /// The stored document, if there was one.
    Known(Option<Arc<StoredDocument>>),
    /// It was too large to be read.
    Unknown,
}

/// The states that objects may have until a write of them is acknowledged.
#[derive(Debug, Default)]
pub(super) struct UnacknowledgedWrites {
    objects: HashMap<IndexedId, PossibleStates>,
    bytes: usize,
}

/// The states that one object may have.
#[derive(Debug)]
struct PossibleStates {
    /// The state before the first of the writes.
    before: PreviousState,
    /// What the writes would have stored.
    sent: Vec<Arc<StoredDocument>>,
}

impl PossibleStates {
    fn bytes(&self) -> usize {
        let before = match &self.before {
            PreviousState::Known(document) => document.as_ref(),
            PreviousState::Unknown => None,
        };
        OBJECT_BYTES
            + before
                .into_iter()
                .chain(&self.sent)
                .map(|document| document.footprint())
                .sum::<usize>()
    }
}

impl UnacknowledgedWrites {
    /// Adds a write without an outcome. `before` was read before it, `sent` is what it stores;
    /// `None` if it deletes, or is certainly not applied.
    pub(super) fn add(
        &mut self,
        key: IndexedId,
        before: PreviousState,
        sent: Option<Arc<StoredDocument>>,
    ) {
        let bytes = &mut self.bytes;
        let states = self.objects.entry(key).or_insert_with(|| {
            let states = PossibleStates {
                before,
                sent: Vec::new(),
            };
            *bytes += states.bytes();
            states
        });
        // Usually the same write is sent again.
        if let Some(sent) =
            sent.filter(|sent| !states.sent.last().is_some_and(|last| is_same(last, sent)))
        {
            *bytes += sent.footprint();
            states.sent.push(sent);
        }
    }

    /// Removes an object whose write is acknowledged. `before` was read before the write, `after`
    /// is what it stored. Returns the changes that follow, or `None` if not all of them are known.
    ///
    /// A list may have shown any of the possible states, so each of them is replaced: a client that
    /// saw a selected one must get a change even where the others are not selected. Changes from
    /// one state to the next would show objects as they were before the list.
    pub(super) fn acknowledge(
        &mut self,
        key: &IndexedId,
        before: PreviousState,
        after: Option<&Arc<StoredDocument>>,
    ) -> Option<Vec<Change>> {
        let states = self.take(key).unwrap_or_else(|| PossibleStates {
            before: before.clone(),
            sent: Vec::new(),
        });
        let PreviousState::Known(first) = states.before else {
            return None;
        };
        let read = match before {
            PreviousState::Known(document) => document,
            PreviousState::Unknown => None,
        };
        let mut replaced = vec![first];
        for state in states.sent.into_iter().chain(read) {
            let is_known = |known: &Option<Arc<StoredDocument>>| {
                known.as_ref().is_some_and(|known| is_same(known, &state))
            };
            if !is_known(&after.cloned()) && !replaced.iter().any(is_known) {
                replaced.push(Some(state));
            }
        }
        let changes = replaced.into_iter().map(|before| Change {
            before,
            after: after.cloned(),
        });
        Some(
            changes
                .filter(|change| change.before.is_some() || change.after.is_some())
                .collect(),
        )
    }

    /// Removes an object; whether it was there.
    pub(super) fn remove(&mut self, key: &IndexedId) -> bool {
        self.take(key).is_some()
    }

    fn take(&mut self, key: &IndexedId) -> Option<PossibleStates> {
        let states = self.objects.remove(key)?;
        self.bytes = self.bytes.saturating_sub(states.bytes());
        Some(states)
    }

    /// Removes the objects of an index; whether there were any.
    pub(super) fn forget_index(&mut self, target: &IndexName) -> bool {
        let of_target: Vec<IndexedId> = self
            .objects
            .keys()
            .filter(|(of, _)| of == target)
            .cloned()
            .collect();
        for key in &of_target {
            self.take(key);
        }
        !of_target.is_empty()
    }

    pub(super) fn has_any_of(&self, target: &IndexName) -> bool {
        self.objects.keys().any(|(of, _)| of == target)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Clears everything if it takes too much; whether it did.
    pub(super) fn clear_if_too_large(&mut self) -> bool {
        let is_too_much = self.bytes > MAX_BYTES;
        if is_too_much {
            *self = Self::default();
        }
        is_too_much
    }
}

fn is_same(one: &StoredDocument, other: &StoredDocument) -> bool {
    one.equals(other.version, other.fingerprint)
}

#[cfg(test)]
mod tests {
    use fleetdex_core::model::{Gvk, IndexPrefix, Resource};
    use serde_json::json;

    use super::*;
    use crate::changes::fake;

    /// Versions 1 to 7 of one pod, the same ones each time.
    fn pods() -> [Arc<StoredDocument>; 7] {
        let resource = Resource {
            gvk: Gvk::new("", "v1", "Pod"),
            plural: "pods".into(),
            namespaced: true,
        };
        std::array::from_fn(|version| {
            let metadata = json!({ "name": "a", "namespace": "web", "uid": "a", "resourceVersion": (version + 1).to_string() });
            fake::document(&resource, &json!({ "metadata": metadata }))
        })
    }

    fn key() -> IndexedId {
        (target("a"), "v1/Pod/a".into())
    }

    fn target(cluster: &str) -> IndexName {
        IndexPrefix::default().write_alias(&cluster.parse().unwrap(), 1)
    }

    /// Versions before and after each change.
    fn acknowledge(
        unacknowledged: &mut UnacknowledgedWrites,
        before: Option<Arc<StoredDocument>>,
        after: Option<&Arc<StoredDocument>>,
    ) -> Vec<(Option<u64>, Option<u64>)> {
        let version = |document: Option<Arc<StoredDocument>>| {
            document.map(|document| document.version.to_string().parse().unwrap())
        };
        let changes = unacknowledged
            .acknowledge(&key(), PreviousState::Known(before), after)
            .unwrap();
        changes
            .into_iter()
            .map(|change| (version(change.before), version(change.after)))
            .collect()
    }

    #[test]
    fn watches_get_the_deletion_of_an_object_whose_creation_was_never_acknowledged() {
        let [one, ..] = pods();
        for has_been_read in [true, false] {
            let mut unacknowledged = UnacknowledgedWrites::default();
            unacknowledged.add(key(), PreviousState::Known(None), Some(Arc::clone(&one)));
            let before = has_been_read.then(|| Arc::clone(&one));
            assert_eq!(
                acknowledge(&mut unacknowledged, before, None),
                [(Some(1), None)]
            );
            assert!(unacknowledged.is_empty() && unacknowledged.bytes == 0);
        }
    }

    #[test]
    fn every_possible_state_is_replaced_once() {
        let [one, two, three, four, _, six, _] = pods().map(Some);
        let bytes = [&one, &two, &four]
            .map(|document| document.as_ref().unwrap().footprint())
            .iter()
            .sum::<usize>();
        let mut unacknowledged = UnacknowledgedWrites::default();
        unacknowledged.add(key(), PreviousState::Known(one), two.clone());
        unacknowledged.add(key(), PreviousState::Known(two.clone()), two.clone());
        unacknowledged.add(key(), PreviousState::Known(two), four);
        assert_eq!(unacknowledged.bytes, OBJECT_BYTES + bytes);
        let changes = acknowledge(&mut unacknowledged, three, six.as_ref());
        assert_eq!(changes, [1, 2, 4, 3].map(|before| (Some(before), Some(6))));
    }

    #[test]
    fn a_write_that_is_acknowledged_on_retry_is_recorded_as_sent() {
        let [one, two, ..] = pods().map(Some);
        let mut unacknowledged = UnacknowledgedWrites::default();
        unacknowledged.add(key(), PreviousState::Known(None), one.clone());
        assert_eq!(
            acknowledge(&mut unacknowledged, one.clone(), one.as_ref()),
            [(None, Some(1))]
        );
        assert_eq!(
            acknowledge(&mut unacknowledged, one, two.as_ref()),
            [(Some(1), Some(2))]
        );
        assert_eq!(acknowledge(&mut unacknowledged, None, None), []);
    }

    #[test]
    fn changes_are_unknown_where_the_previous_state_is_unknown() {
        let [one, two, ..] = pods().map(Some);
        let mut unacknowledged = UnacknowledgedWrites::default();
        assert!(
            unacknowledged
                .acknowledge(&key(), PreviousState::Unknown, one.as_ref())
                .is_none()
        );
        unacknowledged.add(key(), PreviousState::Unknown, one.clone());
        assert!(
            unacknowledged
                .acknowledge(&key(), PreviousState::Known(one.clone()), two.as_ref())
                .is_none()
        );
        unacknowledged.add(key(), PreviousState::Known(None), one);
        assert_eq!(
            unacknowledged
                .acknowledge(&key(), PreviousState::Unknown, two.as_ref())
                .unwrap()
                .len(),
            2
        );
    }

    #[test]
    fn unacknowledged_writes_are_removed_with_their_index() {
        let [one, ..] = pods().map(Some);
        let mut unacknowledged = UnacknowledgedWrites::default();
        unacknowledged.add(key(), PreviousState::Known(None), one);
        assert!(unacknowledged.has_any_of(&key().0) && !unacknowledged.forget_index(&target("b")));
        assert!(
            unacknowledged.forget_index(&key().0)
                && unacknowledged.is_empty()
                && unacknowledged.bytes == 0
        );
    }
}
