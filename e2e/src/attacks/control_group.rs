//! A limit of memory for one process, as a container has it.

use std::{
    fs::{self, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::fleet::unique;

const ROOT: &str = "/sys/fs/cgroup";

/// How the memory of a process is limited. `RLIMIT_AS` is no way: it counts addresses, of which the
/// allocator reserves more than it uses.
#[derive(Debug)]
pub enum ControlGroup {
    /// A control group of version 2.
    Unified(PathBuf),
    /// A control group of version 1.
    Legacy(PathBuf),
    /// None can be made here: the resident memory is watched, and the process killed above the
    /// limit.
    None,
}

impl ControlGroup {
    /// A control group with this limit in bytes, without swap, if one can be made.
    pub fn create(limit: u64) -> Self {
        let unified = Path::new(ROOT).join(unique("fleetdex"));
        let files = [
            ("memory.max", limit.to_string()),
            ("memory.swap.max", "0".to_owned()),
        ];
        if made(&unified, &files, 2) {
            return Self::Unified(unified);
        }
        let legacy = Path::new(ROOT).join("memory").join(unique("fleetdex"));
        let files = [
            ("memory.limit_in_bytes", limit.to_string()),
            // With swap; absent where swap is not counted.
            ("memory.memsw.limit_in_bytes", limit.to_string()),
        ];
        if made(&legacy, &files, 1) {
            return Self::Legacy(legacy);
        }
        Self::None
    }

    /// What limits the memory.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Unified(_) => "cgroup v2, memory.max",
            Self::Legacy(_) => "cgroup v1, memory.limit_in_bytes",
            Self::None => "VmRSS, every 20 ms",
        }
    }

    /// Whether the kernel enforces the limit.
    pub fn is_enforced(&self) -> bool {
        !matches!(self, Self::None)
    }

    /// Moves a process into it, with all its threads.
    pub fn add(&self, pid: u32) -> Result<()> {
        let (Self::Unified(folder) | Self::Legacy(folder)) = self else {
            return Ok(());
        };
        let file = folder.join("cgroup.procs");
        write(&file, &pid.to_string()).with_context(|| format!("writing {}", file.display()))
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        if let Self::Unified(folder) | Self::Legacy(folder) = self {
            // It stays while a process is in it.
            let _ = fs::remove_dir(folder);
        }
    }
}

/// Whether a folder could be made and the first `needed` of its files written, which are there at
/// once in a folder of control groups.
fn made(folder: &Path, files: &[(&str, String)], needed: usize) -> bool {
    if fs::create_dir(folder).is_err() {
        return false;
    }
    let written = files
        .iter()
        .take_while(|(name, value)| write(&folder.join(name), value).is_ok())
        .count();
    let is_made = written >= needed;
    if !is_made {
        let _ = fs::remove_dir(folder);
    }
    is_made
}

/// Writes a file that exists.
fn write(path: &Path, value: &str) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    file.write_all(value.as_bytes())
}
