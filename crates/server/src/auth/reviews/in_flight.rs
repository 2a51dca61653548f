//! Access reviews that have been asked for and have no result yet.

use std::{collections::HashMap, sync::Arc};

use futures::{
    FutureExt as _,
    future::{BoxFuture, Shared, WeakShared},
};
use parking_lot::Mutex;

/// A hash of a review and who decides.
pub(super) type ReviewKey = [u8; 32];

/// The reviews that are sent at most once at a time, each with a result `T`.
pub(super) struct ReviewsInFlight<T: Clone>(Arc<Mutex<KnownReviews<T>>>);

struct KnownReviews<T: Clone> {
    /// By key: a number of its own, and the review.
    reviews: HashMap<ReviewKey, (u64, WeakShared<BoxFuture<'static, T>>)>,
    next: u64,
}

/// Removes a review from those in flight when it has ended, or its last asker is gone.
struct InFlight<T: Clone> {
    all: Arc<Mutex<KnownReviews<T>>>,
    key: ReviewKey,
    number: u64,
}

impl<T: Clone + Send + Sync + 'static> Default for ReviewsInFlight<T> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(KnownReviews {
            reviews: HashMap::new(),
            next: 0,
        })))
    }
}

impl<T: Clone + Send + Sync + 'static> ReviewsInFlight<T> {
    /// The review that is in flight already, or this one. It goes on as long as one of its askers
    /// waits for it.
    pub(super) fn join(
        &self,
        key: ReviewKey,
        review: impl FnOnce() -> BoxFuture<'static, T>,
    ) -> Shared<BoxFuture<'static, T>> {
        let mut all = self.0.lock();
        let known = all.reviews.get(&key);
        if let Some(known) = known.and_then(|(_, review)| review.upgrade()) {
            return known;
        }
        let number = all.next;
        all.next += 1;
        let (review, in_flight) = (
            review(),
            InFlight {
                all: Arc::clone(&self.0),
                key,
                number,
            },
        );
        let shared = async move {
            let _end = in_flight;
            review.await
        }
        .boxed()
        .shared();
        if let Some(weak) = shared.downgrade() {
            all.reviews.insert(key, (number, weak));
        }
        shared
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().reviews.is_empty()
    }
}

impl<T: Clone> Drop for InFlight<T> {
    fn drop(&mut self) {
        let mut all = self.all.lock();
        // Another one may be in its place, if its last asker left at the same time.
        if all
            .reviews
            .get(&self.key)
            .is_some_and(|(number, _)| *number == self.number)
        {
            all.reviews.remove(&self.key);
        }
    }
}
