//! Counting in groups, over the frozen documents that a query selects.

use ahash::AHashMap;
use fleetdex_core::{
    model::{FieldType, sort_value, sorted_value},
    query::{
        Groups, Ordered, QueryError,
        aggregate::{Grouped, Tally},
    },
};

use super::{asked::Asked, table::Selected};
use crate::{
    StoreError,
    document::Document,
    terms::{NAMESPACE, Words, label_key},
};

/// Documents for which the vocabulary is held at once, so that writes wait for no more than a millisecond.
const AT_ONCE: usize = 4_096;

/// What a term says of a key: its value, and what that sorts by.
type Meaning = Option<(usize, String)>;

/// Counts documents by some keys.
pub(super) struct Counter<'k> {
    keys: &'k [Grouped],
    /// The terms' key that tells each key's value, if any does.
    names: Vec<Option<String>>,
    /// By numbers of terms, which stay as long as the documents.
    meanings: AHashMap<u32, Meaning>,
    tally: Tally,
}

impl<'k> Counter<'k> {
    pub(super) fn new(keys: &'k [Grouped]) -> Self {
        let name = |key: &Grouped| match key {
            Grouped::Label(label) => Some(label_key(label).into_owned()),
            Grouped::Ordered(Ordered::Field(path, _)) => Some(path.to_string()),
            Grouped::Ordered(Ordered::Namespace) => Some(NAMESPACE.to_owned()),
            Grouped::Cluster | Grouped::Ordered(_) => None,
        };
        Self {
            keys,
            names: keys.iter().map(name).collect(),
            meanings: AHashMap::new(),
            tally: Tally::default(),
        }
    }

    pub(super) fn count(
        mut self,
        selected: &[Selected],
        top: usize,
        asked: &Asked,
    ) -> Result<Groups, StoreError> {
        for part in selected {
            let is_in = |position: u32| {
                part.positions
                    .as_ref()
                    .is_none_or(|positions| positions.contains(position))
            };
            let entries = part.chunks.iter().flat_map(|chunk| chunk.iter());
            let documents: Vec<&Document> = entries
                .filter(|entry| is_in(entry.position))
                .map(|entry| &*entry.document)
                .collect();
            for some in documents.chunks(AT_ONCE) {
                asked.still()?;
                self.add(some)
                    .map_err(|error| StoreError::Invalid(error.to_string()))?;
            }
        }
        Ok(self.tally.largest(top))
    }

    fn add(&mut self, documents: &[&Document]) -> Result<(), QueryError> {
        let Some(first) = documents.first() else {
            return Ok(());
        };
        let words = first.origin.vocabulary.read();
        for document in documents {
            let values = self.values(document, &words);
            self.tally.add(values, 1)?;
        }
        Ok(())
    }

    fn values(&mut self, document: &Document, words: &Words) -> Vec<Option<String>> {
        let mut least: Vec<Option<&str>> = vec![None; self.keys.len()];
        let numbers: Vec<u32> = document.terms().collect();
        for number in &numbers {
            if !self.meanings.contains_key(number) {
                let meaning = self.meaning(*number, words);
                self.meanings.insert(*number, meaning);
            }
        }
        for number in &numbers {
            if let Some(Some((key, value))) = self.meanings.get(number)
                && least[*key].is_none_or(|known| value.as_str() < known)
            {
                least[*key] = Some(value);
            }
        }
        // Of keys that read the same term, the first one has found it.
        let first = |position: usize| {
            self.names
                .iter()
                .position(|name| *name == self.names[position])
                .unwrap_or(position)
        };
        let found = |(position, key)| read(key, least[first(position)], document);
        self.keys.iter().enumerate().map(found).collect()
    }

    fn meaning(&self, number: u32, words: &Words) -> Meaning {
        let term = words.term(number)?;
        let position = self
            .names
            .iter()
            .position(|name| name.as_deref() == Some(term.key()))?;
        let value = match &self.keys[position] {
            Grouped::Ordered(Ordered::Field(_, kind)) => sort_value(*kind, term.value()),
            _ => term.value().to_owned(),
        };
        Some((position, value))
    }
}

fn read(key: &Grouped, found: Option<&str>, document: &Document) -> Option<String> {
    let text = |text: &str| Some(text.to_owned());
    match key {
        Grouped::Cluster => text(document.origin.cluster.as_str()),
        Grouped::Label(_) | Grouped::Ordered(Ordered::Namespace) => found.map(str::to_owned),
        Grouped::Ordered(Ordered::Always(value)) => text(value),
        Grouped::Ordered(Ordered::Name) => text(document.name()),
        Grouped::Ordered(Ordered::Field(_, kind)) => {
            let absent = (*kind != FieldType::Optional).then(|| kind.absent());
            found.map(sorted_value).or(absent).map(str::to_owned)
        }
    }
}
