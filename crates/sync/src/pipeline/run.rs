//! Opens the store, writes to it, and opens it again when it is lost.

use std::{sync::Arc, time::Duration};

use fleetdex_store::Store;
use tokio_util::sync::CancellationToken;

use super::{
    OpenStore, Pipeline, Unavailable,
    backoff::{Backoff, MAX_DELAY},
    writer::Writer,
};

impl Pipeline {
    /// Opens the store and writes until cancelled; then writes what is left, for `drain` at most. What waits after that is given up.
    pub async fn run(self, opener: Arc<dyn OpenStore>, cancel: CancellationToken, drain: Duration) {
        self.write_until_cancelled(opener, cancel, drain).await;
        // Other streams may wait for the end of these writes, however long this pipeline is kept.
        let given_up = std::mem::take(&mut *self.0.pending.lock());
        drop(given_up);
    }

    async fn write_until_cancelled(
        &self,
        opener: Arc<dyn OpenStore>,
        cancel: CancellationToken,
        drain: Duration,
    ) {
        let mut backoff = Backoff::default();
        while !cancel.is_cancelled() {
            let opened = tokio::select! {
                biased;
                () = cancel.cancelled() => return,
                opened = self.open_store(&*opener) => opened,
            };
            match opened {
                Ok(store) => {
                    backoff = Backoff::default();
                    self.set_available(Ok(()));
                    *self.0.store.lock() = Some(Arc::clone(&store));
                    self.0.opened.notify_waiters();
                    Writer::new(self, store, &opener).run(&cancel, drain).await;
                }
                Err(unavailable) => {
                    self.set_available(Err(unavailable));
                    tokio::select! {
                        biased;
                        () = cancel.cancelled() => return,
                        () = tokio::time::sleep(backoff.next(MAX_DELAY)) => {}
                    }
                }
            }
        }
    }

    /// Opens the store, and reads whose documents it holds.
    async fn open_store(&self, opener: &dyn OpenStore) -> Result<Arc<dyn Store>, Unavailable> {
        let store = opener.open().await?;
        let identities = store.identities().await?;
        *self.0.identities.lock() = identities;
        Ok(store)
    }

    /// Says whether the store can be used.
    pub(super) fn set_available(&self, available: Result<(), Unavailable>) {
        let name = &self.0.name;
        let changed = self.0.availability.send_if_modified(|current| {
            let modified = current.as_ref() != Some(&available);
            if modified {
                match &available {
                    Ok(()) => tracing::info!(store = %name, "the store is available"),
                    Err(problem) => {
                        tracing::warn!(store = %name, reason = problem.reason, message = %problem.message, "the store is unavailable");
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
