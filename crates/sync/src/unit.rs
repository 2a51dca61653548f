//! One unit's task: reads its stream and sends every change to the store.

mod list;
mod listing;

use std::{sync::Arc, time::Duration};

use backon::{BackoffBuilder, ExponentialBuilder};
use fleetdex_clusters::watch::{Fault, FaultKind, Machine, Pause, Source, Step, WatchEvent};
use fleetdex_core::{
    model::{Object, ObjectError, Unit, Version},
    planted::{Bug, planted},
};
use fleetdex_store::{Extent, Generation, StoreError};
use fleetdex_telemetry::metrics::{RelistReason, UnitMetrics, WatchEvent as EventKind};
use jiff::Timestamp;
use tokio::{sync::Semaphore, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{
    audit::Audit,
    checkpoints::UnitKey,
    outlet::{Deleted, Outlet, Wait},
    progress::{Obstacle, Progress},
};

/// Lists of one member that are read at once: each holds up to two pages in memory.
pub const LISTS_PER_CLUSTER: usize = 2;
/// Watches that ended together come back spread over this time.
const RESTART_JITTER_MILLIS: std::ops::Range<u64> = 0..1_000;

/// Everything that a unit's task needs.
pub struct UnitTask {
    /// The unit.
    pub unit: Unit,
    /// UID of the cluster, if it is known.
    pub uid: Option<String>,
    /// Streams that were here before, perhaps with writes under way.
    pub predecessors: Vec<Arc<Progress>>,
    /// Its lists and watches.
    pub source: Source,
    /// Where its objects go.
    pub outlet: Arc<Outlet>,
    /// Changes with the objects that are wanted: what was stored for another plan is no place to go on from.
    pub plan: String,
    /// Whether what is stored may have been made for another plan although its versions are those of the member.
    pub writes_again: bool,
    /// Whether the member leaves out some objects, so that one that is not listed may still be there.
    pub is_selective: bool,
    /// Told how far it has come.
    pub progress: Arc<Progress>,
    /// Bounds the lists of its cluster.
    pub lists: Arc<Semaphore>,
    /// Its counters.
    pub metrics: UnitMetrics,
    /// Compares what is stored with what the member has.
    pub audit: Arc<Audit>,
    /// How often it does so by itself; absent: never.
    pub audit_interval: Option<Duration>,
}

/// The task's state while it runs.
struct Running {
    task: UnitTask,
    generation: Generation,
    machine: Machine,
    backoff: backon::ExponentialBackoff,
    /// The list under way.
    list: listing::Listing,
    /// Why the next list is made; nothing for the first one.
    relist: Option<RelistReason>,
    /// Whether the next list writes what is stored already.
    writes_again: bool,
    skips: SkipLog,
}

/// When a skipped object was logged last, and how many have been skipped since.
#[derive(Default)]
struct SkipLog {
    logged: Option<Instant>,
    unlogged: u64,
}

impl SkipLog {
    /// How many objects a line in the log would be about; nothing if the last line is too recent.
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
    /// Runs until cancelled.
    pub async fn run(self, cancel: CancellationToken) {
        let audit = Arc::clone(&self.audit);
        let audits = async move |interval: Option<Duration>| match interval {
            Some(interval) => audit.repeat(interval).await,
            None => std::future::pending().await,
        };
        let audits = audits(self.audit_interval);
        cancel
            .run_until_cancelled(async { tokio::join!(self.follow(), audits) })
            .await;
    }

    async fn follow(self) {
        let mut backoff = backoff();
        let generation = loop {
            match self.open().await {
                Ok(generation) => break generation,
                Err(error) => {
                    self.progress
                        .failing(Obstacle::Store, error.reason(), error.to_string());
                    tokio::time::sleep(backoff.next().unwrap_or(MAX_DELAY)).await;
                }
            }
        };
        self.progress.recovered();
        let resume = self.resume(&generation);
        tracing::info!(unit = %self.unit, generation = generation.number, from = resume.map(Version::get), "a stream begins");
        let machine = Machine::new(resume);
        let writes_again = self.writes_again && resume.is_none();
        let list = listing::Listing::default();
        let mut running = Running {
            task: self,
            generation,
            machine,
            backoff,
            list,
            relist: None,
            writes_again,
            skips: SkipLog::default(),
        };
        running.follow().await;
    }

    /// The generation to write to has to be there before anything is written.
    async fn open(&self) -> Result<Generation, StoreError> {
        let pipeline = &self.outlet.pipeline;
        let uid = self.uid.as_deref();
        let delay = uid.map_or(Duration::ZERO, |uid| {
            pipeline.identity_delay(&self.unit.cluster, uid)
        });
        if !delay.is_zero() {
            let message = format!(
                "another cluster answers again; it is read in {} s at the earliest",
                delay.as_secs()
            );
            self.progress
                .failing(Obstacle::Member, "IdentityChanged", message);
            tokio::time::sleep(delay).await;
        }
        let generation = pipeline.generation(&self.unit.cluster, uid).await?;
        let rejected = pipeline
            .opened()
            .await
            .rejected(&generation, &Extent::of(&self.unit))
            .await?;
        self.progress.set_rejected(&rejected);
        Ok(generation)
    }

    /// Where to go on, if the documents are known to be as they were at some version.
    fn resume(&self, generation: &Generation) -> Option<Version> {
        let book = self.outlet.pipeline.checkpoints();
        let key = UnitKey::from(&self.unit);
        let mark = book.resume(generation, &key, &self.plan);
        match mark {
            Some(mark) => self.progress.resumes(mark),
            None => self.progress.list_begins(),
        }
        self.progress.fills(generation);
        book.follow(
            generation,
            &self.unit,
            self.plan.clone(),
            Arc::clone(&self.progress),
        );
        mark.map(|mark| mark.version)
    }
}

const MAX_DELAY: Duration = Duration::from_secs(30);
/// Time between two lines about skipped objects: a page may have 500,000 of them.
const SKIP_LOG_INTERVAL: Duration = Duration::from_mins(1);
/// How long a watch may stay unread. A store that works makes room sooner, and the buffers of the connection hold what comes meanwhile.
const PATIENCE: Duration = Duration::from_millis(500);

/// Source of the figures: client-go's reflector.
fn backoff() -> backon::ExponentialBackoff {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(800))
        .with_max_delay(MAX_DELAY)
        .with_jitter()
        .without_max_times()
        .build()
}

