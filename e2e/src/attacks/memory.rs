//! The resident memory of another process.

use std::fs;

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::operator::usage_of;

/// What `/proc/<pid>/clear_refs` takes to set `VmHWM` to `VmRSS`.
const RESET_PEAK: &str = "5";

/// Forgets the peak until now. Without the right to do so the peak is that since the start.
pub fn reset_peak(pid: u32) {
    let _ = fs::write(format!("/proc/{pid}/clear_refs"), RESET_PEAK);
}

/// The most memory that was resident since the last reset; 0 if the process is gone.
pub fn peak(pid: u32) -> u64 {
    usage_of(pid).map_or(0, |usage| usage.peak_memory_bytes)
}

/// Kills a process that holds more.
pub fn kill_above(pid: u32, limit: u64) {
    let Ok(usage) = usage_of(pid) else { return };
    if usage.memory_bytes > limit
        && let Ok(pid) = i32::try_from(pid)
    {
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
}
