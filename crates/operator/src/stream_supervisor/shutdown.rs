//! Stops everything that runs, in order.

use fleetdex_core::planted::{Bug, planted};
use fleetdex_sync::pipeline::Pipeline;
use futures::future::join_all;

use super::StreamSupervisor;

impl StreamSupervisor {
    /// Stops every stream, then writes what is left. Nothing is in flight afterwards. Then the
    /// change logs end, so that the other replicas know that they have received every change.
    pub async fn shut_down(&mut self) {
        let pipelines: Vec<Pipeline> = self
            .stores
            .values()
            .map(|store| &store.pipeline)
            .chain(self.closing.iter().map(|store| &store.pipeline))
            .cloned()
            .collect();
        if planted(Bug::LeaveWithWritesUnderWay) {
            join_all(pipelines.iter().map(Pipeline::end_changes)).await;
            return self.abort_all();
        }
        for running in self.units.values() {
            running.stop.cancel();
        }
        for (stream, running) in std::mem::take(&mut self.units) {
            if let Err(error) = running.task.await {
                tracing::error!(unit = %stream.unit, %error, "a stream ended unexpectedly");
            }
        }
        for gc_task in self.gc_tasks.values_mut() {
            gc_task.end().await;
        }
        self.activations.stop().await;
        for store in self.stores.values() {
            store.stop.cancel();
        }
        for (name, store) in std::mem::take(&mut self.stores) {
            if let Err(error) = store.task.await {
                tracing::error!(store = %name, %error, "the writer of a store ended unexpectedly");
            }
        }
        for store in std::mem::take(&mut self.closing) {
            if let Err(error) = store.task.await {
                tracing::error!(store = %store.pipeline.name(), %error, "the writer of a store ended unexpectedly");
            }
        }
        join_all(pipelines.iter().map(Pipeline::end_changes)).await;
    }

    /// Aborts everything at once.
    fn abort_all(&mut self) {
        self.units.clear();
        self.gc_tasks.clear();
        self.stores.clear();
        self.closing.clear();
    }
}
