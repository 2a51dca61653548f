//! Authenticates bearer tokens by `TokenReview`, apart from all other reviews, so that made-up
//! tokens delay only themselves.
//!
//! Guarantees:
//! - an error is never a result and never cached; accepted and rejected tokens are cached for ten
//!   seconds;
//! - concurrent requests with one token share one review;
//! - addresses share the reviews of tokens that are not known to be good, and their queue, fairly
//!   ([`FairSemaphore`]); tokens that were valid within the last hour do not queue behind them;
//! - made-up tokens evict no good one from the cache.

use std::{collections::HashMap, net::IpAddr, sync::Arc, time::Duration};

use fleetdex_limits::fair_semaphore::FairSemaphore;
use futures::{
    FutureExt as _,
    future::{BoxFuture, Shared, WeakShared},
};
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use sha2::{Digest, Sha256};
use tokio::{sync::Semaphore, time::timeout};

use super::{
    caller::Caller,
    expiring_cache::ExpiringCache,
    reviews::{ReviewError, Reviews},
};

/// Bytes of a token. Tokens of service accounts have 1 kB; those of identity providers that list
/// the groups of a user have several.
pub const MAX_TOKEN_BYTES: usize = 16 * 1024;
/// How long a result is cached: how long a user still sees what has just been forbidden.
const LIFETIME: Duration = Duration::from_secs(10);
/// How long a token is preferred after it was valid.
const PREFERRED_FOR: Duration = Duration::from_hours(1);
/// Cached valid tokens: as many users. At about 1 kB each, 8 MB.
const CAPACITY: usize = 8_192;
/// Cached rejected tokens, by hashes of 32 bytes.
const REJECTED_CAPACITY: usize = 4_096;
/// Concurrent reviews of tokens that were valid, and of others.
const CONCURRENT: usize = 32;
/// Queued reviews: at [`MAX_TOKEN_BYTES`] each, 4 MiB.
const QUEUE: usize = 256;
/// How long a review waits in the queue.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(10);

type TokenHash = [u8; 32];
type ReviewResult = Result<Option<Caller>, ReviewError>;
type PendingReview = BoxFuture<'static, ReviewResult>;

/// Reviews and caches tokens. Clones share the cache.
#[derive(Clone)]
pub struct TokenAuthenticator(Arc<TokenReviewCache>);

struct TokenReviewCache {
    reviews: Reviews,
    valid: Mutex<ExpiringCache<TokenHash, Caller>>,
    rejected_tokens: Mutex<ExpiringCache<TokenHash, ()>>,
    preferred: Mutex<ExpiringCache<TokenHash, ()>>,
    in_flight: Mutex<HashMap<TokenHash, WeakShared<PendingReview>>>,
    preferred_slots: Semaphore,
    slots: FairSemaphore<IpAddr>,
}

impl TokenAuthenticator {
    /// Authenticates by `reviews`; `rejected_requests` counts reviews that get no slot.
    pub fn new(reviews: Reviews, rejected_requests: Counter) -> Self {
        Self(Arc::new(TokenReviewCache {
            reviews,
            valid: Mutex::new(ExpiringCache::new(LIFETIME, CAPACITY)),
            rejected_tokens: Mutex::new(ExpiringCache::new(LIFETIME, REJECTED_CAPACITY)),
            preferred: Mutex::new(ExpiringCache::new(PREFERRED_FOR, CAPACITY)),
            in_flight: Mutex::default(),
            preferred_slots: Semaphore::new(CONCURRENT),
            slots: FairSemaphore::new(CONCURRENT, QUEUE, rejected_requests),
        }))
    }

    /// The user of a token that an address sent; `None` if the control plane rejects it.
    pub async fn review(&self, token: &str, from: IpAddr) -> ReviewResult {
        if token.len() > MAX_TOKEN_BYTES {
            return Ok(None);
        }
        let hash: TokenHash = Sha256::digest(token).into();
        if let Some(caller) = self.0.valid.lock().get(&hash) {
            return Ok(Some(caller));
        }
        if self.0.rejected_tokens.lock().get(&hash).is_some() {
            return Ok(None);
        }
        let review = {
            let mut in_flight = self.0.in_flight.lock();
            let known = in_flight.get(&hash).and_then(WeakShared::upgrade);
            known.unwrap_or_else(|| {
                let review = Arc::clone(&self.0)
                    .review(hash, token.to_owned(), from)
                    .boxed()
                    .shared();
                in_flight.extend(review.downgrade().map(|weak| (hash, weak)));
                review
            })
        };
        ReviewWaiter {
            tokens: &self.0,
            hash,
            review: Some(review),
        }
        .result()
        .await
    }
}

impl TokenReviewCache {
    async fn review(self: Arc<Self>, hash: TokenHash, token: String, from: IpAddr) -> ReviewResult {
        let is_preferred = self.preferred.lock().get(&hash).is_some();
        let user = if is_preferred {
            let slot = timeout(QUEUE_TIMEOUT, self.preferred_slots.acquire());
            let Ok(Ok(_permit)) = slot.await else {
                return Err(ReviewError::Busy);
            };
            self.reviews.token_user(&token).await?
        } else {
            let Some(_permit) = self.slots.acquire(from, QUEUE_TIMEOUT).await else {
                return Err(ReviewError::Busy);
            };
            self.reviews.token_user(&token).await?
        };
        match &user {
            Some(caller) => {
                self.valid.lock().insert(hash, caller.clone());
                self.preferred.lock().insert(hash, ());
            }
            None => self.rejected_tokens.lock().insert(hash, ()),
        }
        Ok(user)
    }
}

/// One of the requests that wait for a review. Dropping the last one cancels the review.
struct ReviewWaiter<'t> {
    tokens: &'t TokenReviewCache,
    hash: TokenHash,
    review: Option<Shared<PendingReview>>,
}

impl ReviewWaiter<'_> {
    async fn result(mut self) -> ReviewResult {
        match self.review.as_mut() {
            Some(review) => review.await,
            None => Err(ReviewError::Busy),
        }
    }
}

impl Drop for ReviewWaiter<'_> {
    fn drop(&mut self) {
        // Under the lock, so that of two that are dropped at once one sees that it is the last.
        let mut in_flight = self.tokens.in_flight.lock();
        self.review = None;
        if in_flight
            .get(&self.hash)
            .is_some_and(|review| review.upgrade().is_none())
        {
            in_flight.remove(&self.hash);
        }
    }
}

impl std::fmt::Debug for TokenAuthenticator {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("TokenAuthenticator")
            .field("slots", &self.0.slots)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
