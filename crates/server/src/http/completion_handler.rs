//! The handler of completions.

use std::sync::Arc;

use axum::response::Response;

use super::{
    api_state::ApiState,
    handlers::{across_kinds, reserve_selection, respond_across_kinds},
};
use crate::{
    auth::caller::Caller,
    catalog::Catalog,
    read::completions,
    render::representation::Representation,
    request::{api_error::ApiError, api_request::CompletionsRequest},
};

/// Completes a search.
pub(crate) async fn complete_search(
    api: &ApiState,
    caller: &Caller,
    catalog: &Arc<Catalog>,
    request: &CompletionsRequest,
    representation: Representation,
) -> Result<Response, ApiError> {
    let _reservation = reserve_selection(api, caller, &request.others.list)?;
    // Clusters that the caller may not see are not found; a name that is being written is no reason for a refusal.
    let kinds = across_kinds(api, caller, catalog, &[]).await?;
    let (found, warnings) = completions::completions(&kinds, request, |bytes| {
        api.limits.reserve_query(caller, bytes)
    })
    .await?;
    let result = completions::document(&found, request)?;
    respond_across_kinds(&result, representation, &request.ignored, &warnings).await
}
