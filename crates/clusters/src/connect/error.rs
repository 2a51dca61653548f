//! Why no client could be made for a member.

use crate::{
    credentials::{CredentialsError, SecretName},
    secret_hosts::{self, NotAllowed},
    source::KubeconfigProblem,
};

/// No client could be made for a member. No message holds anything of a Secret or of a proxy's URL.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// No address.
    #[error(
        "spec.apiEndpoint is empty: set it to the URL of the member's API server, such as https://10.0.0.1:6443"
    )]
    EndpointMissing,
    /// An address that is none.
    #[error(
        "spec.apiEndpoint {url:?} is not the URL of an API server: write it as https://HOST:PORT, without user, query and fragment"
    )]
    EndpointInvalid {
        /// What was written.
        url: String,
    },
    /// No Secret is named.
    #[error(
        "spec.secretRef is missing: name the Secret that holds the member's token and caBundle"
    )]
    SecretRefMissing,
    /// The Secret does not exist.
    #[error(
        "Secret {secret} does not exist: create it with the keys token and caBundle; it is looked for again soon"
    )]
    SecretNotFound {
        /// Its name.
        secret: SecretName,
    },
    /// The Secret may not be read.
    #[error("Secret {secret} may not be read: allow this service account to get it")]
    SecretForbidden {
        /// Its name.
        secret: SecretName,
    },
    /// The Secret could not be read.
    #[error("Secret {secret} could not be read from the control plane: {cause}")]
    SecretUnreadable {
        /// Its name.
        secret: SecretName,
        /// What the control plane answered.
        cause: String,
    },
    /// The Secret may not be sent to the member's address.
    #[error(transparent)]
    HostNotAllowed(#[from] NotAllowed),
    /// The Secret's content does not fit.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// A kubeconfig does not fit.
    #[error("{place} cannot be used")]
    Kubeconfig {
        /// Where it is.
        place: String,
        /// What is wrong with it.
        #[source]
        problem: KubeconfigProblem,
    },
    /// The source is not done with the member.
    #[error("{message}")]
    Awaited {
        /// Why, in one CamelCase word.
        reason: &'static str,
        /// Why, and what to do about it.
        message: String,
    },
    /// There is no control plane to read Secrets from.
    #[error("Secret {secret} cannot be read without a control plane")]
    NoControlPlane {
        /// Its name.
        secret: SecretName,
    },
    /// An unknown kind of proxy.
    #[error(
        "the address of the proxy (spec.proxyURL of a Cluster, proxy-url of a kubeconfig) is none: write it as http://HOST:PORT, https://HOST:PORT or socks5://HOST:PORT"
    )]
    ProxyInvalid,
    /// A header that cannot be sent.
    #[error(
        "spec.proxyHeader {name:?} cannot be sent: check the letters of its name and of its value"
    )]
    ProxyHeaderInvalid {
        /// Its name.
        name: String,
    },
    /// TLS could not be set up.
    #[error("TLS to the member could not be set up")]
    Tls(#[source] Box<kube::Error>),
}

impl ConnectError {
    /// The reason of a condition, in one word.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::EndpointMissing => "EndpointMissing",
            Self::EndpointInvalid { .. } => "EndpointInvalid",
            Self::SecretRefMissing => "SecretRefMissing",
            Self::SecretNotFound { .. } => "SecretNotFound",
            Self::SecretForbidden { .. } => "SecretForbidden",
            Self::SecretUnreadable { .. } | Self::NoControlPlane { .. } => "SecretUnreadable",
            Self::HostNotAllowed(_) => secret_hosts::REASON,
            Self::Credentials(_) => "SecretInvalid",
            Self::Kubeconfig { problem, .. } => problem.reason(),
            Self::Awaited { reason, .. } => reason,
            Self::ProxyInvalid | Self::ProxyHeaderInvalid { .. } => "ProxyInvalid",
            Self::Tls(_) => "TLSInvalid",
        }
    }
}
