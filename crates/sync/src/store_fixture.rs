//! An embedded store with the pipeline that writes to it, for tests of streams.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use fleetdex_core::model::ClusterName;
use fleetdex_replicas::write_fence::WriteFence;
use fleetdex_store::{CompleteResources, IndexRevision, RevisionStore as _, memory::Memory};
use fleetdex_telemetry::Metrics;
use tokio::sync::Notify;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::pipeline::{OpenStore, OpenedStore, Pipeline, PipelineLimits, Unavailable};

/// A store that is written to while this lives.
pub(crate) struct StoreFixture {
    pub(crate) memory: Memory,
    pub(crate) pipeline: Pipeline,
    /// The revision that answers the queries of the cluster.
    pub(crate) revision: IndexRevision,
    /// Notified when the progress of a stream has changed.
    pub(crate) changed: Arc<Notify>,
    pub(crate) writer: AbortOnDropHandle<()>,
}

struct OpenMemory(Memory);

#[async_trait]
impl OpenStore for OpenMemory {
    async fn open(&self) -> Result<OpenedStore, Unavailable> {
        Ok(Arc::new(self.0.clone()).into())
    }

    async fn changed(&self) -> bool {
        false
    }
}

impl StoreFixture {
    /// An empty store for one cluster.
    pub(crate) async fn start(cluster: &ClusterName, metrics: &Metrics) -> Self {
        let (memory, changed) = (Memory::new(), Arc::new(Notify::new()));
        let pipeline = Pipeline::new(
            "main".parse().unwrap(),
            PipelineLimits::default(),
            WriteFence::OPEN,
            metrics.store(&"main".parse().unwrap()),
            Arc::clone(&changed),
        );
        let writer = pipeline.clone().run(
            Arc::new(OpenMemory(memory.clone())),
            CancellationToken::new(),
            Duration::from_secs(1),
        );
        let writer = AbortOnDropHandle::new(tokio::spawn(writer));
        let revision = pipeline.revisions.open(cluster, None).await.unwrap();
        memory
            .activate(&revision, &CompleteResources::All)
            .await
            .unwrap();
        Self {
            memory,
            pipeline,
            revision,
            changed,
            writer,
        }
    }
}
