//! Whether objects move between stores while clients list and watch them.
//!
//! The versions of all stores of a process are one sequence, so a version does not say of which
//! stores it is. A watch of the stores that answer now must not begin at the version of a list that
//! other stores have answered: the logs of the new ones hold nothing from before the objects came
//! to them, so the watch would miss what changed meanwhile, deletions above all.
//!
//! Guarantee: a version from before a move is too old for a watch.

use std::{
    collections::BTreeMap,
    ptr,
    sync::{Arc, Weak},
};

use fleetdex_core::{
    planted::{Bug, planted},
    query::ResourceName,
};
use fleetdex_query_api::question::{ListRequest, StoreKind};
use fleetdex_store::changes::{Log, Sequence};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::query_plan::holdings_hash;
use crate::catalog::Catalog;

/// The sequence number of a version that is too old for every watch.
const TOO_OLD: u64 = 0;

/// What lists and watches select: a resource, in stores of one kind or of any.
type MovedSelection = (ResourceName, Option<StoreKind>);

/// When the objects of each selection last moved between stores. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct StoreMoves(Arc<Mutex<BTreeMap<MovedSelection, LastMove>>>);

/// The last move of a selection.
#[derive(Debug)]
struct LastMove {
    /// The last catalog that it was compared with. While this is the current one, nothing has moved
    /// since. Weak, so that its address is not reused, and its content is freed.
    catalog: Weak<Catalog>,
    /// A hash of what the stores hold since then.
    holdings: u64,
    /// Its sequence number, which no change has: greater than that of every version from before.
    number: u64,
}

impl LastMove {
    /// No move is known: versions of any age are of the stores that this catalog has.
    fn unknown(catalog: &Arc<Catalog>, request: &ListRequest) -> Self {
        Self {
            catalog: Arc::downgrade(catalog),
            holdings: holdings_hash(catalog, request),
            number: TOO_OLD,
        }
    }

    /// Notes a move if the stores of another catalog hold something else. Every list and watch
    /// compares, so one with the same catalog costs no hash of its clusters.
    fn compare(&mut self, catalog: &Arc<Catalog>, request: &ListRequest, sequence: &Sequence) {
        if ptr::eq(self.catalog.as_ptr(), Arc::as_ptr(catalog)) {
            return;
        }
        self.catalog = Arc::downgrade(catalog);
        let holdings = holdings_hash(catalog, request);
        if self.holdings != holdings {
            self.holdings = holdings;
            self.number = sequence.advance();
        }
    }
}

impl StoreMoves {
    /// The catalog that a request is planned with. `current` receives those that replace it.
    pub fn planned(
        &self,
        catalog: &Arc<Catalog>,
        current: &watch::Receiver<Arc<Catalog>>,
    ) -> PlannedCatalog {
        PlannedCatalog {
            catalog: Arc::clone(catalog),
            current: current.clone(),
            moves: self.clone(),
        }
    }
}

/// The catalog that a request is planned with, whatever the caller can see of it, and those that
/// replace it.
#[derive(Clone, Debug)]
pub struct PlannedCatalog {
    /// The catalog that the request is planned with.
    pub(crate) catalog: Arc<Catalog>,
    /// The catalog that is published now.
    pub(crate) current: watch::Receiver<Arc<Catalog>>,
    moves: StoreMoves,
}

impl PlannedCatalog {
    /// The sequence number of the last move of the objects that a request selects: versions before
    /// it are of other stores. To be called before anything is read.
    ///
    /// A move gets its number from the first request that is answered after it. A version of the
    /// former stores was [found](Self::response_number) before, so its number is lower.
    pub(crate) fn last_move(&self, request: &ListRequest, sequence: &Sequence) -> u64 {
        // Whatever a store holds that the request names, its own log tells.
        if request.store.is_some() || planted(Bug::WatchFromFormerStore) {
            return TOO_OLD;
        }
        let resource = ResourceName::new(&request.resource.group, &request.resource.plural);
        let mut moves = self.moves.0.lock();
        // Within the lock, so that no earlier catalog counts after a later one.
        let current = Arc::clone(&self.current.borrow());
        let last = moves
            .entry((resource, request.store_kind))
            .or_insert_with(|| LastMove::unknown(&current, request));
        last.compare(&current, request, sequence);
        last.number
    }

