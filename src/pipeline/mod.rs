//! Pending changes → batches → store → verdicts → acknowledged, or sent again. The only writer of a store.

mod generations;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use backon::{BackoffBuilder, ExponentialBuilder};
use futures::StreamExt as _;
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore, watch},
    task::JoinSet,
    time::Instant,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use generations::Generations;

use crate::{
    bulk::{Verdict, Write, encoded_len},
    model::{ClusterName, NameHash, Shape, StoreName, fallback},
    planted::{Bug, note_retry, planted},
    replicas::Fence,
    store::{Checkpoints, Generation, Store, StoreError},
    sync::{
        checkpoints::Book,
        pending::{BatchLimits, Key, Operation, Pending},
        progress::Ticket,
    },
    telemetry::metrics::{BulkOutcome, BulkVerdict, StoreMetrics},
};

/// What may wait and be under way for one store.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of changes that may wait; a watch that comes upon more is given up until there is room.
    pub pending_bytes: usize,
    /// When a batch is full.
    pub batch: BatchLimits,
    /// Batches that wait for their answer.
    pub in_flight: usize,
}

impl Default for Limits {
    /// A batch of 2 MiB, two in flight: where raw `_bulk` throughput levels off. More make OpenSearch write more and smaller segments, which
    /// it has to merge. Four batches may wait, those in flight among them: a member's next page is there before they are written.
    fn default() -> Self {
        Self {
            pending_bytes: 8 << 20,
            batch: BatchLimits {
                count: 2_000,
                bytes: 2 << 20,
            },
            in_flight: 2,
        }
    }
}

/// How long a batch may fill while nothing is in flight, and while something is.
const LINGER_IDLE: Duration = Duration::from_millis(5);
const LINGER_BUSY: Duration = Duration::from_millis(50);
/// How often an idle store is asked whether it is still there.
const HEALTH_INTERVAL: Duration = Duration::from_secs(10);
/// How often checkpoints are written. A restart replays what came after them; each write costs the store one small document for
/// every cluster that changed.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(10);
/// How long the last checkpoints may take when the process stops.
const LAST_CHECKPOINT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the control plane may take to show a Secret.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest delay between attempts, without jitter, of a store that answers: a few batches in this time do no harm to one that is
/// overloaded.
const MAX_DELAY: Duration = Duration::from_secs(3);
/// The same for a store that gives no answer. An attempt costs it nothing, and one that is back should have what it missed within ten
/// seconds.
const MAX_UNREACHABLE_DELAY: Duration = Duration::from_millis(500);
/// Clusters whose checkpoints are read at the same time: a thousand of them, of a millisecond each, in less than a second.
const REMEMBERING: usize = 8;
/// A block is lifted by people, who take longer than an overload.
const BLOCKED_PAUSE: Duration = Duration::from_secs(5);

/// A document that is counted by itself: several times as long as a usual one, so that thousands of streams with one of up to this length each take some
/// tens of megabytes.
const LARGE_BYTES: usize = 32 << 10;
/// What all large documents that are not written yet may take, in KiB: four of the largest. They wait beside the 8 MiB of all others.
const LARGE_KIB: u32 = 32 << 10;

type Job = Operation<Ticket>;

/// Opens the store: reads credentials, connects, prepares. Called again whenever the store refuses the credentials.
#[async_trait]
pub trait OpenStore: Send + Sync {
    /// A store that is ready for writing.
    async fn open(&self) -> Result<Arc<dyn Store>, Unavailable>;

    /// Whether credentials or settings have changed since `open`.
    async fn changed(&self) -> bool;
}

/// Why a store cannot be used now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable {
    /// CamelCase.
    pub reason: &'static str,
    /// What is wrong and what to do.
    pub message: String,
}

impl From<StoreError> for Unavailable {
    fn from(error: StoreError) -> Self {
        Self {
            reason: error.reason(),
            message: error.to_string(),
        }
    }
}

/// Whether the store can be used; `None`: not tried yet.
pub type Availability = Option<Result<(), Unavailable>>;

/// The writer of one store. Cheap to clone.
#[derive(Clone)]
pub struct Pipeline(Arc<Shared>);

