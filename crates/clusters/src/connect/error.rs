//! Why no client can be built for a member.

use crate::{
    credentials::{CredentialsError, SecretName},
    secret_hosts::{self, NotAllowed},
    source::KubeconfigProblem,
};

/// Why no client can be built for a member. No message contains data of a Secret or of a proxy's
/// URL.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The address is missing.
    #[error(
        "spec.apiEndpoint is empty: set it to the URL of the member's API server, such as https://10.0.0.1:6443"
    )]
    EndpointMissing,
    /// The address is not valid.
    #[error(
        "spec.apiEndpoint {url:?} is not the URL of an API server: write it as https://HOST:PORT, without user, query and fragment"
    )]
    EndpointInvalid {
        /// The address, without user and password.
        url: String,
    },
    /// No Secret is referenced.
    #[error(
        "spec.secretRef is missing: name the Secret that holds the member's token and caBundle"
    )]
    SecretRefMissing,
    /// The Secret does not exist.
    #[error(
        "Secret {secret} does not exist: create it with the keys token and caBundle; the next attempt follows soon"
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
        /// The error of the control plane.
        cause: String,
    },
    /// The Secret may not be sent to the member's address.
    #[error(transparent)]
    HostNotAllowed(#[from] NotAllowed),
    /// The Secret has missing or invalid keys.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// A kubeconfig cannot be used.
    #[error("{location} cannot be used")]
    Kubeconfig {
        /// Where it is.
        location: String,
        /// What is wrong with it.
        #[source]
        problem: KubeconfigProblem,
    },
    /// The source has not yet described how the member is reached.
    #[error("{message}")]
    Awaited {
        /// The reason, in CamelCase.
        reason: &'static str,
        /// The reason, and what to do about it.
        message: String,
    },
    /// There is no control plane that has the Secret.
    #[error("Secret {secret} cannot be read without a control plane")]
    NoControlPlane {
        /// Its name.
        secret: SecretName,
    },
    /// The address of the proxy is not valid.
    #[error(
        "the address of the proxy (spec.proxyURL of a Cluster, proxy-url of a kubeconfig) is not valid: write it as http://HOST:PORT, https://HOST:PORT or socks5://HOST:PORT"
    )]
    ProxyInvalid,
    /// A header for the proxy is not valid.
    #[error(
        "spec.proxyHeader {name:?} is not a valid header: check the characters of its name and its value"
    )]
    ProxyHeaderInvalid {
        /// Its name.
        name: String,
    },
    /// TLS could not be configured.
    #[error("TLS to the member could not be set up")]
    Tls(#[source] Box<kube::Error>),
}

impl ConnectError {
    /// The reason for a condition, in CamelCase.
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
