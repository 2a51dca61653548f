//! The status of a `ClusterCache` from its rows: small enough for one object, and unchanged as long
//! as no row changes.

use std::collections::BTreeMap;

use fleetdex_crds::cluster_cache::{
    CacheCounts, CachePhase, CacheState, ClusterCacheStatus, KindTotal, ResourceRow,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::registry_status::truncated_to_seconds;

/// The most rows of a status. With more of them it has only those that are not Running, and totals.
const MAX_ROWS: usize = 4_000;
/// The most bytes of these rows as JSON. etcd takes requests of 1.5 MiB (`--max-request-bytes`),
/// and the object has a spec, too.
const MAX_BYTES: usize = 1_000_000;
/// The most characters of a reason: a response of a member can be long.
const MAX_REASON: usize = 512;

/// Identifies a row.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowKey {
    /// The member.
    pub cluster: String,
    /// Group and version; empty where they are not known.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The namespace; empty: all.
    pub namespace: String,
}

impl RowKey {
    /// A key with only the cluster, for struct update syntax.
    pub fn of(cluster: &str) -> Self {
        Self {
            cluster: cluster.to_owned(),
            ..Self::default()
        }
    }
}

impl From<&ResourceRow> for RowKey {
    fn from(row: &ResourceRow) -> Self {
        Self {
            cluster: row.cluster.clone(),
            api_version: row.api_version.clone(),
            kind: row.kind.clone(),
            namespace: row.namespace.clone(),
        }
    }
}

/// A row as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedRow {
    /// Its key.
    pub key: RowKey,
    /// Its phase.
    pub phase: CachePhase,
    /// The reason of its phase.
    pub reason: String,
    /// How many objects are stored.
    pub objects: u64,
}

impl ObservedRow {
    /// A row without objects.
    pub fn without(key: RowKey, phase: CachePhase, reason: &str) -> Self {
        Self {
            key,
            phase,
            reason: reason.to_owned(),
            objects: 0,
        }
    }
}

/// The status of the rows. Rows that equal those of `before` keep their update time.
pub fn status(
    observed: &[ObservedRow],
    before: Option<&ClusterCacheStatus>,
    generation: Option<i64>,
    now: Timestamp,
) -> ClusterCacheStatus {
    let now = truncated_to_seconds(now);
    let known: BTreeMap<RowKey, &ResourceRow> = before
        .iter()
        .flat_map(|status| &status.resources)
        .map(|row| (RowKey::from(row), row))
        .collect();
    let mut rows: Vec<ResourceRow> = observed
        .iter()
        .map(|observed| row(observed, known.get(&observed.key).copied(), &now))
        .collect();
    let mut status = ClusterCacheStatus {
        start_time: Some(
            before
                .and_then(|status| status.start_time.clone())
                .unwrap_or(now),
        ),
        observed_generation: generation,
        summary: Some(counts(observed)),
        ..ClusterCacheStatus::default()
    };
    if rows_that_fit(&rows) < rows.len() {
        status.totals = totals(observed);
        rows.retain(|row| row.state.phase != CachePhase::Running);
        rows.sort_by_key(|row| (row.state.phase, RowKey::from(row)));
        let shown = rows_that_fit(&rows);
        status.omitted = (rows.len() - shown) as u64;
        rows.truncate(shown);
    }
    status.resources = rows;
    status
}

fn row(observed: &ObservedRow, before: Option<&ResourceRow>, now: &Time) -> ResourceRow {
    let RowKey {
        cluster,
        api_version,
        kind,
        namespace,
    } = observed.key.clone();
    let reason = observed.reason.chars().take(MAX_REASON).collect();
    let state = CacheState {
        phase: observed.phase,
        reason,
    };
    let total_num = i32::try_from(observed.objects).unwrap_or(i32::MAX);
    let unchanged = before.filter(|before| before.state == state && before.total_num == total_num);
    let update_time = unchanged.map_or_else(|| now.clone(), |before| before.update_time.clone());
    ResourceRow {
        cluster,
        api_version,
        kind,
        namespace,
        state,
        total_num,
        update_time,
    }
}

