//! The views that a store holds open for the pages of lists, shared fairly: each user has a share,
//! and a view beyond it closes an earlier one of that user, never another user's.
//!
//! The operator's own views are not counted here: the limit for all users leaves room for them.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use fleetdex_core::planted::{Bug, planted};
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

/// Names of closed views to remember, so that users learn why theirs have ended.
const MAX_REMEMBERED_CLOSED_VIEWS: usize = 4_096;

/// What may be open at a time, in units of the store.
#[derive(Clone, Copy, Debug)]
pub(super) struct ViewLimits {
    /// For one user, but at least one view.
    pub per_user: u64,
    /// For all users together, but at least one view.
    pub all_users: u64,
    /// How long a view outlives its last use.
    pub keep_alive: Duration,
}

/// Nothing more can be opened, and no view of the user can be closed for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QuotaExceeded {
    /// The user's own lists are in progress.
    User,
    /// Other users hold everything.
    Users,
}

/// Who holds which views. Views have numbers from the start, and names once they are open.
#[derive(Debug)]
pub(super) struct ViewQuota {
    shares: ViewLimits,
    held: Mutex<QuotaState>,
}

#[derive(Debug, Default)]
struct QuotaState {
    views: BTreeMap<u64, CountedView>,
    last: u64,
    ended: VecDeque<Arc<str>>,
}

#[derive(Debug)]
struct CountedView {
    user: Arc<str>,
    /// Absent while it is being opened.
    name: Option<Arc<str>>,
    cost: u64,
    used: Instant,
    /// Whether a list is being read from it to its end.
    is_pinned: bool,
}

