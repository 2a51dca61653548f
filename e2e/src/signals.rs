//! Termination signals.

use anyhow::{Context, Result};
use tokio::signal::unix::{SignalKind, signal};

/// Completes on Ctrl-C, SIGTERM or SIGHUP. Call it before anything starts, so that a signal during
/// the start also stops everything.
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
