//! Whose bearer tokens are: `TokenReview`, apart from all other questions, so that made-up tokens hold up only themselves.
//!
//! Guarantees:
//! - an error is never an answer and never remembered; an answer counts ten seconds, whatever it is;
//! - a token is reviewed once at a time, however many requests carry it;
//! - addresses share the reviews of tokens that are not known to be good, and their queue, fairly ([`Shares`]); tokens that were good within the last
//!   hour do not wait behind them;
//! - made-up tokens push no good one out of what is remembered.

use std::{collections::HashMap, net::IpAddr, sync::Arc, time::Duration};

use fleetdex_limits::shares::Shares;
use futures::{
    FutureExt as _,
    future::{BoxFuture, Shared, WeakShared},
};
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use sha2::{Digest, Sha256};
use tokio::{sync::Semaphore, time::timeout};

use super::{
    expiring::Expiring,
    reviews::{ReviewError, Reviews},
};
use crate::caller::Caller;

/// Bytes of a token. Those of service accounts have 1 kB; those of identity providers that list the groups of a user have several.
pub const MAX_TOKEN_BYTES: usize = 16 * 1024;
/// How long an answer counts, whatever it is: how long somebody still sees what was just forbidden.
const LIFETIME: Duration = Duration::from_secs(10);
/// How long a token is preferred after it was good.
const PREFERENCE: Duration = Duration::from_hours(1);
/// Good tokens that are remembered: as many users. At about 1 kB each, 8 MB.
const CAPACITY: usize = 8_192;
/// Other tokens that are remembered, by hashes of 32 bytes.
const REFUSED_CAPACITY: usize = 4_096;
/// Reviews under way at a time of tokens that were good, and of others.
const CONCURRENT: usize = 32;
/// Reviews that wait for their turn: at [`MAX_TOKEN_BYTES`] each, 4 MiB.
const QUEUE: usize = 256;
/// How long one waits for its turn.
const PATIENCE: Duration = Duration::from_secs(10);

type Hash = [u8; 32];
type Answer = Result<Option<Caller>, ReviewError>;
type Review = BoxFuture<'static, Answer>;

/// Reviews tokens and remembers. Clones share what they remember.
#[derive(Clone)]
pub struct Tokens(Arc<Inner>);

struct Inner {
    reviews: Reviews,
    good: Mutex<Expiring<Hash, Caller>>,
    refused: Mutex<Expiring<Hash, ()>>,
    preferred: Mutex<Expiring<Hash, ()>>,
    under_way: Mutex<HashMap<Hash, WeakShared<Review>>>,
    preferred_places: Semaphore,
    places: Shares<IpAddr>,
}

impl Tokens {
    /// Asks with these reviews; `refused` counts those that get no turn.
    pub fn new(reviews: Reviews, refused: Counter) -> Self {
        Self(Arc::new(Inner {
            reviews,
            good: Mutex::new(Expiring::new(LIFETIME, CAPACITY)),
            refused: Mutex::new(Expiring::new(LIFETIME, REFUSED_CAPACITY)),
            preferred: Mutex::new(Expiring::new(PREFERENCE, CAPACITY)),
            under_way: Mutex::default(),
            preferred_places: Semaphore::new(CONCURRENT),
            places: Shares::new(CONCURRENT, QUEUE, refused),
        }))
    }

    /// Whose token it is that came from an address; nobody's if the control plane does not know it.
    pub async fn owner(&self, token: &str, from: IpAddr) -> Answer {
        if token.len() > MAX_TOKEN_BYTES {
            return Ok(None);
        }
        let hash: Hash = Sha256::digest(token).into();
        if let Some(caller) = self.0.good.lock().get(&hash) {
            return Ok(Some(caller));
        }
        if self.0.refused.lock().get(&hash).is_some() {
            return Ok(None);
        }
        let review = {
            let mut under_way = self.0.under_way.lock();
            let known = under_way.get(&hash).and_then(WeakShared::upgrade);
            known.unwrap_or_else(|| {
                let review = Arc::clone(&self.0)
                    .review(hash, token.to_owned(), from)
                    .boxed()
                    .shared();
                under_way.extend(review.downgrade().map(|weak| (hash, weak)));
                review
            })
        };
        Waiting {
            tokens: &self.0,
            hash,
            review: Some(review),
        }
        .answer()
        .await
    }
}

impl Inner {
    async fn review(self: Arc<Self>, hash: Hash, token: String, from: IpAddr) -> Answer {
        let is_preferred = self.preferred.lock().get(&hash).is_some();
        let answer = if is_preferred {
            let Ok(Ok(_turn)) = timeout(PATIENCE, self.preferred_places.acquire()).await else {
                return Err(ReviewError::Busy);
            };
            self.reviews.owner(&token).await?
        } else {
            let Some(_turn) = self.places.take(from, PATIENCE).await else {
                return Err(ReviewError::Busy);
            };
            self.reviews.owner(&token).await?
        };
        match &answer {
            Some(caller) => {
                self.good.lock().insert(hash, caller.clone());
                self.preferred.lock().insert(hash, ());
            }
            None => self.refused.lock().insert(hash, ()),
        }
        Ok(answer)
    }
}

/// One of the requests that wait for a review. The last one takes the review with it.
struct Waiting<'t> {
    tokens: &'t Inner,
    hash: Hash,
    review: Option<Shared<Review>>,
}

impl Waiting<'_> {
    async fn answer(mut self) -> Answer {
        match self.review.as_mut() {
            Some(review) => review.await,
            None => Err(ReviewError::Busy),
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        // Under the lock, so that of two that go at once the later one sees that it is the last.
        let mut under_way = self.tokens.under_way.lock();
        self.review = None;
        if under_way
            .get(&self.hash)
            .is_some_and(|review| review.upgrade().is_none())
        {
            under_way.remove(&self.hash);
        }
    }
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Tokens")
            .field("places", &self.0.places)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
