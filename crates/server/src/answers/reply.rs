//! What a question is answered with, before it is encoded.

use axum::response::Response;
use fleetdex_query_api::answer::Answer;
use serde::Serialize;

use super::response::{counted_document, with_warnings};
use crate::{api_error::ApiError, limits::UserPermit, render::representation::Representation};

/// What a question is answered with.
pub(crate) enum Reply {
    /// An answer in memory, which is not encoded yet.
    Answer(Box<UnencodedAnswer>),
    /// Objects as they are stored, events, or a document that is never read again.
    Response(Response),
}

/// An answer that is not encoded yet.
pub(crate) struct UnencodedAnswer {
    /// The answer.
    pub(crate) answer: Answer,
    /// Warnings for the caller.
    pub(crate) warnings: Vec<String>,
    /// How the caller wants to see it.
    pub(super) representation: Representation,
    /// The memory of the query, of which an explanation has a translation.
    pub(super) reservation: Vec<UserPermit>,
}

impl Reply {
    /// The same with these warnings, too.
    pub(super) fn warning(self, added: &[String]) -> Self {
        match self {
            Self::Answer(mut unencoded) => {
                unencoded.warnings.extend_from_slice(added);
                Self::Answer(unencoded)
            }
            Self::Response(response) => Self::Response(with_warnings(response, added)),
        }
    }

    /// The response, encoded within the memory of the request.
    pub(crate) async fn into_response(self) -> Result<Response, ApiError> {
        match self {
            Self::Response(response) => Ok(response),
            Self::Answer(unencoded) => {
                let UnencodedAnswer {
                    answer,
                    warnings,
                    representation,
                    reservation: _reservation,
                } = *unencoded;
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
