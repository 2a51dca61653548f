//! Why a server is not ready.

use crate::console::CommandError;

/// A server is not ready.
#[derive(Debug, thiserror::Error)]
pub enum ReadyError {
    /// The HTTP client cannot be made.
    #[error("cannot set up the HTTP client")]
    Client(#[source] reqwest::Error),
    /// The admin port does not answer.
    #[error(
        "cannot reach the admin port at {url}; does `fleetdex run` listen there (--admin-address), and does a NetworkPolicy let this client in?"
    )]
    Unreachable {
        /// What was requested.
        url: String,
        /// Why.
        source: reqwest::Error,
    },
    /// It answers that it is not ready.
    #[error("{url} answers {status}:\n{report}")]
    NotReady {
        /// What was requested.
        url: String,
        /// The HTTP status.
        status: u16,
        /// Its checks, a line each.
        report: String,
    },
    /// The control plane does not serve the query API.
    #[error(
        "{server} does not serve {path}; kubectl describe apiservice v1alpha1.search.fleetdex.io has the reason: {problem}"
    )]
    QueryApi {
        /// The control plane.
        server: String,
        /// What was requested.
        path: String,
        /// What it said, with all causes.
        problem: String,
    },
}

impl From<ReadyError> for CommandError {
    fn from(error: ReadyError) -> Self {
        Self::failed(error)
    }
}
