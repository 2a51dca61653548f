//! Terms: the keys and values that documents are found by, each with a number.

use std::{borrow::Cow, fmt, sync::Arc};

use ahash::{AHashMap, RandomState};
use fleetdex_core::{
    model::MAX_FIELD_VALUE_BYTES,
    query::{Word, WordMatch, WordText, words::EVENT_REASON},
};
use hashbrown::HashTable;
use parking_lot::{Mutex, RwLock, RwLockReadGuard};

use super::text_index::TextIndex;

/// Terms that are remembered for the words that were looked for last, about 10 bytes each: a query
/// has 14 words at most.
const REMEMBERED_TERMS: usize = 1_000_000;

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

/// The keys whose values are texts in which words are looked for.
pub(super) const WORD_KEYS: [&str; 6] = [
    NAMESPACE,
    ANNOTATION_KEY,
    OWNER_NAME,
    "image",
    "healthReason",
    EVENT_REASON,
];

pub(super) fn label_key(label: &str) -> Cow<'static, str> {
    Cow::Owned(format!("{LABEL}{label}"))
}

/// The label of a term key; `None` for other keys.
pub(super) fn label_of(key: &str) -> Option<&str> {
    key.strip_prefix(LABEL)
}

/// A key and a value that documents have.
#[derive(Clone)]
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
    /// The words that were looked for last. Taken before the lock of the table.
    remembered: Mutex<Vec<Arc<MatchingTerms>>>,
}

/// The terms that match a word.
pub(super) struct MatchingTerms {
    word: Box<str>,
    /// The generation of the vocabulary that they are of.
    generation: u64,
    /// By the key, the numbers of the terms.
    pub(super) by_key: AHashMap<Box<str>, AHashMap<u32, WordMatch>>,
}

impl MatchingTerms {
    /// How many terms they are; for each word some more, so that words without terms are forgotten,
    /// too.
    fn cost(&self) -> usize {
        let terms: usize = self.by_key.values().map(|numbers| numbers.len()).sum();
        terms + 10_000
    }
}

/// A locked vocabulary.
#[derive(Default)]
pub(super) struct TermTable {
    terms: Vec<StoredTerm>,
    /// Free numbers.
    free: Vec<u32>,
    numbers: HashTable<u32>,
    hasher: RandomState,
    /// The terms in which words are looked for, if they are: labels as `key=value`, of others the
    /// value.
    words: Option<TextIndex>,
    /// Grows with every change of these terms.
    generation: u64,
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
    /// An empty vocabulary in which words can be looked for.
    pub(super) fn searchable() -> Self {
        let table = TermTable {
            words: Some(TextIndex::default()),
            ..TermTable::default()
        };
        Self {
            table: RwLock::new(table),
            ..Self::default()
        }
    }

    /// The terms that match a word. They are those of the vocabulary as it is during this call; a
    /// number that a table has keeps its meaning while the table is locked. Another new term makes
    /// the next call look through all terms again: ask once for all tables.
    pub(super) fn matching(&self, word: &Word) -> Arc<MatchingTerms> {
        let generation = self.read().generation;
        let is_it = |known: &&Arc<MatchingTerms>| {
            known.generation == generation && *known.word == *word.text()
        };
        if let Some(known) = self.remembered.lock().iter().find(is_it) {
            return Arc::clone(known);
        }
        let found = Arc::new(self.read().matching(word));
        let mut remembered = self.remembered.lock();
        remembered.retain(|known| known.generation == found.generation);
        remembered.push(Arc::clone(&found));
        let total =
            |known: &[Arc<MatchingTerms>]| known.iter().map(|terms| terms.cost()).sum::<usize>();
        while total(&remembered) > REMEMBERED_TERMS {
            remembered.remove(0);
        }
        found
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, TermTable> {
        self.table.read()
    }

    /// The numbers of a new document's terms.
    pub(super) fn intern<'t>(
        self: &Arc<Self>,
        terms: impl Iterator<Item = (&'t str, &'t str)>,
    ) -> TermNumbers {
        let mut table = self.table.write();
        let mut numbers: Vec<u32> = terms.map(|(key, value)| table.intern(key, value)).collect();
        numbers.sort_unstable();
        TermNumbers {
            vocabulary: Arc::clone(self),
            numbers,
        }
    }

    /// Releases the terms of a document that is gone.
    pub(super) fn release(&self, numbers: impl Iterator<Item = u32>) {
        let mut table = self.table.write();
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

    fn matching(&self, word: &Word) -> MatchingTerms {
        let mut by_key: AHashMap<Box<str>, AHashMap<u32, WordMatch>> = AHashMap::new();
        let add = |number: u32, of_text: WordMatch| {
            let Some(term) = self.term(number) else {
                return;
            };
            let found = match label_of(term.key()) {
                Some(label) => word.match_of(WordText::Label(label, term.value())),
                None => Some(of_text),
            };
            let Some(found) = found else { return };
            match by_key.get_mut(term.key()) {
                Some(numbers) => {
                    numbers.insert(number, found);
                }
                None => {
                    by_key.insert(term.key().into(), [(number, found)].into());
                }
            }
        };
        if let Some(words) = &self.words {
            words.for_each_with(word.text(), add);
        }
        MatchingTerms {
            word: word.text().into(),
            generation: self.generation,
            by_key,
        }
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
        self.add_word_text(number, key, value);
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

    fn add_word_text(&mut self, number: u32, key: &str, value: &str) {
        let Some(words) = &mut self.words else {
            return;
        };
        match label_of(key) {
            Some(label) => words.insert(number, &[label, "=", value]),
            // Documents do not index longer texts.
            None if WORD_KEYS.contains(&key) && value.len() <= MAX_FIELD_VALUE_BYTES => {
                words.insert(number, &[value]);
            }
            None => return,
        }
        self.generation += 1;
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
        if let Some(words) = &mut self.words
            && words.remove(number)
        {
            self.generation += 1;
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
