//! What the query API needs of a store.

use std::{collections::BTreeSet, sync::Arc};

use async_trait::async_trait;
use fleetdex_core::query::{
    Cursor, GroupKey, Groups, Page, Query, RankedPage, RankedQuery, Relative, RelativesQuery,
    ResourceName, ValueCounts, ValuesQuery, merge::SortedPage,
};

use crate::{StoreError, changes::Log};

/// The reading side of a store: pages, counts, owner searches, and the change log.
#[async_trait]
pub trait IndexReader: Send + Sync {
    /// Returns one page of a query; `from` is the cursor of the page before. The view that the next
    /// page is read from stays open for five minutes and counts against its requester's share; a
    /// view beyond the share closes an earlier one of the same requester.
    async fn search(&self, query: &Query, from: Option<&Cursor>) -> Result<Page, StoreError>;

    /// Protects the view of a cursor, which is being read to its end, from being closed for another
    /// one.
    fn pin(&self, _cursor: &Cursor) {}

    /// Closes the view of a cursor that is read no further. Does not wait.
    fn release(&self, _cursor: &Cursor) {}

    /// Returns one page of a search over several resources. Opens no view: the next page has what
    /// comes after the last object of this one when it is read.
    async fn ranked_page(&self, query: &RankedQuery) -> Result<RankedPage, StoreError>;

    /// Returns, for each prefix, the most frequent values of the objects of several resources.
    /// Opens no view.
    async fn frequent_values(&self, query: &ValuesQuery) -> Result<Vec<ValueCounts>, StoreError>;

    /// Finds objects of any kind by the keys of owner searches. Fails if there are more than
    /// [`MAX_OWNERS`](fleetdex_core::query::owners::MAX_OWNERS).
    async fn relatives(&self, query: &RelativesQuery) -> Result<BTreeSet<Relative>, StoreError>;

    /// The first page of a query, and the sequence number of the last change that it is sure to
    /// show. A watch from there misses nothing.
    async fn first_page(&self, query: &Query) -> Result<(Page, u64), StoreError>;

    /// One page of one store's part of a list that is merged from several stores. The first page,
    /// without `from`, is read without a view if nothing follows it. The view stays open until it
    /// is [released](IndexReader::release) or unused for five minutes.
    async fn sorted_page(
        &self,
        query: &Query,
        from: Option<&Cursor>,
    ) -> Result<SortedPage, StoreError>;

    /// Opens a view of a query's objects and returns its name. It counts against its requester's
    /// share.
    async fn open_view(&self, query: &Query) -> Result<String, StoreError>;

    /// The sequence number of the last change that every query about a resource is sure to show
    /// from now on.
    async fn visible_sequence(&self, resource: &ResourceName) -> Result<u64, StoreError>;

    /// The log of the changes that queries show. It is recorded from now on at the latest, and for
    /// as long as it is asked for now and then.
    async fn change_log(&self) -> Result<Arc<Log>, StoreError>;

    /// Counts the objects of a query in groups, exactly. `top`: how many of the largest groups are
    /// returned.
    async fn aggregate(
        &self,
        query: &Query,
        by: &[GroupKey],
        top: usize,
    ) -> Result<Groups, StoreError>;

    /// The groups that the objects of a query are in, with approximate counts. Opens no view: a
    /// group that appears or disappears meanwhile may be missing.
    async fn groups(&self, query: &Query, by: &[GroupKey]) -> Result<Groups, StoreError> {
        self.aggregate(query, by, usize::MAX).await
    }
}
