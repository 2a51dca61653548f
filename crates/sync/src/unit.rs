//! The task of one unit: lists and watches it, and writes every change to the store.
//!
//! A unit is one kind of one cluster, in one namespace or in all: what one list and watch stream
//! serves.

mod list;
mod listing;
mod other_rules;

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use backon::{BackoffBuilder, ExponentialBuilder};
use fleetdex_clusters::watch::{
    FaultKind, ListWatchMachine, ListWatchStep, ListerWatcher, Pause, StreamFault, WatchEvent,
    WatchLines,
};
use fleetdex_core::{
    model::{Document, NameHash, Object, ObjectError, Unit, Version},
    planted::{Bug, planted},
};
use fleetdex_interpreter::rules::KindRules;
use fleetdex_store::{Extent, IndexRevision, StoreError};
use fleetdex_telemetry::{
    Traces,
    metrics::{EventType, RelistReason, UnitMetrics},
    traces,
};
use jiff::Timestamp;
use tokio::{sync::Semaphore, time::Instant};
use tokio_util::sync::CancellationToken;

pub use self::other_rules::WITH_STATUS;
use super::{
    audit::Audit,
    checkpoints::UnitKey,
    enrichment::{EnrichmentGuard, UnitEnrichment},
    object_room::ObjectRoom,
    progress::{FailureCause, Progress},
    sink::{Sink, Wait},
    write_trace::{WriteTrace, of_opening},
};

/// Concurrent lists of one member. Each holds up to two pages in memory.
pub const LISTS_PER_CLUSTER: usize = 2;
/// Watches that ended together are opened again spread over this time.
const RESTART_JITTER_MILLIS: std::ops::Range<u64> = 0..1_000;

/// The task of a unit, before it runs.
pub struct UnitTask {
    /// The unit.
    pub unit: Unit,
    /// The UID of the cluster, if it is known.
    pub uid: Option<String>,
    /// Former streams of the unit, perhaps with writes in flight.
    pub predecessors: Vec<Arc<Progress>>,
    /// Its lists and watches.
    pub source: ListerWatcher,
    /// Receives its objects.
    pub sink: Arc<Sink>,
    /// Identifies which objects are selected. A checkpoint of another plan is not resumed from.
    pub plan: String,
    /// A hash of the rules by which documents are made, which each of them names; `None`: none but
    /// those that every document of the index is made by. Documents of other rules are written again
    /// by the next list, although their versions are those of the member.
    pub rules_hash: Option<Arc<str>>,
    /// The same of the rules that hold once any object of the kind has had a status; `None`: these
    /// do, or it makes no difference.
    pub written_status_hash: Option<Arc<str>>,
    /// Ends the task.
    pub stop: CancellationToken,
    /// Whether selectors are sent to the member, so that an object that it does not list may still
    /// exist.
    pub is_selective: bool,
    /// Its progress.
    pub progress: Arc<Progress>,
    /// The interpretation rules of the kind, if any.
    pub rules: Option<KindRules>,
    /// Asks webhooks about its objects; `None` if no webhook answers for its kind.
    pub enrichment: Option<Arc<UnitEnrichment>>,
    /// Bounds the concurrent lists of its cluster.
    pub lists: Arc<Semaphore>,
    /// Its counters.
    pub metrics: UnitMetrics,
    /// Begins the traces of changes.
    pub traces: Traces,
    /// Compares the stored documents with the objects of the member.
    pub audit: Arc<Audit>,
    /// The interval between audits; absent: none.
    pub audit_interval: Option<Duration>,
}

/// The task while it runs.
struct UnitRunner {
    task: UnitTask,
    revision: IndexRevision,
    machine: ListWatchMachine,
    backoff: backon::ExponentialBackoff,
    /// The list in progress.
    list: listing::Listing,
    /// Why the unit is listed again; `None` for the first list.
    relist: Option<RelistReason>,
    /// Whether the next list also writes unchanged objects.
    writes_again: bool,
    skips: SkipLog,
    /// The trace of the line or page that is handled now, if it is recorded.
    trace: Option<WriteTrace>,
}

/// Limits the log lines about skipped objects.
#[derive(Default)]
struct SkipLog {
    logged: Option<Instant>,
    unlogged: u64,
}

