//! A reader and a writer whose responses a test prepares.
#![allow(
    missing_docs,
    clippy::missing_panics_doc,
    clippy::panic,
    clippy::unwrap_used,
    reason = "for tests only"
)]

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use async_trait::async_trait;
use fleetdex_core::{
    model::{ClusterName, IndexPrefix, Version},
    query::{
        Cursor, GroupKey, Groups, Page, Query, RankedPage, RankedQuery, Relative, RelativesQuery,
        ResourceName, ValueCounts, ValuesQuery,
        merge::{SortedHit, SortedPage},
    },
};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{
    ChangeLogWriter, CheckpointStore, Checkpoints, CompleteResources, DocumentVersions,
    DocumentWriter, Extent, IndexReader, IndexRevision, IndexSharing, IndexWriter, MadeBy,
    RevisionStore, StoreError, StoredVersion, Visit,
    bulk::{Verdict, Write},
    changes::Log,
};

/// Returns prepared pages, and records the queries.
pub struct PreparedReader {
    /// Never responds.
    hangs: bool,
    /// Refuses every aggregation.
    fails_to_count: bool,
    pages: Mutex<VecDeque<Result<Page, StoreError>>>,
    asked: Mutex<Vec<(Query, Option<Cursor>)>>,
    /// The cursors that were released.
    pub released: Mutex<Vec<Cursor>>,
    /// A log without changes.
    pub log: Arc<Log>,
    /// The result of every aggregation.
    pub groups: Groups,
    /// The results of owner searches, and the queries.
    pub relatives: Mutex<VecDeque<BTreeSet<Relative>>>,
    pub searched: Mutex<Vec<RelativesQuery>>,
    pub counted: Mutex<Vec<(Vec<GroupKey>, usize)>>,
    /// The pages of searches over several resources, and the searches.
    pub ranked: Mutex<VecDeque<RankedPage>>,
    pub ranked_queries: Mutex<Vec<RankedQuery>>,
    /// The questions for values, which have none.
    pub values_queries: Mutex<Vec<ValuesQuery>>,
}

impl Default for PreparedReader {
    fn default() -> Self {
        Self {
            hangs: false,
            fails_to_count: false,
            pages: Mutex::default(),
            asked: Mutex::default(),
            released: Mutex::default(),
            log: Log::of_a_test(),
            groups: Groups::default(),
            relatives: Mutex::default(),
            searched: Mutex::default(),
            counted: Mutex::default(),
            ranked: Mutex::default(),
            ranked_queries: Mutex::default(),
            values_queries: Mutex::default(),
        }
    }
}

#[async_trait]
impl IndexReader for PreparedReader {
    async fn search(&self, query: &Query, from: Option<&Cursor>) -> Result<Page, StoreError> {
        if self.hangs {
            std::future::pending::<()>().await;
        }
        self.asked.lock().push((query.clone(), from.cloned()));
        self.pages
            .lock()
            .pop_front()
            .unwrap_or_else(|| Ok(Page::default()))
    }

    fn release(&self, cursor: &Cursor) {
        self.released.lock().push(cursor.clone());
    }

    async fn ranked_page(&self, query: &RankedQuery) -> Result<RankedPage, StoreError> {
        self.ranked_queries.lock().push(query.clone());
        Ok(self.ranked.lock().pop_front().unwrap_or_default())
    }

    async fn frequent_values(&self, query: &ValuesQuery) -> Result<Vec<ValueCounts>, StoreError> {
        self.values_queries.lock().push(query.clone());
        Ok(vec![ValueCounts::default(); query.prefixes.len()])
    }

    async fn relatives(&self, query: &RelativesQuery) -> Result<BTreeSet<Relative>, StoreError> {
        self.searched.lock().push(query.clone());
        Ok(self.relatives.lock().pop_front().unwrap_or_default())
    }

    async fn first_page(&self, query: &Query) -> Result<(Page, u64), StoreError> {
        Ok((self.search(query, None).await?, self.log.newest()))
    }

    async fn sorted_page(
        &self,
        query: &Query,
        from: Option<&Cursor>,
    ) -> Result<SortedPage, StoreError> {
        let Page {
            items,
            next,
            remaining,
        } = self.search(query, from).await?;
        let placed = |hit| SortedHit {
            hit,
            order: Vec::new(),
            after: Vec::new(),
        };
        let (items, more) = (items.into_iter().map(placed).collect(), next.is_some());
        Ok(SortedPage {
            items,
            view: next.map(|next| next.snapshot),
            more,
            remaining,
        })
    }

    async fn open_view(&self, _: &Query) -> Result<String, StoreError> {
        Ok("view".to_owned())
    }

    async fn visible_sequence(&self, _: &ResourceName) -> Result<u64, StoreError> {
        Ok(self.log.newest())
    }

    async fn change_log(&self) -> Result<Arc<Log>, StoreError> {
        Ok(Arc::clone(&self.log))
    }

    async fn aggregate(
        &self,
        query: &Query,
        by: &[GroupKey],
        top: usize,
    ) -> Result<Groups, StoreError> {
        self.asked.lock().push((query.clone(), None));
        self.counted.lock().push((by.to_vec(), top));
        if self.fails_to_count {
            return Err(StoreError::Busy {
                status: 429,
                reason: "circuit_breaking_exception".to_owned(),
            });
        }
        Ok(self.groups.clone())
    }
}

