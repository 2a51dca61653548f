//! Errors between the command line and the server, with what to do about them.

use std::{fmt::Display, io, path::PathBuf};

use fleetdex_clusters::source::KubeconfigProblem;
use fleetdex_query_api::group::GROUPS;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;

/// HTTP status of an expired resource version.
pub(super) const GONE: i32 = 410;

/// The cause of a failed request.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The server cannot be reached, or did not answer as requested.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The token file cannot be read.
    #[error("cannot read the token file {}; is `fleetdex run` or `fleetdex local` running on this machine, as this user? Use another file with --token-file, or a kubeconfig with --kubeconfig", .path.display())]
    TokenFile {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The server's address is invalid.
    #[error("--server {server:?} is not an http or https URL: {reason}")]
    Address {
        /// The address.
        server: String,
        /// The reason.
        reason: String,
    },
    /// The token would be sent unencrypted over the network.
    #[error(
        "--server {0:?} is not on this machine, and plain http would expose the token; use https"
    )]
    Exposed(String),
    /// The HTTP client could not be built.
    #[error("cannot set up the HTTP client")]
    Client(#[source] BoxError),
    /// No kubeconfig can be read.
    #[error(
        "cannot read the kubeconfig; use another with --kubeconfig, or a server with --server; `fleetdex local` starts one on this machine"
    )]
    Kubeconfig(#[source] KubeconfigProblem),
    /// The context, or its cluster or user, is unusable.
    #[error("cannot use {server}")]
    Context {
        /// The context and its file.
        server: String,
        /// The error of the kube client.
        source: BoxError,
    },
    /// The aggregation layer forwards the paths of the group only.
    #[error(
        "the web page is not served through the API server of a kubeconfig; name the query API itself with --server, or open /ui at its address and enter a token"
    )]
    NoPage,
    /// The server cannot be reached.
    #[error("cannot reach {server}{remedy}")]
    Unreachable {
        /// The server's address, or the context.
        server: String,
        /// What to do.
        remedy: &'static str,
        /// The error of the HTTP client.
        source: BoxError,
    },
    /// The server did not answer in time.
    #[error("{server} did not answer within {seconds} s")]
    Timeout {
        /// The server's address, or the context.
        server: String,
        /// The timeout.
        seconds: u64,
    },
    /// The server refused.
    #[error("{}{}", refusal(.status), .remedy.as_deref().unwrap_or_default())]
    Refused {
        /// Its Status.
        status: Box<Status>,
        /// What to do, on a line of its own.
        remedy: Option<String>,
    },
    /// The apiserver has no such API group.
    #[error(
        "{server} does not serve the API {group}/v1alpha1: its APIService does not exist; install Fleetdex there with its chart, or use another cluster with --context, or a server with --server",
        group = GROUPS[0]
    )]
    NotInstalled {
        /// The context.
        server: String,
    },
    /// The aggregation layer cannot reach Fleetdex.
    #[error(
        "{server} cannot reach Fleetdex ({message}); see `kubectl get apiservice v1alpha1.{group}` and the Pods behind its Service",
        group = GROUPS[0]
    )]
    NotAvailable {
        /// The context.
        server: String,
        /// The message of the apiserver.
        message: String,
    },
    /// The response is not of the promised form.
    #[error("the server sent a malformed response for {path} (HTTP {code}): {reason}")]
    Malformed {
        /// The requested path.
        path: String,
        /// HTTP status.
        code: u16,
        /// The reason.
        reason: String,
    },
    /// The last line of a report is missing.
    #[error("{server} ended its report before it was complete; was the server stopped?")]
    Truncated {
        /// The server's address, or the context.
        server: String,
    },
}

/// Formats a Status as kubectl does.
fn refusal(status: &Status) -> String {
    let reason = status.reason.as_deref().unwrap_or("Unknown");
    format!(
        "Error from server ({reason}): {}",
        status.message.as_deref().unwrap_or("no message")
    )
}

impl ClientError {
    /// A Status in the middle of a response.
    pub(super) fn refused(status: Status) -> Self {
        Self::Refused {
            status: Box::new(status),
            remedy: None,
        }
    }

