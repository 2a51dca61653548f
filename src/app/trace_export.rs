//! Exports traces, if the environment asks for them, until everything else has stopped.

use anyhow::Context as _;
use fleetdex_telemetry::{Metrics, Traces, traces::TraceSettings};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The task that exports traces; none without traces.
pub(crate) struct TraceExport {
    stop: CancellationToken,
    task: Option<JoinHandle<()>>,
}

impl TraceExport {
    /// Starts it as the environment says.
    pub(crate) fn start(
        settings: Option<&TraceSettings>,
        metrics: &Metrics,
    ) -> anyhow::Result<(Traces, Self)> {
        let stop = CancellationToken::new();
        let Some(settings) = settings else {
            return Ok((Traces::default(), Self { stop, task: None }));
        };
        let (traces, export) = Traces::start(settings, metrics)?;
        let stopped = stop.clone().cancelled_owned();
        let task = Some(tokio::spawn(export.run(stopped)));
        Ok((traces, Self { stop, task }))
    }

    /// Exports the last spans, for a few seconds at most.
    pub(crate) async fn finish(self) -> anyhow::Result<()> {
        self.stop.cancel();
        match self.task {
            Some(task) => task.await.context("the export of traces ended"),
            None => Ok(()),
        }
    }
}
