//! Searches of the embedded store over several resources.

use std::{
    cmp::{Ordering, Reverse},
    collections::BinaryHeap,
    sync::Arc,
};

use fleetdex_core::query::{
    CountsByFacet, Facet, Query, QueryError, RankPosition, RankedPage, RankedQuery,
};
use roaring::RoaringBitmap;

use super::{
    running_query::{PageDocuments, RunningQuery},
    table::DocumentTable,
    table_selection::TableSelection,
    view::PAGE_BYTES,
};
use crate::{
    StoreError, document::StoredDocument, query_filter::Filter, sort_position::Uid,
    terms::NAMESPACE,
};

/// What a search has found.
pub(super) struct RankedDocuments {
    best: BinaryHeap<RankedDocument>,
    /// Documents to keep: one more than the page has.
    limit: usize,
    after: Option<RankPosition>,
    facets: Vec<Facet>,
    counts: CountsByFacet,
    total: u64,
}

/// A document and its score. The greatest is the last in the order of results.
struct RankedDocument {
    score: u32,
    document: Arc<StoredDocument>,
}

impl RankedDocuments {
    fn new(ranked: &RankedQuery) -> Self {
        Self {
            best: BinaryHeap::new(),
            limit: ranked.limit + 1,
            after: ranked.after.clone(),
            facets: ranked.facets.clone(),
            counts: CountsByFacet::default(),
            total: 0,
        }
    }

    /// Adds the selected documents of a table.
    pub(super) fn add(&mut self, table: &DocumentTable, selection: &TableSelection<'_>) {
        let mut all = RoaringBitmap::new();
        for (score, found) in table.by_score(selection) {
            self.add_best(table, score, &found);
            all |= found;
        }
        self.total += all.len();
        self.count(table, &all);
    }

    fn add_best(&mut self, table: &DocumentTable, score: u32, found: &RoaringBitmap) {
        // The newest are kept, and most of them were added last.
        for position in found.iter().rev() {
            if self.is_too_late(score, table.created(position)) {
                continue;
            }
            let Some(document) = table.get(position) else {
                continue;
            };
            let candidate = RankedDocument {
                score,
                document: Arc::clone(document),
            };
            let follows = |after| candidate.follows(after);
            if !self.after.as_ref().is_none_or(follows) {
                continue;
            }
            if self.best.len() < self.limit {
                self.best.push(candidate);
            } else if let Some(mut worst) = self.best.peek_mut()
                && candidate < *worst
            {
                *worst = candidate;
            }
        }
    }

    /// Whether a document comes after all that are kept, by what is known without reading it.
    fn is_too_late(&self, score: u32, created: u32) -> bool {
        let Some(worst) = self.best.peek() else {
            return false;
        };
        let order = (Reverse(score), Reverse(created));
        self.best.len() >= self.limit
            && order > (Reverse(worst.score), Reverse(worst.document.created))
    }

    fn count(&mut self, table: &DocumentTable, found: &RoaringBitmap) {
        let Some(document) = found.min().and_then(|position| table.get(position)) else {
            return;
        };
        let vocabulary = table.vocabulary.read();
        for facet in &self.facets {
            let counts = self.counts.entry(*facet).or_default();
            let key = match facet {
                Facet::Kind | Facet::Cluster => {
                    let value = if *facet == Facet::Kind {
                        &*document.origin.kind
                    } else {
                        document.origin.cluster.as_str()
                    };
                    *counts.entry(value.to_owned()).or_default() += found.len();
                    continue;
                }
                Facet::Namespace => NAMESPACE,
                Facet::Health => "health",
            };
            table
                .postings
                .for_each_value(&vocabulary, key, |value, positions| {
                    let count = positions.count_in(found);
                    if count > 0 {
                        *counts.entry(value.to_owned()).or_default() += count;
                    }
                });
        }
    }
}

impl RankedDocument {
    fn position(&self) -> RankPosition {
        let (document, origin) = (&self.document, &self.document.origin);
        RankPosition {
            score: Reverse(self.score),
            created: self.created(),
            cluster: origin.cluster.to_string(),
            uid: document.uid().into_owned(),
            api_version: origin.api_version.to_string(),
            kind: origin.kind.to_string(),
        }
    }

    fn created(&self) -> Reverse<Option<i64>> {
        let created = self.document.created;
        Reverse((created > 0).then(|| i64::from(created) * 1_000))
    }

    /// Whether it comes after this position.
    fn follows(&self, after: &RankPosition) -> bool {
        let quick = (Reverse(self.score), self.created()).cmp(&(after.score, after.created));
        quick.then_with(|| self.position().cmp(after)).is_gt()
    }

    /// What decides its place, as [`RankPosition`] does: not one text is copied.
    fn key(&self) -> (Reverse<u32>, Reverse<u32>, &str, Uid<'_>, &str, &str) {
        let place = self.document.sort_position();
        (
            Reverse(self.score),
            Reverse(place.created),
            place.cluster,
            place.uid,
            place.api_version,
            &self.document.origin.kind,
        )
    }
}

impl Ord for RankedDocument {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for RankedDocument {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for RankedDocument {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for RankedDocument {}

impl RunningQuery {
    pub(super) fn ranked_page(
        &self,
        ranked: &RankedQuery,
    ) -> Result<PageDocuments<(Vec<RankPosition>, RankedPage)>, StoreError> {
        let mut found = RankedDocuments::new(ranked);
        self.for_each_searched_table(&ranked.queries, |table, selection| {
            found.add(table, selection);
        })?;
        Ok(Self::page_of(found, ranked.limit))
    }

    /// Hands over the tables of several resources, each with what is selected of it.
    pub(super) fn for_each_searched_table(
        &self,
        queries: &[Query],
        mut each: impl FnMut(&DocumentTable, &TableSelection<'_>),
    ) -> Result<(), StoreError> {
        let filters = queries.iter().map(Filter::new);
        let filters = filters.collect::<Result<Vec<Filter>, QueryError>>()?;
        if filters.iter().any(Filter::needs_object) {
            return Err(StoreError::Invalid(
                "a search over several resources selects by fields that every store indexes"
                    .to_owned(),
            ));
        }
        for (query, filter) in queries.iter().zip(&filters) {
            // Not locked for all of them together, so that writes get their turn.
            self.cancellation.check()?;
            self.shared
                .read()
                .for_each_table(query, filter, |table, selection| {
                    if self.cancellation.check().is_ok() {
                        each(table, selection);
                    }
                });
        }
        self.cancellation.check()
    }

    fn page_of(
        found: RankedDocuments,
        limit: usize,
    ) -> PageDocuments<(Vec<RankPosition>, RankedPage)> {
        let mut best = found.best.into_sorted_vec();
        let mut more = best.len() > limit;
        best.truncate(limit);
        let mut documents = Vec::with_capacity(best.len());
        let mut positions = Vec::with_capacity(best.len());
        let mut bytes = 0;
        for ranked in best {
            bytes += ranked.document.object_len();
            if bytes > PAGE_BYTES && !documents.is_empty() {
                more = true;
                break;
            }
            positions.push(ranked.position());
            documents.push(ranked.document);
        }
        let page = RankedPage {
            more,
            total: found.total,
            facets: found.counts,
            ..RankedPage::default()
        };
        (documents, (positions, page))
    }
}
