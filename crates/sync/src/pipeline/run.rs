//! Opens the store, writes to it, and opens it again when it has to be.

use std::{sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use super::{
    OpenStore, Pipeline,
    settings_watch::until_changed,
    store_backoff::{MAX_DELAY, StoreBackoff},
    writer::Writer,
};

impl Pipeline {
    /// Opens the store and writes until cancelled. Then writes what is pending for `drain` at most,
    /// and drops the rest.
    pub async fn run(self, opener: Arc<dyn OpenStore>, cancel: CancellationToken, drain: Duration) {
        self.write_until_cancelled(opener, cancel, drain).await;
        self.queue.clear();
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
                opened = self.store.open(&*opener) => opened,
            };
            match opened {
                Ok(store) => {
                    backoff = StoreBackoff::default();
                    let writer = Arc::clone(&store.writer);
                    self.store.set_open(store);
                    Writer::new(self, writer, &opener).run(&cancel, drain).await;
                }
                Err(unavailable) => {
                    self.store.set_available(Err(unavailable));
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
}
