//! How many calls are under way at a time.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits::{CALLS, CALLS_OF_WEBHOOK};

/// Calls under way for one webhook: those that a queue makes, and as many for users who wait for
/// one.
pub const MAX_CALLS_OF_WEBHOOK: usize = 2 * CALLS_OF_WEBHOOK;
/// Calls under way for all webhooks together: four times what a queue makes, so that neither a
/// queue nor seven webhooks that hang keep users from an eighth.
pub const MAX_CALLS: usize = 4 * CALLS;
/// Webhooks whose semaphores are kept while nothing uses them.
const KEPT: usize = 200;

/// The calls that may be under way.
pub(super) struct Slots {
    all: Arc<Semaphore>,
    webhooks: Mutex<BTreeMap<String, Arc<Semaphore>>>,
}

/// One call: its permits of the webhook and of all. Dropping it makes room for another one.
pub(super) type Slot = [Option<OwnedSemaphorePermit>; 2];

impl Default for Slots {
    fn default() -> Self {
        Self {
            all: Arc::new(Semaphore::new(MAX_CALLS)),
            webhooks: Mutex::default(),
        }
    }
}

impl Slots {
    /// Waits for its turn. Who waits for a webhook that is busy occupies nothing of what all share.
    pub(super) async fn acquire(&self, webhook: &str) -> Slot {
        // No semaphore is ever closed, which is the only error there is.
        let of_webhook = self.semaphore(webhook).acquire_owned().await.ok();
        let of_all = Arc::clone(&self.all).acquire_owned().await.ok();
        [of_webhook, of_all]
    }

    fn semaphore(&self, webhook: &str) -> Arc<Semaphore> {
        let mut webhooks = self.webhooks.lock();
        if let Some(known) = webhooks.get(webhook) {
            return Arc::clone(known);
        }
        if webhooks.len() >= KEPT {
            // A permit and a request that waits hold a clone.
            webhooks.retain(|_, semaphore| Arc::strong_count(semaphore) > 1);
        }
        let new = Arc::new(Semaphore::new(MAX_CALLS_OF_WEBHOOK));
        webhooks.insert(webhook.to_owned(), Arc::clone(&new));
        new
    }
}