impl SkipLog {
    /// Counts one object. Returns how many objects to log; `None` if the last line is too recent.
    fn count(&mut self) -> Option<u64> {
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

impl UnitTask {
    /// Runs until it is stopped, or other rules hold.
    pub async fn run(self) {
        let stop = self.stop.clone();
        let audit = Arc::clone(&self.audit);
        let audits = async move |interval: Option<Duration>| match interval {
            Some(interval) => audit.repeat(interval).await,
            None => std::future::pending().await,
        };
        let audits = audits(self.audit_interval);
        let _guard = self.enrichment.clone().map(EnrichmentGuard);
        let enrichment = self.enrichment.clone();
        let source = self.source.clone();
        let passes = async move {
            match enrichment {
                Some(enrichment) => enrichment.run_passes(&source).await,
                None => std::future::pending().await,
            }
        };
        stop.run_until_cancelled(Box::pin(async {
            tokio::join!(self.run_stream(), audits, passes)
        }))
        .await;
    }

    async fn run_stream(self) {
        let mut backoff = stream_backoff();
        let revision = loop {
            // Boxed, as all that a stream does besides watching: most of the time it only watches.
            match Box::pin(self.open()).await {
                Ok(revision) => break revision,
                Err(error) => {
                    self.progress
                        .failing(FailureCause::Store, error.reason(), error.to_string());
                    tokio::time::sleep(backoff.next().unwrap_or(MAX_STREAM_DELAY)).await;
                }
            }
        };
        self.progress.recovered();
        let resume = self.resume(&revision);
        if let Some(enrichment) = &self.enrichment {
            enrichment.opened(&revision.target, resume.is_some());
        }
        tracing::info!(unit = %self.unit, revision = revision.number, from = resume.map(Version::get), "starting a stream");
        let machine = ListWatchMachine::new(resume);
        let writes_again = resume.is_none();
        let list = listing::Listing::default();
        let mut runner = UnitRunner {
            task: self,
            revision,
            machine,
            backoff,
            list,
            relist: None,
            writes_again,
            skips: SkipLog::default(),
            trace: None,
        };
        runner.run().await;
    }

    /// Opens the index revision to write to.
    async fn open(&self) -> Result<IndexRevision, StoreError> {
        let pipeline = &self.sink.pipeline;
        let uid = self.uid.as_deref();
        let delay = uid.map_or(Duration::ZERO, |uid| {
            pipeline.revisions.identity_delay(&self.unit.cluster, uid)
        });
        if !delay.is_zero() {
            let message = format!(
                "another cluster answers again; it is read in {} s at the earliest",
                delay.as_secs()
            );
            self.progress
                .failing(FailureCause::Member, "IdentityChanged", message);
            tokio::time::sleep(delay).await;
        }
        let revision = pipeline.revisions.open(&self.unit.cluster, uid).await?;
        let rejected = pipeline
            .store
            .opened()
            .await
            .rejected(&revision, &Extent::of(&self.unit))
            .await?;
        self.progress.set_rejected(&rejected);
        self.end_if_checkpoint_knows_status(&revision).await;
        Ok(revision)
    }

    /// The version to resume the watch from; `None` if the unit has to be listed.
    fn resume(&self, revision: &IndexRevision) -> Option<Version> {
        let tracker = &self.sink.pipeline.checkpoints.tracker;
        let key = UnitKey::from(&self.unit);
        let filters = &self.sink.filters;
        // Only a list counts the objects of each selection.
        let position = tracker
            .resume(revision, &key, &self.plan)
            .filter(|position| filters.are_counted(&position.selected));
        let version = position.as_ref().map(|position| position.version);
        match position {
            Some(position) => self.progress.resume_from(position),
            None => self.progress.list_started(),
        }
        self.progress.set_revision(revision);
        tracker.track(
            revision,
            &self.unit,
            self.plan.clone(),
            Arc::clone(&self.progress),
        );
        version
    }
}

/// The longest delay, without jitter, before a failed list or watch is repeated.
const MAX_STREAM_DELAY: Duration = Duration::from_secs(30);
/// The least time between two log lines about skipped objects: a page may have 500,000 of them.
const SKIP_LOG_INTERVAL: Duration = Duration::from_mins(1);
/// How long a watch may stay unread. A working store makes room sooner, and the buffers of the
/// connection hold what arrives meanwhile.
const MAX_UNREAD: Duration = Duration::from_millis(500);

/// The backoff of a stream whose list or watch failed, with the figures of client-go's reflector. The
/// backoff of a member that cannot be connected is `ConnectionTiming::reconnect_backoff`.
fn stream_backoff() -> backon::ExponentialBackoff {
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
    async fn run(&mut self) {
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
                Err(fault) => self.note_fault(&fault),
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

    fn next_delay(&mut self) -> Duration {
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

    fn succeeded(&mut self) {
        self.backoff = stream_backoff();
        self.task.progress.recovered();
    }

    /// Replaces the index revision, because only a member whose history went back shows such
    /// versions. Never returns then: the supervisor ends this task.
    async fn history_went_back(&self, what: &str) -> Pause {
        if planted(Bug::IgnoreRestore) {
            return Pause::Backoff;
        }
        let pipeline = &self.task.sink.pipeline;
        let delay = pipeline
            .revisions
            .replacement_delay(&self.task.unit.cluster);
        if !delay.is_zero() {
            self.task
                .progress
                .failing(FailureCause::Member, "HistoryWentBack", what.to_owned());
            tokio::time::sleep(delay).await;
        }
        pipeline
            .revisions
            .replace(&self.revision, &format!("{}: {what}", self.task.unit));
        std::future::pending().await
    }

    async fn check(&mut self, known: Version) -> Result<Pause, StreamFault> {
        let current = self.task.source.current_version().await?;
        if self.machine.checked(current) {
            return Ok(Pause::None);
        }
        let what = format!(
            "the member is at resourceVersion {current}, and was at {known}; its etcd was restored or replaced"
        );
        Ok(self.history_went_back(&what).await)
    }

    async fn watch(&mut self, from: Version) -> Result<Pause, StreamFault> {
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

    /// Handles one line. Returns whether the watch can go on.
    async fn handle_line(&mut self, line: &[u8]) -> Result<bool, StreamFault> {
        let arrived = self.task.traces.is_on().then(SystemTime::now);
        let metrics = &self.task.metrics;
        let (json, kind) = match WatchEvent::parse(line).map_err(|error| garbled(&error))? {
            WatchEvent::Added(json) => (json, EventType::Added),
            WatchEvent::Modified(json) => (json, EventType::Modified),
            WatchEvent::Deleted(json) => (json, EventType::Deleted),
            WatchEvent::Bookmark(version) => {
                metrics.events(EventType::Bookmark).inc();
                return Ok(self.reached(version));
            }
            WatchEvent::Error(fault) => return Err(fault),
        };
        metrics.events(kind).inc();
        let (object, unfit) = match Object::parse_any(json) {
            Ok(parsed) => parsed,
            // A truncated line may hide any change; an object of an unexpected shape is only that
            // object.
            Err(error) if error.is_cut_off() => return Err(garbled(&error)),
            Err(error) => {
                self.skip(&error);
                return Ok(true);
            }
        };
        let sink = &self.task.sink;
        if planted(Bug::ForgetDelete) && kind == EventType::Deleted {
            return Ok(self.reached(object.version()));
        }
        let is_selected = sink.selects(&object);
        self.trace = arrived.and_then(|arrived| {
            let UnitTask { traces, unit, .. } = &self.task;
            WriteTrace::of_change(traces, arrived, unit, kind, &object)
        });
        if is_selected && kind != EventType::Modified {
            let selections = sink.selections_of(&object);
            let is_added = kind == EventType::Added;
            self.task.progress.object_added(is_added, &selections);
        }
        if is_selected && kind != EventType::Deleted {
            let name = sink.name(&object);
            self.index(&object, unfit, name, &indexed_at(), Wait::Never)
                .await;
        } else {
            // Also for an object that is no longer selected: deleting an absent document costs
            // little.
            let id = sink.projector.id(object.uid());
            if let Some(enrichment) = &self.task.enrichment {
                enrichment.cancel(&id);
            }
            let deletion = Document::deletion(id, object.version());
            self.write(deletion, Some(sink.name(&object)), Wait::Never)
                .await;
        }
        self.trace = None;
        Ok(self.reached(object.version()))
    }

    fn reached(&mut self, version: Version) -> bool {
        let in_order = self.machine.reached(version);
        if in_order {
            self.task.progress.reached(version);
        }
        in_order
    }

    fn skip(&mut self, error: &dyn std::error::Error) {
        self.task.progress.skip();
        if let Some(objects) = self.skips.count() {
            tracing::warn!(unit = %self.task.unit, %error, objects, "skipped objects that cannot be identified; the last error is shown");
        }
    }

    /// Writes the document of an object. Of an object that cannot be stored, it writes the identity
    /// and the reason.
    async fn index(
        &self,
        object: &Object<'_>,
        unfit: Option<ObjectError>,
        name: NameHash,
        now: &str,
        wait: Wait,
    ) {
        let sink = &self.task.sink;
        let is_fit = unfit.is_none();
        let projected = unfit.map_or_else(
            || {
                let _room = ObjectRoom::wait(object.json().len());
                sink.projector.document(object, now)
            },
            Err,
        );
        let document = projected.unwrap_or_else(|unfit| {
            let reason = unfit.to_string();
            tracing::debug!(unit = %self.task.unit, uid = ?object.uid(), reason, "storing only the identity of an object");
            sink.projector.identity(object, &reason, now)
        });
        // Before the write: the next list writes what other rules say of the object.
        self.task.end_for_other_rules().await;
        self.write(document, Some(name), wait).await;
        if let Some(enrichment) = self.task.enrichment.as_ref().filter(|_| is_fit) {
            enrichment.submit(object);
        }
    }

    async fn write(&self, document: Document, name: Option<NameHash>, wait: Wait) {
        let UnitTask { sink, progress, .. } = &self.task;
        let (target, trace) = (&self.revision.target, self.trace.clone());
        sink.write(progress, target, document, name, trace, wait)
            .await;
        if let Some(trace) = &self.trace {
            trace.queued();
        }
    }
}

/// The current time for `search.indexedAt`. Its length is constant, so that simulated runs fill
/// batches alike.
fn indexed_at() -> String {
    Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%S.%3fZ")
        .to_string()
}

fn garbled(error: &dyn std::error::Error) -> StreamFault {
    StreamFault {
        kind: FaultKind::Garbled,
        message: error.to_string(),
    }
}

#[cfg(test)]
mod tests;
