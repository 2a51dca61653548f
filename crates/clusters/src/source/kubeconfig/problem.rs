//! Why a kubeconfig cannot be used.

use std::path::PathBuf;

use super::super::plugin::PluginError;

/// Why a kubeconfig cannot be used. No message contains a secret of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KubeconfigProblem {
    /// The content is not a kubeconfig.
    #[error("it is not a kubeconfig: expected YAML or JSON with clusters, users and contexts")]
    Unreadable,
    /// The file cannot be read.
    #[error("it cannot be read: {0}")]
    FileUnreadable(String),
    /// The Secret has no key with a kubeconfig.
    #[error("the Secret has no key {0}: store the kubeconfig there, once base64-encoded")]
    KeyMissing(String),
    /// The context does not exist.
    #[error("there is no context {name:?}; there is {known}")]
    ContextNotFound {
        /// The context.
        name: String,
        /// The contexts that exist.
        known: String,
    },
    /// There are several contexts, and current-context is not set.
    #[error("it has no current-context, and not just one context: set current-context")]
    CurrentContextMissing,
    /// A context refers to a cluster or user that does not exist.
    #[error("context {context:?} names the {what} {name:?}, which is not in it")]
    Dangling {
        /// The context.
        context: String,
        /// `cluster` or `user`.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// The server is not a usable address.
    #[error(
        "server of its cluster is not the URL of an API server: write it as https://HOST:PORT, without user, query and fragment"
    )]
    ServerInvalid,
    /// A kubeconfig in a Secret has a credential plugin.
    #[error(
        "it has a credential plugin (exec), which is only run for a kubeconfig file that fleetdex is started with: store a token or a client certificate instead"
    )]
    ExecRefused,
    /// It uses a legacy auth provider.
    #[error(
        "it uses auth-provider, which kubectl no longer supports either: use exec in a kubeconfig file, or a token"
    )]
    AuthProviderRefused,
    /// A kubeconfig in a Secret names a file.
    #[error(
        "{0} names a file, which is only read for a kubeconfig file that fleetdex is started with: put the content into {0}-data, or the token into token"
    )]
    FileRefused(&'static str),
    /// A file that it names cannot be read.
    #[error("{field} {path}: {cause}")]
    NamedFile {
        /// The field.
        field: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it cannot be read.
        cause: String,
    },
    /// A field has a value of the wrong form.
    #[error("{field} does not contain {expected}")]
    Invalid {
        /// The field.
        field: &'static str,
        /// What the field should contain.
        expected: &'static str,
    },
    /// The client certificate or its key is missing.
    #[error("a client certificate needs client-certificate-data and client-key-data")]
    ClientCertificateIncomplete,
    /// The credential plugin failed.
    #[error(transparent)]
    Plugin(#[from] PluginError),
}

impl KubeconfigProblem {
    /// The reason for a condition, in CamelCase.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::FileUnreadable(_) | Self::NamedFile { .. } => "FileUnreadable",
            Self::KeyMissing(_) => "SecretInvalid",
            Self::ContextNotFound { .. } => "ContextNotFound",
            Self::ExecRefused => "ExecRefused",
            Self::AuthProviderRefused => "AuthProviderRefused",
            Self::FileRefused(_) => "FileRefused",
            Self::Plugin(_) => "ExecFailed",
            Self::Unreadable
            | Self::CurrentContextMissing
            | Self::Dangling { .. }
            | Self::ServerInvalid
            | Self::Invalid { .. }
            | Self::ClientCertificateIncomplete => "KubeconfigInvalid",
        }
    }
}