    /// Whether the resource version has expired.
    pub fn is_expired(&self) -> bool {
        matches!(self, Self::Refused { status, .. } if status.code == Some(GONE))
    }

    /// Whether this is a refusal of the server, which is printed as kubectl prints it.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused { .. })
    }

    /// Classifies an unsuccessful response. It may come from an apiserver or from the server behind
    /// it.
    pub(super) fn from_response(
        server: &str,
        is_behind_apiserver: bool,
        path: &str,
        code: u16,
        body: &[u8],
    ) -> Self {
        let message = String::from_utf8_lossy(&body[..body.len().min(MAX_QUOTED)])
            .trim()
            .to_owned();
        match (serde_json::from_slice::<Status>(body), code) {
            (Ok(status), _) if status.status.is_some() => {
                let remedy = missing_outer_permission(&status).filter(|_| is_behind_apiserver);
                Self::Refused {
                    status: Box::new(status),
                    remedy,
                }
            }
            (_, 404) if is_behind_apiserver => Self::NotInstalled {
                server: server.to_owned(),
            },
            (_, 502..=504) if is_behind_apiserver => Self::NotAvailable {
                server: server.to_owned(),
                message,
            },
            (read, _) => {
                let reason = read
                    .err()
                    .map_or_else(|| "not a Status".to_owned(), |error| error.to_string());
                malformed_response(path, code, &reason)
            }
        }
    }
}

/// Maximum length in bytes of a quoted response.
const MAX_QUOTED: usize = 300;

/// Explains a refusal by the RBAC of the apiserver: it names our API group, while the server behind
/// it names the requested resource.
fn missing_outer_permission(status: &Status) -> Option<String> {
    let group = GROUPS[0];
    let message = status.message.as_deref().unwrap_or_default();
    let is_outer = status.code == Some(403) && message.contains(group);
    is_outer.then(|| {
        format!(
            "\nTo query Fleetdex through the apiserver you need the verb get in the API group {group}: ask an administrator to bind the \
             chart's ClusterRole <release>-user to you."
        )
    })
}

pub(super) fn malformed_response(path: &str, code: u16, reason: &dyn Display) -> ClientError {
    ClientError::Malformed {
        path: path.to_owned(),
        code,
        reason: reason.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(is_behind_apiserver: bool, code: u16, body: &str) -> String {
        ClientError::from_response(
            "context prod",
            is_behind_apiserver,
            "/apis",
            code,
            body.as_bytes(),
        )
        .to_string()
    }

    #[test]
    fn errors_of_the_aggregation_layer_say_what_to_do() {
        insta::assert_snapshot!(message(true, 404, "404 page not found\n"), @"context prod does not serve the API search.fleetdex.io/v1alpha1: its APIService does not exist; install Fleetdex there with its chart, or use another cluster with --context, or a server with --server");
        insta::assert_snapshot!(message(true, 503, "service unavailable\n"), @"context prod cannot reach Fleetdex (service unavailable); see `kubectl get apiservice v1alpha1.search.fleetdex.io` and the Pods behind its Service");
        let denied = r#"{"kind":"Status","status":"Failure","code":403,"reason":"Forbidden","message":"search.search.fleetdex.io \"api\" is forbidden"}"#;
        insta::assert_snapshot!(message(true, 403, denied), @r#"
        Error from server (Forbidden): search.search.fleetdex.io "api" is forbidden
        To query Fleetdex through the apiserver you need the verb get in the API group search.fleetdex.io: ask an administrator to bind the chart's ClusterRole <release>-user to you.
        "#);
    }

    #[test]
    fn a_refusal_of_the_server_is_printed_unchanged() {
        let denied = r#"{"kind":"Status","status":"Failure","code":403,"reason":"Forbidden","message":"pods is forbidden"}"#;
        assert_eq!(
            message(true, 403, denied),
            "Error from server (Forbidden): pods is forbidden"
        );
        assert!(
            message(false, 404, "404 page not found")
                .starts_with("the server sent a malformed response for /apis (HTTP 404)")
        );
    }
}
