//! What a store can fail with, and what that means for the caller.

/// A store could not do what it was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// No answer: connection refused or cut, TLS failure, timeout.
    #[error("cannot reach OpenSearch at {address}: {reason}")]
    Unreachable {
        /// The node that was asked.
        address: String,
        /// What the transport said.
        reason: String,
    },
    /// 401 or 403 of the security plugin.
    #[error("OpenSearch at {address} refused the credentials (HTTP {status}): {reason}")]
    Unauthorized {
        /// The node that was asked.
        address: String,
        /// HTTP status.
        status: u16,
        /// What it said.
        reason: String,
    },
    /// 429 or 5xx: overloaded, full or starting.
    #[error("OpenSearch is overloaded or blocked (HTTP {status}): {reason}")]
    Busy {
        /// HTTP status.
        status: u16,
        /// What it said.
        reason: String,
    },
    /// 413: the request was too large.
    #[error("OpenSearch refused a request of {bytes} bytes as too large (HTTP 413)")]
    TooLarge {
        /// Bytes sent.
        bytes: usize,
    },
    /// The answer is longer than is read of one.
    #[error(
        "OpenSearch's answer to {operation} is longer than {limit} bytes, which is all that is read of one"
    )]
    AnswerTooLarge {
        /// What was tried.
        operation: String,
        /// How long an answer may be.
        limit: usize,
    },
    /// The request was understood and refused.
    #[error("OpenSearch refused {operation} (HTTP {status}): {reason}")]
    Refused {
        /// What was tried.
        operation: String,
        /// HTTP status.
        status: u16,
        /// What it said.
        reason: String,
    },
    /// The answer was no valid answer.
    #[error("OpenSearch gave no valid answer to {operation}: {reason}")]
    Garbled {
        /// What was tried.
        operation: String,
        /// What was wrong.
        reason: String,
    },
    /// An index of the name that is needed is not ours.
    #[error(
        "index {index} belongs to {owner}; give this registry another indexPrefix, or delete that index if nobody needs it"
    )]
    Foreign {
        /// The index.
        index: String,
        /// Whose it is.
        owner: String,
    },
    /// The embedded store could not do it.
    #[error("the embedded store failed: {0}")]
    Embedded(String),
    /// A query that this store cannot answer, such as a field that is not selectable.
    #[error("{0}")]
    Invalid(String),
    /// A cursor whose snapshot was closed for another one of the same user.
    #[error(
        "the continue token has expired: you have begun more lists since than one user may have open, and the one that was left alone the longest has ended; start the list again without it"
    )]
    Superseded,
    /// As many snapshots are open as may be.
    #[error("{0}")]
    Crowded(String),
    /// A cursor whose snapshot is gone.
    #[error("the continue token has expired; start the list again without it")]
    Expired,
}

impl StoreError {
    /// The reason of a condition, in CamelCase.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Unreachable { .. } => "Unreachable",
            Self::Unauthorized { .. } => "Unauthorized",
            Self::Busy { .. } | Self::Crowded(_) => "Overloaded",
            Self::TooLarge { .. } | Self::Refused { .. } | Self::Invalid(_) => "Refused",
            Self::AnswerTooLarge { .. } => "AnswerTooLarge",
            Self::Garbled { .. } => "InvalidAnswer",
            Self::Foreign { .. } => "IndexOfAnother",
            Self::Embedded(_) => "EmbeddedStoreFailed",
            Self::Expired | Self::Superseded => "Expired",
        }
    }
}
