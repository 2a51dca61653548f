//! The metrics of distribution. But for a counter, they have series only where it is on.

use std::{collections::BTreeMap, sync::Arc};

use fleetdex_core::model::ClusterName;
use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder},
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

use super::{
    families::{Description, LabelSet, LabelValues, MetricLabel, families},
    gauges::saturating,
    labels::{label_sets, label_values},
};

label_values! {
    /// What a request of distribution to a cluster came to.
    DistributionWrite {
        /// The object was written.
        Written => "written",
        /// The object was deleted.
        Deleted => "deleted",
        /// The cluster has refused it, or did not answer.
        Failed => "failed",
    }
}

label_values! {
    /// How far the rollout of a set is.
    SetPhase {
        /// None has begun.
        Pending => "pending",
        /// A wave has begun, and its clusters are not healthy yet.
        Progressing => "progressing",
        /// The next wave waits for a user.
        Paused => "paused",
        /// A wave was not healthy in time.
        Failed => "failed",
        /// All clusters have the revision, and were healthy.
        Complete => "complete",
        /// A user has undone the revision.
        Undone => "undone",
    }
}

label_sets! {
    TargetLabels { cluster: Arc<str> }
    SetLabels { phase: SetPhase }
    WriteLabels { cluster: Arc<str>, result: DistributionWrite }
}

families! {
    DistributionFamilies {
        objects: Family<TargetLabels, Gauge> = Family::default(), "distributed_objects", Count,
            "Objects that policies place in a cluster";
        not_applied: Family<TargetLabels, Gauge> = Family::default(), "distributed_objects_not_applied", Count,
            "Objects that policies place in a cluster, and that it does not have as they shall be";
        held: Family<TargetLabels, Gauge> = Family::default(), "distribution_held_deletions", Count,
            "Objects that are not deleted from a cluster because one change would delete too many at once";
        writes: Family<WriteLabels, Counter> = Family::default(), "distribution_writes", Count,
            "Requests with which distribution changes a cluster, by result: the object was written; it was deleted; the cluster has refused it or did not answer (failed)";
        sets: Family<SetLabels, Gauge> = Family::default(), "distribution_sets", Count,
            "Distributions, by how far their rollouts are; failed are only those with waves";
        waiting: Family<SetLabels, Gauge> = Family::default(), "distribution_waiting_clusters", Count,
            "Clusters that rollouts of Distributions have not reached, by how far these are";
        failed_waves: Counter = Counter::default(), "distribution_failed_waves", Count,
            "Waves of rollouts that were not healthy in time";
    }
}

/// The rollouts of one phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RolloutCount {
    /// How many sets there are.
    pub sets: usize,
    /// How many clusters they have not reached.
    pub waiting_clusters: usize,
}

/// The metrics of distribution. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct DistributionMetrics(DistributionFamilies);

impl DistributionMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        self.0.register(registry);
    }

    pub(super) fn descriptions() -> Vec<Description> {
        DistributionFamilies::descriptions()
    }

    /// Sets how many objects a cluster shall have, and how many of them it does not have so.
    pub fn set_objects(&self, cluster: &ClusterName, objects: usize, not_applied: usize) {
        let labels = TargetLabels::new(cluster.as_str());
        self.0
            .objects
            .get_or_create(&labels)
            .set(saturating(objects));
        let gauge = self.0.not_applied.get_or_create(&labels);
        gauge.set(saturating(not_applied));
    }

    /// Sets how many deletions are held in a cluster.
    pub fn set_held_deletions(&self, cluster: &ClusterName, count: usize) {
        let labels = TargetLabels::new(cluster.as_str());
        self.0.held.get_or_create(&labels).set(saturating(count));
    }

    /// Sets how many sets there are by phase, and how many clusters they have not reached.
    pub fn set_rollouts(&self, rollouts: &BTreeMap<SetPhase, RolloutCount>) {
        for phase in SetPhase::ALL {
            let count = rollouts.get(&phase).copied().unwrap_or_default();
            let labels = SetLabels::new(phase);
            let sets = self.0.sets.get_or_create(&labels);
            sets.set(saturating(count.sets));
            let waiting = self.0.waiting.get_or_create(&labels);
            waiting.set(saturating(count.waiting_clusters));
        }
    }

    /// Removes the series of sets: another replica counts them.
    pub fn forget_rollouts(&self) {
        self.0.sets.clear();
        self.0.waiting.clear();
    }

    /// Counts a wave that has failed.
    pub fn wave_failed(&self) {
        self.0.failed_waves.inc();
    }

    /// Counts a request to a cluster.
    pub fn wrote(&self, cluster: &ClusterName, result: DistributionWrite) {
        let labels = WriteLabels::new(cluster.as_str(), result);
        self.0.writes.get_or_create(&labels).inc();
    }

    /// Removes the series of a cluster.
    pub fn forget_cluster(&self, cluster: &ClusterName) {
        let labels = TargetLabels::new(cluster.as_str());
        self.0.objects.remove(&labels);
        self.0.not_applied.remove(&labels);
        self.0.held.remove(&labels);
        for result in DistributionWrite::ALL {
            self.0
                .writes
                .remove(&WriteLabels::new(cluster.as_str(), result));
        }
    }
}
