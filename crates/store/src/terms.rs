//! Terms: what documents are found by, and the positions of the documents that have them.

use std::{borrow::Cow, fmt, sync::Arc};

use ahash::{AHashMap, RandomState};
use hashbrown::HashTable;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use roaring::RoaringBitmap;

/// What the keys of labels begin with, so that no label is taken for a field: no field path has a blank.
const LABEL: &str = "label ";
/// The key under which a document's namespace is found.
pub(super) const NAMESPACE: &str = "metadata.namespace";

/// The key of an object's name, which is no term.
pub(super) const NAME: &str = "metadata.name";

/// The key under which an object's owners are found.
pub(super) const OWNER: &str = "owner uid";

/// The key under which fallback documents are found.
pub(super) const REJECTED: &str = "search rejected";

/// The key of a label among the terms.
pub(super) fn label_key(label: &str) -> Cow<'static, str> {
    Cow::Owned(format!("{LABEL}{label}"))
}

/// A key and a value that documents have.
pub(super) struct Term {
    /// Key and value.
    text: Box<str>,
    key_len: u32,
    /// How many documents have it.
    users: u32,
}

impl Term {
    pub(super) fn key(&self) -> &str {
        &self.text[..self.key_len as usize]
    }

    pub(super) fn value(&self) -> &str {
        &self.text[self.key_len as usize..]
    }
}

/// The terms of all documents, each with a number. A number stands for the same term as long as any document has it, stored or only kept by
/// a view or by the log.
///
/// Its lock is the innermost one: whoever holds it neither takes another one nor drops a document.
#[derive(Default)]
pub(super) struct Vocabulary {
    words: RwLock<Words>,
}

/// A vocabulary that is read.
#[derive(Default)]
pub(super) struct Words {
    terms: Vec<Term>,
    /// Numbers that nothing has.
    free: Vec<u32>,
    numbers: HashTable<u32>,
    hasher: RandomState,
}

impl fmt::Debug for Vocabulary {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Vocabulary")
    }
}

impl PartialEq for Vocabulary {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Vocabulary {}

impl Vocabulary {
    pub(super) fn read(&self) -> RwLockReadGuard<'_, Words> {
        self.words.read()
    }

    fn lock(&self) -> RwLockWriteGuard<'_, Words> {
        self.words.write()
    }

    /// The numbers of a new document's terms.
    pub(super) fn learn<'t>(
        self: &Arc<Self>,
        terms: impl Iterator<Item = (&'t str, &'t str)>,
    ) -> Learned {
        let mut words = self.lock();
        let mut numbers: Vec<u32> = terms.map(|(key, value)| words.learn(key, value)).collect();
        numbers.sort_unstable();
        Learned {
            vocabulary: Arc::clone(self),
            numbers,
        }
    }

    /// Says that a document with those terms is gone.
    pub(super) fn forget(&self, numbers: impl Iterator<Item = u32>) {
        let mut words = self.lock();
        numbers.for_each(|number| words.forget(number));
    }
}

/// Numbers of terms, in ascending order. Forgotten when dropped, unless a document has taken them: it may be superseded before it is stored.
pub(super) struct Learned {
    vocabulary: Arc<Vocabulary>,
    numbers: Vec<u32>,
}

impl Learned {
    /// In ascending order.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        self.numbers.iter().copied()
    }

    /// For a document, which has to [forget](Vocabulary::forget) them.
    pub(super) fn take(mut self) -> Vec<u32> {
        std::mem::take(&mut self.numbers)
    }
}

impl Drop for Learned {
    fn drop(&mut self) {
        if !self.numbers.is_empty() {
            self.vocabulary.forget(self.numbers.drain(..));
        }
    }
}

impl Words {
    pub(super) fn term(&self, number: u32) -> Option<&Term> {
        self.terms.get(number as usize)
    }

    /// The number of a term that a document has.
    pub(super) fn number(&self, key: &str, value: &str) -> Option<u32> {
        let is_it = |number: &u32| {
            self.term(*number)
                .is_some_and(|term| term.key() == key && term.value() == value)
        };
        self.numbers
            .find(self.hasher.hash_one((key, value)), is_it)
            .copied()
    }

    fn learn(&mut self, key: &str, value: &str) -> u32 {
        if let Some(number) = self.number(key, value) {
            self.terms[number as usize].users += 1;
            return number;
        }
        // Four thousand million terms, or bytes of one key, do not fit into any memory or request.
        let key_len = u32::try_from(key.len()).unwrap_or_default();
        let term = Term {
            text: format!("{key}{value}").into(),
            key_len,
            users: 1,
        };
        let number = self
            .free
            .pop()
            .unwrap_or(u32::try_from(self.terms.len()).unwrap_or(u32::MAX));
        match self.terms.get_mut(number as usize) {
            Some(slot) => *slot = term,
            None => self.terms.push(term),
        }
        let Self {
            terms,
            numbers,
            hasher,
            ..
        } = self;
        numbers.insert_unique(hasher.hash_one((key, value)), number, |other| {
            hash_of_term(terms, hasher, *other)
        });
        number
    }

