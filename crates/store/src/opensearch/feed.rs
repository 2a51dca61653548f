//! The change feed of an OpenSearch: records changes where batches are acknowledged, and only while
//! clients are interested.
//!
//! OpenSearch reports neither what a write has replaced nor the order in which others see writes.
//! So, while the feed is active, the stored documents of a batch are read before it is sent, and
//! become changes together with it once it is acknowledged. A search sees what was refreshed: what
//! is surely visible is known because the feed itself refreshes, once a second at most, and only if
//! something was written.
//!
//! Guarantee: a client that has the first page of a list and follows the log from its number sees
//! every change, or has to list again. Every uncertainty ends in the latter.

mod batch;
pub(crate) mod log_documents;
pub(crate) mod previous_state;
pub(crate) mod revision_diff;
mod state;
mod swap;
mod unacknowledged;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Weak},
    time::Duration,
};

pub(super) use batch::TrackedBatch;
use fleetdex_core::{
    model::{ClusterName, IndexName},
    planted::{Bug, planted},
    query::ResourceName,
};
use parking_lot::Mutex;
use state::FeedState;
pub(super) use swap::RevisionSwap;
use tokio::{
    sync::watch,
    time::{Instant, MissedTickBehavior, interval, timeout, timeout_at},
};
use tokio_util::task::AbortOnDropHandle;
pub(super) use unacknowledged::PreviousState;
use unacknowledged::UnacknowledgedWrites;

use super::{connection::client::BULK_TIMEOUT, indices::refresh::Refresher};
use crate::{
    IndexRevision,
    changes::{Bounds, Change, Log, Sequence},
};

/// The bounds of the log. Documents of 2 kB packed, twice for each change: some 4,000 changes, or
/// the last seconds of a fleet that changes as fast as one OpenSearch can be written; minutes of
/// any other.
pub(super) const LOG: Bounds = Bounds {
    changes: 65_536,
    bytes: 16 << 20,
    owns_documents: true,
    results_lag: true,
};
/// How long the feed stays active after its last use.
const IDLE_TIMEOUT: Duration = Duration::from_mins(10);
/// How often written documents are made visible.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);
/// How long lists wait for a feed that starts: usually one bulk request and one refresh. After that
/// a list gets a version that no watch can start from.
const START_PATIENCE: Duration = Duration::from_secs(2);
/// How long after an untracked write of unknown outcome the feed does not become active: by then it
/// has been applied or sent again.
const UNCERTAIN_PERIOD: Duration = Duration::from_secs(5);
/// How long a stopping process waits for other replicas to read its last changes: some
/// milliseconds, unless the machine is busy.
const REPLICA_PATIENCE: Duration = Duration::from_secs(3);
/// The longest time that a write can be in flight.
const MAX_IN_FLIGHT: Duration = BULK_TIMEOUT;

/// Whether changes are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FeedPhase {
    /// No client is interested.
    Inactive,
    /// Writes are recorded, but earlier ones may not be visible yet.
    Starting,
    Active,
}

/// The change feed of one store, whichever engine writes to it. Clones share it; it outlives the
/// engines.
#[derive(Clone)]
pub struct Feed(Arc<FeedInner>);

struct FeedInner {
    log: Arc<Log>,
    phase: watch::Sender<FeedPhase>,
    state: Mutex<FeedState>,
    refresher: Mutex<Option<Refresher>>,
    task: Mutex<Option<AbortOnDropHandle<()>>>,
}

impl Feed {
    /// An inactive feed.
    pub fn new(sequence: Sequence) -> Self {
        let state = FeedState {
            used: Instant::now(),
            started: Instant::now(),
            starts: 0,
            packing: Arc::default(),
            live: BTreeMap::new(),
            visible: BTreeMap::new(),
            pending: BTreeMap::new(),
            swaps: 0,
            unacknowledged: UnacknowledgedWrites::default(),
            last_uncertain: None,
        };
        Self(Arc::new(FeedInner {
            log: Arc::new(Log::new(sequence, LOG)),
            phase: watch::Sender::new(FeedPhase::Inactive),
            state: Mutex::new(state),
            refresher: Mutex::default(),
            task: Mutex::default(),
        }))
    }

