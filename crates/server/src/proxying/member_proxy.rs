//! Forwarding to members, and the cache of their documents.

use std::sync::Arc;

use fleetdex_clusters::Clusters;
use tokio_util::sync::CancellationToken;

use super::{client_cache::ClientCache, document_cache::DocumentCache, forward::Forwarder};

/// Forwards requests of users to members.
#[derive(Debug)]
pub struct MemberProxy {
    pub(super) forwarder: Forwarder,
    pub(super) documents: DocumentCache,
}

impl MemberProxy {
    /// Forwards to these clusters. Upgraded connections end when `cancel` is cancelled.
    pub fn new(clusters: Arc<Clusters>, cancel: CancellationToken) -> Self {
        Self {
            forwarder: Forwarder::new(ClientCache::new(clusters), cancel),
            documents: DocumentCache::default(),
        }
    }

    /// Waits until all upgraded connections have ended. Call it after cancelling the token.
    pub async fn stopped(&self) {
        self.forwarder.tunnels.stopped().await;
    }
}
