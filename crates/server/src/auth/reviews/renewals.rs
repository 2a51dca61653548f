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
    /// Begins a renewal, unless this one is in flight or the user has too many.
    pub(super) fn begin(
        &self,
        reviewer: Reviewer<'_>,
        user: &Arc<str>,
        key: ReviewKey,
    ) -> Option<Renewal> {
        let by = (reviewer.member().cloned(), Arc::clone(user));
        let mut all = self.0.lock();
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
