//! What users hold of an OpenSearch with their points in time: contexts, of which each node keeps 300.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use parking_lot::Mutex;

use crate::{
    StoreError,
    quota::{Full, Ledger, Shares},
};

/// How long a point in time outlives its last page.
pub(super) const KEEP_ALIVE: &str = "5m";
/// The same for the ledger.
const KEPT: Duration = Duration::from_mins(5);
/// Contexts that users may hold together, unless `--list-contexts` says otherwise: two thirds of OpenSearch's 300.
pub const LIST_CONTEXTS: u64 = 200;

/// What users hold of one OpenSearch. Clones share it.
#[derive(Clone, Debug)]
pub struct ListContexts(pub(super) Arc<Contexts>);

#[derive(Debug)]
pub(super) struct Contexts {
    pub(super) ledger: Ledger,
    all: u64,
    /// What the last point in time of the whole index took.
    pub(super) last: AtomicU64,
}

impl ListContexts {
    /// So many contexts for all users, of which one user may hold half.
    pub fn new(all: u64) -> Self {
        let shares = Shares {
            user: all.div_ceil(2),
            users: all,
            keep_alive: KEPT,
        };
        Self(Arc::new(Contexts {
            ledger: Ledger::new(shares),
            all,
            last: AtomicU64::new(1),
        }))
    }

    pub(super) fn crowded(&self, full: Full) -> StoreError {
        let Contexts { all, .. } = &*self.0;
        StoreError::Crowded(match full {
            Full::User => format!(
                "your lists that are under way hold as much of OpenSearch as one user may ({} contexts of points in time); try again when one has ended",
                all.div_ceil(2)
            ),
            Full::Users => format!(
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

/// What users hold, for each OpenSearch, whatever prefixes are used there.
#[derive(Debug)]
pub struct AllListContexts {
    each: u64,
    stores: Mutex<BTreeMap<BTreeSet<String>, ListContexts>>,
}

impl AllListContexts {
    /// So many contexts in each OpenSearch.
    pub fn new(each: u64) -> Self {
        Self {
            each,
            stores: Mutex::default(),
        }
    }

    /// Those of the OpenSearch at these addresses.
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
