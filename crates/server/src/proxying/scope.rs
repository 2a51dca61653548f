//! The state that the steps of one answer share: who asks, and the part of the catalog in question.

use std::sync::Arc;

use fleetdex_core::{model::ClusterName, query::ResourceName};

use super::{
    super::{api::Api, caller::Caller, catalog::Catalog, permission::sight, status::ApiError},
    Members,
};

/// What every step of one answer needs.
pub(super) struct Scope<'s> {
    pub(super) api: &'s Api,
    pub(super) catalog: &'s Arc<Catalog>,
    pub(super) caller: &'s Caller,
}

impl Scope<'_> {
    pub(super) fn members(&self) -> &Members {
        &self.api.members
    }

    /// What the caller may know of, of the clusters that are named or of all. What the caller may do there, the members decide themselves.
    pub(super) async fn sight(
        &self,
        named: &[ClusterName],
        resource: Option<&ResourceName>,
    ) -> Result<Arc<Catalog>, ApiError> {
        sight(&self.api.gate, self.caller, self.catalog, named, resource).await
    }
}
