//! Bounds the clusters of a status, and the kinds of each: etcd takes requests of 1.5 MiB, each
//! write is sent to everything that follows the registry, and `kubectl describe` prints the
//! clusters before the conditions.

use std::{collections::BTreeSet, time::Duration};

use fleetdex_crds::registry::{Phase, RegistryClusterStatus, ResourceRegistryStatus};

use super::clusters::kind_reason;

/// The most clusters of a status. Of more of them it lists those that need attention.
const MAX_CLUSTERS: usize = 2_000;
/// The most kinds of a cluster. Of more of them it lists the first with each reason: a cluster
/// where everything fails has usually one reason, and `kubectl describe` takes four lines for a
/// kind.
const MAX_KINDS: usize = 3;
/// The most bytes of these clusters as JSON: messages of members can be long.
const MAX_BYTES: usize = 800_000;
/// Bytes of a status that are written for each second between two writes of it.
const BYTES_PER_MILLISECOND: u64 = 50;

/// The status as it is written. The summary and the conditions still count every cluster.
pub fn bounded(mut status: ResourceRegistryStatus) -> ResourceRegistryStatus {
    status.clusters.iter_mut().for_each(bound_kinds);
    let all = status.clusters.len();
    if clusters_that_fit(&status.clusters) == all {
        return status;
    }
    status.clusters.retain(needs_attention);
    status
        .clusters
        .sort_by(|left, right| (rank(left), &left.name).cmp(&(rank(right), &right.name)));
    let shown = clusters_that_fit(&status.clusters);
    status.clusters.truncate(shown);
    status.omitted_clusters = (all - shown) as u64;
    status
}

fn bound_kinds(cluster: &mut RegistryClusterStatus) {
    let all = cluster.kinds.len();
    if all <= MAX_KINDS {
        return;
    }
    let mut reasons = BTreeSet::new();
    cluster.kinds.retain(|kind| {
        reasons.len() < MAX_KINDS && reasons.insert((kind.phase, kind_reason(kind).to_owned()))
    });
    cluster.omitted_kinds += (all - cluster.kinds.len()) as u64;
}

/// The least time between two writes of a status in which no condition changes: the larger it is,
/// the longer. A status of a hundred clusters may be written every quarter of a second, and the
/// largest every quarter of a minute.
pub fn write_interval(status: &ResourceRegistryStatus) -> Duration {
    // Text, numbers and times always serialize.
    let bytes = serde_json::to_vec(status).map_or(0, |json| json.len());
    Duration::from_millis(bytes as u64 / BYTES_PER_MILLISECOND)
}

fn needs_attention(cluster: &RegistryClusterStatus) -> bool {
    cluster.phase != Phase::Synced
        || !cluster.message.is_empty()
        || !cluster.kinds.is_empty()
        || cluster.drift.is_some()
}

/// Failing clusters come first.
fn rank(cluster: &RegistryClusterStatus) -> u8 {
    match cluster.phase {
        Phase::Failed => 0,
        Phase::NotFound => 1,
        Phase::Unknown => 2,
        Phase::Pending => 3,
        Phase::Syncing => 4,
        Phase::Synced => 5,
    }
}

/// How many of the clusters, from the first on, fit into one object.
fn clusters_that_fit(clusters: &[RegistryClusterStatus]) -> usize {
    let mut bytes = 0;
    let fits = |cluster: &&RegistryClusterStatus| {
        bytes += serde_json::to_vec(cluster).map_or(MAX_BYTES, |json| json.len() + 1);
        bytes <= MAX_BYTES
    };
    clusters.iter().take(MAX_CLUSTERS).take_while(fits).count()
}

#[cfg(test)]
mod tests {
    use fleetdex_crds::registry::KindStatus;

    use super::*;

    const FLEET: usize = 10_000;

    fn fleet(of: impl Fn(usize) -> (Phase, String)) -> ResourceRegistryStatus {
        let clusters = (0..FLEET).map(|number| {
            let (phase, message) = of(number);
            let kinds = (phase == Phase::Failed).then(|| KindStatus {
                api_version: "apps/v1".to_owned(),
                kind: "Deployment".to_owned(),
                namespace: String::new(),
                phase,
                message: message.clone(),
            });
            RegistryClusterStatus {
                name: format!("team-{number:05}-production-europe-west-{number:05}"),
                phase,
                message,
                objects: 3_000,
                last_sync_time: None,
                last_audit_time: None,
                drift: None,
                kinds: kinds.into_iter().collect(),
                omitted_kinds: 0,
            }
        });
        ResourceRegistryStatus {
            clusters: clusters.collect(),
            ..ResourceRegistryStatus::default()
        }
    }

    fn bytes(status: &ResourceRegistryStatus) -> usize {
        serde_json::to_vec(status).unwrap().len()
    }

    #[test]
    fn a_status_of_2_000_clusters_lists_all_of_them() {
        let mut all = fleet(|_| (Phase::Synced, String::new()));
        all.clusters.truncate(MAX_CLUSTERS);
        assert_eq!(bounded(all.clone()), all);
    }

    #[test]
    fn a_large_fleet_lists_the_clusters_that_need_attention_failing_ones_first() {
        let phases = |number| match number % 100 {
            0 => (Phase::Syncing, String::new()),
            1 => (Phase::Failed, "forbidden".to_owned()),
            2 => (Phase::Synced, "a note".to_owned()),
            _ => (Phase::Synced, String::new()),
        };
        let status = bounded(fleet(phases));
        let phases: Vec<Phase> = status
            .clusters
            .iter()
            .map(|cluster| cluster.phase)
            .collect();
        assert_eq!((phases.len(), status.omitted_clusters), (300, 9_700));
        assert_eq!(
            (phases[99], phases[100], phases[200]),
            (Phase::Failed, Phase::Syncing, Phase::Synced)
        );
        assert!(bytes(&status) < 100_000, "{} bytes", bytes(&status));
    }

    #[test]
    fn no_fleet_makes_a_status_too_large_for_etcd() {
        let long = "x".repeat(10_000);
        for (phase, message) in [
            (Phase::Synced, String::new()),
            (Phase::Syncing, String::new()),
            (Phase::Failed, long.clone()),
            (Phase::Synced, long),
        ] {
            let status = bounded(fleet(|_| (phase, message.clone())));
            let size = bytes(&status);
            assert!(size < MAX_BYTES + 1_000, "{phase:?}: {size} bytes");
            let counted = status.clusters.len() as u64 + status.omitted_clusters;
            assert_eq!(counted, FLEET as u64);
        }
    }

    #[test]
    fn the_larger_a_status_is_the_less_often_it_is_written() {
        let whole = fleet(|_| (Phase::Failed, "forbidden".to_owned()));
        let mut hundred = whole.clone();
        hundred.clusters.truncate(100);
        assert!(write_interval(&hundred) < Duration::from_secs(1));
        let longest = write_interval(&bounded(whole));
        assert!((5..20).contains(&longest.as_secs()), "{longest:?}");
    }
}
