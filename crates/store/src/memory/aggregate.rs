//! Counts in groups over the frozen documents of a query.

use ahash::AHashMap;
use fleetdex_core::{
    model::{FieldType, decode_sort_key, encode_sort_key},
    query::{
        Groups, QueryError, SortField,
        aggregate::{GroupCounts, ResolvedGroupKey},
    },
};

use super::{cancellation::Cancellation, order::entries, table::SelectedDocuments};
use crate::{
    StoreError,
    document::StoredDocument,
    terms::{NAMESPACE, TermTable, label_key},
};

/// Documents for which the vocabulary is locked at once, so that writes wait for a millisecond at
/// most.
const AT_ONCE: usize = 4_096;

/// What a term contributes to a key: the key's position, and the value's sort text.
type Meaning = Option<(usize, String)>;

/// Counts documents by some keys.
pub(super) struct Counter<'k> {
    keys: &'k [ResolvedGroupKey],
    /// For each group key, the term key that holds its value, if any does.
    names: Vec<Option<String>>,
    /// By term number, which is stable while the documents exist.
    meanings: AHashMap<u32, Meaning>,
    tally: GroupCounts,
}

impl<'k> Counter<'k> {
    pub(super) fn new(keys: &'k [ResolvedGroupKey]) -> Self {
        let name = |key: &ResolvedGroupKey| match key {
            ResolvedGroupKey::Label(label) => Some(label_key(label).into_owned()),
            ResolvedGroupKey::SortField(SortField::Field(path, _)) => Some(path.to_string()),
            ResolvedGroupKey::SortField(SortField::Namespace) => Some(NAMESPACE.to_owned()),
            ResolvedGroupKey::Cluster | ResolvedGroupKey::SortField(_) => None,
        };
        Self {
            keys,
            names: keys.iter().map(name).collect(),
            meanings: AHashMap::new(),
            tally: GroupCounts::default(),
        }
    }

    pub(super) fn count(
        mut self,
        selected: &[SelectedDocuments],
        top: usize,
        cancellation: &Cancellation,
    ) -> Result<Groups, StoreError> {
        for part in selected {
            let selected = entries(&part.chunks, part.positions.as_ref());
            let documents: Vec<&StoredDocument> = selected.map(|entry| &*entry.document).collect();
            for some in documents.chunks(AT_ONCE) {
                cancellation.check()?;
                self.add(some)?;
            }
        }
        Ok(self.tally.largest(top))
    }

    fn add(&mut self, documents: &[&StoredDocument]) -> Result<(), QueryError> {
        let Some(first) = documents.first() else {
            return Ok(());
        };
        let vocabulary = first.origin.vocabulary.read();
        for document in documents {
            let values = self.values(document, &vocabulary);
            self.tally.add(values, 1)?;
        }
        Ok(())
    }

    fn values(&mut self, document: &StoredDocument, vocabulary: &TermTable) -> Vec<Option<String>> {
        let mut least: Vec<Option<&str>> = vec![None; self.keys.len()];
        let numbers: Vec<u32> = document.terms().collect();
        for number in &numbers {
            if !self.meanings.contains_key(number) {
                let meaning = self.meaning(*number, vocabulary);
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

    fn meaning(&self, number: u32, vocabulary: &TermTable) -> Meaning {
        let term = vocabulary.term(number)?;
        let position = self
            .names
            .iter()
            .position(|name| name.as_deref() == Some(term.key()))?;
        let value = match &self.keys[position] {
            ResolvedGroupKey::SortField(SortField::Field(_, kind)) => {
                encode_sort_key(*kind, term.value())
            }
            _ => term.value().to_owned(),
        };
        Some((position, value))
    }
}

fn read(key: &ResolvedGroupKey, found: Option<&str>, document: &StoredDocument) -> Option<String> {
    let text = |text: &str| Some(text.to_owned());
    match key {
        ResolvedGroupKey::Cluster => text(document.origin.cluster.as_str()),
        ResolvedGroupKey::Label(_) | ResolvedGroupKey::SortField(SortField::Namespace) => {
            found.map(str::to_owned)
        }
        ResolvedGroupKey::SortField(SortField::Always(value)) => text(value),
        ResolvedGroupKey::SortField(SortField::Name) => text(document.name()),
        ResolvedGroupKey::SortField(SortField::Field(_, kind)) => {
            let absent = (*kind != FieldType::Optional).then(|| kind.absent());
            found.map(decode_sort_key).or(absent).map(str::to_owned)
        }
    }
}
