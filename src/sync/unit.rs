//! One unit's task: reads its stream and sends every object to the stores that want it.

use std::{borrow::Cow, sync::Arc, time::Duration};

use ahash::{AHashSet, RandomState};
use backon::{BackoffBuilder, ExponentialBuilder};
use bytes::Bytes;
use k8s_openapi::jiff::Timestamp;
use rand::RngExt;
use tokio::{
    sync::Semaphore,
    task::{JoinError, JoinSet},
};
use tokio_util::sync::CancellationToken;

use super::progress::{Progress, UnitState};
use crate::{
    bulk::Write,
    model::{IndexName, Namespace, Object, Projector, Scope, Unit, Version},
    pipeline::Pipeline,
    registry::filter::ObjectFilter,
    store::{Extent, KindExtent, StoreError},
    telemetry::metrics::{RelistReason, UnitMetrics, WatchEvent as EventKind},
    watch::{Fault, FaultKind, Lines, ListPage, Machine, PageOutcome, Pause, Source, Step, WatchEvent},
};

/// Lists of one member that are read at once: each holds up to two pages in memory.
pub const LISTS_PER_CLUSTER: usize = 2;
/// Watches that ended together come back spread over this time.
const RESTART_JITTER_MILLIS: std::ops::Range<u64> = 0..1_000;

/// Where the objects of a unit go, and as what.
#[derive(Clone)]
pub struct Outlet {
    /// The writer of the store.
    pub pipeline: Pipeline,
    /// The alias of the unit's cluster in the store.
    pub index: IndexName,
    /// Makes the documents.
    pub projector: Projector,
    /// An object is wanted when any of these wants it.
    pub filters: Vec<ObjectFilter>,
}

impl Outlet {
    fn wants(&self, object: &Object<'_>) -> bool {
        let mut values = None;
        self.filters.iter().any(|filter| {
            if filter.wants_everything() {
                return true;
            }
            let values = values.get_or_insert_with(|| self.projector.field_values(object));
            let field = |path: &str| match path {
                "metadata.name" => Some(Cow::Owned(object.name().to_owned())),
                "metadata.namespace" => object.namespace().map(|namespace| Cow::Owned(namespace.to_owned())),
                _ => {
                    let position = self.projector.fields().iter().position(|field| field.path.as_str() == path)?;
                    values.get(position).map(|value| Cow::Owned(value.to_owned()))
                }
            };
            filter.wants(object.namespace(), |key| object.label(key), field)
        })
    }

    async fn delete(&self, progress: &Arc<Progress>, id: Arc<str>, version: Version) {
        let write = Write { index: self.index.clone(), id, version, body: None };
        self.pipeline.submit(write, progress.ticket()).await;
    }
}

/// Everything that a unit's task needs.
pub struct UnitTask {
    /// The unit.
    pub unit: Unit,
    /// Its lists and watches.
    pub source: Source,
    /// Where its objects go.
    pub outlet: Arc<Outlet>,
    /// Told how far it has come.
    pub progress: Arc<Progress>,
    /// Bounds the lists of its cluster.
    pub lists: Arc<Semaphore>,
    /// Its counters.
    pub metrics: UnitMetrics,
    /// Where to go on; absent: with a list.
    pub resume: Option<Version>,
}

/// What one complete list held: hashes of the ids of the documents that are wanted.
type Seen = AHashSet<u128>;

/// The task's state while it runs.
struct Running {
    task: UnitTask,
    machine: Machine,
    hashers: (RandomState, RandomState),
    backoff: backon::ExponentialBackoff,
    /// Seen in the list under way.
    seen: Seen,
    first_list: bool,
}

