//! Errors of forwarding, and what they mean for the client.

use std::time::Duration;

use fleetdex_clusters::impersonate::ImpersonateError;
use fleetdex_core::model::{self, ClusterName};

use crate::api_error::ApiError;

/// A little longer than the request timeout of an apiserver (60 s), so that its own response comes
/// first.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(65);

/// Forwarding failed without a response that could be passed on.
#[derive(Debug, thiserror::Error)]
pub enum ForwardError {
    /// No client that impersonates the caller.
    #[error("{}", model::causes(.0))]
    Client(#[from] ImpersonateError),
    /// The connection failed, or broke.
    #[error("cluster {cluster} cannot be reached: {cause}")]
    Unreachable {
        /// The member.
        cluster: ClusterName,
        /// Why.
        cause: String,
    },
    /// No response in time.
    #[error("cluster {cluster} did not answer within {} s", REQUEST_TIMEOUT.as_secs())]
    TimedOut {
        /// The member.
        cluster: ClusterName,
    },
    /// The member refuses our credentials. The caller's own credentials are not concerned.
    #[error(
        "cluster {cluster} refuses the credentials that requests of users are forwarded with; renew those of its impersonator"
    )]
    Credentials {
        /// The member.
        cluster: ClusterName,
    },
    /// Our account may not impersonate the caller.
    #[error(
        "cluster {cluster} does not let its impersonator impersonate this user; give that account the right to impersonate: {message}"
    )]
    MayNotImpersonate {
        /// The member.
        cluster: ClusterName,
        /// The member's message.
        message: String,
    },
    /// The request cannot be sent, or the response cannot be read.
    #[error(transparent)]
    Refused(#[from] ApiError),
}

impl ForwardError {
    /// Whether the member could not be reached, so that the index may answer in its place.
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::TimedOut { .. })
    }
}

impl From<ForwardError> for ApiError {
    fn from(error: ForwardError) -> Self {
        match error {
            ForwardError::Refused(error) => error,
            ForwardError::TimedOut { cluster } => Self::MemberTimeout {
                cluster,
                seconds: REQUEST_TIMEOUT.as_secs(),
            },
            ForwardError::Client(ImpersonateError::NotAMember { cluster }) => {
                Self::NoSuchCluster(cluster)
            }
            other => Self::Unavailable(other.to_string()),
        }
    }
}