/// Why a kind that discovery names is answered 404. `was_served`: whether it was read before.
fn not_served(was_served: bool, answer: &str) -> String {
    if was_served {
        format!(
            "the member does not serve it any more ({answer}): its definition is gone or being replaced; the documents stay until discovery \
             leaves it out, and are read again if it is served again"
        )
    } else {
        format!(
            "the member names it in its discovery and does not serve it yet ({answer}): its definition is new or being removed; it is asked \
             for again"
        )
    }
}

impl Running {
    async fn follow(&mut self) {
        loop {
            let outcome = match self.machine.step() {
                Step::List {
                    continue_token,
                    limit,
                } => self.list(continue_token, limit).await,
                Step::Check { known } => self.check(known).await,
                Step::Watch { from } => self.watch(from).await,
            };
            let pause = match outcome {
                Ok(pause) => pause,
                Err(fault) => self.note_fault(&fault),
            };
            self.pause(pause).await;
        }
    }

    fn note_fault(&mut self, fault: &Fault) -> Pause {
        let unit = &self.task.unit;
        tracing::debug!(%unit, %fault, "a list or watch failed");
        self.task.metrics.events(EventKind::Error).inc();
        let reason = if fault.kind == FaultKind::Expired {
            self.task.metrics.watch_expired.inc();
            RelistReason::Expired
        } else {
            let obstacle = if fault.kind.is_refusal() {
                Obstacle::Refusal
            } else {
                Obstacle::Member
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
        self.backoff.next().unwrap_or(MAX_DELAY)
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
        self.backoff = backoff();
        self.task.progress.recovered();
    }

    /// What the member showed cannot be, unless its history went back: the store has to be filled anew, beside what it has.
    /// Whoever runs this task ends it then.
    async fn went_back(&self, what: &str) -> Pause {
        if planted(Bug::IgnoreRestore) {
            return Pause::Backoff;
        }
        let pipeline = &self.task.outlet.pipeline;
        let delay = pipeline.renewal_delay(&self.task.unit.cluster);
        if !delay.is_zero() {
            self.task
                .progress
                .failing(Obstacle::Member, "HistoryWentBack", what.to_owned());
            tokio::time::sleep(delay).await;
        }
        pipeline.renew(&self.generation, &format!("{}: {what}", self.task.unit));
        std::future::pending().await
    }

    async fn check(&mut self, known: Version) -> Result<Pause, Fault> {
        let current = self.task.source.current_version().await?;
        if self.machine.checked(current) {
            return Ok(Pause::None);
        }
        let what = format!(
            "the member is at resourceVersion {current}, and was at {known}; its etcd was restored or replaced"
        );
        Ok(self.went_back(&what).await)
    }

    async fn watch(&mut self, from: Version) -> Result<Pause, Fault> {
        let from = if planted(Bug::LoseEventAtReconnect) {
            from.next()
        } else {
            from
        };
        let mut lines = self.task.source.watch(from).await?;
        self.task.metrics.watch_restarts.inc();
        self.succeeded();
        loop {
            // Sink pressure must not sit on the socket: the apiserver closes watches that are not read.
            if tokio::time::timeout(PATIENCE, self.task.outlet.pipeline.room())
                .await
                .is_err()
            {
                drop(lines);
                self.task.metrics.watch_paused.inc();
                self.task.outlet.pipeline.room().await;
                return Ok(Pause::None);
            }
            let Some(line) = lines.next().await? else {
                return Ok(self.machine.watch_ended());
            };
            if !self.take_line(&line).await? {
                self.relist = Some(RelistReason::Error);
                return Ok(Pause::Backoff);
            }
        }
    }

    /// Whether the watch can go on.
    async fn take_line(&mut self, line: &[u8]) -> Result<bool, Fault> {
        let metrics = &self.task.metrics;
        let (json, kind) = match WatchEvent::parse(line).map_err(|error| garbled(&error))? {
            WatchEvent::Added(json) => (json, EventKind::Added),
            WatchEvent::Modified(json) => (json, EventKind::Modified),
            WatchEvent::Deleted(json) => (json, EventKind::Deleted),
            WatchEvent::Bookmark(version) => {
                metrics.events(EventKind::Bookmark).inc();
                return Ok(self.reached(version));
            }
            WatchEvent::Error(fault) => return Err(fault),
        };
        metrics.events(kind).inc();
        let (object, unfit) = match Object::parse_any(json) {
            Ok(parsed) => parsed,
            // A broken line may hide any change; an object of an odd shape is just that object.
            Err(error) if error.is_cut_off() => return Err(garbled(&error)),
            Err(error) => {
                self.skip(&error);
                return Ok(true);
            }
        };
        let outlet = &self.task.outlet;
        if planted(Bug::ForgetDelete) && kind == EventKind::Deleted {
            return Ok(self.reached(object.version()));
        }
        let is_wanted = outlet.wants(&object);
        if is_wanted && kind != EventKind::Modified {
            self.task.progress.object_added(kind == EventKind::Added);
        }
        if is_wanted && kind != EventKind::Deleted {
            self.index(&object, unfit, json, &indexed_at(), Wait::Never)
                .await;
        } else {
            // Also an object that is no longer wanted: the delete of an absent document costs little.
            let id = outlet.projector.id(object.uid());
            let deleted = Deleted {
                id,
                version: object.version(),
                name: Some(outlet.name(&object)),
            };
            outlet
                .delete(
                    &self.task.progress,
                    &self.generation.target,
                    deleted,
                    Wait::Never,
                )
                .await;
        }
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
            tracing::warn!(unit = %self.task.unit, %error, objects, "objects are skipped; the last error is shown");
        }
    }

    /// Writes the document of an object; of one that cannot be stored, for whatever reason, which object it is and that reason.
    async fn index(
        &self,
        object: &Object<'_>,
        unfit: Option<ObjectError>,
        json: &str,
        now: &str,
        wait: Wait,
    ) {
        let outlet = &self.task.outlet;
        let made = unfit.map_or_else(|| outlet.projector.document(object, json, now), Err);
        let document = made.unwrap_or_else(|unfit| {
            let reason = unfit.to_string();
            tracing::debug!(unit = %self.task.unit, uid = ?object.uid(), reason, "only the identity of an object is stored");
            outlet.projector.identity(object, &reason, now)
        });
        outlet
            .index(
                &self.task.progress,
                &self.generation.target,
                document,
                outlet.name(object),
                wait,
            )
            .await;
    }
}

/// The present time, for `search.indexedAt`; always as long, so that a simulated run fills its batches alike.
fn indexed_at() -> String {
    Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%S.%3fZ")
        .to_string()
}

fn garbled(error: &dyn std::error::Error) -> Fault {
    Fault {
        kind: FaultKind::Garbled,
        message: error.to_string(),
    }
}

#[cfg(test)]
mod tests;
