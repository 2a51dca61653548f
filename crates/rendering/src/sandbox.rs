//! What a renderer is kept from: it opens no file but those of its scratch folder, no connection,
//! and starts no other program.
//!
//! A small command of ours limits its own process and then becomes the renderer, because a limit
//! between `fork` and `exec` would need unsafe code. Landlock limits the files, seccomp the system
//! calls, and resource limits the memory, the processor time and the size of files. None of them
//! needs a privilege, so they hold in a Pod with the restricted Pod security standard as well.

#[cfg(target_os = "linux")]
mod linux;

use std::{
    convert::Infallible,
    ffi::OsString,
    path::{Path, PathBuf},
};

/// The hidden command that [`execute`] is for.
pub const SANDBOX_COMMAND: &str = "sandbox";

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

/// Limits this process and becomes `program`; returns only if that fails. It has to have a single
/// thread: limits of system calls are those of a thread and of what it executes.
#[cfg(target_os = "linux")]
pub fn execute(
    scratch: &Path,
    program: &Path,
    arguments: &[OsString],
) -> Result<Infallible, SandboxError> {
    linux::execute(scratch, program, arguments)
}

/// Fails: this system has no such limits.
#[cfg(not(target_os = "linux"))]
pub fn execute(
    _scratch: &Path,
    _program: &Path,
    _arguments: &[OsString],
) -> Result<Infallible, SandboxError> {
    Err(SandboxError::System)
}
