//! Compares the histories of two connected members that report the same cluster UID.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use fleetdex_core::model::{ClusterName, causes};
use parking_lot::Mutex;
use tokio::{sync::Notify, time::sleep};
use tokio_util::task::AbortOnDropHandle;

use super::super::{
    super::{connection::Connection, fetch, request::RequestError},
    history::{HistoryComparison, IdentityEvidence, IdentityVerdict, divergence, judge},
};

/// Timeout of each list that is compared.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Time until members that could not be compared are compared again.
const COMPARISON_RETRY: Duration = Duration::from_secs(10);
/// Failed comparisons in a row after which members count as different. A member that does not
/// answer blocks the other one for at most three attempts of four reads of two lists, 10 s each,
/// and the pauses between them (260 s).
const ATTEMPTS: u32 = 3;
/// Time until members that are one cluster are compared again: two clusters look like one if
/// neither was written to since the backup.
const RECHECK: Duration = Duration::from_mins(1);

/// The candidate that comes first, and the other one.
pub(super) type Pair = (ClusterName, ClusterName);

/// The two connections of a pair.
pub(super) type ConnectionPair = (Connection, Connection);

/// A comparison that is repeated for as long as both connections last.
pub(super) struct ComparisonTask {
    connection_ids: (u64, u64),
    _task: AbortOnDropHandle<()>,
}

/// The last verdict on each compared pair.
pub(super) struct ComparisonResults {
    verdicts: Mutex<BTreeMap<Pair, IdentityVerdict>>,
    version: AtomicU64,
    changed: Arc<Notify>,
}

impl ComparisonTask {
    /// Starts to compare. Must be called on a tokio runtime; dropping the task ends it.
    pub(super) fn start(
        pair: &Pair,
        connections: &ConnectionPair,
        results: &Arc<ComparisonResults>,
    ) -> Self {
        let (first, other) = connections.clone();
        let connection_ids = (first.id, other.id);
        let task = compare(pair.clone(), first, other, Arc::clone(results));
        Self {
            connection_ids,
            _task: AbortOnDropHandle::new(tokio::spawn(task)),
        }
    }

    /// Whether it compares over these connections.
    pub(super) fn uses(&self, (first, other): &ConnectionPair) -> bool {
        self.connection_ids == (first.id, other.id)
    }
}

impl ComparisonResults {
    /// No results. `changed` is notified of every new verdict.
    pub(super) fn new(changed: Arc<Notify>) -> Self {
        Self {
            verdicts: Mutex::default(),
            version: AtomicU64::new(0),
            changed,
        }
    }

    /// A number that grows with every new verdict.
    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The verdict on two members, whichever of them came first when they were compared.
    pub(super) fn get(&self, first: &ClusterName, other: &ClusterName) -> Option<IdentityVerdict> {
        let verdicts = self.verdicts.lock();
        let of = |first: &ClusterName, other: &ClusterName| {
            verdicts.get(&(first.clone(), other.clone())).cloned()
        };
        of(first, other).or_else(|| of(other, first))
    }

    fn set(&self, pair: &Pair, verdict: IdentityVerdict) {
        let mut verdicts = self.verdicts.lock();
        let flipped = verdicts.remove(&(pair.1.clone(), pair.0.clone()));
        let before = verdicts.insert(pair.clone(), verdict.clone()).or(flipped);
        drop(verdicts);
        if before != Some(verdict) {
            self.version.fetch_add(1, Ordering::AcqRel);
            self.changed.notify_one();
        }
    }

    /// Removes all verdicts on a member.
    pub(super) fn forget(&self, name: &ClusterName) {
        self.verdicts
            .lock()
            .retain(|(first, other), _| first != name && other != name);
    }
}

async fn compare(
    pair: Pair,
    first: Connection,
    other: Connection,
    results: Arc<ComparisonResults>,
) {
    let mut failures = 0;
    loop {
        let pause = match evidence(&first, &other).await {
            Ok(evidence) => {
                let verdict = judge(&evidence);
                tracing::info!(first = %pair.0, other = %pair.1, ?verdict, "compared two members that report the UID of one cluster");
                results.set(&pair, verdict.clone());
                match verdict {
                    IdentityVerdict::Same => RECHECK,
                    IdentityVerdict::Different(_) => return,
                }
            }
            Err(error) => {
                tracing::debug!(first = %pair.0, other = %pair.1, error = %causes(&error), "cannot compare two members that report the UID of one cluster");
                failures += 1;
                if failures == ATTEMPTS && results.get(&pair.0, &pair.1).is_none() {
                    let why = format!(
                        "they could not be compared {ATTEMPTS} times ({})",
                        causes(&error)
                    );
                    results.set(&pair, IdentityVerdict::Different(why));
                }
                COMPARISON_RETRY
            }
        };
        sleep(pause).await;
    }
}

async fn evidence(
    first: &Connection,
    other: &Connection,
) -> Result<IdentityEvidence, RequestError> {
    let before = fetch::history(&first.client, TIMEOUT).await?;
    let between = fetch::history(&other.client, TIMEOUT).await?;
    let after = fetch::history(&first.client, TIMEOUT).await?;
    let last = fetch::history(&other.client, TIMEOUT).await?;
    let mut history = HistoryComparison::Unreadable(
        "one of them lets neither namespaces nor leases be listed".to_owned(),
    );
    for samples in before.iter().zip(&between).zip(after.iter().zip(&last)) {
        let ((Some(before), Some(between)), (Some(after), Some(last))) = samples else {
            continue;
        };
        // In both directions: a member that lies can put any other member between two samples of
        // its own.
        match divergence(before, between, after).or_else(|| divergence(between, after, last)) {
            Some(what) => {
                history = HistoryComparison::Diverged(what);
                break;
            }
            None => history = HistoryComparison::Consistent,
        }
    }
    let same_address = first.address().is_some() && first.address() == other.address();
    Ok(IdentityEvidence {
        same_address,
        same_authorities: first.trust() == other.trust(),
        history,
    })
}
