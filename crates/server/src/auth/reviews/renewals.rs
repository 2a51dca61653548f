//! Access reviews that no request waits for, because an older decision is still valid.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use fleetdex_core::model::ClusterName;
use parking_lot::Mutex;

use super::{in_flight::ReviewKey, reviewer::Reviewer};

/// Renewals by one API server for one user at a time: a quarter of the slots, so that they leave
/// room for what the user waits for. Further decisions are asked for when they have expired.
pub(super) const MAX_RENEWALS: usize = 4;

/// Renewals of all users at a time. No request holds their memory: each has the user, its groups
/// and what the identity provider adds, some kilobytes.
const MAX_ALL: usize = 1_024;

/// Who renews, and for which user.
type RenewedBy = (Option<ClusterName>, Arc<str>);
/// The reviews that are renewals.
type RenewedReviews = Mutex<HashMap<RenewedBy, HashSet<ReviewKey>>>;

/// The renewals in flight.
#[derive(Default)]
pub(super) struct Renewals(Arc<RenewedReviews>);

/// One of a user's renewals, until it is dropped.
pub(super) struct Renewal {
    all: Arc<RenewedReviews>,
    by: RenewedBy,
    key: ReviewKey,
}

impl Renewals {
    /// Begins a renewal, unless this one is in flight or there are too many, of this user or of
    /// all.
    pub(super) fn begin(
        &self,
        reviewer: Reviewer<'_>,
        user: &Arc<str>,
        key: ReviewKey,
    ) -> Option<Renewal> {
        let by = (reviewer.member().cloned(), Arc::clone(user));
        let mut all = self.0.lock();
        if all.values().map(HashSet::len).sum::<usize>() >= MAX_ALL {
            return None;
        }
        let renewed = all.entry(by.clone()).or_default();
        (renewed.len() < MAX_RENEWALS && renewed.insert(key)).then(|| Renewal {
            all: Arc::clone(&self.0),
            by,
            key,
        })
    }
}

impl Drop for Renewal {
    fn drop(&mut self) {
        let mut all = self.all.lock();
        if let Some(renewed) = all.get_mut(&self.by) {
            renewed.remove(&self.key);
            if renewed.is_empty() {
                all.remove(&self.by);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renewals_of_a_user_and_of_all_users_are_bounded_and_leave_nothing_behind() {
        let renewals = Renewals::default();
        let begin = |user: usize, key: usize| {
            let mut review = [0; 32];
            review[..8].copy_from_slice(&key.to_le_bytes());
            renewals.begin(Reviewer::ControlPlane, &user.to_string().into(), review)
        };
        let mut held: Vec<Renewal> = (0..2 * MAX_RENEWALS)
            .filter_map(|key| begin(0, key))
            .collect();
        assert_eq!(held.len(), MAX_RENEWALS);
        held.extend((1..MAX_ALL).flat_map(|user| (0..2).filter_map(move |key| begin(user, key))));
        assert_eq!(held.len(), MAX_ALL);
        held.pop();
        assert!(begin(MAX_ALL, 0).is_some());
        drop(held);
        assert!(renewals.0.lock().is_empty());
    }
}