struct Shared {
    name: StoreName,
    limits: Limits,
    /// While it is closed nothing is sent, and what waits is given up: by the time that it is open again another replica may have written
    /// something newer, or deleted it.
    fence: Fence,
    pending: Mutex<Pending<Ticket>>,
    /// Whether what waits is given up instead of sent.
    discarded: AtomicBool,
    work: Notify,
    room: Notify,
    /// For the large documents, in KiB.
    large: Arc<Semaphore>,
    store: Mutex<Option<Arc<dyn Store>>>,
    opened: Notify,
    availability: watch::Sender<Availability>,
    generations: Mutex<Generations>,
    /// Whose documents the store held when it was opened.
    identities: Mutex<BTreeMap<ClusterName, String>>,
    book: Book,
    /// What the store holds of clusters that nothing is known of but that.
    remembered: Mutex<BTreeMap<ClusterName, Option<Checkpoints>>>,
    /// Reads that.
    remembering: Mutex<Option<AbortOnDropHandle<()>>>,
    /// Held by whoever saves checkpoints, so that an older state never overwrites a newer one.
    saving: Semaphore,
    changed: Arc<Notify>,
    metrics: StoreMetrics,
}

impl Pipeline {
    /// A pipeline that does nothing until [`Pipeline::run`]; `changed` is notified when its availability changes or an index is lost.
    pub fn new(
        name: StoreName,
        limits: Limits,
        fence: Fence,
        metrics: StoreMetrics,
        changed: Arc<Notify>,
    ) -> Self {
        Self(Arc::new(Shared {
            name,
            limits,
            fence,
            pending: Mutex::default(),
            discarded: AtomicBool::new(false),
            work: Notify::new(),
            room: Notify::new(),
            large: Arc::new(Semaphore::new(LARGE_KIB as usize)),
            store: Mutex::default(),
            opened: Notify::new(),
            availability: watch::Sender::new(None),
            generations: Mutex::default(),
            identities: Mutex::default(),
            book: Book::default(),
            remembered: Mutex::default(),
            remembering: Mutex::default(),
            saving: Semaphore::new(1),
            changed,
            metrics,
        }))
    }

    /// The store's name.
    pub fn name(&self) -> &StoreName {
        &self.0.name
    }

    /// Whether the store can be used, as of the last request.
    pub fn availability(&self) -> Availability {
        self.0.availability.borrow().clone()
    }

    /// The open store, for reading; absent until it has been reached for the first time.
    pub fn store(&self) -> Option<Arc<dyn Store>> {
        lock(&self.0.store).clone()
    }

    /// The open store, once there is one. Whoever waits is woken in the order of coming: a watch channel wakes in a random one, which no
    /// seed brings back.
    pub async fn opened(&self) -> Arc<dyn Store> {
        loop {
            let notified = self.0.opened.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            if let Some(store) = self.store() {
                return store;
            }
            notified.await;
        }
    }

    /// From where the units of this store can go on.
    pub fn checkpoints(&self) -> &Book {
        &self.0.book
    }

    /// Writes the checkpoints that the store does not have yet.
    pub async fn save_checkpoints(&self) -> Result<(), StoreError> {
        let Some(store) = self.store() else {
            return Ok(());
        };
        let Ok(_permit) = self.0.saving.acquire().await else {
            return Ok(());
        };
        let unsaved = self.0.book.unsaved();
        if !unsaved.is_empty() {
            store.save_checkpoints(&unsaved).await?;
            self.0.book.saved(unsaved);
        }
        Ok(())
    }

    /// Reads what the store holds of these clusters, once for each, and tells it from then on. The store may take its time.
    pub fn remember(&self, clusters: &BTreeSet<ClusterName>) {
        let mut remembering = lock(&self.0.remembering);
        if remembering.as_ref().is_some_and(|task| !task.is_finished()) {
            return;
        }
        let known = lock(&self.0.remembered);
        let wanted: Vec<ClusterName> = clusters
            .iter()
            .filter(|cluster| !known.contains_key(*cluster))
            .cloned()
            .collect();
        drop(known);
        if !wanted.is_empty() {
            // Not a clone of the pipeline, which would own itself by its task.
            let shared = Arc::downgrade(&self.0);
            *remembering = Some(AbortOnDropHandle::new(tokio::spawn(remember(
                shared, wanted,
            ))));
        }
    }

