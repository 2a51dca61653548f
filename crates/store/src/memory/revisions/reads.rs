//! What queries and repacking read of the revisions.

use std::{collections::BTreeSet, sync::Arc};

use fleetdex_core::{
    model::{ClusterName, IndexName},
    query::{Query, Relative, RelativesQuery, ResourceName},
};

use super::{StoredRevision, StoredRevisions};
use crate::{
    codec::RepackPosition,
    document::StoredDocument,
    memory::{
        order::Entry,
        table::{DocumentTable, SelectedDocuments},
        table_selection::TableSelection,
    },
    query_filter::Filter,
};

impl StoredRevisions {
    /// The documents that a query selects, by cluster.
    pub(in crate::memory) fn select(
        &self,
        query: &Query,
        filter: &Filter,
    ) -> Vec<SelectedDocuments> {
        let mut selected = Vec::new();
        self.for_each_table(query, filter, |table, selection| {
            selected.push(table.select(selection, query.limit));
        });
        selected
    }

    /// Hands over the tables that a query reads, one for each cluster, each with what the caller
    /// may see there.
    ///
    /// The terms of words are looked for once: while the tables are locked, their documents keep
    /// their terms, and get no others.
    pub(in crate::memory) fn for_each_table(
        &self,
        query: &Query,
        filter: &Filter,
        mut each: impl FnMut(&DocumentTable, &TableSelection<'_>),
    ) {
        let mut terms = None;
        let is_requested =
            |cluster: &ClusterName| query.clusters.is_empty() || query.clusters.contains(cluster);
        let shows = |stored: &&StoredRevision| {
            stored.revision.shows(&query.resource) && is_requested(&stored.revision.cluster)
        };
        for stored in self.by_target.values().filter(shows) {
            let table = stored.contents.table(&query.resource);
            let permitted = filter.in_cluster(&stored.revision.cluster);
            if let (Some(table), Some(permitted)) = (table, permitted) {
                let terms = terms.get_or_insert_with(|| table.terms_of(filter.words()));
                let filter = &permitted;
                each(table, &TableSelection { filter, terms });
            }
        }
    }

    /// Objects of any kind, by names or owners.
    pub(in crate::memory) fn relatives(&self, query: &RelativesQuery) -> BTreeSet<Relative> {
        let mut found = BTreeSet::new();
        let is_requested =
            |cluster: &ClusterName| query.clusters.is_empty() || query.clusters.contains(cluster);
        for stored in self
            .by_target
            .values()
            .filter(|stored| stored.revision.is_read() && is_requested(&stored.revision.cluster))
        {
            let cluster = &stored.revision.cluster;
            for table in stored.contents.tables() {
                for document in table.relatives(query, cluster) {
                    if !stored.revision.shows(&document.origin.resource) {
                        continue;
                    }
                    found.insert(Relative {
                        cluster: cluster.clone(),
                        namespace: document.namespace().to_owned(),
                        resource: document.origin.resource.clone(),
                        uid: document.uid().into_owned(),
                    });
                }
            }
        }
        found
    }

    /// The next documents of a kind, `limit` at most, in a pass over all revisions; none at its
    /// end.
    pub(in crate::memory) fn next_documents(
        &self,
        resource: &ResourceName,
        repack_position: &mut RepackPosition,
        limit: usize,
    ) -> Vec<Arc<StoredDocument>> {
        let is_left = |target: &IndexName| {
            repack_position
                .target
                .as_ref()
                .is_none_or(|current| target >= current)
        };
        let left: Vec<(&IndexName, &StoredRevision)> = self
            .by_target
            .iter()
            .filter(|(target, _)| is_left(target))
            .collect();
        for (target, stored) in left {
            if repack_position.target.as_ref() != Some(target) {
                *repack_position = RepackPosition {
                    target: Some(target.clone()),
                    position: 0,
                };
            }
            let Some(table) = stored.contents.table(resource) else {
                continue;
            };
            let entries: Vec<Entry> = table.from(repack_position.position).take(limit).collect();
            if let Some(last) = entries.last() {
                repack_position.position = last.position.saturating_add(1);
                return entries.into_iter().map(|entry| entry.document).collect();
            }
        }
        Vec::new()
    }
}
