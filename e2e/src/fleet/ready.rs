//! Waiting for a server to answer.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use reqwest::RequestBuilder;

use super::process::Process;

/// Far beyond what a start takes on a machine that compiles at the same time.
const DEADLINE: Duration = Duration::from_mins(10);

/// Sends the probe until the response is 200; fails at once, with the end of the log, if the
/// program exits.
pub(crate) async fn wait(process: &Process, probe: impl Fn() -> RequestBuilder) -> Result<()> {
    let started = Instant::now();
    let mut last_answer = "nothing was asked".to_owned();
    while started.elapsed() < DEADLINE {
        process.check_running()?;
        match probe().send().await {
            Ok(answer) if answer.status().is_success() => return Ok(()),
            Ok(answer) => {
                let status = answer.status();
                let body = answer.text().await.unwrap_or_default();
                last_answer = format!("{status}: {}", body.chars().take(2_000).collect::<String>());
            }
            Err(error) => last_answer = format!("{error:?}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let name = process.name();
    bail!(
        "{name} is not ready after {} s; last answer: {last_answer}\n{}",
        DEADLINE.as_secs(),
        process.log_tail(40)
    )
}
