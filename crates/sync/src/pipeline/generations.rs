//! Which generation each cluster's documents are written to.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use fleetdex_core::{model::ClusterName, query::ResourceName};
use fleetdex_store::Generation;
use parking_lot::Mutex;
use tokio::{sync::OnceCell, time::Instant};

/// A cluster whose history has not gone back again for so long is taken for a sound one.
const CALM: Duration = Duration::from_mins(10);
/// How long the second generation in a row waits. Filling one is expensive, and a member that shows one history after the other (several
/// apiservers of different etcds behind one address, say) would have it done without end.
const MIN_RENEWAL_DELAY: Duration = Duration::from_secs(2);
const MAX_RENEWAL_DELAY: Duration = Duration::from_mins(5);

/// How often a cluster's generation was renewed in a row, and when last.
#[derive(Clone, Copy)]
pub(super) struct Renewals {
    in_a_row: u32,
    last: Instant,
}

impl Renewals {
    fn is_recent(self) -> bool {
        self.last.elapsed() < CALM
    }

    /// How long the next one waits.
    fn delay(self) -> Duration {
        if !self.is_recent() {
            return Duration::ZERO;
        }
        MIN_RENEWAL_DELAY
            .saturating_mul(2_u32.saturating_pow(self.in_a_row - 1))
            .min(MAX_RENEWAL_DELAY)
    }
}

/// What is known of the generations of a store's clusters.
#[derive(Default)]
pub struct Generations {
    pub(super) open: BTreeMap<ClusterName, Arc<Slot>>,
    /// Clusters whose units have to begin anew.
    pub(super) lost: BTreeSet<ClusterName>,
    /// The number that the next generation of a cluster has to be above.
    pub(super) above: BTreeMap<ClusterName, u64>,
    /// Clusters whose history went back, or that have become other clusters.
    pub(super) renewals: BTreeMap<ClusterName, Renewals>,
    /// The UID of each cluster whose generation was opened with one.
    pub(super) identities: BTreeMap<ClusterName, String>,
    /// Generations, by id, that were there although another one is the live one.
    pub(super) strays: BTreeSet<Arc<str>>,
}

impl Generations {
    /// Whether a cluster was another one before.
    pub(super) fn is_another(&self, cluster: &ClusterName, uid: &str) -> bool {
        self.identities
            .get(cluster)
            .is_some_and(|known| known != uid)
    }

    /// A generation is opened for the cluster of this UID.
    pub(super) fn identify(&mut self, cluster: &ClusterName, uid: &str) {
        if self.is_another(cluster, uid) {
            self.note_renewal(cluster);
        }
        self.identities.insert(cluster.clone(), uid.to_owned());
    }

    pub(super) fn note_renewal(&mut self, cluster: &ClusterName) {
        let before = self
            .renewals
            .get(cluster)
            .filter(|renewals| renewals.is_recent());
        let in_a_row = before
            .map_or(0, |renewals| renewals.in_a_row)
            .saturating_add(1);
        self.renewals.insert(
            cluster.clone(),
            Renewals {
                in_a_row,
                last: Instant::now(),
            },
        );
    }

    pub(super) fn renewal_delay(&self, cluster: &ClusterName) -> Duration {
        self.renewals
            .get(cluster)
            .map_or(Duration::ZERO, |renewals| renewals.delay())
    }
}

/// The generation of one cluster, opened once, whichever of its units comes first.
pub(super) struct Slot {
    pub(super) uid: Option<String>,
    pub(super) generation: OnceCell<Generation>,
    pub(super) is_live: AtomicBool,
    pub(super) shown: Mutex<BTreeSet<ResourceName>>,
}

impl Slot {
    pub(super) fn generation(&self) -> Option<Generation> {
        let generation = self.generation.get()?.clone();
        Some(Generation {
            live: self.is_live.load(Ordering::Acquire),
            shown: self.shown.lock().clone(),
            ..generation
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_member_that_is_another_cluster_all_the_time_has_few_generations_made() {
        let mut generations = Generations::default();
        let cluster: ClusterName = "evil".parse().unwrap();
        let begin = Instant::now();
        let mut made = 0;
        while begin.elapsed() < Duration::from_hours(10) {
            let uid = format!("uid-{made}");
            if generations.is_another(&cluster, &uid) {
                tokio::time::advance(generations.renewal_delay(&cluster)).await;
            }
            generations.identify(&cluster, &uid);
            made += 1;
            tokio::time::advance(Duration::from_secs(10)).await;
        }
        assert!(made < 130, "{made} in ten hours");
    }

    #[tokio::test(start_paused = true)]
    async fn a_cluster_that_is_created_anew_does_not_wait() {
        let mut generations = Generations::default();
        let cluster: ClusterName = "member1".parse().unwrap();
        for uid in ["a", "a", "b"] {
            assert!(
                !generations.is_another(&cluster, uid)
                    || generations.renewal_delay(&cluster).is_zero()
            );
            generations.identify(&cluster, uid);
        }
        assert!(
            generations.is_another(&cluster, "c") && !generations.renewal_delay(&cluster).is_zero()
        );
        tokio::time::advance(CALM).await;
        assert!(generations.renewal_delay(&cluster).is_zero());
    }
}
