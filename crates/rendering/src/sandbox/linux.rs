//! The limits of Linux.

use std::{
    collections::BTreeMap, convert::Infallible, ffi::OsString, os::unix::process::CommandExt,
    path::Path, process::Command,
};

use landlock::{
    ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus,
    Scope, path_beneath_rules,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter,
};

use super::error::SandboxError;

/// The most memory. helm unpacks at most 100 MiB of a chart. Of memory that is written to: Go
/// reserves much more address space than it uses, so a limit of that would say nothing.
const MEMORY_BYTES: u64 = 1 << 30;
/// The most processor time.
const CPU_SECONDS: u64 = 60;
/// The most bytes of a file that it writes.
const FILE_BYTES: u64 = 64 << 20;
/// The most open files.
const OPEN_FILES: u64 = 256;
/// Folders of shared libraries, for a renderer that is not linked statically.
const LIBRARIES: [&str; 5] = ["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/nix/store"];
/// The newest version of Landlock that is used; of older kernels what they have.
const LANDLOCK: ABI = ABI::V6;

pub(super) fn execute(
    scratch: &Path,
    program: &Path,
    arguments: &[OsString],
) -> Result<Infallible, SandboxError> {
    limit_resources().map_err(|error| failed("memory and files", error))?;
    limit_files(scratch, program)?;
    limit_calls().map_err(|error| failed("system calls", error))?;
    let source = Command::new(program).args(arguments).exec();
    let program = program.to_owned();
    Err(SandboxError::Execute { program, source })
}

fn failed(
    limit: &'static str,
    source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> SandboxError {
    let source = source.into();
    SandboxError::Limit { limit, source }
}

fn limit_resources() -> std::io::Result<()> {
    for (resource, most) in [
        (Resource::Data, MEMORY_BYTES),
        (Resource::Cpu, CPU_SECONDS),
        (Resource::Fsize, FILE_BYTES),
        (Resource::Nofile, OPEN_FILES),
        (Resource::Core, 0),
    ] {
        // Only a privileged process may raise what is limited already.
        let limit = getrlimit(resource).maximum.unwrap_or(most).min(most);
        let limit = Rlimit {
            current: Some(limit),
            maximum: Some(limit),
        };
        setrlimit(resource, limit)?;
    }
    Ok(())
}

fn limit_files(scratch: &Path, program: &Path) -> Result<(), SandboxError> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let restrict = || {
        Ruleset::default()
            .handle_access(AccessFs::from_all(LANDLOCK))?
            // What seccomp refuses below, once more.
            .handle_access(AccessNet::from_all(LANDLOCK))?
            .scope(Scope::from_all(LANDLOCK))?
            .create()?
            .add_rules(path_beneath_rules([scratch], AccessFs::from_all(LANDLOCK)))?
            .add_rules(path_beneath_rules([program], read | AccessFs::Execute))?
            .add_rules(path_beneath_rules(LIBRARIES, read | AccessFs::Execute))?
            .restrict_self()
    };
    match restrict() {
        Ok(status) if status.ruleset == RulesetStatus::NotEnforced => {
            Err(SandboxError::Landlock(program.display().to_string()))
        }
        Ok(_) => Ok(()),
        Err(error) => Err(failed("files", error)),
    }
}

/// No sockets, and no other process: threads are started by the same call with another flag.
fn limit_calls() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let no_thread = SeccompRule::new(vec![SeccompCondition::new(
        0,
        SeccompCmpArgLen::Qword,
        SeccompCmpOp::MaskedEq(thread_flag()),
        0,
    )?])?;
    let mut refused = BTreeMap::from([
        (libc::SYS_socket, Vec::new()),
        (libc::SYS_socketpair, Vec::new()),
        // It would open sockets without these calls.
        (libc::SYS_io_uring_setup, Vec::new()),
        (libc::SYS_clone, vec![no_thread]),
    ]);
    #[cfg(target_arch = "x86_64")]
    refused.extend([(libc::SYS_fork, Vec::new()), (libc::SYS_vfork, Vec::new())]);
    apply(refused, libc::EPERM)?;
    // Its flags are in memory, where seccomp does not look. A runtime falls back to `clone`
    // where it does not exist.
    apply(
        BTreeMap::from([(libc::SYS_clone3, Vec::new())]),
        libc::ENOSYS,
    )
}

fn thread_flag() -> u64 {
    u64::from(libc::CLONE_THREAD.unsigned_abs())
}

fn apply(
    refused: BTreeMap<libc::c_long, Vec<SeccompRule>>,
    error: libc::c_int,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let filter: BpfProgram = SeccompFilter::new(
        refused,
        SeccompAction::Allow,
        SeccompAction::Errno(error.unsigned_abs()),
        std::env::consts::ARCH.try_into()?,
    )?
    .try_into()?;
    Ok(apply_filter(&filter)?)
}
