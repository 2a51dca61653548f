//! A sweep of one store: what it removes, and the task that does.

use std::sync::{Arc, OnceLock};

use fleetdex_sync::{pipeline::Pipeline, progress::Progress};
use futures::future::OptionFuture;
use tokio::{sync::Notify, time::Instant};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{
    replicas::Share,
    sweep::{Deletes, Sweep, Wanted},
};

/// What is being removed from a store, and what has been.
#[derive(Default)]
pub(super) struct Sweeping {
    pub(super) wanted: Wanted,
    pub(super) share: Share,
    /// Streams that have ended, but whose writes may still be under way.
    pub(super) after: Vec<Arc<Progress>>,
    pub(super) stop: CancellationToken,
    pub(super) task: Option<AbortOnDropHandle<()>>,
    pub(super) done: Arc<OnceLock<Instant>>,
    pub(super) deletes: Deletes,
}

impl Sweeping {
    pub(super) fn start(
        pipeline: &Pipeline,
        wanted: Wanted,
        neighbours: Vec<Pipeline>,
        share: Share,
        after: Vec<Arc<Progress>>,
        changed: &Arc<Notify>,
    ) -> Self {
        let (stop, done, deletes) = (
            CancellationToken::new(),
            Arc::new(OnceLock::new()),
            Deletes::default(),
        );
        let sweep = Sweep {
            pipeline: pipeline.clone(),
            wanted: wanted.clone(),
            neighbours,
            share: share.clone(),
            after: after.clone(),
            changed: Arc::clone(changed),
            done: Arc::clone(&done),
            deletes: Arc::clone(&deletes),
        };
        let task = Some(AbortOnDropHandle::new(tokio::spawn(
            sweep.run(stop.clone()),
        )));
        Self {
            wanted,
            share,
            after,
            stop,
            task,
            done,
            deletes,
        }
    }

    pub(super) fn done_at(&self) -> Option<Instant> {
        self.done.get().copied()
    }

    /// Stops, and waits for the end.
    pub(super) async fn end(&mut self) {
        self.stop.cancel();
        if let Some(Err(error)) = OptionFuture::from(self.task.take()).await {
            tracing::error!(%error, "a sweep ended unexpectedly");
        }
    }
}