    /// What the store holds of a cluster, if that has been asked and there is anything.
    pub fn remembered(&self, cluster: &ClusterName) -> Option<Checkpoints> {
        lock(&self.0.remembered).get(cluster).cloned().flatten()
    }

    /// How many clusters have been asked about.
    pub fn remembered_count(&self) -> usize {
        lock(&self.0.remembered).len()
    }

    /// Whether a write can be submitted without waiting.
    pub fn has_room(&self) -> bool {
        lock(&self.0.pending).bytes() < self.0.limits.pending_bytes
    }

    /// Waits until a write can be submitted.
    pub async fn room(&self) {
        loop {
            let notified = self.0.room.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            if self.has_room() {
                return;
            }
            notified.await;
        }
    }

    /// Room for a document that is larger than most, to be kept until it is written; waits for it. Watches hand over a change whether or not there is
    /// room, and that is no bound when many of them do it at once with changes of many megabytes.
    pub async fn room_for_large(&self, write: &Write) -> Option<OwnedSemaphorePermit> {
        let length = write.body.as_ref().map_or(0, |body| body.len());
        if length <= LARGE_BYTES {
            return None;
        }
        let wanted = u32::try_from(length >> 10)
            .unwrap_or(LARGE_KIB)
            .min(LARGE_KIB);
        Arc::clone(&self.0.large)
            .acquire_many_owned(wanted)
            .await
            .ok()
    }

    /// Hands over a write, whether or not there is room for it; who can wait asks for that before. The ticket is settled when
    /// the write is.
    pub fn submit(&self, write: Write, name: Option<NameHash>, ticket: Ticket) {
        let not_sent = lock(&self.0.pending).push(Operation {
            write,
            name,
            ticket,
        });
        settle_superseded(not_sent);
        self.0.work.notify_one();
    }

    /// Gives up what has not been sent yet, and whatever is still submitted.
    pub fn discard(&self) {
        self.0.discarded.store(true, Ordering::Relaxed);
    }

    /// Whether nothing waits to be written or acknowledged.
    pub fn is_idle(&self) -> bool {
        lock(&self.0.pending).is_empty()
    }

    /// Opens the store and writes until cancelled; then writes what is left, for `drain` at most. What waits after that is given up.
    pub async fn run(self, opener: Arc<dyn OpenStore>, cancel: CancellationToken, drain: Duration) {
        self.write_until_cancelled(opener, cancel, drain).await;
        // Other streams may wait for the end of these writes, however long this pipeline is kept.
        let given_up = std::mem::take(&mut *lock(&self.0.pending));
        drop(given_up);
    }

    async fn write_until_cancelled(
        &self,
        opener: Arc<dyn OpenStore>,
        cancel: CancellationToken,
        drain: Duration,
    ) {
        let mut backoff = Backoff::default();
        while !cancel.is_cancelled() {
            let opened = tokio::select! {
                biased;
                () = cancel.cancelled() => return,
                opened = self.open_store(&*opener) => opened,
            };
            match opened {
                Ok(store) => {
                    backoff = Backoff::default();
                    self.set_available(Ok(()));
                    *lock(&self.0.store) = Some(Arc::clone(&store));
                    self.0.opened.notify_waiters();
                    Writer::new(self, store, &opener).run(&cancel, drain).await;
                }
                Err(unavailable) => {
                    self.set_available(Err(unavailable));
                    tokio::select! {
                        biased;
                        () = cancel.cancelled() => return,
                        () = tokio::time::sleep(backoff.next(MAX_DELAY)) => {}
                    }
                }
            }
        }
    }

    /// Nothing is written any more: the other replicas may know. To be called when [`Pipeline::run`] has ended.
    pub async fn end_changes(&self) {
        if let Some(store) = self.store() {
            store.end_changes().await;
        }
    }

    /// Opens the store, and reads whose documents it holds.
    async fn open_store(&self, opener: &dyn OpenStore) -> Result<Arc<dyn Store>, Unavailable> {
        let store = opener.open().await?;
        let identities = store.identities().await?;
        *lock(&self.0.identities) = identities;
        Ok(store)
    }

    /// The UIDs of the clusters whose documents the store held when it was opened last, by name.
    pub fn identities(&self) -> BTreeMap<ClusterName, String> {
        lock(&self.0.identities).clone()
    }

