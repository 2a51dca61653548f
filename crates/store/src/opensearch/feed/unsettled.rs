//! Objects with writes of unknown outcome: a request without an answer may have been applied, and lists may show that.

use std::{collections::HashMap, sync::Arc};

use fleetdex_core::model::IndexName;

use crate::{changes::Change, document::Document};

/// Bytes that are remembered: as much as the log may keep, and twice what waits in a pipeline. More comes about where objects change again and again
/// while OpenSearch does not answer.
const BYTES: usize = 16 << 20;
/// About what an object takes beside its documents.
const OBJECT_BYTES: usize = 256;

/// An object: the write alias of its generation, and its id.
pub(super) type Key = (IndexName, Arc<str>);

/// What is read of an object before it is written.
#[derive(Clone, Debug)]
pub(in crate::opensearch) enum Before {
    /// What was stored, if anything was.
    Known(Option<Arc<Document>>),
    /// It was too much to be read.
    Unknown,
}

/// What may be stored of objects until a write of them is acknowledged.
#[derive(Debug, Default)]
pub(super) struct Unsettled {
    objects: HashMap<Key, States>,
    bytes: usize,
}

/// What may be stored of one object.
#[derive(Debug)]
struct States {
    /// What was read before the first of the writes.
    before: Before,
    /// What the writes would have stored.
    sent: Vec<Arc<Document>>,
}

impl States {
    fn bytes(&self) -> usize {
        let before = match &self.before {
            Before::Known(document) => document.as_ref(),
            Before::Unknown => None,
        };
        OBJECT_BYTES
            + before
                .into_iter()
                .chain(&self.sent)
                .map(|document| document.footprint())
                .sum::<usize>()
    }
}

impl Unsettled {
    /// A write has no outcome. `before` was read before it, `sent` is what it stores; nothing if it deletes, or is certain not to be applied.
    pub(super) fn add(&mut self, key: Key, before: Before, sent: Option<Arc<Document>>) {
        let bytes = &mut self.bytes;
        let states = self.objects.entry(key).or_insert_with(|| {
            let states = States {
                before,
                sent: Vec::new(),
            };
            *bytes += states.bytes();
            states
        });
        // Mostly the same write is tried again.
        if let Some(sent) =
            sent.filter(|sent| !states.sent.last().is_some_and(|last| is_same(last, sent)))
        {
            *bytes += sent.footprint();
            states.sent.push(sent);
        }
    }