impl UnitTask {
    /// Runs until cancelled, and gives back the version from which a successor can go on; nothing when it has to list.
    pub async fn run(self, cancel: CancellationToken) -> Option<Version> {
        let machine = Machine::new(self.resume);
        let hashers = (RandomState::new(), RandomState::new());
        let mut running = Running { task: self, machine, hashers, backoff: backoff(), seen: Seen::new(), first_list: true };
        let mut prunes = JoinSet::new();
        tokio::select! {
            () = cancel.cancelled() => {}
            () = running.follow(&mut prunes) => {}
        }
        // A list that was not pruned after is not complete; neither is one whose documents are not all acknowledged.
        let settled = prunes.is_empty() && running.task.progress.outstanding() == 0;
        running.machine.known_version().filter(|_| settled)
    }
}

/// Source of the figures: client-go's reflector.
fn backoff() -> backon::ExponentialBackoff {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(800))
        .with_max_delay(Duration::from_secs(30))
        .with_jitter()
        .without_max_times()
        .build()
}

impl Running {
    async fn follow(&mut self, prunes: &mut JoinSet<()>) {
        self.prepare_store().await;
        loop {
            let outcome = match self.machine.step() {
                Step::List { continue_token, limit } => self.list(continue_token, limit, prunes).await,
                Step::Watch { from } => self.watch(from, prunes).await,
            };
            let pause = match outcome {
                Ok(pause) => pause,
                Err(fault) => self.note_fault(&fault),
            };
            self.pause(pause).await;
        }
    }

    /// The alias has to be there before anything is written.
    async fn prepare_store(&mut self) {
        while let Err(error) = self.task.outlet.pipeline.ensure(&self.task.unit.cluster).await {
            self.task.progress.set_state(UnitState::Failing { reason: error.reason(), message: error.to_string() });
            let delay = self.next_delay();
            tokio::time::sleep(delay).await;
        }
        self.task.progress.recovered();
    }

    fn note_fault(&mut self, fault: &Fault) -> Pause {
        let unit = &self.task.unit;
        tracing::debug!(%unit, %fault, "a list or watch failed");
        self.task.metrics.events(EventKind::Error).inc();
        if fault.kind == FaultKind::Expired {
            self.task.metrics.watch_expired.inc();
        } else {
            let state = UnitState::Failing { reason: fault.kind.reason(), message: fault.message.clone() };
            self.task.progress.set_state(state);
        }
        self.machine.failed(fault.kind)
    }

    fn next_delay(&mut self) -> Duration {
        self.backoff.next().unwrap_or(Duration::from_secs(30))
    }

    async fn pause(&mut self, pause: Pause) {
        let delay = match pause {
            Pause::None => return,
            Pause::Jitter => Duration::from_millis(rand::rng().random_range(RESTART_JITTER_MILLIS)),
            Pause::Backoff => self.next_delay(),
            Pause::RetryAfter(seconds) => self.next_delay().max(Duration::from_secs(seconds)),
        };
        tokio::time::sleep(delay).await;
    }

    fn succeeded(&mut self) {
        self.backoff = backoff();
        self.task.progress.recovered();
    }

    /// Reads one list to its end, or to the first failure: page by page, the next one being fetched while this one is sent on.
    async fn list(
        &mut self,
        continue_token: Option<String>,
        limit: Option<u32>,
        prunes: &mut JoinSet<()>,
    ) -> Result<Pause, Fault> {
        let lists = Arc::clone(&self.task.lists);
        let Ok(_permit) = lists.acquire().await else { return Ok(Pause::Backoff) };
        if continue_token.is_none() {
            prunes.abort_all();
            self.seen.clear();
            self.task.progress.list_begins();
        }
        let source = self.task.source.clone();
        let mut body = source.list(continue_token.as_deref(), limit).await?;
        loop {
            self.task.metrics.lists.inc();
            self.task.metrics.list_bytes.inc_by(body.len() as u64);
            let page = ListPage::parse(&body).map_err(|error| garbled(&error))?;
            let version = page.version;
            let next_token = page.continue_token.clone();
            let outcome = self.machine.page_listed(version, page.continue_token.clone());
            if outcome == PageOutcome::Inconsistent {
                return Ok(Pause::Backoff);
            }
            self.succeeded();
            let fetch = fetch_next(&source, next_token.as_deref(), limit);
            let (next, ()) = tokio::join!(fetch, self.take_page(&page));
            match next {
                Some(next) => body = next?,
                None => {
                    self.list_complete(version, prunes);
                    return Ok(Pause::None);
                }
            }
        }
    }