impl PreparedReader {
    pub fn with(pages: Vec<Result<Page, StoreError>>) -> Arc<Self> {
        Arc::new(Self {
            pages: Mutex::new(pages.into()),
            ..Self::default()
        })
    }

    /// Adds a result.
    pub fn add(&self, page: Result<Page, StoreError>) {
        self.pages.lock().push_back(page);
    }

    pub fn counting(groups: Groups) -> Arc<Self> {
        Arc::new(Self {
            groups,
            ..Self::default()
        })
    }

    pub fn failing_to_count() -> Arc<Self> {
        Arc::new(Self {
            fails_to_count: true,
            ..Self::default()
        })
    }

    pub fn hanging() -> Arc<Self> {
        Arc::new(Self {
            hangs: true,
            ..Self::default()
        })
    }

    pub fn asked(&self) -> Vec<(Query, Option<Cursor>)> {
        self.asked.lock().clone()
    }
}

/// What becomes of a batch.
#[async_trait]
pub trait WriteBatch: Send + Sync {
    async fn write_batch(&self, writes: &[Write]) -> Result<Vec<Verdict>, StoreError>;
}

/// A writer that shows prepared documents and hands each batch to a test. Everything else succeeds
/// and finds nothing.
#[derive(Default)]
pub struct PreparedWriter {
    /// The documents of every unit, versions by id.
    pub documents: Mutex<BTreeMap<String, Version>>,
    batches: Option<Arc<dyn WriteBatch>>,
    /// Index revisions are opened after this was notified.
    opens_after: Option<Arc<Notify>>,
}

impl PreparedWriter {
    pub fn opening_after(notification: Arc<Notify>) -> Self {
        Self {
            opens_after: Some(notification),
            ..Self::default()
        }
    }

    pub fn writing_to(batches: Arc<dyn WriteBatch>) -> Self {
        Self {
            batches: Some(batches),
            ..Self::default()
        }
    }
}

#[async_trait]
impl RevisionStore for PreparedWriter {
    async fn open(
        &self,
        cluster: &ClusterName,
        _: Option<&str>,
        _: u64,
    ) -> Result<IndexRevision, StoreError> {
        if let Some(opens_after) = &self.opens_after {
            opens_after.notified().await;
        }
        Ok(IndexRevision::first(&IndexPrefix::default(), cluster))
    }

    async fn activate(&self, _: &IndexRevision, _: &CompleteResources) -> Result<(), StoreError> {
        Ok(())
    }

    async fn lost(&self, _: &[IndexRevision]) -> Result<BTreeSet<ClusterName>, StoreError> {
        Ok(BTreeSet::new())
    }

    async fn revisions(&self) -> Result<Vec<IndexRevision>, StoreError> {
        Ok(Vec::new())
    }

    async fn identities(&self) -> Result<BTreeMap<ClusterName, String>, StoreError> {
        Ok(BTreeMap::new())
    }

    async fn drop_revision(&self, _: &IndexRevision) -> Result<(), StoreError> {
        Ok(())
    }

    async fn drop_cluster(&self, _: &ClusterName) -> Result<(), StoreError> {
        Ok(())
    }

    async fn retire(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

#[async_trait]
impl DocumentWriter for PreparedWriter {
    async fn write(&self, writes: &[Write]) -> Result<Vec<Verdict>, StoreError> {
        match &self.batches {
            Some(batches) => batches.write_batch(writes).await,
            None => Ok(Vec::new()),
        }
    }
}

#[async_trait]
impl DocumentVersions for PreparedWriter {
    async fn visit_versions(
        &self,
        _: &IndexRevision,
        _: &Extent,
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        let documents = self.documents.lock();
        documents.iter().for_each(|(id, version)| {
            visit(StoredVersion {
                id,
                version: *version,
                namespace: "",
                name: id,
            });
        });
        Ok(())
    }

    async fn has_documents_made_by(
        &self,
        _: &IndexRevision,
        _: &Extent,
        made_by: &MadeBy<'_>,
    ) -> Result<bool, StoreError> {
        Ok(matches!(made_by, MadeBy::OtherRules(_)))
    }

    async fn rejected(&self, _: &IndexRevision, _: &Extent) -> Result<Vec<Arc<str>>, StoreError> {
        Ok(Vec::new())
    }
}

#[async_trait]
impl CheckpointStore for PreparedWriter {
    async fn checkpoints(&self, _: &ClusterName) -> Result<Option<Checkpoints>, StoreError> {
        Ok(None)
    }

    async fn save_checkpoints(&self, _: &[Checkpoints]) -> Result<(), StoreError> {
        Ok(())
    }
}

#[async_trait]
impl ChangeLogWriter for PreparedWriter {
    fn hand_over(&self, _: &ClusterName) {}

    async fn close_change_log(&self) {}

    fn expire_watches(&self) {}
}

impl IndexWriter for PreparedWriter {
    fn index_sharing(&self) -> Option<&dyn IndexSharing> {
        None
    }
}
