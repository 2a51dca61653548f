//! The log of what changes in an OpenSearch: fed where batches are acknowledged, and only while somebody is interested.
//!
//! OpenSearch tells neither what a write has replaced nor in which order others see it. So, while the log is kept, the stored documents of a
//! batch are read before it is sent, and become changes together with it once it is acknowledged. A search sees what was refreshed:
//! what is surely visible is known because the feed itself refreshes, once a second at most, and only if something was written.
//!
//! Guarantee: whoever has the first page of an answer and follows the log from its number has seen every change, or is told that the log does
//! not know. Whatever is uncertain ends in the latter.

mod batch;
mod swap;
mod unsettled;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Weak},
    time::Duration,
};

pub(super) use batch::Batch;
use fleetdex_core::{
    model::{ClusterName, IndexName},
    planted::{Bug, planted},
    query::ResourceName,
};
use parking_lot::{Mutex, MutexGuard};
pub(super) use swap::Swap;
use tokio::{
    sync::watch,
    time::{Instant, interval, timeout, timeout_at},
};
use tokio_util::task::AbortOnDropHandle;
pub(super) use unsettled::Before;
use unsettled::Unsettled;

use super::{client::BULK_TIMEOUT, packing::Packing, refresh::Refresher};
use crate::{
    Generation,
    changes::{Bounds, Change, Log, Sequence},
};

/// What the log keeps. Documents of 2 kB packed, twice for each change: some 4,000 changes, or the last seconds of a fleet that changes as fast
/// as one OpenSearch can be written; minutes of any other.
pub(super) const LOG: Bounds = Bounds {
    changes: 65_536,
    bytes: 16 << 20,
    owns_documents: true,
    answers_lag: true,
};
/// How long after the last question the log is kept.
const INTEREST: Duration = Duration::from_mins(10);
/// How often what was written is made visible.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);
/// How long questions wait for a log that begins. Mostly one bulk request and one refresh; after it the answer has a version that nobody can
/// watch from.
const WAKING_PATIENCE: Duration = Duration::from_secs(2);
/// How long after a write of which nobody knows whether it was applied the log does not begin: by then it is, or has been tried again.
const CALM: Duration = Duration::from_secs(5);
/// How long a process that stops waits for other replicas to read its last changes: some milliseconds, unless the machine is busy.
const FAREWELL: Duration = Duration::from_secs(3);
/// The longest that a write may be under way.
const LONGEST_FLIGHT: Duration = BULK_TIMEOUT;

/// Whether the log is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nobody is interested.
    Asleep,
    /// Writes are told, but earlier ones may not be visible yet.
    Waking,
    Awake,
}

/// The log of one OpenSearch, whoever writes to it. Clones share it; it outlives the engines that feed it.
#[derive(Clone, Debug)]
pub struct Feed(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    log: Arc<Log>,
    phase: watch::Sender<Phase>,
    state: Mutex<State>,
    refresher: Mutex<Option<Refresher>>,
    task: Mutex<Option<AbortOnDropHandle<()>>>,
}

#[derive(Debug)]
struct State {
    used: Instant,
    /// When the log was begun.
    begun: Instant,
    packing: Arc<Packing>,
    /// The write aliases of the generations that queries are answered from.
    live: BTreeMap<ClusterName, IndexName>,
    /// The resources that queries see of those of them that are not complete.
    parts: BTreeMap<IndexName, BTreeSet<ResourceName>>,
    /// Generations that are about to take the place of others, and what was written to them meanwhile.
    joining: BTreeMap<IndexName, Vec<Change>>,
    /// Steps under way that change what queries are answered from.
    swaps: usize,
    /// Objects with writes of unknown outcome.
    unsettled: Unsettled,
    /// When a write was last left in the dark that was not told.
    dark: Option<Instant>,
}