    fn set_available(&self, available: Result<(), Unavailable>) {
        let name = &self.0.name;
        let changed = self.0.availability.send_if_modified(|current| {
            let modified = current.as_ref() != Some(&available);
            if modified {
                match &available {
                    Ok(()) => tracing::info!(store = %name, "the store is available"),
                    Err(problem) => {
                        tracing::warn!(store = %name, reason = problem.reason, message = %problem.message, "the store is unavailable");
                    }
                }
                *current = Some(available);
            }
            modified
        });
        if changed {
            self.0.changed.notify_one();
        }
    }

    fn update_gauges(&self) {
        let pending = lock(&self.0.pending);
        self.0.metrics.set_pending(pending.len(), pending.bytes());
    }
}

/// Reads the checkpoints of some clusters, as far as the store tells them; what it does not is asked for another time.
async fn remember(shared: Weak<Shared>, clusters: Vec<ClusterName>) {
    let store = match shared.upgrade() {
        Some(shared) => lock(&shared.store).clone(),
        None => return,
    };
    let Some(store) = store else { return };
    let reads = clusters.into_iter().map(|cluster| {
        let store = Arc::clone(&store);
        async move { (store.checkpoints(&cluster).await, cluster) }
    });
    let mut reads = futures::stream::iter(reads).buffer_unordered(REMEMBERING);
    while let Some((read, cluster)) = reads.next().await {
        let Some(shared) = shared.upgrade() else {
            return;
        };
        match read {
            Ok(checkpoints) => {
                lock(&shared.remembered).insert(cluster, checkpoints);
            }
            Err(error) => {
                tracing::debug!(%cluster, %error, "what is stored of a cluster cannot be read yet");
                return;
            }
        }
    }
    if let Some(shared) = shared.upgrade() {
        shared.changed.notify_one();
    }
}

/// Delays that grow with each failure in a row, as long as it is one of a kind. Source of the figures: client-go's reflector (0.8 s,
/// doubling, jittered); the first delay is shorter, because most failures of a store are single requests.
struct Backoff {
    delays: backon::ExponentialBackoff,
    max: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self::up_to(MAX_DELAY)
    }
}

impl Backoff {
    fn up_to(max: Duration) -> Self {
        let schedule = ExponentialBuilder::default()
            .with_min_delay(Duration::from_millis(200))
            .with_max_delay(max)
            .with_jitter()
            .without_max_times();
        Self {
            delays: schedule.build(),
            max,
        }
    }

    fn next(&mut self, max: Duration) -> Duration {
        if self.max != max {
            *self = Self::up_to(max);
        }
        self.delays.next().unwrap_or(max)
    }
}

struct Sent {
    jobs: Vec<Job>,
    result: Result<Vec<Verdict>, StoreError>,
}

/// What a look at the store has shown.
struct Check {
    /// Whether credentials or settings are other than those it was opened with.
    changed: bool,
    /// Clusters whose generation is gone, among those that were asked about.
    lost: Result<BTreeSet<ClusterName>, StoreError>,
    asked: Vec<Generation>,
}

/// Why the writer pauses or ends.
enum Next {
    Go,
    Pause(Duration),
    Reopen,
}

/// Writes to one opened store.
struct Writer<'p> {
    pipeline: &'p Pipeline,
    store: Arc<dyn Store>,
    opener: &'p Arc<dyn OpenStore>,
    in_flight: JoinSet<Sent>,
    checks: JoinSet<Check>,
    saves: JoinSet<()>,
    limits: BatchLimits,
    backoff: Backoff,
    resume_at: Option<Instant>,
}

impl<'p> Writer<'p> {
    fn new(pipeline: &'p Pipeline, store: Arc<dyn Store>, opener: &'p Arc<dyn OpenStore>) -> Self {
        Self {
            pipeline,
            store,
            opener,
            in_flight: JoinSet::new(),
            checks: JoinSet::new(),
            saves: JoinSet::new(),
            limits: pipeline.0.limits.batch,
            backoff: Backoff::default(),
            resume_at: None,
        }
    }

