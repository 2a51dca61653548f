//! What is watched in a member.

use std::sync::Arc;

use super::{ClusterNotConnected, Context, Kind, Live, informer, objects::Change, queue::Queue};

/// A watch could not be registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WatchError {
    /// A watch needs a name.
    #[error("a watch needs a name, by which it is registered once")]
    NameMissing,
    /// A watch needs a kind.
    #[error("watch {name:?} has no kinds: add them with Watch::kind")]
    KindsMissing {
        /// Its name.
        name: String,
    },
    /// The member is not connected.
    #[error(transparent)]
    NotConnected(#[from] ClusterNotConnected),
}

/// What is watched in a member under one name. Changes go to a [`Queue`].
#[derive(Clone)]
pub struct Watch {
    pub(super) name: Arc<str>,
    pub(super) kinds: Vec<StartWatch>,
}

/// Adds a watch of one kind to what is cached of a connection.
pub(super) type StartWatch = Arc<dyn Fn(&mut Live, &Context<'_>, &Queue) + Send + Sync>;

impl Watch {
    /// A watch of nothing yet.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self {
            name: name.into(),
            kinds: Vec::new(),
        }
    }

    /// Every change of a kind.
    #[must_use]
    pub fn kind<K: Kind>(self) -> Self {
        self.kind_where::<K>(|_| true)
    }

    /// The changes of a kind that `predicate` holds for.
    #[must_use]
    pub fn kind_where<K: Kind>(
        mut self,
        predicate: impl Fn(&Change<K>) -> bool + Send + Sync + 'static,
    ) -> Self {
        let predicate = Arc::new(predicate);
        self.kinds.push(Arc::new(move |live, context, queue| {
            let (cluster, queue, predicate) =
                (context.cluster.clone(), queue.clone(), predicate.clone());
            live.informer::<K>(context)
                .add_sink(Arc::new(move |change| {
                    if predicate(change) {
                        queue.add(informer::request(&cluster, &**change.object()));
                    }
                }));
        }));
        self
    }

    /// Begins to follow its kinds over a connection.
    pub(super) fn start(&self, live: &mut Live, context: &Context<'_>, queue: &Queue) {
        for kind in &self.kinds {
            kind(live, context, queue);
        }
    }
}
