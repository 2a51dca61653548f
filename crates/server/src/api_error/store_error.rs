//! Errors of stores as responses for users.

use fleetdex_store::{StoreError, opensearch::role::missing_action};

use super::ApiError;

/// The type of an OpenSearch error, which names no index: `, too_many_nested_clauses`.
fn kind_of(reason: &str) -> String {
    match reason.split_once(':') {
        Some((kind, _))
            if kind
                .bytes()
                .all(|byte| byte == b'_' || byte.is_ascii_alphanumeric()) =>
        {
            format!(", {kind}")
        }
        _ => String::new(),
    }
}

/// Users do not get addresses or OpenSearch's messages, which name indices of clusters that the
/// user may not see: these are only logged.
impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        if !matches!(
            error,
            StoreError::Expired | StoreError::Invalid(_) | StoreError::TooComplex
        ) {
            tracing::warn!(%error, "a store did not answer a query");
        }
        match error {
            StoreError::Expired => Self::Expired,
            StoreError::Superseded => Self::Superseded(error.to_string()),
            StoreError::TooComplex => Self::VersionExpired(error.to_string()),
            StoreError::Crowded(message) => Self::Crowded(message),
            StoreError::RequestTooLarge(message) => Self::Unprocessable(message),
            StoreError::Invalid(message) => Self::bad_request(message),
            StoreError::Busy { status, .. } => Self::Busy(format!(
                "the store is overloaded or blocked (HTTP {status})"
            )),
            StoreError::Unreachable { .. } => Self::Unavailable(
                "the store cannot be reached; its registry's status says why".to_owned(),
            ),
            StoreError::Unsigned { .. } => Self::Unavailable(
                "the server has no credentials for the store; its registry's status says why"
                    .to_owned(),
            ),
            StoreError::Closed { reason, .. } => Self::Unavailable(format!(
                "the store may not be asked now ({reason}); its registry's status says why"
            )),
            StoreError::Unauthorized { ref reason, .. }
                if let Some(action) = missing_action(reason) =>
            {
                Self::Unavailable(format!(
                    "the server's user may not do {action} in the store: give it the role that `fleetdex store role` prints"
                ))
            }
            StoreError::Unauthorized { .. } => Self::Unavailable(
                "the store refuses the server's credentials; its registry's status says why"
                    .to_owned(),
            ),
            StoreError::Refused { status, reason, .. } => Self::Internal(format!(
                "the store refused the request (HTTP {status}{})",
                kind_of(&reason)
            )),
            StoreError::Garbled { .. } => {
                Self::Internal("the store gave no valid answer".to_owned())
            }
            StoreError::TooLarge { bytes } => Self::Internal(format!(
                "the store refused a request of {bytes} bytes as too large; ask with fewer values"
            )),
            StoreError::AnswerTooLarge { operation, limit } => Self::Internal(format!(
                "the store's answer to {operation} is longer than {limit} bytes, the limit for one response; request fewer or smaller objects"
            )),
            StoreError::Foreign { .. } | StoreError::Embedded(_) => {
                Self::Internal("the store failed; the server's log says why".to_owned())
            }
        }
    }
}
