//! What a renderer is kept from: it opens no file but those of its scratch folder, no connection,
//! and starts no other program.
//!
//! A small command of ours limits its own process and then becomes the renderer, because a limit
//! between `fork` and `exec` would need unsafe code. Landlock limits the files, seccomp the system
//! calls, and resource limits the memory, the processor time and the size of files. None of them
//! needs a privilege, so they hold in a Pod with the restricted Pod security standard as well.

mod error;
#[cfg(target_os = "linux")]
mod linux;

use std::{convert::Infallible, ffi::OsString, path::Path};

pub use self::error::SandboxError;

/// The hidden command that [`execute`] is for.
pub const SANDBOX_COMMAND: &str = "sandbox";

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
