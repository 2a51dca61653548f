//! The only writer of a store: sends pending writes in batches, reads a verdict for each, and
//! acknowledges or retries it.

mod health;
mod index_revisions;
mod queue;
mod revisions;
mod run;
mod settings_watch;
mod store;
mod store_backoff;
mod unit_checkpoints;
mod writer;

use std::sync::Arc;

use fleetdex_core::model::StoreName;
use fleetdex_replicas::write_fence::WriteFence;
use fleetdex_telemetry::metrics::StoreMetrics;
use index_revisions::IndexRevisions;
use queue::WriteQueue;
use store::PipelineStore;
use tokio::sync::Notify;
use unit_checkpoints::UnitCheckpoints;

pub use self::{
    queue::PipelineLimits,
    store::{Availability, OpenStore, OpenedStore, Unavailable},
};

/// The writer of one store. Cheap to clone.
#[derive(Clone)]
pub struct Pipeline {
    /// The store, as it is open now.
    pub store: Arc<PipelineStore>,
    /// The pending writes.
    pub queue: Arc<WriteQueue>,
    /// The checkpoints of the units.
    pub checkpoints: Arc<UnitCheckpoints>,
    /// The index revisions that documents are written to.
    pub revisions: Arc<IndexRevisions>,
    metrics: StoreMetrics,
}

impl Pipeline {
    /// A pipeline that is idle until [`Pipeline::run`]. `changed` is notified when the availability
    /// changes or an index is lost.
    pub fn new(
        name: StoreName,
        limits: PipelineLimits,
        fence: WriteFence,
        metrics: StoreMetrics,
        changed: Arc<Notify>,
    ) -> Self {
        let store = Arc::new(PipelineStore::new(name, Arc::clone(&changed)));
        let checkpoints = Arc::new(UnitCheckpoints::new(
            Arc::clone(&store),
            Arc::clone(&changed),
        ));
        Self {
            queue: Arc::new(WriteQueue::new(limits, fence, metrics.clone())),
            revisions: Arc::new(IndexRevisions::new(
                Arc::clone(&store),
                Arc::clone(&checkpoints),
                metrics.clone(),
                changed,
            )),
            checkpoints,
            store,
            metrics,
        }
    }
}

#[cfg(test)]
mod lifecycle_tests;
#[cfg(test)]
mod tests;
