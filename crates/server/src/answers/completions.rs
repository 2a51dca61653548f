//! The handler of completions.

use std::sync::Arc;

use fleetdex_query_api::{answer::Answer, question::CompletionsRequest};

use crate::{
    answers::{
        objects::{across_kinds, all_warnings, reserve_selection},
        reply::{Reply, UnencodedAnswer},
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
) -> Result<Reply, ApiError> {
    let reservation = reserve_selection(answers, caller, &request.others.list)?;
    // Clusters that the caller may not see are not found; a name that is being written is no reason
    // for a refusal.
    let kinds = across_kinds(answers, caller, catalog, &[]).await?;
    let (found, warnings) = completions::completions(&kinds, request, |bytes| {
        answers.limits.reserve_query(caller, bytes)
    })
    .await?;
    let warnings = all_warnings(&request.ignored, warnings);
    Ok(Reply::from(UnencodedAnswer {
        answer: Answer::Completions(found),
        warnings,
        representation,
        reservation,
    }))
}