    /// The sequence number of a response that is sure to show the changes of `logs` up to `shown`.
    /// `last_move`: the last move from before it was read.
    pub(crate) fn response_number(
        &self,
        request: &ListRequest,
        logs: &[Arc<Log>],
        shown: u64,
        last_move: u64,
    ) -> u64 {
        if self.has_moved(request) && !planted(Bug::WatchFromFormerStore) {
            return TOO_OLD;
        }
        // Where nothing has changed since the move, the response shows the state after it.
        let is_of_after = || logs.iter().all(|log| log.reaches_to(shown) >= last_move);
        if shown < last_move && is_of_after() {
            last_move
        } else {
            shown
        }
    }

    /// Whether other stores answer the request now than those that it was planned for.
    fn has_moved(&self, request: &ListRequest) -> bool {
        let current = Arc::clone(&self.current.borrow());
        request.store.is_none()
            && !Arc::ptr_eq(&current, &self.catalog)
            && holdings_hash(&current, request) != holdings_hash(&self.catalog, request)
    }
}

#[cfg(test)]
mod tests {
    use fleetdex_store::memory::Memory;

    use super::*;
    use crate::fake::{add, pods, store};

    const STORES: [&str; 2] = ["former", "new"];

    /// Pods of member1 in one store, and of member2 in another.
    fn catalog(member1: &str, member2: &str) -> Arc<Catalog> {
        let mut catalog = Catalog::default();
        for name in STORES {
            catalog.add_store(store(name), Arc::new(Memory::new()));
        }
        add(&mut catalog, member1, "member1", &pods());
        add(&mut catalog, member2, "member2", &pods());
        Arc::new(catalog)
    }

    fn request(store: Option<&str>) -> ListRequest {
        let mut request = ListRequest {
            store: store.map(|name| name.parse().unwrap()),
            ..ListRequest::default()
        };
        request.resource.plural = "pods".to_owned();
        request
    }

    #[test]
    fn a_response_that_objects_move_away_from_is_too_old_for_a_watch() {
        let log = Log::of_a_test();
        let logs = [Arc::clone(&log)];
        let moves = StoreMoves::default();
        let before = catalog("former", "former");
        let (publish, published) = watch::channel(Arc::clone(&before));
        let number = |planned: &PlannedCatalog, request: &ListRequest, last_move| {
            planned.response_number(request, &logs, log.sequence().newest(), last_move)
        };
        let (all, of_one) = (request(None), request(Some("former")));
        let during = moves.planned(&before, &published);
        let last_move = during.last_move(&all, log.sequence());
        let in_time = number(&during, &all, last_move);
        assert!(in_time > last_move);
        // One cluster after the other.
        for (of_member1, of_member2) in [("new", "former"), ("new", "new")] {
            let after = catalog(of_member1, of_member2);
            publish.send_replace(Arc::clone(&after));
            assert_eq!(number(&during, &all, last_move), TOO_OLD);
            let later = moves.planned(&after, &published);
            let moved = later.last_move(&all, log.sequence());
            assert!(in_time < moved && number(&later, &all, moved) >= moved);
            assert_eq!(moved, during.last_move(&all, log.sequence()), "one move");
            // Another catalog, in which every object is where it was.
            publish.send_replace(catalog(of_member1, of_member2));
            assert_eq!(moved, during.last_move(&all, log.sequence()), "no move");
            // The log of a store that is named tells of everything in it.
            assert_eq!(later.last_move(&of_one, log.sequence()), TOO_OLD);
            assert!(number(&during, &of_one, TOO_OLD) > TOO_OLD);
        }
    }
}
