//! Runs a renderer as a child within limits.

use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use fleetdex_core::terminal::escaped_line;
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::{Child, Command},
    time,
};

use crate::{programs::RenderProgram, sandbox::SANDBOX_COMMAND};

/// How much of standard error is kept.
const MAX_ERROR_BYTES: usize = 4 << 10;

/// With these Go begins to say that it crashes.
const CRASHES: [&str; 3] = ["fatal error: ", "panic: ", "runtime: "];

/// What is run.
pub(crate) struct RendererCall<'c> {
    pub(crate) sandbox: &'c Path,
    pub(crate) program: RenderProgram,
    pub(crate) path: &'c Path,
    pub(crate) arguments: Vec<OsString>,
    /// The folder that it sees; it has a folder `home`.
    pub(crate) scratch: &'c Path,
    pub(crate) deadline: Duration,
    pub(crate) output_bytes: u64,
}

/// What a renderer has printed.
#[derive(Debug)]
pub(crate) struct RendererOutput {
    pub(crate) out: String,
    /// The beginning of standard error.
    pub(crate) err: String,
}

/// A renderer has not rendered.
#[derive(Debug, thiserror::Error)]
pub enum RendererFailure {
    /// It cannot be started.
    #[error("cannot start {program} by {sandbox}")]
    Start {
        /// The renderer.
        program: RenderProgram,
        /// What would have limited it.
        sandbox: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What it prints cannot be read.
    #[error("cannot read what {program} prints")]
    Read {
        /// The renderer.
        program: RenderProgram,
        /// Why.
        source: io::Error,
    },
    /// It takes too long.
    #[error("{program} was stopped after {} s: a template may never end", deadline.as_secs())]
    Deadline {
        /// The renderer.
        program: RenderProgram,
        /// The bound.
        deadline: Duration,
    },
    /// It prints too much.
    #[error("{program} was stopped when it had printed {limit} bytes")]
    Output {
        /// The renderer.
        program: RenderProgram,
        /// The bound.
        limit: u64,
    },
    /// It prints what is no text.
    #[error("{0} prints what is not UTF-8")]
    Text(RenderProgram),
    /// It fails.
    #[error("{program} failed ({status}): {reason}{}", hint(*program, reason))]
    Failed {
        /// The renderer.
        program: RenderProgram,
        /// Its exit code or signal.
        status: ExitStatus,
        /// The beginning of what it printed on standard error.
        reason: String,
    },
}

/// What to do about a failure that the limits are the cause of.
fn hint(program: RenderProgram, reason: &str) -> &'static str {
    let has = |words: &str| reason.contains(words);
    let is_remote = program == RenderProgram::Kustomize && (has("://") || has("git"));
    if is_remote || has("dial ") {
        "; renderers have no network: put what is named by an address into the folder or chart"
    } else if has("out of memory") || has("cannot allocate memory") {
        "; renderers have 1 GiB of memory"
    } else {
        ""
    }
}

