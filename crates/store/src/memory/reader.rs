//! The reading side of the embedded store.

use std::{collections::BTreeSet, sync::Arc};

use async_trait::async_trait;
use fleetdex_core::query::{
    Cursor, GroupKey, Groups, Page, Query, RankedHit, RankedPage, RankedQuery, Relative,
    RelativesQuery, ResourceName, ValueCounts, ValuesQuery,
    merge::{SortedHit, SortedPage},
};

use super::{Memory, running_query::RunningQuery};
use crate::{IndexReader, StoreError, changes::Log};

impl Memory {
    /// One page of a query, and the number of the last change that it shows. A watch from there
    /// misses nothing.
    pub async fn list(
        &self,
        query: &Query,
        from: Option<&Cursor>,
    ) -> Result<(Page, u64), StoreError> {
        let (requester, query, cursor) = (query.requester.clone(), query.clone(), from.cloned());
        let find = move |running: &mut RunningQuery| running.page(&query, cursor.as_ref());
        let (items, (page, sequence)) = self.read_page(&requester, find).await?;
        if let (Some(cursor), None) = (from, &page.next) {
            self.shared.views.close(&cursor.snapshot);
        }
        Ok((Page { items, ..page }, sequence))
    }
}

#[async_trait]
impl IndexReader for Memory {
    async fn search(&self, query: &Query, from: Option<&Cursor>) -> Result<Page, StoreError> {
        self.list(query, from).await.map(|(page, _)| page)
    }

    fn pin(&self, cursor: &Cursor) {
        self.shared.views.pin(cursor);
    }

    fn release(&self, cursor: &Cursor) {
        self.shared.views.close(&cursor.snapshot);
    }

    async fn ranked_page(&self, query: &RankedQuery) -> Result<RankedPage, StoreError> {
        let (requester, query) = (query.requester.clone(), query.clone());
        let find = move |running: &mut RunningQuery| running.ranked_page(&query);
        let (hits, (positions, page)) = self.read_page(&requester, find).await?;
        let placed = hits.into_iter().zip(positions);
        Ok(RankedPage {
            items: placed
                .map(|(hit, position)| RankedHit { hit, position })
                .collect(),
            ..page
        })
    }

    async fn frequent_values(&self, query: &ValuesQuery) -> Result<Vec<ValueCounts>, StoreError> {
        let (requester, query) = (query.requester.clone(), query.clone());
        self.read(&requester, move |running| running.frequent_values(&query))
            .await
    }

    async fn relatives(&self, query: &RelativesQuery) -> Result<BTreeSet<Relative>, StoreError> {
        let (requester, query) = (query.requester.clone(), query.clone());
        self.read(&requester, move |running| running.relatives(&query))
            .await
    }

    async fn first_page(&self, query: &Query) -> Result<(Page, u64), StoreError> {
        self.list(query, None).await
    }

    async fn sorted_page(
        &self,
        query: &Query,
        from: Option<&Cursor>,
    ) -> Result<SortedPage, StoreError> {
        let (requester, query, from) = (query.requester.clone(), query.clone(), from.cloned());
        let find = move |running: &mut RunningQuery| running.sorted_page(&query, from.as_ref());
        let (hits, (places, page)) = self.read_page(&requester, find).await?;
        let placed = hits.into_iter().zip(places);
        Ok(SortedPage {
            items: placed
                .map(|(hit, (order, after))| SortedHit { hit, order, after })
                .collect(),
            ..page
        })
    }

    async fn open_view(&self, query: &Query) -> Result<String, StoreError> {
        let (requester, query) = (query.requester.clone(), query.clone());
        self.read(&requester, move |running| running.open_view(&query))
            .await
    }

    async fn visible_sequence(&self, _resource: &ResourceName) -> Result<u64, StoreError> {
        Ok(self.shared.log.newest())
    }

    async fn change_log(&self) -> Result<Arc<Log>, StoreError> {
        Ok(Arc::clone(&self.shared.log))
    }

    async fn aggregate(
        &self,
        query: &Query,
        by: &[GroupKey],
        top: usize,
    ) -> Result<Groups, StoreError> {
        let (requester, query, by) = (query.requester.clone(), query.clone(), by.to_vec());
        self.read(&requester, move |running| running.count(&query, &by, top))
            .await
    }
}
