//! Collects references.

use std::collections::HashSet;

use super::reference::{ObjectReference, Referrer};

/// How many references of one object are found.
pub const MAX_REFERENCES: usize = 1000;

/// The references found so far, each object once.
pub(super) struct Found {
    references: Vec<ObjectReference>,
    terms: HashSet<String>,
}

impl Found {
    /// None so far. An object does not refer to itself.
    pub(super) fn of(referrer: &Referrer<'_>) -> Self {
        Self {
            references: Vec::new(),
            terms: HashSet::from([referrer.term()]),
        }
    }

    /// Adds a reference, unless its object is there or there are too many.
    pub(super) fn add(&mut self, reference: Option<ObjectReference>) {
        let Some(reference) = reference else {
            return;
        };
        if !self.is_full() && self.terms.insert(reference.term()) {
            self.references.push(reference);
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.references.len() == MAX_REFERENCES
    }

    pub(super) fn references(self) -> Vec<ObjectReference> {
        self.references
    }
}
