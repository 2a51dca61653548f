//! The documents that searches see.
//!
//! Those of each routing are kept apart: where a hundred clusters share an index, a search by one
//! of them need not look at the documents of the others, and a refresh copies only what has changed
//! while an open view holds it.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use super::{
    document::{Document, Term},
    query::Matcher,
};

/// Documents by their ids.
type Documents = BTreeMap<Arc<str>, Arc<Document>>;

/// What searches see. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Searchable {
    /// By routing; empty for documents without one.
    by_routing: Arc<BTreeMap<Arc<str>, Arc<Documents>>>,
}

impl Searchable {
    /// Adds a document, or replaces one of the same id and routing.
    pub fn insert(&mut self, document: Arc<Document>) {
        let by_routing = Arc::make_mut(&mut self.by_routing);
        let documents = by_routing.entry(routing(&document)).or_default();
        Arc::make_mut(documents).insert(Arc::clone(&document.id), document);
    }

    /// Removes a document.
    pub fn remove(&mut self, routing: &str, id: &str) {
        let by_routing = Arc::make_mut(&mut self.by_routing);
        if let Some(documents) = by_routing.get_mut(routing) {
            Arc::make_mut(documents).remove(id);
        }
    }

    /// Every document.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Document>> {
        self.by_routing.values().flat_map(|found| found.values())
    }

    /// The documents that may match, and others.
    pub fn candidates<'s>(
        &'s self,
        matcher: &'s Matcher,
    ) -> impl Iterator<Item = &'s Arc<Document>> {
        self.parts(matcher).flat_map(|(_, found)| found.values())
    }

    /// The documents that match one of these.
    pub fn visible_by(&self, matchers: &[Matcher]) -> Self {
        let mut visible = BTreeMap::<Arc<str>, Arc<Documents>>::new();
        for matcher in matchers {
            let matches = |document: &Document| matcher.score(document).is_some();
            for (routing, documents) in self.parts(matcher) {
                if documents.values().all(|document| matches(document)) {
                    visible.insert(Arc::clone(routing), Arc::clone(documents));
                    continue;
                }
                let found = documents.iter().filter(|(_, document)| matches(document));
                let found = found.map(|(id, document)| (Arc::clone(id), Arc::clone(document)));
                let part = visible.entry(Arc::clone(routing)).or_default();
                Arc::make_mut(part).extend(found);
            }
        }
        Self {
            by_routing: Arc::new(visible),
        }
    }

    fn parts<'s>(
        &'s self,
        matcher: &'s Matcher,
    ) -> Box<dyn Iterator<Item = (&'s Arc<str>, &'s Arc<Documents>)> + 's> {
        match matcher.routings() {
            None => Box::new(self.by_routing.iter()),
            Some(routings) => Box::new(routings.iter().filter_map(|routing| match routing {
                Term::Text(routing) => self.by_routing.get_key_value(routing),
                Term::Number(_) => None,
            })),
        }
    }
}

impl FromIterator<Arc<Document>> for Searchable {
    fn from_iter<I: IntoIterator<Item = Arc<Document>>>(documents: I) -> Self {
        let mut searchable = Self::default();
        documents
            .into_iter()
            .for_each(|document| searchable.insert(document));
        searchable
    }
}

/// The routing of a document; empty without one.
pub(super) fn routing(document: &Document) -> Arc<str> {
    static NONE: LazyLock<Arc<str>> = LazyLock::new(|| Arc::from(""));
    document.routing().unwrap_or_else(|| Arc::clone(&NONE))
}
