//! The metrics of distribution. They have series only where it is on.

use std::sync::Arc;

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

label_sets! {
    TargetLabels { cluster: Arc<str> }
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
    }
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
