//! Where documents live: the `Store` seam and its engines.

use async_trait::async_trait;
use bytes::Bytes;

use crate::{
    model::{ClusterName, Unit, Version},
    query::{Cursor, Page, Query},
};

pub mod opensearch;

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
    /// 401 or 403 by the security plugin.
    #[error("OpenSearch at {address} refused the credentials (HTTP {status}): {reason}")]
    Unauthorized {
        /// The node that was asked.
        address: String,
        /// HTTP status.
        status: u16,
        /// What it said.
        reason: String,
    },
    /// 429, or a cluster that is full or blocked: try again later.
    #[error("OpenSearch is overloaded or blocked (HTTP {status}): {reason}")]
    Busy {
        /// HTTP status.
        status: u16,
        /// What it said.
        reason: String,
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
    #[error("OpenSearch answered {operation} with something that is no valid answer: {reason}")]
    Garbled {
        /// What was tried.
        operation: String,
        /// What was wrong.
        reason: String,
    },
    /// A cursor whose snapshot is gone.
    #[error("the continue token has expired; start the list again without it")]
    Expired,
}

/// One engine that keeps documents and answers queries.
#[async_trait]
pub trait Store: Send + Sync {
    /// Makes the index of a cluster ready to be written to. Idempotent.
    async fn ensure(&self, cluster: &ClusterName) -> Result<(), StoreError>;

    /// Answers one page of a query; `from` is the cursor of the page before.
    async fn search(&self, query: &Query, from: Option<&Cursor>) -> Result<Page, StoreError>;
}
