//! Errors of stores, and what they mean for the caller.

use fleetdex_core::query::QueryError;
use fleetdex_limits::intake::IntakeError;

/// The reason of a refused signature whose time is more than five minutes from that of AWS.
pub(crate) const CLOCK_SKEW: &str = "AWS refuses the time of the signature: the clock of this node and that of AWS differ by more than five minutes; synchronize it";

/// Steps that a watch takes for one change at most, to compare both states of the object with its
/// conditions. 14 words and all 256 KiB of annotation keys that an API server accepts take 230,000
/// for one state.
pub(crate) const STEPS_PER_CHANGE: u64 = 500_000;

/// The error of a request for whose response there is no memory.
pub(crate) fn no_memory(operation: &str, error: &IntakeError) -> StoreError {
    match *error {
        // A smaller page may fit.
        IntakeError::TooLarge(limit) | IntakeError::RequestTooLarge(limit) => {
            let operation = operation.to_owned();
            StoreError::AnswerTooLarge { operation, limit }
        }
        IntakeError::ShareExhausted(_) | IntakeError::Slow | IntakeError::Broken(_) => {
            StoreError::Crowded(error.for_user())
        }
    }
}

/// The error of a request that has waited for memory.
pub(crate) fn no_memory_in_time() -> StoreError {
    StoreError::Crowded("other requests hold all of the memory".to_owned())
}

/// A store operation failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// No response: connection refused or cut, TLS failure, timeout.
    #[error("cannot reach OpenSearch at {address}: {reason}")]
    Unreachable {
        /// The node.
        address: String,
        /// The transport's error.
        reason: String,
    },
    /// 401 or 403 of the security plugin.
    #[error("OpenSearch at {address} refused the credentials (HTTP {status}): {reason}")]
    Unauthorized {
        /// The node.
        address: String,
        /// HTTP status.
        status: u16,
        /// OpenSearch's reason.
        reason: String,
    },
    /// The request was not sent, as it could not be signed for AWS.
    #[error("cannot sign requests to OpenSearch at {address}: {reason}")]
    Unsigned {
        /// The node.
        address: String,
        /// Why.
        reason: String,
    },
    /// The request was not sent, as the store may not be asked: its settings are invalid, or its
    /// credentials were withdrawn.
    #[error("{message}")]
    Closed {
        /// The reason, in CamelCase.
        reason: &'static str,
        /// The cause and what to do.
        message: String,
    },
    /// 429 or 5xx: overloaded, full or starting.
    #[error("OpenSearch is overloaded or blocked (HTTP {status}): {reason}")]
    Busy {
        /// HTTP status.
        status: u16,
        /// OpenSearch's reason.
        reason: String,
    },
    /// 413: the request was too large.
    #[error("OpenSearch refused a request of {bytes} bytes as too large (HTTP 413)")]
    TooLarge {
        /// Bytes sent.
        bytes: usize,
    },
    /// The response is longer than its limit.
    #[error(
        "OpenSearch's answer to {operation} is longer than {limit} bytes, the limit for one response"
    )]
    AnswerTooLarge {
        /// The operation.
        operation: String,
        /// The limit of a response.
        limit: usize,
    },
    /// The request was understood and refused.
    #[error("OpenSearch refused {operation} (HTTP {status}): {reason}")]
    Refused {
        /// The operation.
        operation: String,
        /// HTTP status.
        status: u16,
        /// OpenSearch's reason.
        reason: String,
    },
    /// The response was invalid.
    #[error("OpenSearch gave no valid answer to {operation}: {reason}")]
    Garbled {
        /// The operation.
        operation: String,
        /// What was wrong.
        reason: String,
    },
    /// An index of the required name belongs to another owner.
    #[error(
        "index {index} belongs to {owner}; give this registry another indexPrefix, or delete that index if it is no longer needed"
    )]
    Foreign {
        /// The index.
        index: String,
        /// Its owner.
        owner: String,
    },
    /// The embedded store failed.
    #[error("the embedded store failed: {0}")]
    Embedded(String),
    /// A query that this store cannot answer, such as one of a field that is not selectable.
    #[error("{0}")]
    Invalid(String),
    /// A cursor whose view was closed for another one of the same user.
    #[error(
        "the continue token has expired: you have begun more lists since than one user may have open, and the one that was left alone the longest has ended; start the list again without it"
    )]
    Superseded,
    /// The limit of open views, or of the memory for requests, is reached.
    #[error("{0}")]
    Crowded(String),
    /// One request may not hold what its result takes.
    #[error("{0}")]
    RequestTooLarge(String),
    /// A watch whose conditions take too many steps for an object that has changed.
    #[error(
        "an object has changed whose labels, annotations and fields take more than {STEPS_PER_CHANGE} steps to compare with the words and selectors of this watch; watch with fewer of them"
    )]
    TooComplex,
    /// A cursor whose view is gone.
    #[error("the continue token has expired; start the list again without it")]
    Expired,
}

impl From<QueryError> for StoreError {
    fn from(error: QueryError) -> Self {
        Self::Invalid(error.to_string())
    }
}

impl StoreError {
    /// The error of a response that is not what an operation needs.
    pub(crate) fn garbled(operation: &str, reason: impl std::fmt::Display) -> Self {
        Self::Garbled {
            operation: operation.to_owned(),
            reason: reason.to_string(),
        }
    }

    /// The error of an operation that may succeed later.
    pub(crate) fn busy(status: u16, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::Busy { status, reason }
    }

    /// The reason of a condition, in CamelCase.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Unreachable { .. } => "Unreachable",
            Self::Unauthorized { reason, .. } if reason == CLOCK_SKEW => "ClockSkew",
            Self::Unauthorized { .. } => "Unauthorized",
            Self::Unsigned { .. } => "NoAWSCredentials",
            Self::Closed { reason, .. } => reason,
            // As the condition says it for single writes.
            Self::Busy { reason, .. } if reason.contains("cluster_block_exception") => "Blocked",
            Self::Busy { .. } | Self::Crowded(_) => "Overloaded",
            Self::TooLarge { .. }
            | Self::Refused { .. }
            | Self::Invalid(_)
            | Self::RequestTooLarge(_) => "Refused",
            Self::AnswerTooLarge { .. } => "AnswerTooLarge",
            Self::Garbled { .. } => "InvalidAnswer",
            Self::Foreign { .. } => "IndexOfAnother",
            Self::Embedded(_) => "EmbeddedStoreFailed",
            Self::Expired | Self::Superseded | Self::TooComplex => "Expired",
        }
    }
}
