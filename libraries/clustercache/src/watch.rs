//! Watches of kinds of a member.

use std::sync::Arc;

use super::{
    connection_cache::{ConnectionCache, InformerContext},
    connections::ClusterNotConnected,
    indexer::ObjectChange,
    queue::{ReconcileRequest, WorkQueue},
    resource::CacheableResource,
};

/// Why a watch could not be registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterWatchError {
    /// The watch has no name.
    #[error("a watch needs a name, by which it is registered once")]
    NameMissing,
    /// The watch has no kinds.
    #[error("watch {name:?} has no kinds: add them with ClusterWatch::kind")]
    KindsMissing {
        /// Its name.
        name: String,
    },
    /// The member is not connected.
    #[error(transparent)]
    NotConnected(#[from] ClusterNotConnected),
}

/// A named watch of kinds of a member. Changes are added to a [`WorkQueue`].
#[derive(Clone)]
pub struct ClusterWatch {
    pub(super) name: Arc<str>,
    pub(super) start_watches: Vec<StartWatch>,
}

/// Starts the watch of one kind over a connection.
pub(super) type StartWatch =
    Arc<dyn Fn(&mut ConnectionCache, &InformerContext<'_>, &WorkQueue) + Send + Sync>;

impl ClusterWatch {
    /// A watch without kinds.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self {
            name: name.into(),
            start_watches: Vec::new(),
        }
    }

    /// Adds a kind.
    #[must_use]
    pub fn kind<K: CacheableResource>(self) -> Self {
        self.kind_with_predicate::<K>(|_| true)
    }

    /// Adds a kind whose changes are filtered by a predicate.
    #[must_use]
    pub fn kind_with_predicate<K: CacheableResource>(
        mut self,
        predicate: impl Fn(&ObjectChange<K>) -> bool + Send + Sync + 'static,
    ) -> Self {
        let predicate = Arc::new(predicate);
        self.start_watches
            .push(Arc::new(move |cache, context, queue| {
                let (cluster, queue, predicate) =
                    (context.cluster.clone(), queue.clone(), predicate.clone());
                cache
                    .informer::<K>(context)
                    .add_event_handler(Arc::new(move |change| {
                        if predicate(change) {
                            queue.add(ReconcileRequest::of(&cluster, &**change.object()));
                        }
                    }));
            }));
        self
    }

    /// Fails if the watch cannot be registered.
    pub(super) fn check(&self) -> Result<(), ClusterWatchError> {
        if self.name.is_empty() {
            return Err(ClusterWatchError::NameMissing);
        }
        if self.start_watches.is_empty() {
            return Err(ClusterWatchError::KindsMissing {
                name: self.name.to_string(),
            });
        }
        Ok(())
    }

    /// Starts to watch each of its kinds over a connection.
    pub(super) fn start(
        &self,
        cache: &mut ConnectionCache,
        context: &InformerContext<'_>,
        queue: &WorkQueue,
    ) {
        for start_watch in &self.start_watches {
            start_watch(cache, context, queue);
        }
    }
}
