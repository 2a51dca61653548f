//! The task of a unit while it lists and watches.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use fleetdex_clusters::watch::{
    FaultKind, ListWatchMachine, ListWatchStep, Pause, StreamFault, WatchLines,
};
use fleetdex_core::{
    model::Version,
    planted::{Bug, planted},
};
use fleetdex_store::IndexRevision;
use fleetdex_telemetry::{
    metrics::{EventType, RelistReason},
    traces,
};
use tokio::time::Instant;

use super::{
    end::{Interruption, UnitEnd},
    listing::Listing,
    task::UnitTask,
};
use crate::{
    progress::FailureCause,
    write_trace::{WriteTrace, of_opening},
};

/// Watches that ended together are opened again spread over this time.
const RESTART_JITTER_MILLIS: std::ops::Range<u64> = 0..1_000;

/// The longest delay, without jitter, before a failed list or watch is repeated.
pub(super) const MAX_STREAM_DELAY: Duration = Duration::from_secs(30);
/// The least time between two log lines about skipped objects: a page may have 500,000 of them.
const SKIP_LOG_INTERVAL: Duration = Duration::from_mins(1);
/// How long a watch may stay unread. A working store makes room sooner, and the buffers of the
/// connection hold what arrives meanwhile.
const MAX_UNREAD: Duration = Duration::from_millis(500);

/// The pause after a step of a stream.
pub(super) type StepResult = Result<Pause, Interruption<StreamFault>>;

/// The task while it runs.
pub(super) struct UnitRunner {
    pub(super) task: UnitTask,
    pub(super) revision: IndexRevision,
    pub(super) machine: ListWatchMachine,
    pub(super) backoff: ExponentialBackoff,
    /// The list in progress.
    pub(super) list: Listing,
    /// Why the unit is listed again; `None` for the first list.
    pub(super) relist: Option<RelistReason>,
    /// Whether the next list also writes unchanged objects.
    pub(super) writes_again: bool,
    pub(super) skips: SkipLog,
    /// The trace of the line or page that is handled now, if it is recorded.
    pub(super) trace: Option<WriteTrace>,
}

/// Limits the log lines about skipped objects.
#[derive(Default)]
pub(super) struct SkipLog {
    logged: Option<Instant>,
    unlogged: u64,
}

impl SkipLog {
    /// Counts one object. Returns how many objects to log; `None` if the last line is too recent.
    pub(super) fn count(&mut self) -> Option<u64> {
        self.unlogged += 1;
        if self
            .logged
            .is_some_and(|logged| logged.elapsed() < SKIP_LOG_INTERVAL)
        {
            return None;
        }
        self.logged = Some(Instant::now());
        Some(std::mem::take(&mut self.unlogged))
    }
}

/// The backoff of a stream whose list or watch failed, with the figures of client-go's reflector.
/// The backoff of a member that cannot be connected is `ConnectionTiming::reconnect_backoff`.
pub(super) fn stream_backoff() -> ExponentialBackoff {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(800))
        .with_max_delay(MAX_STREAM_DELAY)
        .with_jitter()
        .without_max_times()
        .build()
}

/// Explains a 404 for a kind that discovery names. `was_served`: whether it was read before.
fn not_served(was_served: bool, response: &str) -> String {
    if was_served {
        format!(
            "the member does not serve it any more ({response}): its definition is gone or being replaced; the documents stay until discovery \
             leaves it out, and are read again if it is served again"
        )
    } else {
        format!(
            "the member names it in its discovery and does not serve it yet ({response}): its definition is new or being removed; it is asked \
             for again"
        )
    }
}

impl UnitRunner {
    /// Lists and watches until the task has to end.
    pub(super) async fn run(&mut self) -> UnitEnd {
        loop {
            let outcome = match self.machine.step() {
                ListWatchStep::List {
                    continue_token,
                    limit,
                } => Box::pin(self.list(continue_token, limit)).await,
                ListWatchStep::Check { known } => Box::pin(self.check(known)).await,
                ListWatchStep::Watch { from } => self.watch(from).await,
            };
            self.trace = None;
            let pause = match outcome {
                Ok(pause) => pause,
                Err(Interruption::Fault(fault)) => self.note_fault(&fault),
                Err(Interruption::End(end)) => return end,
            };
            self.pause(pause).await;
        }
    }

