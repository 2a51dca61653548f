//! Child processes that never outlive their parent.
//!
//! All parts of a fleet share one process group. A small shell, the guard, waits on a pipe whose
//! other end only the parent holds: when the parent ends, however it ends, the kernel closes the
//! pipe and the guard kills the group. A child is in the group before it drops its own copy of the
//! pipe (at `exec`), so the guard cannot miss it.

use std::{
    fs::{self, File, OpenOptions},
    io::Read,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// Ends when the parent's end of the pipe is closed; it is the leader of the process group of all
/// parts.
const ANCHOR_SCRIPT: &str = "read -r _";
/// Kills the group `$1` and removes the scratch folders after it. The second `rm` removes files
/// that a dying process has still written.
const GUARD_SCRIPT: &str =
    r#"read -r _; kill -s KILL -- "-$1"; shift; rm -rf -- "$@"; sleep 0.3; rm -rf -- "$@""#;

/// Kills every process of its group, and removes scratch folders, when it is dropped or when this
/// process dies.
#[derive(Debug)]
pub struct Guard {
    anchor: Child,
    guard: Child,
}

impl Guard {
    /// Starts watching; `scratch` are the folders to remove at the end.
    pub fn start(scratch: &[PathBuf]) -> Result<Self> {
        let anchor = watcher(ANCHOR_SCRIPT)
            .spawn()
            .context("starting `sh` to lead the fleet's process group")?;
        let mut script = watcher(GUARD_SCRIPT);
        script.arg(anchor.id().to_string()).args(scratch);
        let guard = script
            .spawn()
            .context("starting `sh` to watch over the fleet")?;
        Ok(Self { anchor, guard })
    }

    /// The process group that every part joins.
    pub fn group(&self) -> u32 {
        self.anchor.id()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Without their ends of the pipes both shells do their work and exit. The anchor is reaped
        // last, so that the number of its group cannot mean another group while the guard uses it.
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
        drop(self.anchor.stdin.take());
        let _ = self.anchor.wait();
    }
}

fn watcher(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script, "fleetdex-guard"]);
    // Standard output is not inherited: a reader that waits for the end of our output would wait
    // for the guard too.
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // Its own group: Ctrl-C in a terminal goes to our group, and the guard has to survive it.
    command.process_group(0);
    command
}

/// How to start and restart a program.
#[derive(Debug, Clone, Default)]
pub struct Start {
    /// The program's path.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Environment variables added to ours.
    pub environment: Vec<(String, String)>,
    /// Runs as this user and group id instead of ours.
    pub user: Option<(u32, u32)>,
    /// Its working folder.
    pub folder: PathBuf,
}

/// One supervised program with its log file. It is killed when dropped.
#[derive(Debug)]
pub struct Process {
    name: String,
    start: Start,
    log: PathBuf,
    group: u32,
    child: Mutex<Option<Child>>,
}

impl Process {
    /// Describes a program called `name`, which is not running yet; its output goes to `log`.
    pub fn new(name: &str, start: Start, log: PathBuf, group: u32) -> Self {
        Self {
            name: name.to_owned(),
            start,
            log,
            group,
            child: Mutex::new(None),
        }
    }

    /// The name used in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file that collects its output over all its starts.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Starts the program. It must not be running.
    pub fn spawn(&self) -> Result<()> {
        let mut child = self.child();
        if let Some(pid) = child.as_mut().and_then(running_pid) {
            bail!("{} is already running with process id {pid}", self.name);
        }
        let output = self.open_log()?;
        let errors = output.try_clone().context("sharing a log file")?;
        let mut command = Command::new(&self.start.program);
        // Variables of our own environment must not affect the started program.
        for (variable, _) in std::env::vars_os() {
            if variable == "KUBECONFIG" || variable.to_string_lossy().starts_with("FLEETDEX_") {
                command.env_remove(variable);
            }
        }
        command.args(&self.start.arguments).envs(
            self.start
                .environment
                .iter()
                .map(|(key, value)| (key, value)),
        );
        command
            .current_dir(&self.start.folder)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors);
        command.process_group(i32::try_from(self.group).context("process group id")?);
        if let Some((user, group)) = self.start.user {
            command.uid(user).gid(group);
        }
        let program = self.start.program.display();
        *child = Some(
            command
                .spawn()
                .with_context(|| format!("starting {} ({program})", self.name))?,
        );
        Ok(())
    }

    fn open_log(&self) -> Result<File> {
        let log = OpenOptions::new().create(true).append(true).open(&self.log);
        log.with_context(|| format!("opening log {}", self.log.display()))
    }

    /// The process id while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.child().as_mut().and_then(running_pid)
    }

    /// Fails with the end of the log when the program is not running.
    pub fn check_running(&self) -> Result<()> {
        let status = match self.child().as_mut() {
            None => "was stopped".to_owned(),
            Some(child) => match child.try_wait()? {
                None => return Ok(()),
                Some(status) => format!("exited: {status}"),
            },
        };
        bail!("{} {status}\n{}", self.name, self.log_tail(30))
    }

    /// SIGKILL, and waits until it is gone. Stopping a stopped program is fine.
    pub fn kill(&self) {
        let mut child = self.child();
        if let Some(mut running) = child.take() {
            let _ = running.kill();
            let _ = running.wait();
        }
    }

    /// SIGTERM, and waits at most `deadline` for the program to end by itself.
    pub async fn terminate(&self, deadline: Duration) -> Result<ExitStatus> {
        self.signal(Signal::SIGTERM)?;
        self.wait(deadline).await
    }

    /// Waits at most `deadline` for the program to end by itself.
    pub async fn wait(&self, deadline: Duration) -> Result<ExitStatus> {
        let started = Instant::now();
        while started.elapsed() < deadline {
            if let Some(status) = self.exit_status()? {
                return Ok(status);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        bail!(
            "{} still runs after {} s\n{}",
            self.name,
            deadline.as_secs(),
            self.log_tail(30)
        )
    }

    fn exit_status(&self) -> Result<Option<ExitStatus>> {
        match self.child().as_mut() {
            Some(child) => Ok(child.try_wait()?),
            None => bail!("{} is not running", self.name),
        }
    }

    /// SIGSTOP: the program keeps its connections and does not respond.
    pub fn pause(&self) -> Result<()> {
        self.signal(Signal::SIGSTOP)
    }

    /// SIGCONT after [`pause`](Self::pause).
    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::SIGCONT)
    }

    /// Whether it runs; resumes it if it was paused.
    pub fn resume_if_running(&self) -> Result<bool> {
        let runs = self.pid().is_some();
        if runs {
            self.resume()?;
        }
        Ok(runs)
    }

    /// Sends a signal to the running program.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let mut child = self.child();
        let Some(pid) = child.as_mut().and_then(running_pid) else {
            bail!(
                "{} is not running; cannot send {signal}\n{}",
                self.name,
                self.log_tail(30)
            );
        };
        // It is not reaped, and the lock prevents that, so its id cannot belong to another process.
        let pid = Pid::from_raw(i32::try_from(pid).context("process id")?);
        kill(pid, signal).with_context(|| format!("sending {signal} to {}", self.name))
    }

    /// The last lines of the log, with the file's name.
    pub fn log_tail(&self, lines: usize) -> String {
        log_tail(&self.log, lines)
    }

    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

