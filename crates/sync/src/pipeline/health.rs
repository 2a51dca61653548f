//! Checks of the indices of a store, each in a task of its own, because a store that hangs must not
//! delay writes.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use fleetdex_core::model::ClusterName;
use fleetdex_store::{IndexRevision, IndexWriter, StoreError};
use tokio::{task::JoinSet, time::Instant};

use super::index_revisions::IndexRevisions;

/// The pause after a health check of the store, as a multiple of the time that the check took: it
/// reads the aliases of every index, of which there may be thousands.
const HEALTH_PAUSE_RATIO: u32 = 50;
/// Its bounds. Until a check finds that an index was deleted, query results lack its documents.
const MIN_HEALTH_PAUSE: Duration = Duration::from_secs(1);
const MAX_HEALTH_PAUSE: Duration = Duration::from_secs(10);

/// What a check found.
pub(super) struct IndexHealth {
    /// Clusters whose index revision is gone, among `checked`.
    lost: Result<BTreeSet<ClusterName>, StoreError>,
    /// Clusters whose documents belong elsewhere, among `checked`.
    misplaced: BTreeSet<ClusterName>,
    checked: Vec<IndexRevision>,
    /// How long the check took.
    spent: Duration,
}

/// The check that runs, or the time of the next one.
pub(super) struct HealthChecks {
    running: JoinSet<IndexHealth>,
    next_at: Instant,
}

impl HealthChecks {
    /// The first check is due now.
    pub(super) fn new() -> Self {
        Self {
            running: JoinSet::new(),
            next_at: Instant::now(),
        }
    }

    pub(super) fn is_running(&self) -> bool {
        !self.running.is_empty()
    }

    /// When the next one begins.
    pub(super) fn next_at(&self) -> Instant {
        self.next_at
    }

    pub(super) fn start(&mut self, store: &Arc<dyn IndexWriter>, revisions: &IndexRevisions) {
        let started = Instant::now();
        let store = Arc::clone(store);
        let (checked, movable) = (revisions.all(), revisions.movable());
        self.running.spawn(async move {
            let lost = store.lost(&checked).await;
            let misplaced = match (&lost, store.index_sharing()) {
                (Ok(lost), Some(sharing)) if lost.is_empty() => sharing.misplaced(&movable).await,
                _ => Ok(BTreeSet::new()),
            };
            IndexHealth {
                lost,
                misplaced: misplaced.unwrap_or_else(|error| {
                    tracing::debug!(%error, "cannot find out which clusters belong to another index");
                    BTreeSet::new()
                }),
                checked,
                spent: started.elapsed(),
            }
        });
    }

    /// The result of the check that runs; `None` if it ended without one.
    pub(super) async fn ended(&mut self) -> Option<IndexHealth> {
        match self.running.join_next().await? {
            Ok(health) => {
                let pause = health.spent * HEALTH_PAUSE_RATIO;
                self.next_at = Instant::now() + pause.clamp(MIN_HEALTH_PAUSE, MAX_HEALTH_PAUSE);
                Some(health)
            }
            Err(error) => {
                self.next_at = Instant::now() + MAX_HEALTH_PAUSE;
                tracing::error!(%error, "a health check ended without a result");
                None
            }
        }
    }
}

impl IndexHealth {
    /// Replaces the index revisions that are lost or misplaced. Fails if the indices could not be
    /// checked.
    pub(super) fn report_to(self, revisions: &IndexRevisions) -> Result<(), StoreError> {
        let lost = self.lost?;
        let is_lost = |revision: &&IndexRevision| lost.contains(&revision.cluster);
        for revision in self.checked.iter().filter(is_lost) {
            revisions.report_lost(
                &revision.target,
                "it is gone, or its aliases are, or another revision answers beside it",
            );
        }
        let is_misplaced = |revision: &&IndexRevision| self.misplaced.contains(&revision.cluster);
        for revision in self.checked.iter().filter(is_misplaced) {
            revisions.replace_misplaced(revision);
        }
        Ok(())
    }
}
