//! Collects references.

use indexmap::IndexMap;

use super::reference::{ObjectReference, Referrer};

/// How many references of one object are found.
pub const MAX_REFERENCES: usize = 1000;

/// The references found so far, each object once, by their terms.
pub(super) struct Found<'r> {
    referrer: &'r Referrer<'r>,
    by_term: IndexMap<String, ObjectReference, ahash::RandomState>,
}

impl<'r> Found<'r> {
    /// None so far. An object does not refer to itself.
    pub(super) fn of(referrer: &'r Referrer<'r>) -> Self {
        Self {
            referrer,
            by_term: IndexMap::default(),
        }
    }

    /// Adds a reference, unless its object is there or there are too many.
    pub(super) fn add(&mut self, reference: Option<ObjectReference>) {
        let Some(reference) = reference else {
            return;
        };
        if !self.is_full() && !self.referrer.is_object_of(&reference) {
            self.by_term.entry(reference.term()).or_insert(reference);
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.by_term.len() == MAX_REFERENCES
    }

    pub(super) fn references(self) -> Vec<ObjectReference> {
        self.by_term.into_values().collect()
    }

    pub(super) fn terms(self) -> Vec<String> {
        self.by_term.into_keys().collect()
    }
}
