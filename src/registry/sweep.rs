//! Removes documents that no registry wants any more: of kinds and namespaces that were left out, and of whole clusters.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use backon::{BackoffBuilder, ExponentialBuilder};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::{
    bulk::Write,
    model::{ClusterName, Version},
    pipeline::Pipeline,
    store::{Extent, KindExtent, Store, StoreError},
    sync::progress::Progress,
};

/// What may exist in a store, by cluster. `None`: not known, because the cluster could not be asked what it serves; its documents stay.
/// A cluster that is not here should have no documents at all.
pub type Wanted = BTreeMap<ClusterName, Option<Vec<KindExtent>>>;

/// One sweep over a store.
pub struct Sweep {
    /// The store's writer.
    pub pipeline: Pipeline,
    /// What may stay.
    pub wanted: Wanted,
    /// Streams that have ended, but whose writes may still be under way.
    pub after: Vec<Arc<Progress>>,
    /// Notified at the end.
    pub changed: Arc<Notify>,
    /// Set at the end.
    pub done: Arc<Mutex<bool>>,
}

impl Sweep {
    /// Sweeps until it has succeeded or is cancelled.
    pub async fn run(self, cancel: CancellationToken) {
        tokio::select! {
            () = cancel.cancelled() => {}
            () = self.sweep() => {
                *self.done.lock().unwrap_or_else(PoisonError::into_inner) = true;
                self.changed.notify_one();
            }
        }
    }

    async fn sweep(&self) {
        for progress in &self.after {
            progress.drained().await;
        }
        let schedule = ExponentialBuilder::default()
            .with_min_delay(Duration::from_millis(500))
            .with_max_delay(Duration::from_secs(15))
            .with_jitter()
            .without_max_times();
        let mut delays = schedule.build();
        while let Err(error) = self.attempt().await {
            tracing::debug!(store = %self.pipeline.name(), %error, "a sweep failed and is repeated");
            tokio::time::sleep(delays.next().unwrap_or(Duration::from_secs(15))).await;
        }
    }

    async fn attempt(&self) -> Result<(), StoreError> {
        let store = self.pipeline.opened().await;
        for cluster in store.clusters().await? {
            match self.wanted.get(&cluster) {
                None => {
                    self.pipeline.forget(&cluster);
                    store.drop_cluster(&cluster).await?;
                }
                Some(None) => {}
                Some(Some(kinds)) => self.delete_outside(&*store, &cluster, kinds).await?,
            }
        }
        Ok(())
    }

    async fn delete_outside(&self, store: &dyn Store, cluster: &ClusterName, kinds: &[KindExtent]) -> Result<(), StoreError> {
        let mut unwanted: Vec<(Arc<str>, Version)> = Vec::new();
        let extent = Extent::Outside(kinds.to_vec());
        store.visit_versions(cluster, &extent, &mut |id, version| unwanted.push((Arc::from(id), version))).await?;
        if unwanted.is_empty() {
            return Ok(());
        }
        tracing::info!(%cluster, documents = unwanted.len(), "deleting documents that no registry wants any more");
        let progress = Progress::new(cluster.clone(), Arc::clone(&self.changed));
        for (id, version) in unwanted {
            let write = Write { index: store.alias(cluster), id, version, body: None };
            self.pipeline.submit(write, progress.ticket()).await;
        }
        progress.drained().await;
        Ok(())
    }
}
