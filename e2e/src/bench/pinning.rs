//! Pins OpenSearch to one core and everything else to the others, so that OpenSearch's core is the
//! limit with and without Fleetdex.

use std::{
    fs,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

use crate::fleet::Fleet;

/// `taskset` fails if a thread ends meanwhile, and is retried.
const PIN_ATTEMPTS: u32 = 5;

/// Pins OpenSearch, this process and its new children until it is dropped.
#[derive(Debug)]
pub struct Pinned {
    processes: Vec<u32>,
    allowed: Vec<usize>,
}

impl Pinned {
    /// Pins OpenSearch to the first core, and this process to the others, if there are any.
    pub fn new(fleet: &Fleet) -> Result<Self> {
        let allowed = allowed_cores()?;
        let (first, others) = allowed
            .split_first()
            .context("there is no core to run on")?;
        let opensearch = fleet
            .opensearch()?
            .process()
            .pid()
            .context("OpenSearch does not run")?;
        let ourselves = std::process::id();
        // Constructed first, so that a failure to pin the second process unpins the first.
        let pinned = Self {
            processes: vec![opensearch, ourselves],
            allowed: allowed.clone(),
        };
        pin(opensearch, &[*first])?;
        if !others.is_empty() {
            pin(ourselves, others)?;
        }
        Ok(pinned)
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        for process in &self.processes {
            if let Err(error) = pin(*process, &self.allowed) {
                tracing::warn!(process, %error, "it stays on its core");
            }
        }
    }
}

/// Restricts all threads of a process to these cores.
fn pin(process: u32, cores: &[usize]) -> Result<()> {
    let cores: Vec<String> = cores.iter().map(ToString::to_string).collect();
    let arguments = ["-acp".to_owned(), cores.join(","), process.to_string()];
    let mut last_error = String::new();
    for _ in 0..PIN_ATTEMPTS {
        let output = Command::new("taskset")
            .args(&arguments)
            .stdin(Stdio::null())
            .output();
        let output = output.context("running taskset, which is part of util-linux")?;
        if output.status.success() {
            return Ok(());
        }
        last_error = String::from_utf8_lossy(&output.stderr).into_owned();
    }
    anyhow::bail!("taskset {}: {last_error}", arguments.join(" "))
}

/// The cores that this process may run on.
fn allowed_cores() -> Result<Vec<usize>> {
    let status = fs::read_to_string("/proc/self/status").context("reading /proc/self/status")?;
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    cores_of(
        list.context("no Cpus_allowed_list in /proc/self/status")?
            .trim(),
    )
}

/// Parses a list such as `0-3,8`.
fn cores_of(list: &str) -> Result<Vec<usize>> {
    let mut cores = Vec::new();
    for range in list.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let read = |number: &str| {
            number
                .parse::<usize>()
                .with_context(|| format!("{list} is no list of cores"))
        };
        cores.extend(read(first)?..=read(last)?);
    }
    ensure!(!cores.is_empty(), "{list} is no list of cores");
    Ok(cores)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_lists_parse_single_cores_and_ranges() {
        assert_eq!(cores_of("0-2,5").unwrap(), [0, 1, 2, 5]);
        assert_eq!(cores_of("3").unwrap(), [3]);
        assert!(cores_of("").is_err());
    }
}