    async fn run(mut self, cancel: &CancellationToken, drain: Duration) {
        self.write_until(cancel, drain).await;
        self.saves.shutdown().await;
        // What is still under way is given up, and the store knows that when this returns.
        self.in_flight.shutdown().await;
        let last =
            tokio::time::timeout(LAST_CHECKPOINT_TIMEOUT, self.pipeline.save_checkpoints()).await;
        if !matches!(last, Ok(Ok(()))) {
            tracing::warn!(store = %self.pipeline.name(), "the last checkpoints were not written; the next start replays more");
        }
    }

    async fn write_until(&mut self, cancel: &CancellationToken, drain: Duration) {
        let mut checkpoints = tokio::time::interval(CHECKPOINT_INTERVAL);
        checkpoints.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut health = tokio::time::interval(HEALTH_INTERVAL);
        health.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut deadline: Option<Instant> = None;
        let mut reopen = false;
        loop {
            if deadline.is_some() && self.pipeline.is_idle() {
                return;
            }
            if reopen && self.in_flight.is_empty() {
                return;
            }
            let may_send = !reopen
                && self.resume_at.is_none()
                && self.in_flight.len() < self.pipeline.0.limits.in_flight;
            let idle = self.in_flight.is_empty();
            let limits = self.limits;
            tokio::select! {
                biased;
                () = cancel.cancelled(), if deadline.is_none() => deadline = Some(Instant::now() + drain),
                () = sleep_until(deadline) => {
                    tracing::warn!(store = %self.pipeline.name(), "stopped with unwritten changes; the next start reads them again");
                    return;
                }
                Some(sent) = self.in_flight.join_next(), if !self.in_flight.is_empty() => {
                    self.pipeline.0.metrics.bulk_in_flight.dec();
                    match sent {
                        Ok(sent) => match self.settle(sent) {
                            Next::Go => {}
                            Next::Pause(pause) => self.resume_at = Some(Instant::now() + pause),
                            Next::Reopen => reopen = true,
                        },
                        Err(error) => tracing::error!(%error, "a bulk request ended without an outcome"),
                    }
                }
                () = sleep_until(self.resume_at) => self.resume_at = None,
                jobs = next_batch(self.pipeline, limits, idle), if may_send => self.send(jobs),
                _ = health.tick(), if deadline.is_none() && self.checks.is_empty() => self.start_check(),
                _ = checkpoints.tick(), if self.saves.is_empty() => self.start_save(),
                Some(_) = self.saves.join_next(), if !self.saves.is_empty() => {}
                Some(check) = self.checks.join_next(), if !self.checks.is_empty() => match check {
                    Ok(check) => reopen |= self.take_check(check),
                    Err(error) => tracing::error!(%error, "a health check ended without an answer"),
                },
            }
        }
    }

    /// Looks after credentials and indices, beside the writing: neither a control plane nor a store that hangs may hold that up.
    fn start_check(&mut self) {
        let opener = Arc::clone(self.opener);
        let store = Arc::clone(&self.store);
        let asked = self.pipeline.generations();
        self.checks.spawn(async move {
            let changed = tokio::time::timeout(CHECK_TIMEOUT, opener.changed())
                .await
                .unwrap_or(false);
            Check {
                changed,
                lost: store.lost(&asked).await,
                asked,
            }
        });
    }

    fn start_save(&mut self) {
        let pipeline = self.pipeline.clone();
        self.saves.spawn(async move {
            if let Err(error) = pipeline.save_checkpoints().await {
                tracing::debug!(store = %pipeline.name(), %error, "checkpoints were not written; the next attempt follows");
            }
        });
    }

    /// Whether the store has to be opened again.
    fn take_check(&self, check: Check) -> bool {
        match check.lost {
            Ok(lost) => {
                for generation in check
                    .asked
                    .iter()
                    .filter(|generation| lost.contains(&generation.cluster))
                {
                    self.pipeline
                        .note_lost(&generation.target, "it is gone, or its aliases are");
                }
                if self.in_flight.is_empty() && self.resume_at.is_none() {
                    self.pipeline.set_available(Ok(()));
                }
                check.changed
            }
            Err(error) => {
                let refused = matches!(error, StoreError::Unauthorized { .. });
                if self.in_flight.is_empty() {
                    self.pipeline.set_available(Err(error.into()));
                }
                check.changed || refused
            }
        }
    }

