//! Programs that make parts.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Runs a command to its end and returns its output, which is printed only on failure.
pub(crate) fn run(command: &mut Command, needs: &str) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = match command.stdin(Stdio::null()).output() {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            bail!("`{program}` is not installed or not on PATH; needed: {needs}")
        }
        Err(error) => return Err(error).with_context(|| format!("starting `{program}`")),
    };
    let shown = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    if output.status.success() {
        return Ok(shown);
    }
    bail!(
        "`{program}` failed ({}); needed: {needs}\n{}",
        output.status,
        shown.trim()
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_missing_program_names_its_purpose() {
        let error = run(&mut Command::new("no-such-program"), "the moon")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("no-such-program") && error.contains("the moon"),
            "{error}"
        );
    }

    #[test]
    fn a_failing_program_shows_its_output() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo because; exit 3"]);
        let error = run(&mut command, "sh").unwrap_err().to_string();
        assert!(error.contains("because") && error.contains('3'), "{error}");
    }
}
