//! The context of a request below `proxying/`.

use std::sync::Arc;

use fleetdex_core::{model::ClusterName, query::ResourceName};

use super::{super::catalog::Catalog, MemberProxy};
use crate::{
    answers::Answers, api_error::ApiError, auth::caller::Caller,
    read::visible_objects::visible_catalog,
};

/// The caller, and the part of the catalog that the request concerns.
pub(super) struct ProxyContext<'s> {
    pub(super) answers: &'s Answers,
    pub(super) members: &'s MemberProxy,
    pub(super) catalog: &'s Arc<Catalog>,
    pub(super) caller: &'s Caller,
}

impl ProxyContext<'_> {
    pub(super) fn members(&self) -> &MemberProxy {
        self.members
    }

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
