//! The work queue between watches and a reconciler.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
};

use fleetdex_core::model::ClusterName;
use kube::ResourceExt;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::resource::CacheableResource;

/// An object of a member to reconcile. It does not contain the change: a reconciler reads the
/// current state.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReconcileRequest {
    /// The member.
    pub cluster: ClusterName,
    /// The object's kind, such as `Node`.
    pub kind: String,
    /// Its namespace, if its kind has them.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

/// Requests in the order in which they were added, each object once. Clones share the queue.
///
/// Adding never blocks. The length is bounded by the number of objects of the watched kinds.
#[derive(Clone, Debug, Default)]
pub struct WorkQueue {
    state: Arc<QueueState>,
}

#[derive(Debug, Default)]
struct QueueState {
    pending: Mutex<PendingRequests>,
    added: Notify,
}

#[derive(Debug, Default)]
struct PendingRequests {
    order: VecDeque<ReconcileRequest>,
    queued: HashSet<ReconcileRequest>,
}

impl ReconcileRequest {
    pub(super) fn of<K: CacheableResource>(cluster: &ClusterName, object: &K) -> Self {
        Self {
            cluster: cluster.clone(),
            kind: K::kind(&()).into_owned(),
            namespace: object.namespace(),
            name: object.name_any(),
        }
    }
}

impl WorkQueue {
    /// An empty queue.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a request unless it is queued already. A reconciler adds a failed request again to
    /// retry it.
    pub fn add(&self, request: ReconcileRequest) {
        let mut pending = self.state.pending.lock();
        if pending.queued.insert(request.clone()) {
            pending.order.push_back(request);
            drop(pending);
            self.state.added.notify_one();
        }
    }

    /// Waits for the next request and removes it. Cancel-safe.
    pub async fn next(&self) -> ReconcileRequest {
        loop {
            if let Some(request) = self.try_next() {
                return request;
            }
            self.state.added.notified().await;
        }
    }

    /// Removes the next request, if there is one.
    pub fn try_next(&self) -> Option<ReconcileRequest> {
        let mut pending = self.state.pending.lock();
        let request = pending.order.pop_front()?;
        pending.queued.remove(&request);
        let more = !pending.order.is_empty();
        drop(pending);
        if more {
            // Another consumer may be waiting.
            self.state.added.notify_one();
        }
        Some(request)
    }

    /// Number of queued requests.
    pub fn len(&self) -> usize {
        self.state.pending.lock().order.len()
    }

    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(name: &str) -> ReconcileRequest {
        ReconcileRequest {
            cluster: "a".parse().unwrap(),
            kind: "Node".to_owned(),
            namespace: None,
            name: name.to_owned(),
        }
    }

    #[test]
    fn an_object_is_queued_once_in_the_order_of_its_first_change() {
        let queue = WorkQueue::new();
        for name in ["b", "a", "b", "c", "a"] {
            queue.add(request(name));
        }
        assert_eq!(queue.len(), 3);
        let taken: Vec<_> = std::iter::from_fn(|| queue.try_next())
            .map(|request| request.name)
            .collect();
        assert_eq!(
            (taken.as_slice(), queue.is_empty()),
            (
                ["b".to_owned(), "a".to_owned(), "c".to_owned()].as_slice(),
                true
            )
        );
        queue.add(request("b"));
        assert_eq!(queue.try_next(), Some(request("b")));
    }

    #[tokio::test]
    async fn several_consumers_share_the_requests() {
        let queue = WorkQueue::new();
        let takers = (queue.clone(), queue.clone());
        let both = async { tokio::join!(takers.0.next(), takers.1.next()) };
        let adds = async {
            tokio::task::yield_now().await;
            queue.add(request("a"));
            queue.add(request("b"));
        };
        let ((first, second), ()) = tokio::join!(both, adds);
        let mut taken = [first.name, second.name];
        taken.sort();
        assert_eq!(taken, ["a", "b"]);
    }
}
