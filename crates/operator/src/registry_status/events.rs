//! Which changes of a status are Events of the registry.
//!
//! An Event is for people: clusters that fail together are one Event, and one reason is reported at
//! most once a minute. The recorder of kube counts repetitions within six minutes as one series.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use fleetdex_crds::{
    condition,
    registry::{KindStatus, Phase, RegistryClusterStatus, ResourceRegistryStatus},
};

use super::{deletion::DELETING, names::first_names};

/// Least time between two Events of one reason and cluster.
const INTERVAL: Duration = Duration::from_mins(1);
/// Clusters that have an Event each; more of them share one.
const SINGLE_CLUSTERS: usize = 3;
/// Kubernetes refuses notes of 1,024 bytes and more.
const MAX_NOTE: usize = 1_000;

/// An Event of a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistryEvent {
    /// Whether someone has to act.
    pub is_warning: bool,
    /// The reason, in CamelCase.
    pub reason: String,
    /// The cluster, if it is about one.
    pub cluster: Option<String>,
    /// What has happened.
    pub note: String,
}

/// What the Events of one registry have reported.
#[derive(Clone, Debug, Default)]
pub struct ReportedEvents {
    failed: BTreeSet<String>,
    refused: BTreeSet<(String, String)>,
    drift: BTreeMap<String, u64>,
    sent: BTreeMap<(String, Option<String>), Instant>,
}

impl ReportedEvents {
    /// For a registry with this status, whose Events have been written.
    pub fn of(status: &ResourceRegistryStatus) -> Self {
        let mut reported = Self::default();
        for cluster in &status.clusters {
            let name = &cluster.name;
            if cluster.phase == Phase::Failed {
                reported.failed.insert(name.clone());
            }
            let refused = refused_kinds(cluster).map(|kind| (name.clone(), kind.kind.clone()));
            reported.refused.extend(refused);
            reported.drift.insert(name.clone(), drifted(cluster));
        }
        reported
    }

    /// The Events of a change of the status.
    pub fn of_change(
        &mut self,
        before: &ResourceRegistryStatus,
        after: &ResourceRegistryStatus,
        now: Instant,
    ) -> Vec<RegistryEvent> {
        let mut events: Vec<RegistryEvent> = condition_events(before, after);
        let mut of_clusters: BTreeMap<(&str, bool), Vec<(&str, String)>> = BTreeMap::new();
        for cluster in &after.clusters {
            self.of_cluster(cluster, &mut of_clusters);
        }
        let names: BTreeSet<&str> = after
            .clusters
            .iter()
            .map(|cluster| cluster.name.as_str())
            .collect();
        self.failed.retain(|name| names.contains(name.as_str()));
        self.refused
            .retain(|(name, _)| names.contains(name.as_str()));
        self.drift.retain(|name, _| names.contains(name.as_str()));
        for ((reason, is_warning), found) in of_clusters {
            events.extend(cluster_events(reason, is_warning, &found));
        }
        self.sent
            .retain(|_, sent_at| now.duration_since(*sent_at) < INTERVAL);
        events.retain(|event| {
            let key = (event.reason.clone(), event.cluster.clone());
            let is_new = !self.sent.contains_key(&key);
            // Ready and the like change rarely, and the last change counts.
            let is_due = is_new || event.cluster.is_none();
            if is_due {
                self.sent.insert(key, now);
            }
            is_due
        });
        events
    }

    fn of_cluster<'c>(
        &mut self,
        cluster: &'c RegistryClusterStatus,
        found: &mut BTreeMap<(&'static str, bool), Vec<(&'c str, String)>>,
    ) {
        let name = &cluster.name;
        let mut add = |reason: &'static str, is_warning: bool, note: String| {
            found
                .entry((reason, is_warning))
                .or_default()
                .push((name.as_str(), note));
        };
        if cluster.phase == Phase::Failed && self.failed.insert(name.clone()) {
            add("ClusterFailed", true, cluster.message.clone());
        }
        if cluster.phase == Phase::Synced && self.failed.remove(name) {
            add("ClusterRecovered", false, "in sync again".to_owned());
        }
        for kind in refused_kinds(cluster) {
            if self.refused.insert((name.clone(), kind.kind.clone())) {
                let note = format!("{}: {}", kind.kind, kind.message);
                add("ObjectsRefused", true, note);
            }
        }
        let drifted = drifted(cluster);
        let known = self.drift.insert(name.clone(), drifted).unwrap_or_default();
        if drifted > known {
            let count = drifted - known;
            let note = format!(
                "an audit found {count} documents that differed from their objects; they are being repaired"
            );
            add("DriftFound", true, note);
        }
    }
}

/// The kinds with fallback documents.
fn refused_kinds(cluster: &RegistryClusterStatus) -> impl Iterator<Item = &KindStatus> {
    let kinds = cluster.kinds.iter();
    kinds.filter(|kind| kind.phase == Phase::Synced && !kind.message.is_empty())
}

fn drifted(cluster: &RegistryClusterStatus) -> u64 {
    cluster.drift.as_ref().map_or(0, |drift| drift.documents)
}