impl ViewQuota {
    pub(super) fn new(shares: ViewLimits) -> Self {
        Self {
            shares,
            held: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, QuotaState> {
        let mut held = self.held.lock();
        let keep_alive = self.shares.keep_alive;
        held.views
            .retain(|_, view| view.name.is_none() || view.used.elapsed() < keep_alive);
        held
    }

    /// Reserves room for a view of a user; returns its number, and the names of those that have to
    /// be closed for it.
    pub(super) fn reserve(
        &self,
        user: &Arc<str>,
        cost: u64,
    ) -> Result<(u64, Vec<Arc<str>>), QuotaExceeded> {
        let mut held = self.lock();
        let ended = held.close_views_for(user, cost, self.shares)?;
        held.last += 1;
        let number = held.last;
        let view = CountedView {
            user: Arc::clone(user),
            name: None,
            cost,
            used: Instant::now(),
            is_pinned: false,
        };
        held.views.insert(number, view);
        Ok((number, ended))
    }

    /// Records the name and the actual cost of an opened view.
    pub(super) fn opened(&self, number: u64, name: Arc<str>, cost: u64) {
        if let Some(view) = self.lock().views.get_mut(&number) {
            (view.name, view.cost, view.used) = (Some(name), cost, Instant::now());
        }
    }

    /// Removes a view that was not opened.
    pub(super) fn cancel(&self, number: u64) {
        self.lock().views.remove(&number);
    }

    /// Records that a view is used; whether it is known.
    pub(super) fn used(&self, name: &str) -> bool {
        let mut held = self.lock();
        let found = held.find(name);
        found.map(|view| view.used = Instant::now()).is_some()
    }

    /// Protects a view that a list is being read from to its end.
    pub(super) fn pin(&self, name: &str) {
        if let Some(view) = self.lock().find(name) {
            view.is_pinned = true;
        }
    }

    /// Removes a view that has been closed.
    pub(super) fn closed(&self, name: &str) {
        self.lock()
            .views
            .retain(|_, view| view.name.as_deref() != Some(name));
    }

    /// Whether a view was closed for another one of its user.
    pub(super) fn has_ended(&self, name: &str) -> bool {
        self.lock().ended.iter().any(|ended| **ended == *name)
    }

    /// The cost of all views.
    #[cfg(test)]
    fn cost(&self) -> u64 {
        self.lock().views.values().map(|view| view.cost).sum()
    }
}

impl QuotaState {
    fn find(&mut self, name: &str) -> Option<&mut CountedView> {
        self.views
            .values_mut()
            .find(|view| view.name.as_deref() == Some(name))
    }

    /// Closes views of a user, the least recently used first, until there is room for another one.
    fn close_views_for(
        &mut self,
        user: &Arc<str>,
        cost: u64,
        shares: ViewLimits,
    ) -> Result<Vec<Arc<str>>, QuotaExceeded> {
        let (mut own, mut all, mut ends) = (0, 0, Vec::new());
        for (number, view) in &self.views {
            all += view.cost;
            if view.user == *user || planted(Bug::EndListsOfOthers) {
                own += view.cost;
                if !view.is_pinned && view.name.is_some() {
                    ends.push((view.used, *number, view.cost));
                }
            }
        }
        ends.sort_unstable();
        let mut ending = Vec::new();
        let mut ends = ends.into_iter();
        let is_over = |held: u64, share: u64| held > 0 && held + cost > share;
        while is_over(own, shares.per_user) || is_over(all, shares.all_users) {
            let Some((_, number, freed)) = ends.next() else {
                return Err(if is_over(own, shares.per_user) {
                    QuotaExceeded::User
                } else {
                    QuotaExceeded::Users
                });
            };
            (own, all) = (own - freed, all - freed);
            ending.push(number);
        }
        let ended: Vec<Arc<str>> = ending
            .iter()
            .filter_map(|number| self.views.remove(number)?.name)
            .collect();
        self.ended.extend(ended.iter().cloned());
        let surplus = self.ended.len().saturating_sub(MAX_REMEMBERED_CLOSED_VIEWS);
        self.ended.drain(..surplus);
        Ok(ended)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SHARES: ViewLimits = ViewLimits {
        per_user: 10,
        all_users: 25,
        keep_alive: Duration::from_mins(5),
    };

    fn open(
        ledger: &ViewQuota,
        user: &str,
        name: &str,
        cost: u64,
    ) -> Result<Vec<String>, QuotaExceeded> {
        let (number, ended) = ledger.reserve(&user.into(), cost)?;
        ledger.opened(number, name.into(), cost);
        Ok(ended.iter().map(ToString::to_string).collect())
    }

    #[tokio::test(start_paused = true)]
    async fn a_user_who_opens_too_much_loses_what_was_used_longest_ago() {
        let ledger = ViewQuota::new(SHARES);
        for name in ["a1", "a2", "a3"] {
            tokio::time::advance(Duration::from_secs(1)).await;
            assert_eq!(open(&ledger, "a", name, 3), Ok(Vec::new()));
        }
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(ledger.used("a1"));
        assert_eq!(open(&ledger, "b", "b1", 9), Ok(Vec::new()));
        assert_eq!(open(&ledger, "a", "a4", 3), Ok(vec!["a2".to_owned()]));
        assert!(ledger.has_ended("a2") && !ledger.used("a2") && ledger.used("a1"));
        assert_eq!(
            open(&ledger, "a", "large", 24),
            Err(QuotaExceeded::Users),
            "b holds 9 of 25"
        );
        ledger.closed("b1");
        assert_eq!(
            open(&ledger, "a", "large", 40).map(|ended| ended.len()),
            Ok(3),
            "one of any size is possible"
        );
        assert_eq!(open(&ledger, "b", "b2", 1), Err(QuotaExceeded::Users));
        tokio::time::advance(SHARES.keep_alive).await;
        assert_eq!(
            open(&ledger, "b", "b2", 1),
            Ok(Vec::new()),
            "what is not used any more is not held"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn answers_that_are_being_read_do_not_end_for_others() {
        let ledger = ViewQuota::new(SHARES);
        open(&ledger, "a", "a1", 6).unwrap();
        ledger.pin("a1");
        assert_eq!(open(&ledger, "a", "a2", 5), Err(QuotaExceeded::User));
        assert_eq!(open(&ledger, "a", "a2", 4), Ok(Vec::new()));
        let (number, _) = ledger.reserve(&"b".into(), 7).unwrap();
        ledger.cancel(number);
        assert_eq!(ledger.cost(), 10);
    }

    proptest! {
        /// No user loses a view because of what others open, and all stay within their limits.
        #[test]
        fn no_user_loses_a_view_because_of_others(steps in prop::collection::vec((0..4_usize, 1..8_u64, any::<bool>()), 1..80)) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
            runtime.block_on(async {
                let ledger = ViewQuota::new(SHARES);
                for (number, (user, cost, pins)) in steps.into_iter().enumerate() {
                    tokio::time::advance(Duration::from_millis(10)).await;
                    let name = format!("{user}-{number}");
                    if let Ok(ended) = open(&ledger, &user.to_string(), &name, cost) {
                        prop_assert!(ended.iter().all(|name| name.starts_with(&format!("{user}-"))), "{ended:?}");
                    }
                    if pins {
                        ledger.pin(&name);
                    }
                    prop_assert!(ledger.cost() <= SHARES.all_users);
                }
                Ok(())
            })?;
        }
    }
}