    /// A write is acknowledged. `before` was read before it, `after` is what it has stored. The changes that follow from that; nothing if not all are
    /// known.
    ///
    /// Whoever lists may have seen any of the states before, so each of them is replaced: who has seen one that is selected, where the others
    /// are not, must hear of it. Changes from one of the states to the next would show objects as they were before the list.
    pub(super) fn settle(
        &mut self,
        key: &Key,
        before: Before,
        after: Option<&Arc<Document>>,
    ) -> Option<Vec<Change>> {
        let states = self.take(key).unwrap_or_else(|| States {
            before: before.clone(),
            sent: Vec::new(),
        });
        let Before::Known(first) = states.before else {
            return None;
        };
        let read = match before {
            Before::Known(document) => document,
            Before::Unknown => None,
        };
        let mut replaced = vec![first];
        for seen in states.sent.into_iter().chain(read) {
            let is_known = |known: &Option<Arc<Document>>| {
                known.as_ref().is_some_and(|known| is_same(known, &seen))
            };
            if !is_known(&after.cloned()) && !replaced.iter().any(is_known) {
                replaced.push(Some(seen));
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

    /// Whether there was anything of an object, which is forgotten.
    pub(super) fn remove(&mut self, key: &Key) -> bool {
        self.take(key).is_some()
    }

    fn take(&mut self, key: &Key) -> Option<States> {
        let states = self.objects.remove(key)?;
        self.bytes = self.bytes.saturating_sub(states.bytes());
        Some(states)
    }

    /// Forgets what was written to a generation; whether there was anything.
    pub(super) fn forget(&mut self, target: &IndexName) -> bool {
        let of_target: Vec<Key> = self
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

    /// Forgets everything if that is too much; whether it was.
    pub(super) fn has_forgotten(&mut self) -> bool {
        let is_too_much = self.bytes > BYTES;
        if is_too_much {
            *self = Self::default();
        }
        is_too_much
    }
}

fn is_same(one: &Document, other: &Document) -> bool {
    one.equals(other.version, other.fingerprint)
}

#[cfg(test)]
mod tests {
    use fleetdex_core::model::{Gvk, IndexPrefix, Resource};
    use serde_json::json;

    use super::*;
    use crate::changes::fake;

    /// Versions 1 to 7 of one pod, which are the same whenever they are named.
    fn pods() -> [Arc<Document>; 7] {
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

    fn key() -> Key {
        (target("a"), "v1/Pod/a".into())
    }

    fn target(cluster: &str) -> IndexName {
        IndexPrefix::default().write_alias(&cluster.parse().unwrap(), 1)
    }

    /// Versions before and after each change.
    fn settle(
        unsettled: &mut Unsettled,
        before: Option<Arc<Document>>,
        after: Option<&Arc<Document>>,
    ) -> Vec<(Option<u64>, Option<u64>)> {
        let version = |document: Option<Arc<Document>>| {
            document.map(|document| document.version.to_string().parse().unwrap())
        };
        let changes = unsettled
            .settle(&key(), Before::Known(before), after)
            .unwrap();
        changes
            .into_iter()
            .map(|change| (version(change.before), version(change.after)))
            .collect()
    }

    #[test]
    fn an_object_that_was_created_without_an_answer_and_listed_is_deleted_for_those_who_watch() {
        let [one, ..] = pods();
        for has_been_read in [true, false] {
            let mut unsettled = Unsettled::default();
            unsettled.add(key(), Before::Known(None), Some(Arc::clone(&one)));
            let before = has_been_read.then(|| Arc::clone(&one));
            assert_eq!(settle(&mut unsettled, before, None), [(Some(1), None)]);
            assert!(unsettled.is_empty() && unsettled.bytes == 0);
        }
    }

    #[test]
    fn whatever_may_have_been_seen_is_replaced_once() {
        let [one, two, three, four, _, six, _] = pods().map(Some);
        let bytes = [&one, &two, &four]
            .map(|document| document.as_ref().unwrap().footprint())
            .iter()
            .sum::<usize>();
        let mut unsettled = Unsettled::default();
        unsettled.add(key(), Before::Known(one), two.clone());
        unsettled.add(key(), Before::Known(two.clone()), two.clone());
        unsettled.add(key(), Before::Known(two), four);
        assert_eq!(unsettled.bytes, OBJECT_BYTES + bytes);
        let changes = settle(&mut unsettled, three, six.as_ref());
        assert_eq!(changes, [1, 2, 4, 3].map(|before| (Some(before), Some(6))));
    }

    #[test]
    fn a_write_that_is_acknowledged_when_it_is_tried_again_is_told_as_it_was_meant() {
        let [one, two, ..] = pods().map(Some);
        let mut unsettled = Unsettled::default();
        unsettled.add(key(), Before::Known(None), one.clone());
        assert_eq!(
            settle(&mut unsettled, one.clone(), one.as_ref()),
            [(None, Some(1))]
        );
        assert_eq!(
            settle(&mut unsettled, one, two.as_ref()),
            [(Some(1), Some(2))]
        );
        assert_eq!(settle(&mut unsettled, None, None), []);
    }

    #[test]
    fn where_it_is_not_known_what_was_stored_the_log_begins_anew() {
        let [one, two, ..] = pods().map(Some);
        let mut unsettled = Unsettled::default();
        assert!(
            unsettled
                .settle(&key(), Before::Unknown, one.as_ref())
                .is_none()
        );
        unsettled.add(key(), Before::Unknown, one.clone());
        assert!(
            unsettled
                .settle(&key(), Before::Known(one.clone()), two.as_ref())
                .is_none()
        );
        unsettled.add(key(), Before::Known(None), one);
        assert_eq!(
            unsettled
                .settle(&key(), Before::Unknown, two.as_ref())
                .unwrap()
                .len(),
            2
        );
    }

    #[test]
    fn what_was_written_to_a_generation_is_forgotten_with_it() {
        let [one, ..] = pods().map(Some);
        let mut unsettled = Unsettled::default();
        unsettled.add(key(), Before::Known(None), one);
        assert!(unsettled.has_any_of(&key().0) && !unsettled.forget(&target("b")));
        assert!(unsettled.forget(&key().0) && unsettled.is_empty() && unsettled.bytes == 0);
    }
}
