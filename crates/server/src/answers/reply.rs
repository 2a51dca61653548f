//! What a question is answered with, before it is encoded.

use axum::response::Response;
use fleetdex_query_api::answer::Answer;
use serde::Serialize;

use super::response::{counted_document, with_warnings};
use crate::{api_error::ApiError, render::representation::Representation};

/// What a question is answered with.
pub(crate) enum Reply {
    /// An answer in memory, how its caller wants to see it, and warnings for the caller.
    Answer(Box<Answer>, Representation, Vec<String>),
    /// Objects as they are stored, events, or a document that is never read again.
    Response(Response),
}

impl Reply {
    /// An answer with warnings.
    pub(super) fn of(
        answer: Answer,
        representation: Representation,
        warnings: Vec<String>,
    ) -> Self {
        Self::Answer(Box::new(answer), representation, warnings)
    }

    /// The same with these warnings, too.
    pub(super) fn warning(self, added: &[String]) -> Self {
        match self {
            Self::Answer(answer, representation, mut warnings) => {
                warnings.extend_from_slice(added);
                Self::Answer(answer, representation, warnings)
            }
            Self::Response(response) => Self::Response(with_warnings(response, added)),
        }
    }

    /// The response, encoded within the memory of the request.
    pub(crate) async fn into_response(self) -> Result<Response, ApiError> {
        match self {
            Self::Response(response) => Ok(response),
            Self::Answer(answer, representation, warnings) => {
                let response = counted_document(&encoded(&answer)?, representation).await?;
                Ok(with_warnings(response, &warnings))
            }
        }
    }
}

/// The JSON of an answer.
pub(super) fn encoded(answer: &impl Serialize) -> Result<String, ApiError> {
    serde_json::to_string(answer).map_err(|error| ApiError::Internal(error.to_string()))
}