    fn send(&mut self, jobs: Vec<Job>) {
        if self.pipeline.0.discarded.load(Ordering::Relaxed) || !self.pipeline.0.fence.is_open() {
            return jobs.into_iter().for_each(|job| self.give_up(job));
        }
        if jobs.is_empty() {
            return;
        }
        let metrics = &self.pipeline.0.metrics;
        metrics.bulk_in_flight.inc();
        metrics
            .bulk_bytes
            .inc_by(jobs.iter().map(|job| encoded_len(&job.write) as u64).sum());
        let store = Arc::clone(&self.store);
        let writes: Vec<Write> = jobs.iter().map(|job| job.write.clone()).collect();
        let jobs = if planted(Bug::AcknowledgeBeforeResponse) {
            self.acknowledge(jobs)
        } else {
            jobs
        };
        self.in_flight.spawn(async move {
            let result = store.write(&writes).await;
            Sent { jobs, result }
        });
    }

    /// A planted bug: nothing is left to be settled when the answer comes.
    fn acknowledge(&self, jobs: Vec<Job>) -> Vec<Job> {
        for job in jobs {
            self.done(job, BulkVerdict::Indexed);
        }
        Vec::new()
    }

    fn settle(&mut self, sent: Sent) -> Next {
        let metrics = &self.pipeline.0.metrics;
        let next = match sent.result {
            Ok(verdicts) => {
                metrics.requests(BulkOutcome::Answered).inc();
                self.settle_items(sent.jobs, verdicts)
            }
            Err(error) => {
                metrics.requests(BulkOutcome::Failed).inc();
                self.settle_failure(sent.jobs, error)
            }
        };
        self.pipeline.0.room.notify_waiters();
        self.pipeline.update_gauges();
        next
    }

    fn settle_items(&mut self, jobs: Vec<Job>, verdicts: Vec<Verdict>) -> Next {
        let mut trouble: Option<Unavailable> = None;
        let mut blocked = false;
        for (job, verdict) in jobs.into_iter().zip(verdicts) {
            match verdict {
                Verdict::Indexed => self.done(job, BulkVerdict::Indexed),
                Verdict::Deleted => self.done(job, BulkVerdict::Deleted),
                Verdict::Absent => self.done(job, BulkVerdict::Absent),
                Verdict::Superseded => self.done(job, BulkVerdict::Superseded),
                Verdict::Rejected(_) if planted(Bug::DropRefusedDocument) => {
                    self.done(job, BulkVerdict::Superseded)
                }
                Verdict::Rejected(reason) => self.reject(job, &reason),
                Verdict::Retry(_) if planted(Bug::DropThrottledItem) => {
                    self.done(job, BulkVerdict::Superseded)
                }
                Verdict::Retry(message) => {
                    trouble = Some(Unavailable {
                        reason: "Overloaded",
                        message,
                    });
                    self.retry(job);
                }
                Verdict::Blocked(message) => {
                    blocked = true;
                    trouble = Some(Unavailable {
                        reason: "Blocked",
                        message,
                    });
                    self.retry(job);
                }
                Verdict::IndexMissing(message) => {
                    self.pipeline.note_lost(&job.write.index, &message);
                    self.give_up(job);
                }
            }
        }
        match trouble {
            None => {
                self.backoff = Backoff::default();
                let full = self.pipeline.0.limits.batch;
                self.limits.bytes = (self.limits.bytes * 2).min(full.bytes);
                self.limits.count = (self.limits.count * 2).min(full.count);
                self.pipeline.set_available(Ok(()));
                Next::Go
            }
            Some(trouble) => {
                self.pipeline.set_available(Err(trouble));
                Next::Pause(if blocked {
                    BLOCKED_PAUSE
                } else {
                    self.backoff.next(MAX_DELAY)
                })
            }
        }
    }

