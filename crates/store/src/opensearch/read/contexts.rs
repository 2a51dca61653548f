//! The contexts that points in time hold in an OpenSearch: each node keeps 300, which users and the
//! operator share.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::{
    StoreError,
    opensearch::connection::query_slots::QuerySlots,
    view_quota::{QuotaExceeded, ViewLimits, ViewQuota},
};

/// How long a point in time outlives its last page.
pub(crate) const KEEP_ALIVE: &str = "5m";
/// The same for the quota.
const KEEP_ALIVE_PERIOD: Duration = Duration::from_mins(5);
/// Contexts that users may hold together, unless `--list-contexts` says otherwise: two thirds of
/// OpenSearch's 300.
pub const LIST_CONTEXTS: u64 = 200;
/// Extents that lists and audits of this process read at a time, each from a point in time that
/// lives for some milliseconds: with indices of three shards, or three replicas, about what users
/// leave of the 300. With hundreds of clusters, thousands of kinds are listed at once.
const VISITS: usize = 32;
/// Surveys of indices that this process makes at a time. One of a shared index has the aliases of
/// all its clusters.
const SURVEYS: usize = 16;
/// Revisions that this process opens at a time. Each request under way takes a connection.
pub(crate) const OPENINGS: usize = 64;

/// The contexts of users in one OpenSearch. Clones share them.
#[derive(Clone, Debug)]
pub struct ListContexts(pub(crate) Arc<Contexts>);

#[derive(Debug)]
pub(crate) struct Contexts {
    pub(crate) quota: ViewQuota,
    all: u64,
    /// Contexts of the last point in time over all clusters.
    pub(crate) last: AtomicU64,
    /// A permit for each extent that is read.
    pub(crate) visits: Semaphore,
    /// A permit for each survey of indices.
    pub(crate) surveys: Semaphore,
    /// A permit for each revision that is opened.
    pub(crate) openings: Semaphore,
    /// A slot for each query of a user.
    pub(crate) queries: QuerySlots,
}

impl ListContexts {
    /// This many contexts for all users, of which one user may hold half.
    pub fn new(all: u64) -> Self {
        let limits = ViewLimits {
            per_user: all.div_ceil(2),
            all_users: all,
            keep_alive: KEEP_ALIVE_PERIOD,
        };
        Self(Arc::new(Contexts {
            quota: ViewQuota::new(limits),
            all,
            last: AtomicU64::new(1),
            visits: Semaphore::new(VISITS),
            surveys: Semaphore::new(SURVEYS),
            openings: Semaphore::new(OPENINGS),
            queries: QuerySlots::default(),
        }))
    }

    pub(crate) fn too_many(&self, full: QuotaExceeded) -> StoreError {
        let Contexts { all, .. } = &*self.0;
        StoreError::Crowded(match full {
            QuotaExceeded::User => format!(
                "your lists that are under way hold as much of OpenSearch as one user may ({} contexts of points in time); try again when one has ended",
                all.div_ceil(2)
            ),
            QuotaExceeded::Users => format!(
                "lists in pages hold as much of OpenSearch as they may ({all} contexts of points in time, --list-contexts); try again, or ask for fewer clusters"
            ),
        })
    }
}

impl Default for ListContexts {
    fn default() -> Self {
        Self::new(LIST_CONTEXTS)
    }
}

/// The contexts of users in each OpenSearch, whatever prefixes are used there.
#[derive(Debug)]
pub struct AllListContexts {
    each: u64,
    stores: Mutex<BTreeMap<BTreeSet<String>, ListContexts>>,
}

impl AllListContexts {
    /// This many contexts in each OpenSearch.
    pub fn new(each: u64) -> Self {
        Self {
            each,
            stores: Mutex::default(),
        }
    }

    /// The contexts of the OpenSearch at these addresses.
    pub fn of(&self, addresses: &[String]) -> ListContexts {
        let addresses = addresses
            .iter()
            .map(|address| address.trim_end_matches('/').to_owned())
            .collect();
        let mut stores = self.stores.lock();
        stores
            .entry(addresses)
            .or_insert_with(|| ListContexts::new(self.each))
            .clone()
    }
}