    pub(super) fn refresh_with(&self, refresher: Refresher) {
        *self.0.refresher.lock() = Some(refresher);
    }

    /// Starts the feed if necessary, and returns its log.
    pub(super) async fn change_log(&self) -> Arc<Log> {
        self.start().await;
        Arc::clone(&self.0.log)
    }

    /// The number of the last change that a list is sure to show from now on.
    pub(super) async fn visible_sequence(&self, resource: &ResourceName) -> u64 {
        self.0.log.note_listed(resource);
        if self.start().await {
            self.0.log.visible()
        } else {
            self.0.log.before_start()
        }
    }

    /// Starts the feed if it is inactive; whether lists have versions to watch from.
    async fn start(&self) -> bool {
        let mut phase = self.0.phase.subscribe();
        let patience = {
            let mut state = self.0.state.lock();
            state.used = Instant::now();
            if *phase.borrow() == FeedPhase::Inactive {
                state.packing = Arc::default();
                self.0.restart(&mut state);
                let task = AbortOnDropHandle::new(tokio::spawn(run(Arc::downgrade(&self.0))));
                *self.0.task.lock() = Some(task);
            }
            // A feed that cannot start, because refreshes fail, must not hold up every list.
            state.started + START_PATIENCE
        };
        matches!(
            timeout_at(
                patience,
                phase.wait_for(|phase| *phase == FeedPhase::Active)
            )
            .await,
            Ok(Ok(_))
        )
    }

    /// Whether a revision answers queries, as far as known.
    pub(super) fn is_live(&self, revision: &IndexRevision) -> bool {
        self.0.state.lock().live.get(&revision.cluster) == Some(&revision.target)
    }

    /// Another process writes this cluster from now on. It cannot know what an unacknowledged write
    /// has replaced if it was applied, so that change would be missing: the log restarts.
    pub(super) fn hand_over(&self, cluster: &ClusterName) {
        let mut state = self.0.state.lock();
        let Some(target) = state.live.get(cluster).cloned() else {
            return;
        };
        if state.unacknowledged.forget_index(&target) {
            tracing::debug!(%cluster, "a cluster is handed over while the outcome of some writes is unknown; watches have to list again");
            self.0.log.restart();
        }
    }

    /// Restarts the log: all watches have to list again.
    pub(super) fn expire(&self) {
        self.0.log.restart();
    }

    /// Ends the log, as this process writes nothing more. Restarts it instead if the outcome of a
    /// write is unknown.
    pub(super) async fn end(&self) {
        {
            let mut state = self.0.state.lock();
            let is_complete = state.unacknowledged.is_empty()
                && state.swaps == 0
                && self.0.log.in_flight.is_empty();
            if !is_complete && !planted(Bug::LeaveWithWritesUnderWay) {
                tracing::warn!(
                    "this process stops before the outcome of its last writes is known; watches at other replicas have to list again"
                );
                state.unacknowledged = UnacknowledgedWrites::default();
                return self.0.log.restart();
            }
            self.0.log.end();
        }
        if !self
            .0
            .log
            .wait_for_replicas_to_leave(REPLICA_PATIENCE)
            .await
        {
            tracing::debug!("another replica has not read the last changes in time");
        }
    }

    /// Records that a revision answers queries; `complete_resources`: only those about these.
    pub(super) fn note_live(
        &self,
        cluster: &ClusterName,
        target: &IndexName,
        complete_resources: Option<BTreeSet<ResourceName>>,
    ) {
        let mut state = self.0.state.lock();
        state.live.insert(cluster.clone(), target.clone());
        state.set_visible(target, complete_resources);
    }
}

impl FeedInner {
    /// Starts the feed, or starts it again because batches in flight are not recorded: no list has
    /// a version to watch from until they have ended.
    fn restart(&self, state: &mut FeedState) {
        self.log.restart();
        state.started = Instant::now();
        state.starts += 1;
        self.phase.send_replace(FeedPhase::Starting);
    }