    async fn take_page(&mut self, page: &ListPage<'_>) {
        let now = Timestamp::now().to_string();
        for item in &page.items {
            let json = item.get();
            match Object::parse(json) {
                Ok(object) => self.take_listed(&object, json, &now).await,
                Err(error) => self.skip(&error),
            }
        }
    }

    async fn take_listed(&mut self, object: &Object<'_>, json: &str, now: &str) {
        if self.task.outlet.wants(object) {
            let id = self.task.outlet.projector.id(object.uid());
            self.seen.insert(hash(&self.hashers, &id));
            self.index(object, json, now).await;
        }
    }

    fn skip(&self, error: &dyn std::error::Error) {
        tracing::warn!(unit = %self.task.unit, %error, "an object is skipped");
        self.task.progress.skip();
    }

    /// The list shows everything there is: documents that it does not hold are deleted, meanwhile the watch begins.
    fn list_complete(&mut self, version: Version, prunes: &mut JoinSet<()>) {
        self.task.progress.set_objects(self.seen.len() as u64);
        if !self.first_list {
            self.task.metrics.relisted(RelistReason::Expired);
        }
        self.first_list = false;
        let prune = Prune {
            unit: self.task.unit.clone(),
            outlet: Arc::clone(&self.task.outlet),
            progress: Arc::clone(&self.task.progress),
            hashers: self.hashers.clone(),
            kept: std::mem::take(&mut self.seen),
            version,
        };
        prunes.spawn(prune.run());
    }

    async fn watch(&mut self, from: Version, prunes: &mut JoinSet<()>) -> Result<Pause, Fault> {
        let mut lines = self.task.source.watch(from).await?;
        self.task.metrics.watch_restarts.inc();
        self.succeeded();
        loop {
            // Sink pressure must not sit on the socket: the apiserver closes watches that are not read.
            if !self.task.outlet.pipeline.has_room() {
                drop(lines);
                self.task.outlet.pipeline.room().await;
                return Ok(Pause::None);
            }
            let Some(line) = next_line(&mut lines, prunes).await? else { return Ok(self.machine.watch_ended()) };
            self.take_line(&line).await?;
        }
    }

    async fn take_line(&mut self, line: &[u8]) -> Result<(), Fault> {
        let metrics = &self.task.metrics;
        let (json, kind) = match WatchEvent::parse(line).map_err(|error| garbled(&error))? {
            WatchEvent::Added(json) => (json, EventKind::Added),
            WatchEvent::Modified(json) => (json, EventKind::Modified),
            WatchEvent::Deleted(json) => (json, EventKind::Deleted),
            WatchEvent::Bookmark(version) => {
                metrics.events(EventKind::Bookmark).inc();
                self.machine.reached(version);
                return Ok(());
            }
            WatchEvent::Error(fault) => return Err(fault),
        };
        metrics.events(kind).inc();
        let object = match Object::parse(json) {
            Ok(object) => object,
            // A broken line may hide any change; an object of an odd shape is just that object.
            Err(error) if error.is_cut_off() => return Err(garbled(&error)),
            Err(error) => {
                self.skip(&error);
                return Ok(());
            }
        };
        if kind != EventKind::Modified {
            self.task.progress.object_added(kind == EventKind::Added);
        }
        let now = Timestamp::now().to_string();
        let outlet = &self.task.outlet;
        if kind != EventKind::Deleted && outlet.wants(&object) {
            self.index(&object, json, &now).await;
        } else {
            // Also an object that is no longer wanted: the delete of an absent document costs little.
            outlet.delete(&self.task.progress, outlet.projector.id(object.uid()), object.version()).await;
        }
        self.machine.reached(object.version());
        Ok(())
    }

