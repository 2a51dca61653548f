//! A store that answers what a test prepared.
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
        Cursor, GroupKey, Groups, Page, Query, Relative, Relatives, ResourceName,
        merge::{Placed, PlacedPage},
    },
};
use parking_lot::Mutex;

use crate::{
    Checkpoints, Extent, Generation, Store, StoreError, Stored, Visit,
    bulk::{Verdict, Write},
    changes::Log,
};

/// Answers with what was prepared, page by page, and remembers what it was asked.
pub struct Prepared {
    /// Never answers.
    hangs: bool,
    pages: Mutex<VecDeque<Result<Page, StoreError>>>,
    asked: Mutex<Vec<(Query, Option<Cursor>)>>,
    /// The cursors that were released.
    pub released: Mutex<Vec<Cursor>>,
    /// Nothing changes.
    pub log: Arc<Log>,
    /// The answer to every aggregation, and what was asked.
    pub groups: Groups,
    /// The answers to owner searches, and what was asked.
    pub relatives: Mutex<VecDeque<BTreeSet<Relative>>>,
    pub searched: Mutex<Vec<Relatives>>,
    pub counted: Mutex<Vec<(Vec<GroupKey>, usize)>>,
    /// What is stored of any unit, by id.
    pub documents: Mutex<BTreeMap<String, Version>>,
}

impl Default for Prepared {
    fn default() -> Self {
        Self {
            hangs: false,
            pages: Mutex::default(),
            asked: Mutex::default(),
            released: Mutex::default(),
            log: Log::of_a_test(),
            groups: Groups::default(),
            relatives: Mutex::default(),
            searched: Mutex::default(),
            counted: Mutex::default(),
            documents: Mutex::default(),
        }
    }
}

#[async_trait]
impl Store for Prepared {
    async fn prepare(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn lost(&self, _: &[Generation]) -> Result<BTreeSet<ClusterName>, StoreError> {
        Ok(BTreeSet::new())
    }

    async fn open(
        &self,
        cluster: &ClusterName,
        _: Option<&str>,
        _: u64,
    ) -> Result<Generation, StoreError> {
        Ok(Generation::first(&IndexPrefix::default(), cluster))
    }

    async fn activate(&self, _: &Generation) -> Result<(), StoreError> {
        Ok(())
    }

    async fn show(&self, _: &Generation, _: &BTreeSet<ResourceName>) -> Result<(), StoreError> {
        Ok(())
    }

    async fn generations(&self) -> Result<Vec<Generation>, StoreError> {
        Ok(Vec::new())
    }

    async fn write(&self, _: &[Write]) -> Result<Vec<Verdict>, StoreError> {
        Ok(Vec::new())
    }

    async fn visit_versions(
        &self,
        _: &Generation,
        _: &Extent,
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        let documents = self.documents.lock();
        documents.iter().for_each(|(id, version)| {
            visit(Stored {
                id,
                version: *version,
                namespace: "",
                name: id,
            });
        });
        Ok(())
    }

    async fn rejected(&self, _: &Generation, _: &Extent) -> Result<Vec<Arc<str>>, StoreError> {
        Ok(Vec::new())
    }

    async fn checkpoints(&self, _: &ClusterName) -> Result<Option<Checkpoints>, StoreError> {
        Ok(None)
    }

    async fn save_checkpoints(&self, _: &[Checkpoints]) -> Result<(), StoreError> {
        Ok(())
    }

    async fn drop_generation(&self, _: &Generation) -> Result<(), StoreError> {
        Ok(())
    }

    async fn retire(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn drop_cluster(&self, _: &ClusterName) -> Result<(), StoreError> {
        Ok(())
    }

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

    async fn relatives(&self, asked: &Relatives) -> Result<BTreeSet<Relative>, StoreError> {
        self.searched.lock().push(asked.clone());
        Ok(self.relatives.lock().pop_front().unwrap_or_default())
    }

    async fn first_page(&self, query: &Query) -> Result<(Page, u64), StoreError> {
        Ok((self.search(query, None).await?, self.log.newest()))
    }

    async fn placed_page(
        &self,
        query: &Query,
        from: Option<&Cursor>,
    ) -> Result<PlacedPage, StoreError> {
        let Page {
            items,
            next,
            remaining,
        } = self.search(query, from).await?;
        let placed = |hit| Placed {
            hit,
            order: Vec::new(),
            after: Vec::new(),
        };
        let (items, more) = (items.into_iter().map(placed).collect(), next.is_some());
        Ok(PlacedPage {
            items,
            view: next.map(|next| next.snapshot),
            more,
            remaining,
        })
    }

    async fn open_view(&self, _: &Query) -> Result<String, StoreError> {
        Ok("view".to_owned())
    }

    async fn moment(&self, _: &ResourceName) -> Result<u64, StoreError> {
        Ok(self.log.newest())
    }

    async fn changes(&self) -> Result<Arc<Log>, StoreError> {
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
        Ok(self.groups.clone())
    }
}

impl Prepared {
    pub fn with(pages: Vec<Result<Page, StoreError>>) -> Arc<Self> {
        Arc::new(Self {
            pages: Mutex::new(pages.into()),
            ..Self::default()
        })
    }

    /// One answer more.
    pub fn add(&self, page: Result<Page, StoreError>) {
        self.pages.lock().push_back(page);
    }

    pub fn counting(groups: Groups) -> Arc<Self> {
        Arc::new(Self {
            groups,
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
