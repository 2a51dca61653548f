//! Reviews, of access or of tokens, that have been asked for and have no result yet.

use std::{collections::HashMap, future::Future, sync::Arc};

use futures::{
    FutureExt as _,
    future::{BoxFuture, Shared, WeakShared},
};
use parking_lot::Mutex;
use tokio_util::task::AbortOnDropHandle;

use super::reviewer::ReviewError;

/// A hash of a review and who decides.
pub type ReviewKey = [u8; 32];

/// The result of a review.
type ReviewFuture<T> = BoxFuture<'static, Result<T, ReviewError>>;

/// The reviews that are sent at most once at a time, each with a decision `T`.
pub struct ReviewsInFlight<T: Clone>(Arc<Mutex<KnownReviews<T>>>);

struct KnownReviews<T: Clone> {
    /// By key: a number of its own, and the review.
    reviews: HashMap<ReviewKey, (u64, WeakShared<ReviewFuture<T>>)>,
    next: u64,
}

/// One of those that wait for a review.
pub struct ReviewInFlight<T: Clone> {
    /// Its result.
    pub result: Shared<ReviewFuture<T>>,
    /// Whether another one began it, who may have waited for long.
    pub(super) is_joined: bool,
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
    /// waits for it, in a task of its own: an asker that waits for a turn to compute does not keep
    /// its slot at the API server meanwhile.
    pub fn join<F>(&self, key: ReviewKey, review: impl FnOnce() -> F) -> ReviewInFlight<T>
    where
        F: Future<Output = Result<T, ReviewError>> + Send + 'static,
    {
        let mut all = self.0.lock();
        let known = all.reviews.get(&key);
        if let Some(result) = known.and_then(|(_, review)| review.upgrade()) {
            return ReviewInFlight {
                result,
                is_joined: true,
            };
        }
        let number = all.next;
        all.next += 1;
        let in_flight = || InFlight {
            all: Arc::clone(&self.0),
            key,
            number,
        };
        let (ended, abandoned) = (in_flight(), in_flight());
        let review = review();
        let task = AbortOnDropHandle::new(tokio::spawn(async move {
            let _ended = ended;
            review.await
        }));
        let result = async move {
            let _abandoned = abandoned;
            task.await.unwrap_or_else(|error| {
                Err(ReviewError::Failed {
                    reviewer: "the API server".to_owned(),
                    reason: error.to_string(),
                })
            })
        }
        .boxed()
        .shared();
        if let Some(weak) = result.downgrade() {
            all.reviews.insert(key, (number, weak));
        }
        ReviewInFlight {
            result,
            is_joined: false,
        }
    }

    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.0.lock().reviews.is_empty()
    }
}

impl<T: Clone> Drop for InFlight<T> {
    fn drop(&mut self) {
        let mut all = self.all.lock();
        // Another one may be in its place, if its last asker left at the same time.
        let known = all.reviews.get(&self.key);
        if known.is_some_and(|(number, _)| *number == self.number) {
            all.reviews.remove(&self.key);
        }
    }
}