impl Feed {
    /// A log that nobody is interested in yet.
    pub fn new(sequence: Sequence) -> Self {
        let state = State {
            used: Instant::now(),
            begun: Instant::now(),
            packing: Arc::default(),
            live: BTreeMap::new(),
            parts: BTreeMap::new(),
            joining: BTreeMap::new(),
            swaps: 0,
            unsettled: Unsettled::default(),
            dark: None,
        };
        Self(Arc::new(Shared {
            log: Arc::new(Log::new(sequence, LOG)),
            phase: watch::Sender::new(Phase::Asleep),
            state: Mutex::new(state),
            refresher: Mutex::default(),
            task: Mutex::default(),
        }))
    }

    pub(super) fn refresh_with(&self, refresher: Refresher) {
        *self.0.refresher.lock() = Some(refresher);
    }

    /// The log, kept from now on.
    pub(super) async fn follow(&self) -> Arc<Log> {
        self.wake().await;
        Arc::clone(&self.0.log)
    }

    /// The number of the last change that an answer is sure to show from now on.
    pub(super) async fn moment(&self, resource: &ResourceName) -> u64 {
        self.0.log.note_asked(resource);
        if self.wake().await {
            self.0.log.visible()
        } else {
            self.0.log.before_start()
        }
    }

    /// Sees to it that the log is kept; whether answers have versions to watch from.
    async fn wake(&self) -> bool {
        let mut phase = self.0.phase.subscribe();
        let patience = {
            let mut state = self.0.lock();
            state.used = Instant::now();
            if *phase.borrow() == Phase::Asleep {
                self.0.log.restart();
                state.packing = Arc::default();
                state.begun = Instant::now();
                self.0.phase.send_replace(Phase::Waking);
                let task = AbortOnDropHandle::new(tokio::spawn(keep(Arc::downgrade(&self.0))));
                *self.0.task.lock() = Some(task);
            }
            // One that cannot begin, because refreshing fails, must not hold up every question.
            state.begun + WAKING_PATIENCE
        };
        matches!(
            timeout_at(patience, phase.wait_for(|phase| *phase == Phase::Awake)).await,
            Ok(Ok(_))
        )
    }

    /// Whether queries are answered from a generation, as far as that is known.
    pub(super) fn is_live(&self, generation: &Generation) -> bool {
        self.0.lock().live.get(&generation.cluster) == Some(&generation.target)
    }

    /// Another process goes on writing to a cluster. It cannot know what a write has replaced that was applied without an answer, so that change
    /// would never be told: the log begins anew.
    pub(super) fn hand_over(&self, cluster: &ClusterName) {
        let mut state = self.0.lock();
        let Some(target) = state.live.get(cluster).cloned() else {
            return;
        };
        if state.unsettled.forget(&target) {
            tracing::debug!(%cluster, "a cluster is handed over although the outcome of some writes is not known; who watches has to list again");
            self.0.log.restart();
        }
    }

    /// Whoever watches has to list again.
    pub(super) fn expire(&self) {
        self.0.log.restart();
    }

    /// Nothing is written any more: the log ends, unless something was written whose outcome is not known.
    pub(super) async fn end(&self) {
        {
            let mut state = self.0.lock();
            let is_known =
                state.unsettled.is_empty() && state.swaps == 0 && self.0.log.under_way().are_over();
            if !is_known && !planted(Bug::LeaveWithWritesUnderWay) {
                tracing::warn!(
                    "this process stops without knowing the outcome of its last writes; who watches at another replica has to list again"
                );
                state.unsettled = Unsettled::default();
                return self.0.log.restart();
            }
            self.0.log.end();
        }
        if !self.0.log.left_by_replicas(FAREWELL).await {
            tracing::debug!("another replica has not read the last changes in time");
        }
    }

    /// Says that queries are answered from a generation; `part`: only those about these resources.
    pub(super) fn note_live(
        &self,
        cluster: &ClusterName,
        target: &IndexName,
        part: Option<BTreeSet<ResourceName>>,
    ) {
        let mut state = self.0.lock();
        state.live.insert(cluster.clone(), target.clone());
        state.set_part(target, part);
    }
}

