//! Terms: what documents are found by, and the positions of the documents that have them.

use std::{
    borrow::{Borrow, Cow},
    hash::{Hash, Hasher},
    sync::Arc,
};

use ahash::AHashMap;
use roaring::RoaringBitmap;

/// What the keys of labels begin with, so that no label is taken for a field: no field path has a blank.
const LABEL: &str = "label ";
/// The key under which a document's namespace is found.
pub(super) const NAMESPACE: &str = "metadata.namespace";

/// The key of a label among the terms.
pub(super) fn label_key(label: &str) -> Cow<'static, str> {
    Cow::Owned(format!("{LABEL}{label}"))
}

/// A key and a value that a document has.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Term {
    /// Key and value.
    text: Box<str>,
    key_len: usize,
}

impl Term {
    fn new(key: &str, value: &str) -> Self {
        Self { text: format!("{key}{value}").into(), key_len: key.len() }
    }

    pub(super) fn key(&self) -> &str {
        &self.text[..self.key_len]
    }

    pub(super) fn value(&self) -> &str {
        &self.text[self.key_len..]
    }
}

/// A term that is looked up by its value.
struct ByValue(Arc<Term>);

impl Borrow<str> for ByValue {
    fn borrow(&self) -> &str {
        self.0.value()
    }
}

impl Hash for ByValue {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.value().hash(state);
    }
}

impl PartialEq for ByValue {
    fn eq(&self, other: &Self) -> bool {
        self.0.value() == other.0.value()
    }
}

impl Eq for ByValue {}

/// The positions of documents. Many terms have but one.
enum Positions {
    One(u32),
    Many(Box<RoaringBitmap>),
}

impl Positions {
    fn insert(&mut self, position: u32) {
        match self {
            Self::One(only) if *only == position => {}
            Self::One(only) => *self = Self::Many(Box::new(RoaringBitmap::from_iter([*only, position]))),
            Self::Many(positions) => {
                positions.insert(position);
            }
        }
    }

    /// Whether none is left.
    fn remove(&mut self, position: u32) -> bool {
        match self {
            Self::One(only) => *only == position,
            Self::Many(positions) => {
                positions.remove(position);
                positions.is_empty()
            }
        }
    }

    fn add_to(&self, all: &mut RoaringBitmap) {
        match self {
            Self::One(only) => {
                all.insert(*only);
            }
            Self::Many(positions) => *all |= &**positions,
        }
    }
}

/// Every term of a table, by key and value.
#[derive(Default)]
pub(super) struct Terms {
    by_key: AHashMap<Box<str>, AHashMap<ByValue, Positions>>,
}

impl Terms {
    /// Says that the document at a position has a term.
    pub(super) fn add(&mut self, key: &str, value: &str, position: u32) -> Arc<Term> {
        if !self.by_key.contains_key(key) {
            self.by_key.insert(key.into(), AHashMap::new());
        }
        // It has just been put there.
        let Some(values) = self.by_key.get_mut(key) else { return Arc::new(Term::new(key, value)) };
        if let Some((ByValue(term), _)) = values.get_key_value(value) {
            let term = Arc::clone(term);
            if let Some(positions) = values.get_mut(value) {
                positions.insert(position);
            }
            return term;
        }
        let term = Arc::new(Term::new(key, value));
        values.insert(ByValue(Arc::clone(&term)), Positions::One(position));
        term
    }

    /// Takes that back. What nothing has any more is forgotten.
    pub(super) fn remove(&mut self, term: &Term, position: u32) {
        let Some(values) = self.by_key.get_mut(term.key()) else { return };
        let Some(positions) = values.get_mut(term.value()) else { return };
        if positions.remove(position) {
            values.remove(term.value());
        }
        if values.is_empty() {
            self.by_key.remove(term.key());
        }
    }

    /// The positions of documents that have one of some values.
    pub(super) fn with_value<'v>(&self, key: &str, values: impl Iterator<Item = &'v str>) -> RoaringBitmap {
        let mut found = RoaringBitmap::new();
        if let Some(known) = self.by_key.get(key) {
            values.filter_map(|value| known.get(value)).for_each(|positions| positions.add_to(&mut found));
        }
        found
    }

    /// The positions of documents that have a value of which this holds.
    pub(super) fn with_value_that(&self, key: &str, holds: impl Fn(&str) -> bool) -> RoaringBitmap {
        let mut found = RoaringBitmap::new();
        for (ByValue(term), positions) in self.by_key.get(key).into_iter().flatten() {
            if holds(term.value()) {
                positions.add_to(&mut found);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_that_nothing_has_any_more_are_forgotten() {
        let mut terms = Terms::default();
        let first = terms.add("label app", "web", 1);
        let again = terms.add("label app", "web", 2);
        assert!(Arc::ptr_eq(&first, &again));
        let of = |terms: &Terms| terms.with_value("label app", ["web", "db"].into_iter()).iter().collect::<Vec<_>>();
        assert_eq!(of(&terms), [1, 2]);
        terms.remove(&first, 1);
        assert_eq!(of(&terms), [2]);
        terms.remove(&first, 2);
        assert!(terms.by_key.is_empty());
    }
}
