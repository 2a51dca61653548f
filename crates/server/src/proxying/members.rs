//! The members as requests of users reach them, with what is kept from one request to the next.

use std::sync::Arc;

use fleetdex_clusters::Clusters;
use tokio_util::sync::CancellationToken;

use super::{clients::Clients, document_cache::Documents, forward::Forwarder};

/// The members, as requests of users see them.
#[derive(Debug)]
pub struct Members {
    pub(super) forwarder: Forwarder,
    pub(super) documents: Documents,
}

impl Members {
    /// Requests go on to these clusters, and sessions with them last until `cancel` is cancelled.
    pub fn new(clusters: Arc<Clusters>, cancel: CancellationToken) -> Self {
        Self {
            forwarder: Forwarder::new(Clients::new(clusters), cancel),
            documents: Documents::default(),
        }
    }

    /// Waits until all sessions have ended; to be called after the token was cancelled.
    pub async fn stopped(&self) {
        self.forwarder.tunnels.stopped().await;
    }
}