    /// Activates the feed unless it was started again since its start of this number.
    fn activate(&self, start: u64) {
        let state = self.state.lock();
        if state.starts == start {
            self.phase.send_replace(FeedPhase::Active);
        }
    }

    /// Refreshes what has been recorded until now; whether that succeeded.
    async fn refresh(&self) -> bool {
        let until = {
            let state = self.state.lock();
            // Until a swap is done, queries see the state before it.
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
                tracing::debug!(%error, "lists have an old version until a refresh succeeds");
                false
            }
        }
    }

    /// Whether every untracked write has settled.
    async fn has_settled(&self) -> bool {
        let ended = timeout(REFRESH_INTERVAL, self.log.in_flight.wait_for_earlier())
            .await
            .is_ok();
        ended
            && self
                .state
                .lock()
                .last_uncertain
                .is_none_or(|since| since.elapsed() >= UNCERTAIN_PERIOD)
    }

    /// Deactivates the feed if it has been idle for long enough.
    fn stop_if_idle(&self) -> bool {
        let mut state = self.state.lock();
        if state.used.elapsed() < IDLE_TIMEOUT || state.swaps > 0 || self.log.has_subscribers() {
            return false;
        }
        state.unacknowledged = UnacknowledgedWrites::default();
        state.packing = Arc::default();
        self.phase.send_replace(FeedPhase::Inactive);
        self.log.restart();
        true
    }
}

/// Refreshes a feed until it is idle, or dropped.
async fn run(feed: Weak<FeedInner>) {
    let mut starting = interval(REFRESH_INTERVAL / 20);
    let mut ticks = interval(REFRESH_INTERVAL);
    // Of two intervals one is always idle. What it has missed must not follow at once when it is
    // used again: an active feed may have to start again after hours.
    starting.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut settled_start = 0;
    loop {
        let is_active = feed
            .upgrade()
            .is_some_and(|feed| *feed.phase.borrow() == FeedPhase::Active);
        if is_active {
            ticks.tick().await
        } else {
            starting.tick().await
        };
        let Some(feed) = feed.upgrade() else {
            return;
        };
        if feed.stop_if_idle() {
            return;
        }
        if is_active {
            feed.refresh().await;
            continue;
        }
        let start = feed.state.lock().starts;
        if feed.has_settled().await {
            // Present subscribers have missed the writes that were in flight when the feed started.
            if std::mem::replace(&mut settled_start, start) != start && feed.log.has_subscribers() {
                feed.log.restart();
            }
            if feed.refresh().await {
                feed.activate(start);
            }
        }
    }
}

impl Feed {
    fn note_uncertain(&self) {
        self.0.state.lock().last_uncertain = Some(Instant::now());
    }

    /// Logs what was written to live revisions, and holds what was written to pending ones.
    fn append(&self, state: &mut FeedState, changes: Vec<(IndexName, Change)>) {
        let mut visible_changes = Vec::with_capacity(changes.len());
        for (target, change) in changes {
            match state.pending.get_mut(&target) {
                Some(later) => later.push(change),
                None if is_visible(state.visible.get(&target), &change) => {
                    visible_changes.push(change);
                }
                // Logged when its resource is complete.
                None => {}
            }
        }
        let is_too_much = state
            .pending
            .values()
            .any(|later| later.len() > LOG.changes);
        if is_too_much {
            state.pending.values_mut().for_each(Vec::clear);
            self.0.log.restart();
        }
        self.0.log.append(&visible_changes);
    }
}

/// Whether queries see a change of a revision that is visible in part.
fn is_visible(complete_resources: Option<&BTreeSet<ResourceName>>, change: &Change) -> bool {
    let Some(complete_resources) = complete_resources else {
        return true;
    };
    change
        .document()
        .is_some_and(|document| complete_resources.contains(&document.origin.resource))
}
