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

use std::{net::IpAddr, sync::Arc, time::Duration};

use fleetdex_limits::fair_semaphore::FairSemaphore;
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use sha2::{Digest, Sha256};
use tokio::{sync::Semaphore, time::timeout};

use super::{
    caller::Caller,
    expiring_cache::ExpiringCache,
    reviews::{
        ReviewError, Reviews,
        in_flight::{ReviewKey, ReviewsInFlight},
    },
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

type ReviewResult = Result<Option<Caller>, ReviewError>;

/// Reviews and caches tokens. Clones share the cache.
#[derive(Clone)]
pub struct TokenAuthenticator(Arc<TokenReviewCache>);

struct TokenReviewCache {
    reviews: Reviews,
    valid: Mutex<ExpiringCache<ReviewKey, Caller>>,
    rejected_tokens: Mutex<ExpiringCache<ReviewKey, ()>>,
    preferred: Mutex<ExpiringCache<ReviewKey, ()>>,
    in_flight: ReviewsInFlight<Option<Caller>>,
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
            in_flight: ReviewsInFlight::default(),
            preferred_slots: Semaphore::new(CONCURRENT),
            slots: FairSemaphore::new(CONCURRENT, QUEUE, rejected_requests),
        }))
    }

    /// The user of a token that an address sent; `None` if the control plane rejects it.
    pub async fn review(&self, token: &str, from: IpAddr) -> ReviewResult {
        if token.len() > MAX_TOKEN_BYTES {
            return Ok(None);
        }
        let hash: ReviewKey = Sha256::digest(token).into();
        if let Some(caller) = self.0.valid.lock().get(&hash) {
            return Ok(Some(caller));
        }
        if self.0.rejected_tokens.lock().get(&hash).is_some() {
            return Ok(None);
        }
        let token = token.to_owned();
        let review = || Arc::clone(&self.0).review(hash, token, from);
        self.0.in_flight.join(hash, review).result.await
    }
}

impl TokenReviewCache {
    async fn review(self: Arc<Self>, hash: ReviewKey, token: String, from: IpAddr) -> ReviewResult {
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

impl std::fmt::Debug for TokenAuthenticator {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("TokenAuthenticator")
            .field("slots", &self.0.slots)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
