//! Tracks the index revision that the documents of each cluster are written to.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use fleetdex_core::{model::ClusterName, query::ResourceName};
use fleetdex_store::IndexRevision;
use parking_lot::Mutex;
use tokio::{sync::OnceCell, time::Instant};

/// A cluster whose history did not go back for this long counts as healthy again.
const QUIET_PERIOD: Duration = Duration::from_mins(10);
/// How long the second replacement in a row waits. Filling an index is expensive, and a member that
/// alternates between histories (for example, API servers of different etcds behind one address)
/// would cause it without end.
const MIN_REPLACEMENT_DELAY: Duration = Duration::from_secs(2);
const MAX_REPLACEMENT_DELAY: Duration = Duration::from_mins(5);

/// How often the index revision of a cluster was replaced in a row, and when last.
#[derive(Clone, Copy)]
pub(super) struct Replacements {
    in_a_row: u32,
    last: Instant,
}

impl Replacements {
    fn is_recent(self) -> bool {
        self.last.elapsed() < QUIET_PERIOD
    }

    /// How long the next replacement waits.
    fn delay(self) -> Duration {
        if !self.is_recent() {
            return Duration::ZERO;
        }
        MIN_REPLACEMENT_DELAY
            .saturating_mul(2_u32.saturating_pow(self.in_a_row - 1))
            .min(MAX_REPLACEMENT_DELAY)
    }
}

/// The index revisions of the clusters of a store.
#[derive(Default)]
pub struct ClusterRevisions {
    pub(super) open: BTreeMap<ClusterName, Arc<OpenRevision>>,
    /// Clusters whose units have to be restarted.
    pub(super) lost: BTreeSet<ClusterName>,
    /// Clusters of which everything is in the store and follows changes.
    pub(super) synced: BTreeSet<ClusterName>,
    /// The number of the last replaced index revision of a cluster; the next one has a higher
    /// number.
    pub(super) replaced: BTreeMap<ClusterName, u64>,
    /// Replacements of clusters whose history went back, or whose UID changed.
    pub(super) replacements: BTreeMap<ClusterName, Replacements>,
    /// The UID of each cluster whose index revision was opened with one.
    pub(super) identities: BTreeMap<ClusterName, String>,
    /// Ids of index revisions that exist although another one is live.
    pub(super) unused: BTreeSet<Arc<str>>,
}

impl ClusterRevisions {
    /// Whether a cluster had another UID before.
    pub(super) fn has_other_uid(&self, cluster: &ClusterName, uid: &str) -> bool {
        self.identities
            .get(cluster)
            .is_some_and(|known| known != uid)
    }

    /// Notes that an index revision is opened for this UID.
    pub(super) fn identify(&mut self, cluster: &ClusterName, uid: &str) {
        if self.has_other_uid(cluster, uid) {
            self.note_replacement(cluster);
        }
        self.identities.insert(cluster.clone(), uid.to_owned());
    }

    pub(super) fn note_replacement(&mut self, cluster: &ClusterName) {
        let before = self
            .replacements
            .get(cluster)
            .filter(|replacements| replacements.is_recent());
        let in_a_row = before
            .map_or(0, |replacements| replacements.in_a_row)
            .saturating_add(1);
        self.replacements.insert(
            cluster.clone(),
            Replacements {
                in_a_row,
                last: Instant::now(),
            },
        );
    }

    pub(super) fn replacement_delay(&self, cluster: &ClusterName) -> Duration {
        self.replacements
            .get(cluster)
            .map_or(Duration::ZERO, |replacements| replacements.delay())
    }
}

/// The index revision of one cluster, opened once by the first of its units.
pub(super) struct OpenRevision {
    pub(super) uid: Option<String>,
    pub(super) revision: OnceCell<IndexRevision>,
    pub(super) is_live: AtomicBool,
    pub(super) shown: Mutex<BTreeSet<ResourceName>>,
}

impl OpenRevision {
    pub(super) fn revision(&self) -> Option<IndexRevision> {
        let revision = self.revision.get()?.clone();
        Some(IndexRevision {
            live: self.is_live.load(Ordering::Acquire),
            shown: self.shown.lock().clone(),
            ..revision
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_member_that_always_changes_its_uid_gets_few_index_revisions() {
        let mut revisions = ClusterRevisions::default();
        let cluster: ClusterName = "evil".parse().unwrap();
        let begin = Instant::now();
        let mut made = 0;
        while begin.elapsed() < Duration::from_hours(10) {
            let uid = format!("uid-{made}");
            if revisions.has_other_uid(&cluster, &uid) {
                tokio::time::advance(revisions.replacement_delay(&cluster)).await;
            }
            revisions.identify(&cluster, &uid);
            made += 1;
            tokio::time::advance(Duration::from_secs(10)).await;
        }
        assert!(made < 130, "{made} in ten hours");
    }

    #[tokio::test(start_paused = true)]
    async fn a_cluster_that_is_recreated_once_does_not_wait() {
        let mut revisions = ClusterRevisions::default();
        let cluster: ClusterName = "member1".parse().unwrap();
        for uid in ["a", "a", "b"] {
            assert!(
                !revisions.has_other_uid(&cluster, uid)
                    || revisions.replacement_delay(&cluster).is_zero()
            );
            revisions.identify(&cluster, uid);
        }
        assert!(
            revisions.has_other_uid(&cluster, "c")
                && !revisions.replacement_delay(&cluster).is_zero()
        );
        tokio::time::advance(QUIET_PERIOD).await;
        assert!(revisions.replacement_delay(&cluster).is_zero());
    }
}