    fn forget(&mut self, number: u32) {
        let Some(term) = self.terms.get_mut(number as usize) else {
            return;
        };
        term.users -= 1;
        if term.users > 0 {
            return;
        }
        let hash = hash_of_term(&self.terms, &self.hasher, number);
        if let Ok(entry) = self.numbers.find_entry(hash, |other| *other == number) {
            entry.remove();
        }
        self.terms[number as usize].text = Box::default();
        self.terms[number as usize].key_len = 0;
        self.free.push(number);
    }
}

fn hash_of_term(terms: &[Term], hasher: &RandomState, number: u32) -> u64 {
    terms
        .get(number as usize)
        .map_or(0, |term| hasher.hash_one((term.key(), term.value())))
}

/// Adds ascending numbers to some bytes, each as what it is more than the one before, in seven bits for each byte.
pub(super) fn write_numbers(numbers: &[u32], bytes: &mut Vec<u8>) {
    let mut last = 0;
    for number in numbers {
        let mut rest = number - last;
        while rest >= 0x80 {
            bytes.push(rest.to_le_bytes()[0] | 0x80);
            rest >>= 7;
        }
        bytes.push(rest.to_le_bytes()[0]);
        last = *number;
    }
}

/// The numbers that [`write_numbers`] has written.
pub(super) fn read_numbers(bytes: &[u8]) -> impl Iterator<Item = u32> + '_ {
    let (mut number, mut shift, mut more) = (0, 0, 0);
    bytes.iter().filter_map(move |byte| {
        more |= u32::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 != 0 {
            return None;
        }
        number += more;
        (shift, more) = (0, 0);
        Some(number)
    })
}

/// The positions of documents. Many terms have but one.
#[derive(Clone, Copy)]
enum Positions {
    One(u32),
    /// The number of a set.
    Many(u32),
}

/// Sets of positions, by numbers: half the size of pointers, in maps of which most entries have none.
#[derive(Default)]
struct Sets {
    sets: Vec<RoaringBitmap>,
    /// Numbers that nothing has.
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
        // Fewer than there are terms, whose numbers are as large.
        u32::try_from(self.sets.len() - 1).unwrap_or(u32::MAX)
    }

    /// Whether none is left.
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

/// The positions of a table's documents, by the keys and the numbers of their terms.
#[derive(Default)]
pub(super) struct Postings {
    by_key: AHashMap<Box<str>, AHashMap<u32, Positions>>,
    sets: Sets,
}

impl Postings {
    /// Says that the document at a position has some terms.
    pub(super) fn add(&mut self, words: &Words, numbers: impl Iterator<Item = u32>, position: u32) {
        for number in numbers {
            let Some(term) = words.term(number) else {
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

    /// Takes that back. What nothing has any more is forgotten.
    pub(super) fn remove(
        &mut self,
        words: &Words,
        numbers: impl Iterator<Item = u32>,
        position: u32,
    ) {
        for number in numbers {
            let Some(term) = words.term(number) else {
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

    /// The positions of documents that have one of some values.
    pub(super) fn with_value<'v>(
        &self,
        words: &Words,
        key: &str,
        values: impl Iterator<Item = &'v str>,
    ) -> RoaringBitmap {
        let mut found = RoaringBitmap::new();
        let Some(terms) = self.by_key.get(key) else {
            return found;
        };
        let numbers = values.filter_map(|value| words.number(key, value));
        numbers
            .filter_map(|number| terms.get(&number))
            .for_each(|positions| self.sets.add_to(*positions, &mut found));
        found
    }

    /// The positions of documents that have a value of which this holds.
    pub(super) fn with_value_that(
        &self,
        words: &Words,
        key: &str,
        holds: impl Fn(&str) -> bool,
    ) -> RoaringBitmap {
        let mut found = RoaringBitmap::new();
        for (number, positions) in self.by_key.get(key).into_iter().flatten() {
            if words.term(*number).is_some_and(|term| holds(term.value())) {
                self.sets.add_to(*positions, &mut found);
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
        let vocabulary = Arc::new(Vocabulary::default());
        let mut postings = Postings::default();
        let web = [("label app", "web")];
        let first = vocabulary.learn(web.into_iter()).take();
        let again = vocabulary.learn(web.into_iter()).take();
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
        vocabulary.forget(first.iter().copied());
        assert_eq!(of(&postings), [2]);
        postings.remove(&vocabulary.read(), first.iter().copied(), 2);
        vocabulary.forget(first.iter().copied());
        assert!(postings.by_key.is_empty() && vocabulary.read().numbers.is_empty());
        let other = vocabulary.learn([("label app", "db")].into_iter());
        assert_eq!(other.numbers, first, "a number that is free is used again");
        drop(other);
        assert!(
            vocabulary.read().numbers.is_empty(),
            "no document has taken it"
        );
    }

    #[test]
    fn keys_and_values_that_make_the_same_text_are_different_terms() {
        let vocabulary = Arc::new(Vocabulary::default());
        let numbers = vocabulary
            .learn([("label a", "bc"), ("label ab", "c")].into_iter())
            .take();
        assert_ne!(numbers[0], numbers[1]);
    }

    #[test]
    fn numbers_are_read_as_they_were_written() {
        for numbers in [
            &[][..],
            &[0],
            &[0, 0, 127, 128, 16_383, 16_384, u32::MAX - 1, u32::MAX],
        ] {
            let mut bytes = Vec::new();
            write_numbers(numbers, &mut bytes);
            assert_eq!(read_numbers(&bytes).collect::<Vec<_>>(), numbers);
        }
    }
}
