//! SIGTERM and SIGINT.

use anyhow::Context as _;
use tokio_util::sync::CancellationToken;

/// Returns a token that SIGTERM or SIGINT cancels. A second signal ends the process at once.
pub(crate) fn cancel_on_signal() -> anyhow::Result<CancellationToken> {
    use tokio::signal::unix::{SignalKind, signal};
    let cancel = CancellationToken::new();
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let root = cancel.clone();
    // This task lives as long as the process.
    tokio::spawn(async move {
        for stops_gracefully in [true, false] {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if stops_gracefully {
                tracing::info!(
                    "stopping: writing what is left (a second signal ends the process at once)"
                );
                root.cancel();
            } else {
                std::process::exit(130);
            }
        }
    });
    Ok(cancel)
}