    async fn index(&self, object: &Object<'_>, json: &str, now: &str) {
        let outlet = &self.task.outlet;
        match outlet.projector.document(object, json, now) {
            Ok(document) => {
                let write =
                    Write { index: outlet.index.clone(), id: document.id, version: document.version, body: Some(document.body) };
                outlet.pipeline.submit(write, self.task.progress.ticket()).await;
            }
            Err(error) => self.skip(&error),
        }
    }
}

fn garbled(error: &dyn std::error::Error) -> Fault {
    Fault { kind: FaultKind::Garbled, message: error.to_string() }
}

async fn fetch_next(source: &Source, token: Option<&str>, limit: Option<u32>) -> Option<Result<Bytes, Fault>> {
    match token {
        Some(token) => Some(source.list(Some(token), limit).await),
        None => None,
    }
}

/// The next line of the watch; meanwhile prunes that have ended are put away.
async fn next_line(lines: &mut Lines, prunes: &mut JoinSet<()>) -> Result<Option<Bytes>, Fault> {
    loop {
        tokio::select! {
            line = lines.next() => return line,
            Some(ended) = prunes.join_next(), if !prunes.is_empty() => note_ended(ended),
        }
    }
}

fn note_ended(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && !error.is_cancelled()
    {
        tracing::error!(%error, "a prune ended unexpectedly; the next list repeats it");
    }
}

fn hash(hashers: &(RandomState, RandomState), id: &str) -> u128 {
    u128::from(hashers.0.hash_one(id)) << 64 | u128::from(hashers.1.hash_one(id))
}

/// Deletes the documents of a unit that a complete list did not hold.
struct Prune {
    unit: Unit,
    outlet: Arc<Outlet>,
    progress: Arc<Progress>,
    hashers: (RandomState, RandomState),
    kept: Seen,
    /// The list's version. Documents of later versions are changes that the list could not hold.
    version: Version,
}

impl Prune {
    async fn run(self) {
        // Before that, the store may not show documents that were sent earlier.
        self.progress.drained().await;
        let mut delays = backoff();
        let absent = loop {
            match self.absent().await {
                Ok(absent) => break absent,
                Err(error) => {
                    tracing::debug!(unit = %self.unit, %error, "cannot read the stored versions yet");
                    tokio::time::sleep(delays.next().unwrap_or(Duration::from_secs(30))).await;
                }
            }
        };
        for (id, version) in absent {
            tracing::debug!(unit = %self.unit, %id, "deleting a document that the list does not hold");
            self.outlet.delete(&self.progress, id, version).await;
        }
        self.progress.drained().await;
        self.progress.set_state(UnitState::Synced);
    }

    /// The documents to delete, each at its own version: the object may still exist, only no longer be wanted, and must be able to
    /// come back at the version that it has. A delete at the list's version would keep it out.
    async fn absent(&self) -> Result<Vec<(Arc<str>, Version)>, StoreError> {
        let namespace: Option<Namespace> = match &self.unit.scope {
            Scope::All => None,
            Scope::Namespace(namespace) => Some(namespace.clone()),
        };
        let gvk = &self.unit.resource.gvk;
        let extent = Extent::Kind(KindExtent { api_version: gvk.api_version(), kind: gvk.kind.to_string(), namespace });
        let mut absent = Vec::new();
        let store = self.outlet.pipeline.opened().await;
        store
            .visit_versions(&self.unit.cluster, &extent, &mut |id, version| {
                if version <= self.version && !self.kept.contains(&hash(&self.hashers, id)) {
                    absent.push((Arc::from(id), version));
                }
            })
            .await?;
        Ok(absent)
    }
}
