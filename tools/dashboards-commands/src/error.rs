//! Why a command for Dashboards failed.

use std::{io, path::PathBuf};

use fleetdex_cli::console::CommandError;

use super::import::RefusedObject;

/// A command for Dashboards failed.
#[derive(Debug, thiserror::Error)]
pub enum DashboardsError {
    /// The URL cannot be used.
    #[error("{url:?} is no URL of Dashboards: {problem}")]
    Url {
        /// What was given, without a password.
        url: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A file cannot be read.
    #[error("cannot read {what} {}", path.display())]
    File {
        /// What the file is for.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is a user without a password.
    #[error(
        "there is no password for user {0:?}: write it into a file and name the file with --password-file, or set FLEETDEX_DASHBOARDS_PASSWORD"
    )]
    NoPassword(String),
    /// The HTTP client cannot be made.
    #[error("cannot use the certificates of {what}")]
    Certificates {
        /// The file, or the system's.
        what: String,
        /// Why.
        source: reqwest::Error,
    },
    /// No response came.
    #[error(
        "cannot reach Dashboards at {url}; is it running there, and is the URL that of Dashboards (often port 5601)?"
    )]
    Unreachable {
        /// The URL.
        url: String,
        /// Why.
        source: reqwest::Error,
    },
    /// The whole request was refused.
    #[error("Dashboards at {url} answers {status}: {message}{advice}")]
    Status {
        /// The URL.
        url: String,
        /// The HTTP status.
        status: u16,
        /// What Dashboards said.
        message: String,
        /// What to do.
        advice: &'static str,
    },
    /// The response is not that of an import.
    #[error("{url} does not answer as Dashboards: {problem}; is this the URL of Dashboards?")]
    Response {
        /// The URL.
        url: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Objects were refused. With a conflict, or a reference that leads nowhere, Dashboards writes
    /// none of the others either.
    #[error(
        "Dashboards at {url} refused {} of {total} objects:{}",
        refused.len(),
        refused.iter().map(|object| format!("\n  {object}")).collect::<Vec<_>>().concat()
    )]
    Refused {
        /// The URL.
        url: String,
        /// The refused objects.
        refused: Vec<RefusedObject>,
        /// How many were sent.
        total: usize,
    },
    /// Success was reported for fewer objects than were sent.
    #[error(
        "Dashboards at {url} reports success for {imported} of {total} objects; run the command again"
    )]
    Incomplete {
        /// The URL.
        url: String,
        /// How many were imported.
        imported: usize,
        /// How many were sent.
        total: usize,
    },
    /// Objects of RBAC cannot be read.
    #[error(
        "cannot list {resource} on {server}; the user of the kubeconfig needs list on it in rbac.authorization.k8s.io: {problem}"
    )]
    Rbac {
        /// Such as `clusterroles`.
        resource: &'static str,
        /// The control plane.
        server: String,
        /// What the control plane, or the connection to it, says.
        problem: String,
    },
    /// The control plane does not answer.
    #[error("cannot list {resource} on {server}: no answer within a minute")]
    RbacTimeout {
        /// Such as `clusterroles`.
        resource: &'static str,
        /// The control plane.
        server: String,
    },
    /// The roles do not serialize.
    #[error("cannot write the roles as YAML: {0}")]
    Yaml(String),
}

impl From<DashboardsError> for CommandError {
    fn from(error: DashboardsError) -> Self {
        Self::failed(error)
    }
}