fn running_pid(child: &mut Child) -> Option<u32> {
    matches!(child.try_wait(), Ok(None)).then(|| child.id())
}

fn log_tail(path: &Path, lines: usize) -> String {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|mut log| log.read_to_end(&mut bytes));
    if let Err(error) = read {
        return format!("(no log {}: {error})", path.display());
    }
    let text = String::from_utf8_lossy(&bytes);
    let all: Vec<&str> = text.lines().collect();
    let last = &all[all.len().saturating_sub(lines)..];
    let shortened: Vec<String> = last
        .iter()
        .map(|line| line.chars().take(400).collect())
        .collect();
    format!(
        "--- end of {} ---\n{}\n---",
        path.display(),
        shortened.join("\n")
    )
}

/// When a process started, in clock ticks since boot: with its id, this names a process for ever.
pub fn started_at(pid: u32) -> Option<u64> {
    stat_field(pid, 19)?.parse().ok()
}

/// The process group of a running process that is not a zombie.
pub fn group_of(pid: u32) -> Option<u32> {
    let state = stat_field(pid, 0)?;
    if matches!(state.as_str(), "Z" | "X") {
        return None;
    }
    stat_field(pid, 2)?.parse().ok()
}

/// All running processes of a process group.
pub fn members_of_group(group: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pids = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|&pid| group_of(pid) == Some(group)).collect()
}

/// A field of `/proc/<pid>/stat`, counted from 0 after the command's name (which may contain
/// anything).
fn stat_field(pid: u32, index: usize) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(index).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper(guard: &Guard, folder: &Path) -> Process {
        let start = Start {
            program: "sleep".into(),
            arguments: vec!["300".into()],
            folder: folder.to_owned(),
            ..Start::default()
        };
        Process::new("sleeper", start, folder.join("sleeper.log"), guard.group())
    }

    fn scratch(name: &str) -> PathBuf {
        let folder =
            std::env::temp_dir().join(format!("fleetdex-process-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn dropping_the_guard_kills_the_group_and_removes_scratch_folders() {
        let folder = scratch("guard");
        let guard = Guard::start(std::slice::from_ref(&folder)).unwrap();
        let process = sleeper(&guard, &folder);
        process.spawn().unwrap();
        let group = guard.group();
        assert_eq!(members_of_group(group).len(), 2);
        drop(guard);
        assert_eq!(members_of_group(group), Vec::<u32>::new());
        assert!(process.check_running().is_err());
        assert!(!folder.exists());
    }

    #[tokio::test]
    async fn a_process_can_be_paused_terminated_and_started_again() {
        let folder = scratch("again");
        let guard = Guard::start(std::slice::from_ref(&folder)).unwrap();
        let process = sleeper(&guard, &folder);
        process.spawn().unwrap();
        assert!(process.spawn().is_err());
        let first = process.pid().unwrap();
        assert!(started_at(first).is_some());
        process.pause().unwrap();
        process.resume().unwrap();
        process.terminate(Duration::from_secs(10)).await.unwrap();
        assert_eq!(process.pid(), None);
        assert!(process.signal(Signal::SIGTERM).is_err());
        process.spawn().unwrap();
        assert_ne!(process.pid().unwrap(), first);
        process.kill();
        assert!(
            process
                .check_running()
                .unwrap_err()
                .to_string()
                .contains("was stopped")
        );
    }
}
