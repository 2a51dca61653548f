//! The task that collects the garbage of one store.

use std::sync::{Arc, OnceLock};

use fleetdex_replicas::Assignment;
use fleetdex_sync::{pipeline::Pipeline, progress::Progress};
use futures::future::OptionFuture;
use tokio::{sync::Notify, time::Instant};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::garbage_collection::{GarbageCollection, PendingDeletes, Retention};

/// A garbage collection that runs or has run, and what it retains.
#[derive(Default)]
pub(super) struct GcTask {
    pub(super) retention: Retention,
    pub(super) assignment: Assignment,
    /// Streams that have ended, but whose writes may still be unacknowledged.
    pub(super) after: Vec<Arc<Progress>>,
    pub(super) stop: CancellationToken,
    pub(super) task: Option<AbortOnDropHandle<()>>,
    pub(super) done: Arc<OnceLock<Instant>>,
    pub(super) pending_deletes: PendingDeletes,
}

impl GcTask {
    pub(super) fn start(
        pipeline: &Pipeline,
        retention: Retention,
        same_prefix_stores: Vec<Pipeline>,
        assignment: Assignment,
        after: Vec<Arc<Progress>>,
        changed: &Arc<Notify>,
    ) -> Self {
        let (stop, done, pending_deletes) = (
            CancellationToken::new(),
            Arc::new(OnceLock::new()),
            PendingDeletes::default(),
        );
        let collection = GarbageCollection {
            pipeline: pipeline.clone(),
            retention: retention.clone(),
            same_prefix_stores,
            assignment: assignment.clone(),
            after: after.clone(),
            changed: Arc::clone(changed),
            done: Arc::clone(&done),
            pending_deletes: Arc::clone(&pending_deletes),
        };
        let task = Some(AbortOnDropHandle::new(tokio::spawn(
            collection.run(stop.clone()),
        )));
        Self {
            retention,
            assignment,
            after,
            stop,
            task,
            done,
            pending_deletes,
        }
    }

    pub(super) fn done_at(&self) -> Option<Instant> {
        self.done.get().copied()
    }

    /// Cancels the task, and waits until it has ended.
    pub(super) async fn end(&mut self) {
        self.stop.cancel();
        if let Some(Err(error)) = OptionFuture::from(self.task.take()).await {
            tracing::error!(%error, "garbage collection ended unexpectedly");
        }
    }
}