impl RendererCall<'_> {
    /// Runs it to its end.
    pub(crate) async fn run(&self) -> Result<RendererOutput, RendererFailure> {
        let program = self.program;
        let started = self.command().spawn();
        let mut child = started.map_err(|source| RendererFailure::Start {
            program,
            sandbox: self.sandbox.to_owned(),
            source,
        })?;
        let finished = time::timeout(self.deadline, self.finish(&mut child)).await;
        let finished = finished.unwrap_or(Err(RendererFailure::Deadline {
            program,
            deadline: self.deadline,
        }));
        if finished.is_err() {
            // It has no children: the sandbox lets it start none. It may have ended by itself.
            drop(child.kill().await);
        }
        let (status, out, err) = finished?;
        let err = self.readable(&err);
        if !status.success() {
            return Err(RendererFailure::Failed {
                program,
                status,
                reason: err,
            });
        }
        let out = String::from_utf8(out).map_err(|_| RendererFailure::Text(program))?;
        Ok(RendererOutput { out, err })
    }

    fn command(&self) -> Command {
        let home = self.scratch.join("home");
        let mut command = Command::new(self.sandbox);
        command
            .arg(SANDBOX_COMMAND)
            .arg(self.scratch)
            .arg(self.path)
            .arg("--")
            .args(&self.arguments)
            .current_dir(self.scratch)
            .env_clear()
            .env("HOME", &home)
            .env("TMPDIR", &home)
            .env("HELM_CACHE_HOME", home.join("cache"))
            .env("HELM_CONFIG_HOME", home.join("config"))
            .env("HELM_DATA_HOME", home.join("data"))
            .env("HELM_PLUGINS", home.join("plugins"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A key that interrupts the terminal is for us; we stop it.
            .process_group(0)
            .kill_on_drop(true);
        command
    }

    async fn finish(
        &self,
        child: &mut Child,
    ) -> Result<(ExitStatus, Vec<u8>, Vec<u8>), RendererFailure> {
        let program = self.program;
        let failed = |source| RendererFailure::Read { program, source };
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let limit = self.output_bytes;
        let read_out = async {
            let mut bytes = Vec::new();
            if let Some(out) = out {
                let read = out.take(limit + 1).read_to_end(&mut bytes).await;
                read.map_err(failed)?;
            }
            if bytes.len() as u64 > limit {
                return Err(RendererFailure::Output { program, limit });
            }
            Ok(bytes)
        };
        let read_err = async { beginning(err).await.map_err(failed) };
        let (out, err) = tokio::try_join!(read_out, read_err)?;
        let status = child.wait().await.map_err(failed)?;
        Ok((status, out, err))
    }

    /// Standard error without the name of the scratch folder, which is another one each time.
    fn readable(&self, bytes: &[u8]) -> String {
        let text = String::from_utf8_lossy(bytes);
        let folder = format!("{}/", self.scratch.display());
        let lines = without_stacks(text.trim()).replace(&folder, "");
        let lines: Vec<_> = lines.lines().map(escaped_line).collect();
        lines.join("\n")
    }
}

/// What Go prints of a crash before its stacks.
fn without_stacks(text: &str) -> &str {
    let is_crash = CRASHES.iter().any(|crash| text.starts_with(crash));
    let paragraph = text.split("\n\n").next();
    paragraph.filter(|_| is_crash).unwrap_or(text)
}

/// Reads to the end, and keeps the beginning, which says what fails.
async fn beginning(stream: Option<impl AsyncRead + Unpin>) -> io::Result<Vec<u8>> {
    let mut kept = Vec::new();
    let Some(mut stream) = stream else {
        return Ok(kept);
    };
    let mut buffer = vec![0; 8 << 10];
    loop {
        let count = stream.read(&mut buffer).await?;
        if count == 0 {
            return Ok(kept);
        }
        let room = MAX_ERROR_BYTES - kept.len();
        kept.extend_from_slice(&buffer[..count.min(room)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_are_left_out() {
        for (text, expected) in [
            ("Error: a\n\nUse --debug", "Error: a\n\nUse --debug"),
            (
                "fatal error: out of memory\n\ngoroutine 1",
                "fatal error: out of memory",
            ),
            (
                "runtime: cannot allocate memory\nfatal error: a\n\nstack",
                "runtime: cannot allocate memory\nfatal error: a",
            ),
            ("", ""),
        ] {
            assert_eq!(without_stacks(text), expected);
        }
    }

    #[test]
    fn hints_are_for_what_the_limits_cause() {
        let network = "; renderers have no network";
        for (program, reason, expected) in [
            (RenderProgram::Kustomize, "Get \"http://a\": no", network),
            (
                RenderProgram::Kustomize,
                "no 'git' program on path",
                network,
            ),
            (
                RenderProgram::Helm,
                "dial tcp: socket: operation not permitted",
                network,
            ),
            (RenderProgram::Helm, "set host, see https://example.com", ""),
            (
                RenderProgram::Helm,
                "fatal error: out of memory",
                "; renderers have 1 GiB",
            ),
        ] {
            let hint = hint(program, reason);
            assert!(hint.starts_with(expected), "{reason}: {hint}");
            assert_eq!(hint.is_empty(), expected.is_empty(), "{reason}: {hint}");
        }
    }
}
