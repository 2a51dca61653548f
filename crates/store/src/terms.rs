//! Terms: the keys and values that documents are found by, each with a number.

use std::{borrow::Cow, fmt, sync::Arc};

use ahash::RandomState;
use hashbrown::HashTable;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Prefix of label keys, so that no label is taken for a field: no field path has a space.
const LABEL: &str = "label ";
/// The key of a document's namespace.
pub(super) const NAMESPACE: &str = "metadata.namespace";

/// The key of an object's name, which is no term.
pub(super) const NAME: &str = "metadata.name";

/// The key of the UIDs of an object's owners.
pub(super) const OWNER: &str = "owner uid";

/// The key of the names of an object's owners.
pub(super) const OWNER_NAME: &str = "owner name";

/// The key of the keys of an object's annotations.
pub(super) const ANNOTATION_KEY: &str = "annotation key";

/// The key of fallback documents.
pub(super) const REJECTED: &str = "search rejected";

/// The term key of a label.
pub(super) fn label_key(label: &str) -> Cow<'static, str> {
    Cow::Owned(format!("{LABEL}{label}"))
}

/// The label of a term key; `None` for other keys.
pub(super) fn label_of(key: &str) -> Option<&str> {
    key.strip_prefix(LABEL)
}

/// A key and a value that documents have.
pub(super) struct StoredTerm {
    /// Key and value.
    text: Box<str>,
    key_len: u32,
    /// How many documents have it.
    users: u32,
}

impl StoredTerm {
    pub(super) fn key(&self) -> &str {
        &self.text[..self.key_len as usize]
    }

    pub(super) fn value(&self) -> &str {
        &self.text[self.key_len as usize..]
    }
}

/// The terms of all documents, each with a number. A number stands for the same term for as long as
/// any document has it, whether that is stored or only held by a view or by the log.
///
/// Its lock is the innermost one: its holder neither takes another lock nor drops a document.
#[derive(Default)]
pub(super) struct TermDictionary {
    table: RwLock<TermTable>,
}

/// A locked vocabulary.
#[derive(Default)]
pub(super) struct TermTable {
    terms: Vec<StoredTerm>,
    /// Free numbers.
    free: Vec<u32>,
    numbers: HashTable<u32>,
    hasher: RandomState,
}

impl fmt::Debug for TermDictionary {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("TermDictionary")
    }
}

impl PartialEq for TermDictionary {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for TermDictionary {}

impl TermDictionary {
    pub(super) fn read(&self) -> RwLockReadGuard<'_, TermTable> {
        self.table.read()
    }

    fn lock(&self) -> RwLockWriteGuard<'_, TermTable> {
        self.table.write()
    }

    /// The numbers of a new document's terms.
    pub(super) fn intern<'t>(
        self: &Arc<Self>,
        terms: impl Iterator<Item = (&'t str, &'t str)>,
    ) -> TermNumbers {
        let mut table = self.lock();
        let mut numbers: Vec<u32> = terms.map(|(key, value)| table.intern(key, value)).collect();
        numbers.sort_unstable();
        TermNumbers {
            vocabulary: Arc::clone(self),
            numbers,
        }
    }

    /// Releases the terms of a document that is gone.
    pub(super) fn release(&self, numbers: impl Iterator<Item = u32>) {
        let mut table = self.lock();
        numbers.for_each(|number| table.release(number));
    }
}

/// Numbers of terms, in ascending order. Released when dropped, unless a document has taken them:
/// it may be superseded before it is stored.
pub(super) struct TermNumbers {
    vocabulary: Arc<TermDictionary>,
    numbers: Vec<u32>,
}

impl TermNumbers {
    /// In ascending order.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        self.numbers.iter().copied()
    }

    /// Takes the numbers for a document, which has to [release](TermDictionary::release) them.
    pub(super) fn take(mut self) -> Vec<u32> {
        std::mem::take(&mut self.numbers)
    }
}

impl Drop for TermNumbers {
    fn drop(&mut self) {
        if !self.numbers.is_empty() {
            self.vocabulary.release(self.numbers.drain(..));
        }
    }
}

impl TermTable {
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    pub(super) fn term(&self, number: u32) -> Option<&StoredTerm> {
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

    fn intern(&mut self, key: &str, value: &str) -> u32 {
        if let Some(number) = self.number(key, value) {
            self.terms[number as usize].users += 1;
            return number;
        }
        // Four billion terms, or bytes of one key, do not fit into any memory or request.
        let key_len = u32::try_from(key.len()).unwrap_or_default();
        let term = StoredTerm {
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

    fn release(&mut self, number: u32) {
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

fn hash_of_term(terms: &[StoredTerm], hasher: &RandomState, number: u32) -> u64 {
    terms
        .get(number as usize)
        .map_or(0, |term| hasher.hash_one((term.key(), term.value())))
}

/// Appends ascending numbers, each as the difference from the one before, with seven bits in each
/// byte.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_values_that_make_the_same_text_are_different_terms() {
        let vocabulary = Arc::new(TermDictionary::default());
        let numbers = vocabulary
            .intern([("label a", "bc"), ("label ab", "c")].into_iter())
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
