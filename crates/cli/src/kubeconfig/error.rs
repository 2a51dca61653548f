//! Why a kubeconfig could not be read, built or written.

use std::{io, path::PathBuf};

use crate::console::CommandError;

/// The kubeconfig could not be read, built or written.
#[derive(Debug, thiserror::Error)]
pub enum KubeconfigError {
    /// The source context does not exist.
    #[error("{source_file} has no context {name:?}; name one of its contexts with --context")]
    NoContext {
        /// The name; empty without a current context.
        name: String,
        /// Where it was looked for.
        source_file: String,
    },
    /// The source context names a cluster without a server.
    #[error("context {context:?} has no cluster with a server")]
    NoServer {
        /// The context.
        context: String,
    },
    /// The name is taken by a context that is not of a fleet.
    #[error(
        "{path} has {what} {name:?}, which is not of a fleet; choose another name with --name", path = .path.display()
    )]
    NameTaken {
        /// The file.
        path: PathBuf,
        /// `a context`, `a cluster` or `a user`.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// No file to merge into is known.
    #[error("there is no home directory; name a file with --kubeconfig or KUBECONFIG")]
    NoHome,
    /// Another program changes the file.
    #[error("{} exists: another program changes the kubeconfig, or left the lock behind; delete the lock if none does", .0.display())]
    Locked(PathBuf),
    /// The file cannot be read or written.
    #[error("cannot {operation} {path}", path = .path.display())]
    File {
        /// `read`, `write` or `lock`.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file is not a kubeconfig.
    #[error("{} is not a kubeconfig: expected YAML or JSON with clusters, users and contexts{position}; correct the file, or name another one with --kubeconfig", .path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// ` at line …, column …`, or empty if it is not known.
        position: String,
    },
    /// A value has no YAML form.
    #[error("cannot write the kubeconfig as YAML: {0}")]
    Yaml(String),
}

impl From<KubeconfigError> for CommandError {
    fn from(error: KubeconfigError) -> Self {
        Self::failed(error)
    }
}
