//! What a query selects of tables.

use std::sync::Arc;

use fleetdex_core::query::Word;

use crate::{query_filter::Filter, terms::MatchingTerms};

/// What is selected of the tables of a resource, while they are locked.
pub(super) struct TableSelection<'s> {
    pub(super) filter: &'s Filter,
    /// The terms of each word of the filter.
    pub(super) terms: &'s [Arc<MatchingTerms>],
}

impl TableSelection<'_> {
    /// The words, each with its terms.
    pub(super) fn words(&self) -> impl Iterator<Item = (&Word, &MatchingTerms)> {
        let terms = self.terms.iter().map(AsRef::as_ref);
        self.filter.words().iter().zip(terms)
    }
}
