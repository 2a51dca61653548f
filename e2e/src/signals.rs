//! Somebody wants it to end.

use anyhow::{Context, Result};
use tokio::signal::unix::{SignalKind, signal};

/// Ends with Ctrl-C, SIGTERM or SIGHUP. Make it before anything starts: a signal during the start then stops what was started.
pub fn stop() -> Result<impl Future<Output = ()>> {
    let mut interrupt = signal(SignalKind::interrupt()).context("watching for Ctrl-C")?;
    let mut terminate = signal(SignalKind::terminate()).context("watching for SIGTERM")?;
    let mut hangup = signal(SignalKind::hangup()).context("watching for SIGHUP")?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    })
}