    fn note_fault(&mut self, fault: &StreamFault) -> Pause {
        let unit = &self.task.unit;
        tracing::debug!(%unit, %fault, "a list or watch failed");
        self.task.metrics.events(EventType::Error).inc();
        let reason = if fault.kind == FaultKind::Expired {
            self.task.metrics.watch_expired.inc();
            RelistReason::Expired
        } else {
            let obstacle = if fault.kind.is_refusal() {
                FailureCause::Refusal
            } else {
                FailureCause::Member
            };
            let message = match fault.kind {
                FaultKind::NotFound => {
                    not_served(self.task.progress.has_been_synced(), &fault.message)
                }
                _ => fault.message.clone(),
            };
            self.task
                .progress
                .failing(obstacle, fault.kind.reason(), message);
            RelistReason::Error
        };
        let followed = self.machine.known_version().is_some();
        let pause = self.machine.failed(fault.kind);
        if followed && self.machine.known_version().is_none() {
            self.relist = Some(reason);
        }
        pause
    }

    pub(super) fn next_delay(&mut self) -> Duration {
        self.backoff.next().unwrap_or(MAX_STREAM_DELAY)
    }

    async fn pause(&mut self, pause: Pause) {
        let delay = match pause {
            Pause::None => return,
            Pause::Jitter => Duration::from_millis(fastrand::u64(RESTART_JITTER_MILLIS)),
            Pause::Backoff => self.next_delay(),
            Pause::RetryAfter(seconds) => self.next_delay().max(Duration::from_secs(seconds)),
        };
        tokio::time::sleep(delay).await;
    }

    pub(super) fn succeeded(&mut self) {
        self.backoff = stream_backoff();
        self.task.progress.recovered();
    }

    /// Replaces the index revision, because only a member whose history went back shows such
    /// versions.
    pub(super) async fn history_went_back(&self, what: &str) -> Result<Pause, UnitEnd> {
        if planted(Bug::IgnoreRestore) {
            return Ok(Pause::Backoff);
        }
        let revisions = &self.task.sink.pipeline.revisions;
        let delay = revisions.replacement_delay(&self.task.unit.cluster);
        if !delay.is_zero() {
            self.task
                .progress
                .failing(FailureCause::Member, "HistoryWentBack", what.to_owned());
            tokio::time::sleep(delay).await;
        }
        revisions.replace(&self.revision, &format!("{}: {what}", self.task.unit));
        Err(UnitEnd::HistoryWentBack)
    }

    async fn check(&mut self, known: Version) -> StepResult {
        let current = self.task.source.current_version().await?;
        if self.machine.checked(current) {
            return Ok(Pause::None);
        }
        let what = format!(
            "the member is at resourceVersion {current}, and was at {known}; its etcd was restored or replaced"
        );
        Ok(self.history_went_back(&what).await?)
    }

    async fn watch(&mut self, from: Version) -> StepResult {
        let from = if planted(Bug::LoseEventAtReconnect) {
            from.next()
        } else {
            from
        };
        let mut lines = Box::pin(self.open_watch(from)).await?;
        self.task.progress.reading_resumed();
        self.task.metrics.watches_opened.inc();
        self.succeeded();
        loop {
            let Some(line) = lines.next().await? else {
                return Ok(self.machine.watch_ended());
            };
            // Backpressure must not reach the socket: the API server closes a watch that is not
            // read. The line comes again, as its version has not been reached.
            if tokio::time::timeout(MAX_UNREAD, self.task.sink.pipeline.queue.wait_for_room())
                .await
                .is_err()
            {
                drop((line, lines));
                self.task.metrics.watch_paused.inc();
                self.task.progress.reading_paused();
                self.task.sink.pipeline.queue.wait_for_room().await;
                return Ok(Pause::None);
            }
            if !self.handle_line(&line).await? {
                self.relist = Some(RelistReason::Error);
                return Ok(Pause::Backoff);
            }
        }
    }

    async fn open_watch(&self, from: Version) -> Result<WatchLines, StreamFault> {
        let trace = of_opening(&self.task.traces, &self.task.unit);
        let opened = traces::within(trace.clone(), self.task.source.watch(from)).await;
        if let (Some(trace), Err(fault)) = (trace, &opened) {
            trace.fail(fault.kind.reason());
        }
        opened
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_and_new_kinds_have_different_messages() {
        let [new, gone] =
            [false, true].map(|was_served| not_served(was_served, "404 page not found"));
        assert!(
            new.contains("does not serve it yet (404 page not found): its definition is new"),
            "{new}"
        );
        assert!(
            gone.contains(
                "does not serve it any more (404 page not found): its definition is gone"
            ),
            "{gone}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn skipped_objects_are_logged_once_a_minute_and_all_are_counted() {
        let mut skips = SkipLog::default();
        let logged: Vec<u64> = (0..500_000).filter_map(|_| skips.count()).collect();
        assert_eq!(logged, [1]);
        tokio::time::advance(SKIP_LOG_INTERVAL).await;
        assert_eq!(skips.count(), Some(500_000));
    }
}