/// How many of the rows, from the first on, fit into one object.
fn rows_that_fit(rows: &[ResourceRow]) -> usize {
    let mut bytes = 0;
    let fits = |row: &&ResourceRow| {
        // A row of text and numbers always serializes; one that did not would not be shown.
        bytes += serde_json::to_vec(row).map_or(MAX_BYTES, |json| json.len() + 1);
        bytes <= MAX_BYTES
    };
    rows.iter().take(MAX_ROWS).take_while(fits).count()
}

fn totals(observed: &[ObservedRow]) -> Vec<KindTotal> {
    let mut by_kind: BTreeMap<RowKey, Vec<ObservedRow>> = BTreeMap::new();
    for row in observed {
        by_kind
            .entry(RowKey {
                cluster: String::new(),
                ..row.key.clone()
            })
            .or_default()
            .push(row.clone());
    }
    let total = |(key, rows): (RowKey, Vec<ObservedRow>)| {
        let RowKey {
            api_version,
            kind,
            namespace,
            ..
        } = key;
        KindTotal {
            api_version,
            kind,
            namespace,
            counts: counts(&rows),
        }
    };
    by_kind.into_iter().map(total).collect()
}

fn counts(rows: &[ObservedRow]) -> CacheCounts {
    let of = |phase| rows.iter().filter(|row| row.phase == phase).count() as u64;
    CacheCounts {
        running: of(CachePhase::Running),
        failed: of(CachePhase::Failed),
        unknown: of(CachePhase::Unknown),
        total_num: rows.iter().map(|row| row.objects).sum(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ETCD: usize = 1_572_864;

    fn time(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn first() -> Timestamp {
        time("2026-02-03T10:00:00.5Z")
    }

    fn later() -> Timestamp {
        time("2026-02-03T11:00:00Z")
    }

    fn observed(
        cluster: &str,
        kind: &str,
        phase: CachePhase,
        reason: &str,
        objects: u64,
    ) -> ObservedRow {
        let key = RowKey {
            api_version: "v1".to_owned(),
            kind: kind.to_owned(),
            ..RowKey::of(cluster)
        };
        ObservedRow {
            key,
            phase,
            reason: reason.to_owned(),
            objects,
        }
    }

    /// 1,000 clusters with 10 kinds, each as `of` says.
    fn fleet(of: impl Fn(usize) -> (CachePhase, String)) -> Vec<ObservedRow> {
        let rows = (0..10_000).map(|number| {
            let (phase, reason) = of(number);
            let cluster = format!(
                "team-{:03}-production-europe-west-{:03}",
                number / 10,
                number / 10
            );
            observed(
                &cluster,
                &format!("CustomResource{}", number % 10),
                phase,
                &reason,
                123,
            )
        });
        rows.collect()
    }

    fn bytes(status: &ClusterCacheStatus) -> usize {
        serde_json::to_vec(status).unwrap().len()
    }

    #[test]
    fn a_status_has_a_row_for_each_cluster_and_kind() {
        let rows = [
            observed("member1", "Pod", CachePhase::Running, "", 700),
            observed(
                "member1",
                "Ingress",
                CachePhase::Failed,
                "the server doesn't have a resource type \"Ingress\"",
                0,
            ),
        ];
        let status = status(&rows, None, Some(2), first());
        assert_eq!(
            serde_json::to_value(&status).unwrap(),
            json!({
                "startTime": "2026-02-03T10:00:00Z",
                "observedGeneration": 2,
                "summary": { "running": 1, "failed": 1, "unknown": 0, "totalNum": 700 },
                "resources": [
                    { "cluster": "member1", "apiVersion": "v1", "kind": "Pod", "totalNum": 700,
                      "state": { "phase": "Running" }, "updateTime": "2026-02-03T10:00:00Z" },
                    { "cluster": "member1", "apiVersion": "v1", "kind": "Ingress", "totalNum": 0, "updateTime": "2026-02-03T10:00:00Z",
                      "state": { "phase": "Failed", "reason": "the server doesn't have a resource type \"Ingress\"" } },
                ],
            })
        );
        let read: ClusterCacheStatus =
            serde_json::from_value(serde_json::to_value(&status).unwrap()).unwrap();
        assert_eq!(read, status, "a status reads back as it was written");
    }

    #[test]
    fn a_status_changes_only_if_a_row_does() {
        let pods = |phase, reason, count| observed("member1", "Pod", phase, reason, count);
        let before = status(&[pods(CachePhase::Running, "", 7)], None, Some(1), first());
        for (now, changes) in [
            (pods(CachePhase::Running, "", 7), false),
            (pods(CachePhase::Running, "", 8), true),
            (pods(CachePhase::Unknown, "", 7), true),
            (pods(CachePhase::Running, "because", 7), true),
        ] {
            let after = status(std::slice::from_ref(&now), Some(&before), Some(1), later());
            assert_eq!(after != before, changes, "{now:?}");
            assert_eq!(
                after.resources[0].update_time.0,
                if changes {
                    later()
                } else {
                    time("2026-02-03T10:00:00Z")
                }
            );
            assert_eq!(after.start_time, before.start_time);
        }
    }

    #[test]
    fn a_row_that_is_unchanged_keeps_its_time_while_others_change() {
        let rows = |pods| {
            [
                observed("a", "Pod", CachePhase::Running, "", pods),
                observed("b", "Pod", CachePhase::Running, "", 1),
            ]
        };
        let before = status(&rows(1), None, None, first());
        let after = status(&rows(2), Some(&before), None, later());
        assert_eq!(after.resources[0].update_time.0, later());
        assert_eq!(after.resources[1], before.resources[1]);
    }

    #[test]
    fn a_large_fleet_that_runs_has_totals_only() {
        let whole = fleet(|_| (CachePhase::Running, String::new()));
        let status = status(&whole, None, None, first());
        assert_eq!(
            (status.resources.len(), status.totals.len(), status.omitted),
            (0, 10, 0)
        );
        let total = CacheCounts {
            running: 1_000,
            failed: 0,
            unknown: 0,
            total_num: 123_000,
        };
        assert!(status.totals.iter().all(|kind| kind.counts == total));
        assert_eq!(
            status.summary,
            Some(CacheCounts {
                running: 10_000,
                total_num: 1_230_000,
                ..total
            })
        );
    }

    #[test]
    fn a_large_fleet_shows_rows_that_are_not_running_failed_ones_first() {
        let phases = |number| match number % 100 {
            0 => (CachePhase::Unknown, "not reached".to_owned()),
            1 => (CachePhase::Failed, "forbidden".to_owned()),
            _ => (CachePhase::Running, String::new()),
        };
        let status = status(&fleet(phases), None, None, first());
        assert_eq!((status.resources.len(), status.omitted), (200, 0));
        let phases: Vec<CachePhase> = status.resources.iter().map(|row| row.state.phase).collect();
        assert!(
            phases.is_sorted()
                && phases[99] == CachePhase::Failed
                && phases[100] == CachePhase::Unknown
        );
    }

    #[test]
    fn a_status_is_never_too_large_for_etcd() {
        let long = "x".repeat(10_000);
        for (rows, what) in [
            (fleet(|_| (CachePhase::Running, String::new())), "all run"),
            (
                fleet(|_| (CachePhase::Failed, "forbidden".to_owned())),
                "all fail",
            ),
            (
                fleet(|_| (CachePhase::Failed, long.clone())),
                "all fail at length",
            ),
            (
                fleet(|number| {
                    (
                        if number < 4_000 {
                            CachePhase::Running
                        } else {
                            CachePhase::Unknown
                        },
                        long.clone(),
                    )
                }),
                "most are unknown",
            ),
            (
                fleet(|_| (CachePhase::Running, String::new())).split_off(6_000),
                "as many as there may be",
            ),
        ] {
            let status = status(&rows, None, None, first());
            assert!(
                bytes(&status) < ETCD - 400_000,
                "{what}: {} bytes",
                bytes(&status)
            );
            let summary = status.summary.unwrap();
            assert_eq!(
                summary.running + summary.failed + summary.unknown,
                rows.len() as u64
            );
            let not_running = rows
                .iter()
                .filter(|row| row.phase != CachePhase::Running)
                .count() as u64;
            let shown = status
                .resources
                .iter()
                .filter(|row| row.state.phase != CachePhase::Running)
                .count() as u64;
            assert_eq!(shown + status.omitted, not_running, "{what}");
        }
        let all = fleet(|_| (CachePhase::Running, String::new())).split_off(6_000);
        assert_eq!(status(&all, None, None, first()).resources.len(), 4_000);
    }
}
