//! How many queries of users one OpenSearch works on at a time.

use std::{sync::Arc, time::Duration};

use fleetdex_limits::{
    fair_semaphore::{FairPermit, FairSemaphore},
    request::UserRequest,
};
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter as Count;

use crate::StoreError;

/// Enough for some thousand queries a second, and few enough that the queues of OpenSearch, which do
/// not know users, stay short: with 1,000 parts of searches in one, it refuses all further ones.
const SLOTS: usize = 64;
/// Queries that wait for a slot, of which one user can have half. An entry takes about 100 bytes.
const QUEUE: usize = 8_192;
/// How long one waits.
const MAX_WAIT: Duration = Duration::from_secs(15);

/// The slots of one OpenSearch, which users share fairly. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct QuerySlots(FairSemaphore<Arc<str>>);

/// A slot, until the head of the response has arrived: an extension of each query.
#[derive(Clone)]
pub(super) struct QuerySlot(Arc<Mutex<Option<FairPermit<Arc<str>>>>>);

impl Default for QuerySlots {
    fn default() -> Self {
        Self(FairSemaphore::new(SLOTS, QUEUE, Count::default()))
    }
}

impl QuerySlots {
    /// A slot for a query of a request.
    pub(super) async fn acquire(&self, request: &UserRequest) -> Result<QuerySlot, StoreError> {
        let slot = self.0.acquire(request.user(), MAX_WAIT).await;
        let crowded = || StoreError::Crowded("too many queries wait for OpenSearch".to_owned());
        let slot = slot.ok_or_else(crowded)?;
        Ok(QuerySlot(Arc::new(Mutex::new(Some(slot)))))
    }
}

impl QuerySlot {
    /// Returns the slot: OpenSearch has done its work. Reading the response may wait for memory, which
    /// no query may wait for.
    pub(super) fn release(&self) {
        drop(self.0.lock().take());
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use fleetdex_limits::{computing::ComputingTurns, intake::Budget};
    use http::{Method, Request};
    use tokio::sync::mpsc;
    use tower::{service_fn, util::BoxCloneSyncService};

    use super::*;
    use crate::opensearch::{
        client::{Call, Client},
        responses::{Answers, Purpose},
    };

    #[tokio::test]
    async fn a_user_whose_queries_hang_leaves_slots_to_others_in_all_engines_of_an_opensearch() {
        // It gets requests, and never answers.
        let (sent, mut received) = mpsc::unbounded_channel();
        let service = service_fn(move |request: Request<Bytes>| {
            sent.send(request).unwrap();
            std::future::pending()
        });
        let slots = QuerySlots::default();
        let service = BoxCloneSyncService::new(service);
        let client = || {
            Client::new(service.clone(), Answers::default(), String::new())
                .sharing(slots.clone())
                .with(Purpose::Question)
        };
        let query = |user: &'static str| {
            let (memory, turns) = (Budget::of_users(), ComputingTurns::default());
            let (client, request) = (client(), UserRequest::new(&memory, &turns, user));
            let call = Call {
                operation: "a query",
                method: Method::GET,
                path: "/_search".to_owned(),
                body: Bytes::new(),
                timeout: Duration::from_mins(1),
            };
            tokio::spawn(request.scope(async move { client.call(call).await.map(drop) }))
        };
        let of_alice: Vec<_> = (0..SLOTS).map(|_| query("alice")).collect();
        let mut hanging = Vec::new();
        for _ in 0..SLOTS / 2 {
            hanging.push(received.recv().await.unwrap());
        }
        tokio::task::yield_now().await;
        assert!(received.is_empty(), "one user has half");
        let of_bob = query("bob");
        assert!(received.recv().await.is_some());
        // The head of a response is there.
        let slot = hanging[0].extensions().get::<QuerySlot>();
        slot.unwrap().release();
        assert!(received.recv().await.is_some());
        of_bob.abort();
        for query in of_alice {
            query.abort();
        }
    }
}
