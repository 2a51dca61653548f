//! The handler of completions.

use std::sync::Arc;

use axum::response::Response;
use fleetdex_query_api::question::CompletionsRequest;

use crate::{
    answers::{
        objects::{across_kinds, reserve_selection, respond_across_kinds},
        state::Answers,
    },
    api_error::ApiError,
    auth::caller::Caller,
    catalog::Catalog,
    read::completions,
    render::representation::Representation,
};

/// Completes a search.
pub(crate) async fn complete_search(
    answers: &Answers,
    caller: &Caller,
    catalog: &Arc<Catalog>,
    request: &CompletionsRequest,
    representation: Representation,
) -> Result<Response, ApiError> {
    let _reservation = reserve_selection(answers, caller, &request.others.list)?;
    // Clusters that the caller may not see are not found; a name that is being written is no reason for a refusal.
    let kinds = across_kinds(answers, caller, catalog, &[]).await?;
    let (found, warnings) = completions::completions(&kinds, request, |bytes| {
        answers.limits.reserve_query(caller, bytes)
    })
    .await?;
    let result = completions::document(&found, request)?;
    respond_across_kinds(&result, representation, &request.ignored, &warnings).await
}
