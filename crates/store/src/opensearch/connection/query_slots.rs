//! How many queries of users one OpenSearch works on at a time.

use std::{sync::Arc, time::Duration};

use fleetdex_limits::{
    fair_semaphore::{FairPermit, FairSemaphore},
    request::UserRequest,
};
use prometheus_client::metrics::counter::Counter as Count;

use crate::StoreError;

/// Queries for a few documents, or none. Enough for some thousand a second, and few enough that the
/// queues of OpenSearch, which do not know users, stay short: with 1,000 parts of searches in one,
/// it refuses all further ones.
const SLOTS: usize = 64;
/// Queries for more than [`FEW_DOCUMENTS`] at a time. OpenSearch holds the response of each until
/// it has been read; 80 unread lists of 30 MB made one with a heap of 1 GiB unreachable for good.
const LARGE_SLOTS: usize = 8;
/// A page of the web page has no more.
const FEW_DOCUMENTS: u64 = 100;
/// Queries that wait for a slot, of which one user can have half. An entry takes about 100 bytes.
const QUEUE: usize = 8_192;
/// How long one waits.
const MAX_WAIT: Duration = Duration::from_secs(15);

/// The slots of one OpenSearch, which users share fairly. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct QuerySlots {
    few: FairSemaphore<Arc<str>>,
    many: FairSemaphore<Arc<str>>,
}

/// A slot, until the response has been read. A query of the request that has the reserve of memory
/// has none, as others may wait for its memory.
pub(crate) type QuerySlot = Option<FairPermit<Arc<str>>>;

impl Default for QuerySlots {
    fn default() -> Self {
        let slots = |number| FairSemaphore::new(number, QUEUE, Count::default());
        Self {
            few: slots(SLOTS),
            many: slots(LARGE_SLOTS),
        }
    }
}

impl QuerySlots {
    /// A slot for a query of a request that asks for so many documents.
    pub(crate) async fn acquire(
        &self,
        request: &UserRequest,
        documents: u64,
    ) -> Result<QuerySlot, StoreError> {
        let slots = if documents > FEW_DOCUMENTS {
            &self.many
        } else {
            &self.few
        };
        let crowded = || StoreError::Crowded("too many queries wait for OpenSearch".to_owned());
        tokio::select! {
            biased;
            () = request.memory().until_it_has_the_reserve() => Ok(None),
            slot = slots.acquire(request.user(), MAX_WAIT) => slot.map(Some).ok_or_else(crowded),
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use fleetdex_limits::{computing::ComputingTurns, intake::Budget, request::MEMORY};
    use http::{Method, Request};
    use tokio::{sync::mpsc, task::JoinSet};
    use tower::{service_fn, util::BoxCloneSyncService};

    use super::*;
    use crate::opensearch::connection::{
        client::{Call, Client},
        responses::{Purpose, ResponseBudget},
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
        let query = |user: &'static str, documents| {
            let (memory, turns) = (Budget::of_users(), ComputingTurns::default());
            let request = UserRequest::new(&memory, &turns, user);
            let client = Client::new(service.clone(), ResponseBudget::default(), String::new())
                .sharing(slots.clone())
                .with(Purpose::Question)
                .asking_for(documents);
            let call = Call {
                operation: "a query",
                method: Method::GET,
                path: "/_search".to_owned(),
                body: Bytes::new(),
                timeout: Duration::from_mins(1),
            };
            tokio::spawn(request.scope(async move { client.call(call).await.map(drop) }))
        };
        let mut queries = JoinSet::new();
        for (documents, all) in [(FEW_DOCUMENTS, SLOTS), (FEW_DOCUMENTS + 1, LARGE_SLOTS)] {
            for _ in 0..all {
                queries.spawn(query("alice", documents));
            }
            for _ in 0..all / 2 {
                received.recv().await.unwrap();
            }
            tokio::task::yield_now().await;
            assert!(received.is_empty(), "one user has half");
            let of_bob = query("bob", documents);
            assert!(received.recv().await.is_some());
            of_bob.abort();
        }
    }

    #[tokio::test]
    async fn a_request_that_gets_the_reserve_waits_for_no_slot() {
        let slots = QuerySlots::default();
        let memory = Budget::new(MEMORY);
        let request = |user: &str| UserRequest::new(&memory, &ComputingTurns::default(), user);
        let mut held = Vec::new();
        for number in 0..LARGE_SLOTS {
            let user = request(&format!("user{number}"));
            held.push(slots.acquire(&user, 1_000).await.unwrap());
        }
        let (other, alice) = (request("other"), request("alice"));
        let mut of_other = other.memory().reservation();
        of_other.grow(MEMORY.request).await.unwrap();
        let acquire = async {
            let slot = slots.acquire(&alice, 1_000).await;
            slot.unwrap().is_none()
        };
        let get_reserve = async {
            tokio::task::yield_now().await;
            let mut reservation = alice.memory().reservation();
            reservation.grow(MEMORY.request).await.unwrap();
            reservation
        };
        let (has_none, _reservation) = tokio::join!(acquire, get_reserve);
        assert!(has_none);
    }
}
