//! How far a unit has come, for status, metrics and for knowing when everything it sent is acknowledged.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use k8s_openapi::jiff::Timestamp;
use tokio::sync::Notify;

use crate::model::ClusterName;

/// Where a unit is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnitState {
    /// Not begun, or waiting for its stores.
    Starting,
    /// Reading the list, or waiting for its writes to be acknowledged.
    Listing,
    /// The store holds the list; changes are followed.
    Synced,
    /// The last attempt failed; the next one follows.
    Failing {
        /// CamelCase.
        reason: &'static str,
        /// What the member or the store said.
        message: String,
    },
}

/// The progress of one unit. Shared by the unit's task, its writes and the status.
#[derive(Debug)]
pub struct Progress {
    cluster: ClusterName,
    outstanding: AtomicU64,
    drained: Notify,
    objects: AtomicU64,
    skipped: AtomicU64,
    rejected: AtomicU64,
    state: Mutex<Snapshot>,
    changed: Arc<Notify>,
}

#[derive(Clone, Debug)]
struct Snapshot {
    state: UnitState,
    synced_at: Option<Timestamp>,
    /// Whether a list has been complete in the store at some time.
    ever_synced: bool,
}

impl Progress {
    /// Progress of a unit of `cluster`; `changed` is notified of every change of state.
    pub fn new(cluster: ClusterName, changed: Arc<Notify>) -> Arc<Self> {
        Arc::new(Self {
            cluster,
            outstanding: AtomicU64::new(0),
            drained: Notify::new(),
            objects: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
            state: Mutex::new(Snapshot { state: UnitState::Starting, synced_at: None, ever_synced: false }),
            changed,
        })
    }

    /// The unit's cluster.
    pub fn cluster(&self) -> &ClusterName {
        &self.cluster
    }

    /// Where the unit is.
    pub fn state(&self) -> UnitState {
        self.snapshot().state
    }

    /// When the store last held a complete list.
    pub fn synced_at(&self) -> Option<Timestamp> {
        self.snapshot().synced_at
    }

    fn snapshot(&self) -> Snapshot {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the state.
    pub fn set_state(&self, state: UnitState) {
        let mut current = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if current.state == state {
            return;
        }
        if state == UnitState::Synced {
            current.ever_synced = true;
            current.synced_at = Some(Timestamp::now());
        }
        current.state = state;
        drop(current);
        self.changed.notify_one();
    }

    /// A list or watch works again: a failure is over.
    pub fn recovered(&self) {
        let current = self.snapshot();
        if let UnitState::Failing { .. } = current.state {
            self.set_state(if current.ever_synced { UnitState::Synced } else { UnitState::Listing });
        }
    }

    /// A complete list has to be stored before the unit is in sync again.
    pub fn list_begins(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).ever_synced = false;
        self.set_state(UnitState::Listing);
    }

    /// How many objects the unit has.
    pub fn objects(&self) -> u64 {
        self.objects.load(Ordering::Relaxed)
    }

    /// Sets how many objects a list had.
    pub fn set_objects(&self, count: u64) {
        self.objects.store(count, Ordering::Relaxed);
        self.changed.notify_one();
    }

    /// An object came or went.
    pub fn object_added(&self, added: bool) {
        let update = |count: u64| Some(if added { count + 1 } else { count.saturating_sub(1) });
        if self.objects.fetch_update(Ordering::Relaxed, Ordering::Relaxed, update).is_ok() {
            self.changed.notify_one();
        }
    }

    /// Objects that could not be read at all.
    pub fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }

    /// An object could not be read.
    pub fn skip(&self) {
        self.skipped.fetch_add(1, Ordering::Relaxed);
    }

    /// Documents that the store refused and that are there as fallback documents only.
    pub fn rejected(&self) -> u64 {
        self.rejected.load(Ordering::Relaxed)
    }

    /// A document was refused by the store.
    pub fn reject(&self) {
        self.rejected.fetch_add(1, Ordering::Relaxed);
        self.changed.notify_one();
    }

    /// A ticket for one write.
    pub fn ticket(self: &Arc<Self>) -> Ticket {
        self.outstanding.fetch_add(1, Ordering::AcqRel);
        Ticket { progress: Arc::clone(self), seen: Instant::now(), fallback: false }
    }

    /// Writes that are not acknowledged yet.
    pub fn outstanding(&self) -> u64 {
        self.outstanding.load(Ordering::Acquire)
    }

    /// Waits until every write is acknowledged.
    pub async fn drained(&self) {
        loop {
            let notified = self.drained.notified();
            if self.outstanding() == 0 {
                return;
            }
            notified.await;
        }
    }
}

/// Held by a write until it is settled, in whatever way.
#[derive(Debug)]
pub struct Ticket {
    progress: Arc<Progress>,
    /// When the change was received.
    pub seen: Instant,
    /// Whether the write holds a fallback document.
    pub fallback: bool,
}

impl Ticket {
    /// The unit's progress.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.progress.outstanding.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.progress.drained.notify_waiters();
        }
    }
}
