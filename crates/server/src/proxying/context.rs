//! The context of a request below `proxying/`, and what forwards requests to members.

use std::sync::Arc;

use fleetdex_clusters::Clusters;
use fleetdex_core::{model::ClusterName, query::ResourceName};
use tokio_util::sync::CancellationToken;

use super::{
    super::catalog::Catalog, client_cache::ClientCache, document_cache::DocumentCache,
    forward::Forwarder,
};
use crate::{
    answers::Answers, api_error::ApiError, auth::caller::Caller, read::permitted::visible_catalog,
};

/// The caller, and the part of the catalog that the request concerns.
pub(super) struct ProxyContext<'s> {
    pub(super) answers: &'s Answers,
    pub(super) members: &'s MemberProxy,
    pub(super) catalog: &'s Arc<Catalog>,
    pub(super) caller: &'s Caller,
}

impl ProxyContext<'_> {
    /// The catalog that the caller may see, of the named clusters or of all. What the caller may do
    /// there, the members decide.
    pub(super) async fn visible_catalog(
        &self,
        named: &[ClusterName],
        resource: Option<&ResourceName>,
    ) -> Result<Arc<Catalog>, ApiError> {
        visible_catalog(
            &self.answers.authentication_mode,
            self.caller,
            self.catalog,
            named,
            resource,
        )
        .await
    }
}

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