impl State {
    fn set_live(
        &mut self,
        cluster: &ClusterName,
        target: Option<&IndexName>,
        part: Option<BTreeSet<ResourceName>>,
    ) {
        if let Some(target) = target {
            self.set_part(target, part);
        }
        let earlier = match target {
            Some(target) => self.live.insert(cluster.clone(), target.clone()),
            None => self.live.remove(cluster),
        };
        if let Some(earlier) = earlier.filter(|earlier| Some(earlier) != target) {
            self.unsettled.forget(&earlier);
            self.parts.remove(&earlier);
        }
    }

    fn set_part(&mut self, target: &IndexName, part: Option<BTreeSet<ResourceName>>) {
        match part {
            Some(resources) => drop(self.parts.insert(target.clone(), resources)),
            None => drop(self.parts.remove(target)),
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Makes visible what has been told until now; whether that has come about.
    async fn refresh(&self) -> bool {
        let until = {
            let state = self.lock();
            // Until a step is done, answers are those from before it.
            if state.swaps > 0 {
                return false;
            }
            self.log.newest()
        };
        if until == self.log.visible() {
            return true;
        }
        let refresher = self.refresher.lock().clone();
        let Some(refresher) = refresher else {
            return false;
        };
        match refresher.refresh().await {
            Ok(()) => {
                self.log.show(until);
                true
            }
            Err(error) => {
                tracing::debug!(%error, "answers have an old version until a refresh succeeds");
                false
            }
        }
    }

    /// Whether everything that was written without being told is settled.
    async fn is_calm(&self) -> bool {
        let ended = timeout(REFRESH_INTERVAL, self.log.under_way().earlier_end())
            .await
            .is_ok();
        ended && self.lock().dark.is_none_or(|since| since.elapsed() >= CALM)
    }

    /// Forgets everything if nobody has asked for a while.
    fn falls_asleep(&self) -> bool {
        let mut state = self.lock();
        if state.used.elapsed() < INTEREST || state.swaps > 0 || self.log.is_followed() {
            return false;
        }
        state.unsettled = Unsettled::default();
        state.packing = Arc::default();
        self.phase.send_replace(Phase::Asleep);
        self.log.restart();
        true
    }
}

/// Keeps a log until nobody is interested any more, or nobody feeds it.
async fn keep(shared: Weak<Shared>) {
    let mut waking = interval(REFRESH_INTERVAL / 20);
    let mut ticks = interval(REFRESH_INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut has_begun = false;
    loop {
        let is_awake = shared
            .upgrade()
            .is_some_and(|shared| *shared.phase.borrow() == Phase::Awake);
        if is_awake {
            ticks.tick().await
        } else {
            waking.tick().await
        };
        let Some(shared) = shared.upgrade() else {
            return;
        };
        if shared.falls_asleep() {
            return;
        }
        if is_awake {
            shared.refresh().await;
        } else if shared.is_calm().await {
            // Who follows already has missed the writes that were under way when the log began.
            if !std::mem::replace(&mut has_begun, true) && shared.log.is_followed() {
                shared.log.restart();
            }
            if shared.refresh().await {
                shared.phase.send_replace(Phase::Awake);
            }
        }
    }
}

impl Feed {
    fn note_dark(&self) {
        self.0.lock().dark = Some(Instant::now());
    }

    /// Adds what was written to live generations, and keeps what was written to those that will be.
    fn append(&self, state: &mut State, changes: Vec<(IndexName, Change)>) {
        let mut seen = Vec::with_capacity(changes.len());
        for (target, change) in changes {
            match state.joining.get_mut(&target) {
                Some(kept) => kept.push(change),
                None if is_seen(state.parts.get(&target), &change) => seen.push(change),
                // Told when its resource is complete.
                None => {}
            }
        }
        let is_too_much = state.joining.values().any(|kept| kept.len() > LOG.changes);
        if is_too_much {
            state.joining.values_mut().for_each(Vec::clear);
            self.0.log.restart();
        }
        self.0.log.append(&seen);
    }
}

/// Whether queries see a change of a generation of which they see only a part.
fn is_seen(part: Option<&BTreeSet<ResourceName>>, change: &Change) -> bool {
    let Some(part) = part else { return true };
    change
        .document()
        .is_some_and(|document| part.contains(&document.origin.resource))
}
