//! Access reviews that no request waits for, because an older decision is still valid.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use parking_lot::Mutex;

use super::in_flight::ReviewKey;

/// Renewals of one user at a time. Further decisions of that user are asked for when they have
/// expired.
pub(super) const MAX_RENEWALS: usize = 8;

/// The reviews that are renewals, by user.
type RenewedReviews = Mutex<HashMap<Arc<str>, HashSet<ReviewKey>>>;

/// The renewals in flight.
#[derive(Default)]
pub(super) struct Renewals(Arc<RenewedReviews>);

/// One of a user's renewals, until it is dropped.
pub(super) struct Renewal {
    all: Arc<RenewedReviews>,
    user: Arc<str>,
    key: ReviewKey,
}

impl Renewals {
    /// Begins a renewal, unless this one is in flight or the user has too many.
    pub(super) fn begin(&self, user: &Arc<str>, key: ReviewKey) -> Option<Renewal> {
        let mut all = self.0.lock();
        let renewed = all.entry(Arc::clone(user)).or_default();
        (renewed.len() < MAX_RENEWALS && renewed.insert(key)).then(|| Renewal {
            all: Arc::clone(&self.0),
            user: Arc::clone(user),
            key,
        })
    }
}

impl Drop for Renewal {
    fn drop(&mut self) {
        let mut all = self.all.lock();
        if let Some(renewed) = all.get_mut(&self.user) {
            renewed.remove(&self.key);
            if renewed.is_empty() {
                all.remove(&self.user);
            }
        }
    }
}