    fn settle_failure(&mut self, jobs: Vec<Job>, error: StoreError) -> Next {
        let refused = matches!(
            error,
            StoreError::TooLarge { .. }
                | StoreError::AnswerTooLarge { .. }
                | StoreError::Refused { .. }
        );
        let alone = jobs.len() == 1;
        // What is refused although nothing smaller can be made of it is tried again until the limit is lifted.
        let has_lesser = |job: &Job| job.write.body.is_some() && job.ticket.shape.next().is_some();
        if refused && alone && jobs.iter().all(has_lesser) {
            for job in jobs {
                self.reject(job, &error.to_string());
            }
            return Next::Go;
        }
        if refused && !alone {
            // One of them is the reason; smaller batches find it.
            let bytes: usize = jobs.iter().map(|job| encoded_len(&job.write)).sum();
            self.limits = BatchLimits {
                count: jobs.len() / 2,
                bytes: bytes / 2,
            };
        }
        tracing::debug!(%error, writes = jobs.len(), "a bulk request failed");
        for job in jobs {
            self.retry(job);
        }
        let next = match error {
            StoreError::Unauthorized { .. } => Next::Reopen,
            StoreError::Unreachable { .. } => Next::Pause(self.backoff.next(MAX_UNREACHABLE_DELAY)),
            _ => Next::Pause(self.backoff.next(MAX_DELAY)),
        };
        if !refused || alone {
            self.pipeline.set_available(Err(error.into()));
        }
        next
    }

    fn done(&self, job: Job, verdict: BulkVerdict) {
        let metrics = &self.pipeline.0.metrics;
        let is_fallback = job.ticket.is_partial || job.ticket.shape != Shape::Whole;
        let verdict = if is_fallback && verdict == BulkVerdict::Indexed {
            BulkVerdict::Fallback
        } else {
            verdict
        };
        metrics.items(verdict).inc();
        metrics
            .event_to_ack
            .observe(job.ticket.seen.elapsed().as_secs_f64());
        match verdict {
            BulkVerdict::Indexed | BulkVerdict::Deleted | BulkVerdict::Absent => {
                job.ticket.progress().accept(&job.write.id)
            }
            BulkVerdict::Fallback => job.ticket.progress().reject(&job.write.id),
            _ => {}
        }
        lock(&self.pipeline.0.pending).settle(&Key::of(&job.write));
        job.ticket.settle();
    }

    fn retry(&self, job: Job) {
        self.pipeline.0.metrics.items(BulkVerdict::Retried).inc();
        note_retry(&job.write.id);
        settle_superseded(lock(&self.pipeline.0.pending).retry(job));
    }

    /// The index that this was for is gone, and with it everything that the write was to be added to; or the plan that it was of.
    fn give_up(&self, job: Job) {
        self.pipeline.0.metrics.items(BulkVerdict::GivenUp).inc();
        lock(&self.pipeline.0.pending).settle(&Key::of(&job.write));
        drop(job);
    }

    /// The store will never take this document as it is: it gets a fallback document instead.
    fn reject(&self, mut job: Job, reason: &str) {
        self.pipeline.0.metrics.items(BulkVerdict::Rejected).inc();
        job.ticket.progress().reject(&job.write.id);
        tracing::warn!(id = %job.write.id, index = %job.write.index, %reason, "the store refused a document");
        let lesser = job.write.body.as_ref().zip(job.ticket.shape.next());
        match lesser.map(|(body, shape)| (fallback(body, shape, reason), shape)) {
            Some((Ok(body), shape)) => {
                job.write.body = Some(body);
                job.ticket.shape = shape;
                settle_superseded(lock(&self.pipeline.0.pending).retry(job));
            }
            other => {
                tracing::error!(id = %job.write.id, unreadable = other.is_some(), "a document is missing from the index");
                lock(&self.pipeline.0.pending).settle(&Key::of(&job.write));
                job.ticket.settle();
            }
        }
    }
}

/// A newer change of the same document stands for this one, and has a ticket of its own.
fn settle_superseded(operation: Option<Job>) {
    if let Some(operation) = operation {
        operation.ticket.settle();
    }
}

/// The next batch: full, or as old as it may get.
async fn next_batch(pipeline: &Pipeline, limits: BatchLimits, idle: bool) -> Vec<Job> {
    let mut due: Option<Instant> = None;
    loop {
        let notified = pipeline.0.work.notified();
        let (queued, bytes) = {
            let pending = lock(&pipeline.0.pending);
            (pending.queued(), pending.queued_bytes())
        };
        if queued >= limits.count || bytes >= limits.bytes {
            break;
        }
        if queued > 0 && due.is_none() {
            due = Some(Instant::now() + if idle { LINGER_IDLE } else { LINGER_BUSY });
        }
        tokio::select! {
            biased;
            () = notified => {}
            () = sleep_until(due) => break,
        }
    }
    lock(&pipeline.0.pending).take(limits)
}

async fn sleep_until(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
