//! The task that collects the garbage of one store.

use std::sync::{Arc, OnceLock};

use fleetdex_replicas::Assignment;
use fleetdex_sync::{pipeline::Pipeline, progress::Progress};
use tokio::{sync::Notify, time::Instant};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::stores::RunningStores;
use crate::garbage_collection::{GarbageCollection, PendingDeletes, Retention};

/// What a garbage collection has to do.
#[derive(Clone)]
pub(super) struct GcScope {
    pub(super) retention: Retention,
    pub(super) assignment: Assignment,
    /// Streams that have ended, but whose writes may still be unacknowledged.
    pub(super) after: Vec<Arc<Progress>>,
}

/// A garbage collection that runs or has run.
pub(super) struct GcTask {
    pub(super) scope: GcScope,
    stop: CancellationToken,
    task: AbortOnDropHandle<()>,
    done: Arc<OnceLock<Instant>>,
    pending_deletes: PendingDeletes,
}

impl GcTask {
    pub(super) fn start(
        pipeline: &Pipeline,
        scope: GcScope,
        stores: &RunningStores,
        changed: &Arc<Notify>,
    ) -> Self {
        let (stop, done, pending_deletes) = (
            CancellationToken::new(),
            Arc::new(OnceLock::new()),
            PendingDeletes::default(),
        );
        let GcScope {
            retention,
            assignment,
            after,
        } = scope.clone();
        let same_prefix_stores = stores.pipelines(&retention.same_prefix_stores);
        let collection = GarbageCollection {
            pipeline: pipeline.clone(),
            retention,
            same_prefix_stores: same_prefix_stores.into_values().collect(),
            assignment,
            after,
            changed: Arc::clone(changed),
            done: Arc::clone(&done),
            pending_deletes: Arc::clone(&pending_deletes),
        };
        let task = AbortOnDropHandle::new(tokio::spawn(collection.run(stop.clone())));
        Self {
            scope,
            stop,
            task,
            done,
            pending_deletes,
        }
    }

    pub(super) fn done_at(&self) -> Option<Instant> {
        self.done.get().copied()
    }

    /// Cancels the task. Returns the deletes in flight, which continue.
    pub(super) fn cancel(&self) -> Vec<Arc<Progress>> {
        self.stop.cancel();
        std::mem::take(&mut *self.pending_deletes.lock())
    }

    /// Cancels the task, and waits until it has ended.
    pub(super) async fn end(self) {
        self.stop.cancel();
        if let Err(error) = self.task.await {
            tracing::error!(%error, "garbage collection ended unexpectedly");
        }
    }
}