/// Changes of Ready, a store that fails while Ready reports something else, and new conflicts.
fn condition_events(
    before: &ResourceRegistryStatus,
    after: &ResourceRegistryStatus,
) -> Vec<RegistryEvent> {
    let mut events: Vec<RegistryEvent> = Vec::new();
    for (kind, bad_status) in [
        ("Ready", "False"),
        ("StoreReachable", "False"),
        ("Conflict", "True"),
    ] {
        let Some(current) = condition::find(&after.conditions, kind) else {
            continue;
        };
        let is_unchanged = condition::find(&before.conditions, kind).is_some_and(|earlier| {
            earlier.status == current.status && earlier.reason == current.reason
        });
        let is_transient = matches!(&*current.reason, "Syncing" | "Connecting" | DELETING);
        let is_bad = current.status == bad_status;
        // That the store works again is what Ready says.
        if is_unchanged || is_transient || (kind != "Ready" && !is_bad) {
            continue;
        }
        let reason = match kind {
            "Conflict" => kind.to_owned(),
            _ => current.reason.clone(),
        };
        if events.iter().all(|event| event.reason != reason) {
            events.push(RegistryEvent {
                is_warning: current.status != "True" || kind == "Conflict",
                reason,
                cluster: None,
                note: shortened(&current.message),
            });
        }
    }
    events
}

fn cluster_events(reason: &str, is_warning: bool, found: &[(&str, String)]) -> Vec<RegistryEvent> {
    let event = |cluster: Option<&str>, note: String| RegistryEvent {
        is_warning,
        reason: reason.to_owned(),
        cluster: cluster.map(str::to_owned),
        note: shortened(&note),
    };
    if found.len() <= SINGLE_CLUSTERS {
        let each = found.iter();
        return each
            .map(|(name, note)| event(Some(name), format!("{name}: {note}")))
            .collect();
    }
    let names: Vec<&str> = found.iter().map(|(name, _)| *name).collect();
    let note = format!(
        "{} clusters: {}; status.clusters says more",
        names.len(),
        first_names(&names)
    );
    vec![event(None, note)]
}

fn shortened(note: &str) -> String {
    note[..note.floor_char_boundary(MAX_NOTE)].to_owned()
}

#[cfg(test)]
mod tests {
    use fleetdex_crds::registry::DriftStatus;
    use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};

    use super::*;

    fn cluster(name: &str, phase: Phase) -> RegistryClusterStatus {
        RegistryClusterStatus {
            name: name.to_owned(),
            phase,
            message: String::new(),
            objects: 0,
            last_sync_time: None,
            last_audit_time: None,
            drift: None,
            kinds: Vec::new(),
            omitted_kinds: 0,
        }
    }

    fn of(clusters: Vec<RegistryClusterStatus>) -> ResourceRegistryStatus {
        ResourceRegistryStatus {
            clusters,
            ..ResourceRegistryStatus::default()
        }
    }

    fn reasons(events: &[RegistryEvent]) -> Vec<(&str, Option<&str>)> {
        events
            .iter()
            .map(|event| (event.reason.as_str(), event.cluster.as_deref()))
            .collect()
    }

    #[test]
    fn a_cluster_that_flaps_is_reported_once_a_minute() {
        let (up, down) = (
            of(vec![cluster("a", Phase::Synced)]),
            of(vec![cluster("a", Phase::Failed)]),
        );
        let mut reported = ReportedEvents::of(&up);
        let start = Instant::now();
        let failed = reported.of_change(&up, &down, start);
        assert_eq!(reasons(&failed), [("ClusterFailed", Some("a"))]);
        assert_eq!(reported.of_change(&down, &down, start), []);
        let connecting = of(vec![cluster("a", Phase::Pending)]);
        assert_eq!(reported.of_change(&down, &connecting, start), []);
        let recovered = reported.of_change(&connecting, &up, start);
        assert_eq!(reasons(&recovered), [("ClusterRecovered", Some("a"))]);
        assert_eq!(reported.of_change(&up, &down, start + INTERVAL / 2), []);
        let _recovered = reported.of_change(&down, &up, start + INTERVAL / 2);
        let again = reported.of_change(&up, &down, start + INTERVAL * 2);
        assert_eq!(reasons(&again), [("ClusterFailed", Some("a"))]);
    }

    #[test]
    fn clusters_that_fail_together_are_one_event() {
        let names: Vec<String> = (0..40).map(|number| format!("c{number}")).collect();
        let all = |phase| of(names.iter().map(|name| cluster(name, phase)).collect());
        let mut reported = ReportedEvents::of(&all(Phase::Synced));
        let events = reported.of_change(&all(Phase::Synced), &all(Phase::Failed), Instant::now());
        assert_eq!(reasons(&events), [("ClusterFailed", None)]);
        assert!(
            events[0].note.starts_with("40 clusters: c0, c1"),
            "{}",
            events[0].note
        );
    }

    #[test]
    fn refused_objects_and_drift_are_reported_once_each() {
        let mut wrong = cluster("a", Phase::Synced);
        wrong.kinds.push(KindStatus {
            api_version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            namespace: String::new(),
            phase: Phase::Synced,
            message: "2 refused by the store".to_owned(),
        });
        let fine = of(vec![cluster("a", Phase::Synced)]);
        let mut reported = ReportedEvents::of(&fine);
        let now = Instant::now();
        let refused = of(vec![wrong.clone()]);
        let events = reported.of_change(&fine, &refused, now);
        assert_eq!(events[0].note, "a: ConfigMap: 2 refused by the store");
        wrong.kinds[0].message = "3 refused by the store".to_owned();
        wrong.drift = Some(DriftStatus {
            documents: 4,
            last_found_time: Time(Timestamp::UNIX_EPOCH),
        });
        let drifted = of(vec![wrong]);
        let events = reported.of_change(&refused, &drifted, now);
        assert_eq!(reasons(&events), [("DriftFound", Some("a"))]);
        // A restarted operator does not report again what the status has.
        let mut restarted = ReportedEvents::of(&drifted);
        assert_eq!(restarted.of_change(&drifted, &drifted, now), []);
    }
}
