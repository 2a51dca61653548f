//! Postings: the positions of the documents that have each term.

use ahash::AHashMap;
use roaring::RoaringBitmap;

use super::terms::TermTable;

/// Positions of documents. Most terms have a single one.
#[derive(Clone, Copy)]
enum Positions {
    One(u32),
    /// The number of a set.
    Many(u32),
}

/// Sets of positions, by number: half the size of pointers, in maps most of whose entries have
/// none.
#[derive(Default)]
struct Sets {
    sets: Vec<RoaringBitmap>,
    /// Free numbers.
    free: Vec<u32>,
}

impl Sets {
    fn insert(&mut self, positions: &mut Positions, position: u32) {
        match *positions {
            Positions::One(only) if only == position => {}
            Positions::One(only) => *positions = Positions::Many(self.add([only, position].into())),
            Positions::Many(number) => {
                self.sets[number as usize].insert(position);
            }
        }
    }

    fn add(&mut self, set: RoaringBitmap) -> u32 {
        if let Some(number) = self.free.pop() {
            self.sets[number as usize] = set;
            return number;
        }
        self.sets.push(set);
        // There are fewer sets than terms, whose numbers have the same size.
        u32::try_from(self.sets.len() - 1).unwrap_or(u32::MAX)
    }

    /// Removes a position; whether none is left.
    fn remove(&mut self, positions: Positions, position: u32) -> bool {
        let number = match positions {
            Positions::One(only) => return only == position,
            Positions::Many(number) => number,
        };
        let set = &mut self.sets[number as usize];
        set.remove(position);
        if !set.is_empty() {
            return false;
        }
        *set = RoaringBitmap::new();
        self.free.push(number);
        true
    }

    fn add_to(&self, positions: Positions, all: &mut RoaringBitmap) {
        match positions {
            Positions::One(only) => {
                all.insert(only);
            }
            Positions::Many(number) => *all |= &self.sets[number as usize],
        }
    }
}

/// The positions of the documents that have a term.
pub(super) struct PositionSet<'p> {
    sets: &'p Sets,
    positions: Positions,
}

impl PositionSet<'_> {
    /// Adds them to others.
    pub(super) fn add_to(&self, all: &mut RoaringBitmap) {
        self.sets.add_to(self.positions, all);
    }

    /// How many of them are among others.
    pub(super) fn count_in(&self, others: &RoaringBitmap) -> u64 {
        match self.positions {
            Positions::One(only) => u64::from(others.contains(only)),
            Positions::Many(number) => self.sets.sets[number as usize].intersection_len(others),
        }
    }
}

/// The positions of a table's documents, by the keys and the numbers of their terms.
#[derive(Default)]
pub(super) struct Postings {
    by_key: AHashMap<Box<str>, AHashMap<u32, Positions>>,
    sets: Sets,
}

impl Postings {
    /// Adds the terms of the document at a position.
    pub(super) fn add(
        &mut self,
        vocabulary: &TermTable,
        numbers: impl Iterator<Item = u32>,
        position: u32,
    ) {
        for number in numbers {
            let Some(term) = vocabulary.term(number) else {
                continue;
            };
            if !self.by_key.contains_key(term.key()) {
                self.by_key.insert(term.key().into(), AHashMap::new());
            }
            let Some(terms) = self.by_key.get_mut(term.key()) else {
                continue;
            };
            self.sets.insert(
                terms.entry(number).or_insert(Positions::One(position)),
                position,
            );
        }
    }

    /// Removes the terms of the document at a position.
    pub(super) fn remove(
        &mut self,
        vocabulary: &TermTable,
        numbers: impl Iterator<Item = u32>,
        position: u32,
    ) {
        for number in numbers {
            let Some(term) = vocabulary.term(number) else {
                continue;
            };
            let Some(terms) = self.by_key.get_mut(term.key()) else {
                continue;
            };
            if terms
                .get(&number)
                .is_some_and(|positions| self.sets.remove(*positions, position))
            {
                terms.remove(&number);
            }
            if terms.is_empty() {
                self.by_key.remove(term.key());
            }
        }
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.by_key.keys().map(|key| &**key)
    }

