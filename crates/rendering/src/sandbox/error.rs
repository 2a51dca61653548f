//! Why a renderer is not started.

use std::path::PathBuf;

/// A renderer cannot be started within its limits.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The system has no such limits.
    #[error(
        "helm and kustomize run on Linux only, where their files and connections can be limited"
    )]
    System,
    /// The kernel does not limit files.
    #[error("the kernel does not limit which files {0} opens: enable Landlock (lsm=…,landlock)")]
    Landlock(String),
    /// A limit cannot be set.
    #[error("cannot limit {limit}")]
    Limit {
        /// What cannot be limited.
        limit: &'static str,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The program cannot be executed.
    #[error("cannot execute {program}")]
    Execute {
        /// The program.
        program: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}
