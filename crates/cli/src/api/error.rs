//! What can go wrong between the command line and the server, and what to do about it.

use std::{io, path::PathBuf};

use fleetdex_clusters::source::KubeconfigProblem;
use fleetdex_server::request::GROUPS;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;

/// What lies under a failed request.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The server cannot be asked, or did not answer as asked.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The token is not there.
    #[error("cannot read the token file {}; is `fleetdex run` or `fleetdex local` at work on this machine, as this user? Name another file with --token-file, or a kubeconfig with --kubeconfig", .path.display())]
    TokenFile {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The server's address is none.
    #[error("--server {server:?} is no http or https URL: {reason}")]
    Address {
        /// The address.
        server: String,
        /// What is wrong.
        reason: String,
    },
    /// The token would be readable on the network.
    #[error(
        "--server {0:?} is not on this machine, and over plain http the token would be readable on the way; use https"
    )]
    Exposed(String),
    /// The client could not be built.
    #[error("cannot set up the HTTP client")]
    Client(#[source] BoxError),
    /// There is no kubeconfig that can be read.
    #[error(
        "cannot read the kubeconfig; name one with --kubeconfig, or a server with --server: `fleetdex local` starts one on this machine"
    )]
    Kubeconfig(#[source] KubeconfigProblem),
    /// The context, or what it names, is no use.
    #[error("cannot use {place}")]
    Context {
        /// The context and its file.
        place: String,
        /// What kube said.
        source: BoxError,
    },
    /// No answer.
    #[error("cannot reach {place}{remedy}")]
    Unreachable {
        /// The server's address, or the context.
        place: String,
        /// What to do.
        remedy: &'static str,
        /// What the client said.
        source: BoxError,
    },
    /// No answer in time.
    #[error("{place} gave no answer within {seconds} s")]
    Silent {
        /// The server's address, or the context.
        place: String,
        /// How long it was given.
        seconds: u64,
    },
    /// The server refused.
    #[error("{}{}", refusal(.status), .remedy.as_deref().unwrap_or_default())]
    Refused {
        /// What it said.
        status: Box<Status>,
        /// What to do, on a line of its own.
        remedy: Option<String>,
    },
    /// The apiserver has no such API group.
    #[error(
        "{place} does not know the API {group}/v1alpha1: its APIService is not there; install Fleetdex there with its chart, or name another cluster with --context, or a server with --server",
        group = GROUPS[0]
    )]
    NotInstalled {
        /// The context.
        place: String,
    },
    /// The aggregation layer has nobody to hand requests to.
    #[error(
        "{place} cannot reach Fleetdex ({said}); see `kubectl get apiservice v1alpha1.{group}` and the Pods behind its Service",
        group = GROUPS[0]
    )]
    NotAvailable {
        /// The context.
        place: String,
        /// What the apiserver said.
        said: String,
    },
    /// The answer is not what the API promises.
    #[error("the server answered {path} with something that is no answer (HTTP {code}): {reason}")]
    Garbled {
        /// What was asked for.
        path: String,
        /// HTTP status.
        code: u16,
        /// What is wrong.
        reason: String,
    },
    /// The last line of a report is missing.
    #[error("{place} ended its report before it was complete; was it stopped?")]
    CutOff {
        /// The server's address, or the context.
        place: String,
    },
}

/// As kubectl words it.
fn refusal(status: &Status) -> String {
    let reason = status.reason.as_deref().unwrap_or("Unknown");
    format!(
        "Error from server ({reason}): {}",
        status.message.as_deref().unwrap_or("no message")
    )
}

impl ApiError {
    /// What a server said in the middle of an answer.
    pub(super) fn refused(status: Status) -> Self {
        Self::Refused {
            status: Box::new(status),
            remedy: None,
        }
    }

    /// The server's own refusal, which is shown as kubectl shows it.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused { .. })
    }

    /// What an answer that is none of success means. Behind an apiserver there are two that may have given it.
    pub(super) fn of_answer(
        place: &str,
        is_behind_apiserver: bool,
        path: &str,
        code: u16,
        body: &[u8],
    ) -> Self {
        let said = String::from_utf8_lossy(&body[..body.len().min(MAX_QUOTED)])
            .trim()
            .to_owned();
        match (serde_json::from_slice::<Status>(body), code) {
            (Ok(status), _) if status.status.is_some() => {
                let remedy = outer_right(&status).filter(|_| is_behind_apiserver);
                Self::Refused {
                    status: Box::new(status),
                    remedy,
                }
            }
            (_, 404) if is_behind_apiserver => Self::NotInstalled {
                place: place.to_owned(),
            },
            (_, 502..=504) if is_behind_apiserver => Self::NotAvailable {
                place: place.to_owned(),
                said,
            },
            (read, _) => {
                let reason = read
                    .err()
                    .map_or_else(|| "no Status".to_owned(), |error| error.to_string());
                Self::Garbled {
                    path: path.to_owned(),
                    code,
                    reason,
                }
            }
        }
    }
}

/// Bytes of somebody's answer that an error quotes.
const MAX_QUOTED: usize = 300;

/// The apiserver's own RBAC names our group when it refuses; the server behind it names the resource that was asked for.
fn outer_right(status: &Status) -> Option<String> {
    let is_outer = status.code == Some(403)
        && status
            .message
            .as_deref()
            .unwrap_or_default()
            .contains(GROUPS[0]);
    let group = GROUPS[0];
    is_outer.then(|| {
        format!(
            "\nTo ask Fleetdex through the apiserver you need the verb get in the API group {group}: let somebody bind the chart's ClusterRole \
             <release>-user to you."
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(is_behind_apiserver: bool, code: u16, body: &str) -> String {
        ApiError::of_answer(
            "context prod",
            is_behind_apiserver,
            "/apis",
            code,
            body.as_bytes(),
        )
        .to_string()
    }

    #[test]
    fn what_the_aggregation_layer_says_is_told_with_what_to_do() {
        insta::assert_snapshot!(told(true, 404, "404 page not found\n"), @"context prod does not know the API search.fleetdex.io/v1alpha1: its APIService is not there; install Fleetdex there with its chart, or name another cluster with --context, or a server with --server");
        insta::assert_snapshot!(told(true, 503, "service unavailable\n"), @"context prod cannot reach Fleetdex (service unavailable); see `kubectl get apiservice v1alpha1.search.fleetdex.io` and the Pods behind its Service");
        let denied = r#"{"kind":"Status","status":"Failure","code":403,"reason":"Forbidden","message":"search.search.fleetdex.io \"api\" is forbidden"}"#;
        insta::assert_snapshot!(told(true, 403, denied), @r#"
        Error from server (Forbidden): search.search.fleetdex.io "api" is forbidden
        To ask Fleetdex through the apiserver you need the verb get in the API group search.fleetdex.io: let somebody bind the chart's ClusterRole <release>-user to you.
        "#);
    }

    #[test]
    fn a_refusal_of_the_server_stands_for_itself() {
        let denied = r#"{"kind":"Status","status":"Failure","code":403,"reason":"Forbidden","message":"pods is forbidden"}"#;
        assert_eq!(
            told(true, 403, denied),
            "Error from server (Forbidden): pods is forbidden"
        );
        assert!(
            told(false, 404, "404 page not found").starts_with(
                "the server answered /apis with something that is no answer (HTTP 404)"
            )
        );
    }
}
