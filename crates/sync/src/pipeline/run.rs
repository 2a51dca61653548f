//! Opens the store, writes to it, and opens it again when it has to be.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use super::{
    OpenStore, OpenedStore, Pipeline, Unavailable,
    settings_watch::until_changed,
    store_backoff::{MAX_DELAY, StoreBackoff},
    writer::Writer,
};

impl Pipeline {
    /// Opens the store and writes until cancelled. Then writes what is pending for `drain` at most,
    /// and drops the rest.
    pub async fn run(self, opener: Arc<dyn OpenStore>, cancel: CancellationToken, drain: Duration) {
        self.write_until_cancelled(opener, cancel, drain).await;
        // Other streams may wait for the end of these writes although this pipeline is still
        // referenced.
        let dropped = std::mem::take(&mut *self.0.pending.lock());
        drop(dropped);
    }

    async fn write_until_cancelled(
        &self,
        opener: Arc<dyn OpenStore>,
        cancel: CancellationToken,
        drain: Duration,
    ) {
        let mut backoff = StoreBackoff::default();
        while !cancel.is_cancelled() {
            let opened = tokio::select! {
                biased;
                () = cancel.cancelled() => return,
                opened = self.open_store(&*opener) => opened,
            };
            match opened {
                Ok(store) => {
                    backoff = StoreBackoff::default();
                    self.set_available(Ok(()));
                    let writer = Arc::clone(&store.writer);
                    if let Some(sharing) = writer.index_sharing() {
                        sharing.expect_clusters(self.0.clusters.load(Ordering::Relaxed));
                    }
                    *self.0.store.lock() = Some(store);
                    self.0.opened.notify_waiters();
                    Writer::new(self, writer, &opener).run(&cancel, drain).await;
                }
                Err(unavailable) => {
                    self.set_available(Err(unavailable));
                    tokio::select! {
                        biased;
                        () = cancel.cancelled() => return,
                        () = tokio::time::sleep(backoff.next(MAX_DELAY)) => {}
                        () = until_changed(&*opener) => {}
                    }
                }
            }
        }
    }

    /// Opens the store, and reads the UIDs of the clusters whose documents it holds.
    async fn open_store(&self, opener: &dyn OpenStore) -> Result<OpenedStore, Unavailable> {
        let store = opener.open().await?;
        let identities = store.writer.identities().await?;
        *self.0.identities.lock() = identities;
        Ok(store)
    }

    /// Publishes whether the store can be used.
    pub(super) fn set_available(&self, available: Result<(), Unavailable>) {
        let name = &self.0.name;
        let changed = self.0.availability.send_if_modified(|current| {
            let modified = current.as_ref() != Some(&available);
            if modified {
                let registries = self.0.registries.lock().clone();
                match &available {
                    Ok(()) => {
                        tracing::info!(store = %name, registries, "the store is available");
                    }
                    Err(problem) => {
                        tracing::warn!(store = %name, registries, reason = problem.reason, message = %problem.message, "the store is unavailable");
                    }
                }
                *current = Some(available);
            }
            modified
        });
        if changed {
            self.0.changed.notify_one();
        }
    }
}
