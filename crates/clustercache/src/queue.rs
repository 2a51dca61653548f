//! Where watches put what changed, for a reconciler to take.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
};

use fleetdex_core::model::ClusterName;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// An object of a member that is to be looked at. What happened to it is not said: a reconciler reads how it is now.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Request {
    /// The member.
    pub cluster: ClusterName,
    /// The object's kind, such as `Node`.
    pub kind: String,
    /// Its namespace, if its kind has them.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

/// What is to be looked at, in the order of coming, each object once. A clone is the same queue.
///
/// It never delays those who put something in, and is bounded by the objects of the kinds that are watched.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    waiting: Mutex<Waiting>,
    added: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    order: VecDeque<Request>,
    known: HashSet<Request>,
}

impl Queue {
    /// An empty queue.
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts something in that is not in yet, such as a request that failed and is to be tried again.
    pub fn add(&self, request: Request) {
        let mut waiting = self.inner.waiting.lock();
        if waiting.known.insert(request.clone()) {
            waiting.order.push_back(request);
            drop(waiting);
            self.inner.added.notify_one();
        }
    }

    /// Takes the next request. Cancel-safe.
    pub async fn next(&self) -> Request {
        loop {
            if let Some(request) = self.try_next() {
                return request;
            }
            self.inner.added.notified().await;
        }
    }

    /// Takes the next request, if there is one.
    pub fn try_next(&self) -> Option<Request> {
        let mut waiting = self.inner.waiting.lock();
        let request = waiting.order.pop_front()?;
        waiting.known.remove(&request);
        let more = !waiting.order.is_empty();
        drop(waiting);
        if more {
            // Another one may wait for the same queue.
            self.inner.added.notify_one();
        }
        Some(request)
    }

    /// How many requests wait.
    pub fn len(&self) -> usize {
        self.inner.waiting.lock().order.len()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(name: &str) -> Request {
        Request {
            cluster: "a".parse().unwrap(),
            kind: "Node".to_owned(),
            namespace: None,
            name: name.to_owned(),
        }
    }

    #[test]
    fn an_object_waits_once_and_in_the_order_of_its_first_change() {
        let queue = Queue::new();
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
    async fn several_takers_share_what_comes() {
        let queue = Queue::new();
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