    /// Hands over the values of a key, each with the positions of its documents.
    pub(super) fn for_each_value(
        &self,
        vocabulary: &TermTable,
        key: &str,
        mut each: impl FnMut(&str, &PositionSet<'_>),
    ) {
        for (number, positions) in self.by_key.get(key).into_iter().flatten() {
            if let Some(term) = vocabulary.term(*number) {
                let positions = PositionSet {
                    sets: &self.sets,
                    positions: *positions,
                };
                each(term.value(), &positions);
            }
        }
    }

    /// Hands over what is known of some terms of a key, each with the positions of its documents.
    pub(super) fn for_each_of<K>(
        &self,
        key: &str,
        known: &AHashMap<u32, K>,
        mut each: impl FnMut(&K, &PositionSet<'_>),
    ) {
        let Some(terms) = self.by_key.get(key) else {
            return;
        };
        let mut hand_over = |known: &K, positions: Positions| {
            let sets = &self.sets;
            each(known, &PositionSet { sets, positions });
        };
        // As many steps as the smaller one has terms.
        if terms.len() < known.len() {
            for (number, positions) in terms {
                if let Some(known) = known.get(number) {
                    hand_over(known, *positions);
                }
            }
        } else {
            for (number, known) in known {
                if let Some(positions) = terms.get(number) {
                    hand_over(known, *positions);
                }
            }
        }
    }

    /// The positions of documents that have one of some values.
    pub(super) fn with_value<'v>(
        &self,
        vocabulary: &TermTable,
        key: &str,
        values: impl Iterator<Item = &'v str>,
    ) -> RoaringBitmap {
        let mut found = RoaringBitmap::new();
        let Some(terms) = self.by_key.get(key) else {
            return found;
        };
        let numbers = values.filter_map(|value| vocabulary.number(key, value));
        numbers
            .filter_map(|number| terms.get(&number))
            .for_each(|positions| self.sets.add_to(*positions, &mut found));
        found
    }

    /// The positions of documents with a value that satisfies a test.
    pub(super) fn with_value_that(
        &self,
        vocabulary: &TermTable,
        key: &str,
        holds: impl Fn(&str) -> bool,
    ) -> RoaringBitmap {
        let mut found = RoaringBitmap::new();
        self.for_each_value(vocabulary, key, |value, positions| {
            if holds(value) {
                positions.add_to(&mut found);
            }
        });
        found
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::terms::TermDictionary;

    #[test]
    fn terms_without_documents_are_released() {
        let vocabulary = Arc::new(TermDictionary::default());
        let mut postings = Postings::default();
        let web = [("label app", "web")];
        let first = vocabulary.intern(web.into_iter()).take();
        let again = vocabulary.intern(web.into_iter()).take();
        assert_eq!(first, again);
        postings.add(&vocabulary.read(), first.iter().copied(), 1);
        postings.add(&vocabulary.read(), first.iter().copied(), 2);
        let of = |postings: &Postings| {
            let values = ["web", "db"].into_iter();
            postings
                .with_value(&vocabulary.read(), "label app", values)
                .iter()
                .collect::<Vec<_>>()
        };
        assert_eq!(of(&postings), [1, 2]);
        postings.remove(&vocabulary.read(), first.iter().copied(), 1);
        vocabulary.release(first.iter().copied());
        assert_eq!(of(&postings), [2]);
        postings.remove(&vocabulary.read(), first.iter().copied(), 2);
        vocabulary.release(first.iter().copied());
        assert!(postings.by_key.is_empty() && vocabulary.read().is_empty());
        let other = vocabulary.intern([("label app", "db")].into_iter());
        assert_eq!(
            other.numbers().collect::<Vec<_>>(),
            first,
            "a free number is used again"
        );
        drop(other);
        assert!(vocabulary.read().is_empty(), "no document has taken it");
    }
}
