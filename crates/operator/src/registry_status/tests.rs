use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetdex_core::model::{ClusterName, FieldPath, Gvk, Resource, Scope, Unit};
use fleetdex_crds::registry::{Phase, StoreStatus};
use fleetdex_sync::progress::{FailureCause, Progress};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Condition, jiff::SignedDuration};

use crate::plan::{ClusterPlan, RegistryPlan};

use super::{
    clusters::truncated_to_seconds,
    conditions::{former_locations_finding, incomplete_clusters},
    missing_fields::MISSING_FIELDS,
    *,
};

fn unit(kind: &str) -> Unit {
    let resource = Resource {
        gvk: Gvk::new("", "v1", kind),
        plural: kind.to_lowercase().into(),
        namespaced: true,
    };
    Unit {
        cluster: "member1".parse().unwrap(),
        resource,
        scope: Scope::All,
    }
}

fn progress() -> Arc<Progress> {
    let progress = Progress::new("member1".parse().unwrap(), Arc::default());
    progress.reached("5".parse().unwrap());
    progress
}

/// The inputs of a registry with this plan, whose store answers and of which no stream runs.
pub(super) fn inputs(plan: &RegistryPlan) -> StatusInputs<'_> {
    StatusInputs {
        deleting: None,
        stores: Vec::new(),
        former_locations: Vec::new(),
        plan,
        store: Some(Ok(())),
        shards: None,
        store_access: StoreAccess::Authenticated,
        health: &|_| None,
        live: &|_| true,
        unread_sources: &[],
        progress: &|_| None,
        selector_paths: &|_| BTreeSet::new(),
        generation: Some(1),
        before: &[],
        now: "2026-02-03T10:00:00Z".parse().unwrap(),
    }
}

/// The status of a registry that has these kinds in one cluster.
fn status_of(kinds: &[(&str, &Progress)]) -> ResourceRegistryStatus {
    status_with_paths(kinds, &[], &[])
}

fn status_with_paths(
    kinds: &[(&str, &Progress)],
    selector_paths: &[&str],
    before: &[Condition],
) -> ResourceRegistryStatus {
    status_in_namespaces(kinds, selector_paths, before, &[])
}

fn status_in_namespaces(
    kinds: &[(&str, &Progress)],
    selector_paths: &[&str],
    before: &[Condition],
    namespaces: &[&str],
) -> ResourceRegistryStatus {
    let units = kinds.iter().map(|(kind, _)| unit(kind)).collect();
    let cluster = ClusterPlan {
        discovered: true,
        units,
        ..ClusterPlan::default()
    };
    let clusters = BTreeMap::from([("member1".parse().unwrap(), cluster)]);
    let plan = RegistryPlan {
        store: Some("main".parse().unwrap()),
        clusters,
        namespaces: namespaces.iter().map(|name| (*name).to_owned()).collect(),
        ..RegistryPlan::default()
    };
    let progress = |unit: &Unit| {
        kinds
            .iter()
            .find(|(kind, _)| *unit.resource.gvk.kind == **kind)
            .map(|(_, progress)| progress.status())
    };
    status(&StatusInputs {
        progress: &progress,
        selector_paths: &|_| {
            selector_paths
                .iter()
                .map(|path| FieldPath::new(path))
                .collect()
        },
        before,
        ..inputs(&plan)
    })
}

#[test]
fn a_registry_that_selects_nothing_says_so() {
    let plan = RegistryPlan {
        store: Some("main".parse().unwrap()),
        selects_nothing: true,
        ..RegistryPlan::default()
    };
    let status = status(&inputs(&plan));
    let reasons: Vec<_> = status
        .conditions
        .iter()
        .map(|condition| (&*condition.type_, &*condition.status, &*condition.reason))
        .collect();
    let expected = [
        ("Ready", "True", "NothingSelected"),
        ("StoreReachable", "True", "Reachable"),
        ("Synced", "True", "NothingSelected"),
    ];
    assert_eq!(reasons, expected);
}

#[test]
fn a_former_location_that_cannot_be_emptied_is_named_with_its_indices() {
    let location = |problem: Option<&str>, awaited_clusters: &[&str]| FormerLocation {
        name: "http://old:9200/fleetdex".to_owned(),
        indices: vec!["fleetdex-member1.g*".to_owned()],
        problem: problem.map(str::to_owned),
        awaited_clusters: awaited_clusters
            .iter()
            .map(|name| (*name).to_owned())
            .collect(),
    };
    let shown = |former_locations: &[FormerLocation]| {
        former_locations_finding(former_locations)
            .map(|finding| format!("{}: {}", finding.reason, finding.message))
    };
    assert_eq!(shown(&[]), None);
    let texts = [
        shown(&[location(None, &["member2"])]),
        shown(&[location(None, &[])]),
        shown(&[
            location(None, &[]),
            location(Some("connection refused"), &["member2"]),
        ]),
    ];
    insta::assert_snapshot!(texts.map(Option::unwrap).join("\n"), @r#"
    Waiting: http://old:9200/fleetdex answers queries of member2 until the new store is complete, and is emptied then
    Sweeping: http://old:9200/fleetdex is being emptied
    Unreachable: http://old:9200/fleetdex may still hold documents in fleetdex-member1.g* and cannot be emptied: connection refused. Make it reachable, or give it up with the annotation fleetdex.io/orphan: "true"
    "#);
}

#[test]
fn the_message_of_a_kind_tells_its_first_list_from_later_ones() {
    let pods = Progress::new("member1".parse().unwrap(), Arc::default());
    let message = |progress: &Progress| {
        status_of(&[("Pod", progress)]).clusters[0].kinds[0]
            .message
            .clone()
    };
    pods.list_started();
    assert_eq!(message(&pods), "the first list is in progress");
    pods.reached("5".parse().unwrap());
    pods.list_started();
    assert_eq!(
        message(&pods),
        "a new list is in progress",
        "as after its definition was gone and is served again"
    );
}

#[test]
fn documents_that_the_store_refused_are_counted_and_one_is_named() {
    let pods = progress();
    pods.set_rejected(&["v1/Pod/b".into(), "v1/Pod/a".into()]);
    let status = status_of(&[("Pod", &pods)]);
    let cluster = &status.clusters[0];
    assert_eq!(
        (cluster.phase, cluster.kinds[0].phase),
        (Phase::Synced, Phase::Synced)
    );
    assert_eq!(
        cluster.kinds[0].message,
        "2 refused by the store, or too large or deep for it, and stored as fallback documents, such as v1/Pod/a (search.rejected has the reason)"
    );
    pods.skip();
    let message = &status_of(&[("Pod", &pods)]).clusters[0].kinds[0].message;
    assert!(
        message.starts_with("1 could not be read; 2 refused"),
        "{message}"
    );
}

#[test]
fn the_condition_for_a_path_that_no_object_has_stays_while_the_values_are_unknown() {
    let message = |status: &ResourceRegistryStatus| {
        condition::find(&status.conditions, MISSING_FIELDS)
            .map(|condition| condition.message.clone())
    };
    let (pods, nodes) = (progress(), progress());
    let path = || BTreeSet::from([FieldPath::new("spec.replica")]);
    let presence = pods.track_paths(path());
    nodes.track_paths(path()).list_complete();
    let kinds = [("Pod", &*pods), ("Node", &*nodes)];
    let paths = ["spec.replica"];
    assert_eq!(
        message(&status_with_paths(&kinds, &paths, &[])),
        None,
        "there was no list of pods, and there is no node"
    );
    presence.observe(|_| false);
    presence.list_complete();
    let missing = status_with_paths(&kinds, &paths, &[]);
    let text = message(&missing).unwrap();
    assert!(
        text.starts_with("spec.replica of Pod (v1); no object has had a value there"),
        "{text}"
    );
    assert_eq!(
        condition::find(&missing.conditions, "Ready")
            .unwrap()
            .status,
        "True"
    );
    let restarted = progress();
    let unknown = status_with_paths(&[("Pod", &*restarted)], &paths, &missing.conditions);
    assert_eq!(message(&unknown).as_deref(), Some(&*text));
    presence.observe(|_| true);
    assert_eq!(
        message(&status_with_paths(&kinds, &paths, &missing.conditions)),
        None
    );
    assert_eq!(
        message(&status_with_paths(&kinds, &[], &missing.conditions)),
        None,
        "the selector does not name it any more"
    );
}

#[test]
fn the_audit_time_of_a_cluster_is_that_of_its_least_recently_audited_kind() {
    let (pods, nodes) = (progress(), progress());
    pods.record_audit(0);
    assert_eq!(
        status_of(&[("Pod", &pods), ("Node", &nodes)]).clusters[0].last_audit_time,
        None
    );
    nodes.record_audit(0);
    let of_both = status_of(&[("Pod", &pods), ("Node", &nodes)]);
    assert_eq!(
        of_both.clusters[0].last_audit_time,
        pods.status().audits.last.map(truncated_to_seconds)
    );
    assert_eq!(of_both.clusters[0].drift, None);
}

#[test]
fn drift_of_all_kinds_is_counted_together() {
    let (pods, nodes) = (progress(), progress());
    pods.record_audit(2);
    nodes.record_audit(1);
    pods.record_audit(0);
    let drift = status_of(&[("Pod", &pods), ("Node", &nodes)])
        .clusters
        .remove(0)
        .drift
        .unwrap();
    assert_eq!(
        (drift.documents, Some(drift.last_found_time)),
        (
            3,
            nodes.status().audits.drift_found.map(truncated_to_seconds)
        )
    );
}

#[test]
fn a_status_reads_back_as_it_was_written() {
    let pods = progress();
    pods.record_audit(3);
    let status = status_of(&[("Pod", &pods)]);
    assert!(status.clusters[0].last_sync_time.is_some());
    let read: ResourceRegistryStatus =
        serde_json::from_value(serde_json::to_value(&status).unwrap()).unwrap();
    assert_eq!(read, status);
}

#[test]
fn audits_without_findings_change_the_status_every_ten_minutes_at_most() {
    let pods = progress();
    let never = status_of(&[("Pod", &pods)]);
    pods.record_audit(0);
    let first = status_of(&[("Pod", &pods)]);
    let later = |minutes: i64| {
        let mut later = first.clone();
        let time = later.clusters[0].last_audit_time.as_mut().unwrap();
        time.0 += SignedDuration::from_mins(minutes);
        later
    };
    assert!(needs_write(&first, &never));
    assert!(
        !needs_write(&first, &first.clone())
            && !needs_write(&later(9), &first)
            && !needs_write(&never, &first)
    );
    assert!(needs_write(&later(10), &first));
    pods.record_audit(1);
    assert!(
        needs_write(&status_of(&[("Pod", &pods)]), &first),
        "drift is written at once"
    );
}

#[test]
fn failing_clusters_come_before_absent_and_waiting_ones() {
    let cluster = |name: &str, phase: Phase| RegistryClusterStatus {
        name: name.to_owned(),
        phase,
        message: format!("message of {name}"),
        objects: 0,
        last_sync_time: None,
        last_audit_time: None,
        drift: None,
        kinds: Vec::new(),
        omitted_kinds: 0,
    };
    let (synced, pending, syncing, absent, failed) = (
        cluster("synced", Phase::Synced),
        cluster("pending", Phase::Pending),
        cluster("syncing", Phase::Syncing),
        cluster("absent", Phase::NotFound),
        cluster("failed", Phase::Failed),
    );
    for (clusters, expected) in [
        (vec![], ""),
        (vec![&synced], ""),
        (
            vec![&pending, &synced, &syncing],
            "Syncing: not complete yet: pending, syncing",
        ),
        (
            vec![&absent, &syncing],
            "ClustersNotFound: no such cluster: absent",
        ),
        (
            vec![&absent, &failed, &syncing],
            "ClustersFailing: failing: failed. failed: message of failed",
        ),
    ] {
        let clusters: Vec<RegistryClusterStatus> = clusters.into_iter().cloned().collect();
        let found = incomplete_clusters(&clusters)
            .map(|(reason, message)| format!("{reason}: {message}"))
            .unwrap_or_default();
        assert_eq!(found, expected);
    }
}

#[test]
fn the_phase_of_a_cluster_follows_from_its_health_discovery_and_queries() {
    let health = |ready: bool, reason: &'static str| MemberHealth {
        ready,
        reason: reason.into(),
        message: "why".to_owned(),
        note: Some("a note".to_owned()),
    };
    let pods = progress();
    for (health, discovered, is_live, expected) in [
        (None, true, true, "Synced "),
        (Some(health(true, "Ready")), true, true, "Synced a note"),
        (
            None,
            true,
            false,
            "Syncing every object is stored; queries will be answered from the new index shortly",
        ),
        (
            None,
            false,
            true,
            "Pending API discovery of the cluster has not completed yet",
        ),
        (
            Some(health(false, "Connecting")),
            true,
            true,
            "Pending Connecting: why; its documents stay as they were",
        ),
        (
            Some(health(false, "Unreachable")),
            true,
            true,
            "Failed Unreachable: why; its documents stay as they were",
        ),
    ] {
        let cluster = ClusterPlan {
            discovered,
            units: BTreeSet::from([unit("Pod")]),
            ..ClusterPlan::default()
        };
        let plan = RegistryPlan {
            store: Some("main".parse().unwrap()),
            clusters: BTreeMap::from([("member1".parse().unwrap(), cluster)]),
            ..RegistryPlan::default()
        };
        let status = status(&StatusInputs {
            health: &|_| health.clone(),
            live: &|_| is_live,
            progress: &|_| Some(pods.status()),
            ..inputs(&plan)
        });
        let cluster = &status.clusters[0];
        assert_eq!(format!("{:?} {}", cluster.phase, cluster.message), expected);
    }
}

/// The lines that `kubectl describe` prints of a value: the fields of a map in alphabetical order,
/// and a list without marks.
fn described(value: &serde_json::Value) -> Vec<String> {
    use serde_json::Value;
    match value {
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(name, field)| match field {
                Value::Object(_) | Value::Array(_) => {
                    let nested = described(field).into_iter();
                    let header = std::iter::once(format!("{name}:"));
                    header
                        .chain(nested.map(|line| format!("  {line}")))
                        .collect()
                }
                scalar => vec![format!("{name}: {scalar}")],
            })
            .collect(),
        Value::Array(items) => items.iter().flat_map(described).collect(),
        scalar => vec![scalar.to_string()],
    }
}

/// The written status of a registry in whose two members 60 kinds fail, each for one of these
/// reasons.
fn broken_status(reasons: &[&'static str]) -> ResourceRegistryStatus {
    let members: [ClusterName; 2] = ["member1", "member2"].map(|name| name.parse().unwrap());
    let cluster = |member: &ClusterName| ClusterPlan {
        discovered: true,
        units: (0..60)
            .map(|number| Unit {
                cluster: member.clone(),
                ..unit(&format!("Kind{number:02}"))
            })
            .collect(),
        ..ClusterPlan::default()
    };
    let plan = RegistryPlan {
        store: Some("http://main:9200/fleetdex".parse().unwrap()),
        clusters: members
            .iter()
            .map(|member| (member.clone(), cluster(member)))
            .collect(),
        ..RegistryPlan::default()
    };
    let failing = |unit: &Unit| {
        let kind = &unit.resource.gvk.kind;
        let number: usize = kind.trim_start_matches("Kind").parse().unwrap();
        let progress = Progress::new(unit.cluster.clone(), Arc::default());
        let reason = reasons[number % reasons.len()];
        let message = format!("the account may not list {kind}");
        progress.failing(FailureCause::Refusal, reason, message);
        Some(progress.status())
    };
    let location = StoreStatus {
        name: "http://main:9200/fleetdex".to_owned(),
        addresses: vec!["http://main:9200".to_owned()],
        index_prefix: "fleetdex".to_owned(),
        ..StoreStatus::default()
    };
    bounded(status(&StatusInputs {
        progress: &failing,
        stores: vec![location],
        ..inputs(&plan)
    }))
}

#[test]
fn a_registry_where_everything_fails_is_described_in_few_lines() {
    let status = broken_status(&["Forbidden"]);
    let lines = described(&serde_json::to_value(&status).unwrap());
    assert!(
        lines.len() < 60,
        "{} lines:\n{}",
        lines.len(),
        lines.join("\n")
    );
    let cluster = &status.clusters[0];
    assert_eq!((cluster.kinds.len(), cluster.omitted_kinds), (1, 59));
    assert_eq!(
        cluster.message,
        "not in sync: Kind00, Kind01, Kind02 and 57 more (60 Forbidden)"
    );
    let synced = condition::find(&status.conditions, "Synced").unwrap();
    assert_eq!(
        synced.message,
        "failing: member1, member2. member1: not in sync: Kind00, Kind01, Kind02 and 57 more (60 Forbidden). \
         Kind00: Forbidden: the account may not list Kind00"
    );
}

#[test]
fn of_many_failing_kinds_the_status_lists_one_for_each_reason() {
    let reasons = [
        "Forbidden",
        "Forbidden",
        "Throttled",
        "Unreachable",
        "Expired",
    ];
    let status = broken_status(&reasons);
    let cluster = &status.clusters[1];
    let listed: Vec<&str> = cluster.kinds.iter().map(|kind| &*kind.kind).collect();
    assert_eq!(listed, ["Kind00", "Kind02", "Kind03"]);
    assert_eq!(cluster.omitted_kinds, 57);
    assert_eq!(
        cluster.message,
        "not in sync: Kind00, Kind01, Kind02 and 57 more (24 Forbidden, 12 Expired, 12 Throttled, 12 Unreachable)"
    );
}

#[test]
fn a_registry_that_finds_nothing_says_so() {
    let progress = progress();
    let message_of = |status: &ResourceRegistryStatus, kind: &str| {
        let found = fleetdex_crds::condition::find(&status.conditions, kind).unwrap();
        assert_eq!(found.status, "True");
        found.message.clone()
    };
    let kinds = [("Pod", &*progress)];
    let restricted = status_in_namespaces(&kinds, &[], &[], &["wbe"]);
    let nothing = "0 objects of the selected clusters match: \
                   check that namespace wbe exists there, as resourceSelectors is restricted to it";
    assert_eq!(message_of(&restricted, "Ready"), nothing);
    assert!(message_of(&restricted, "Synced").ends_with(nothing));
    let free = status_of(&kinds);
    assert!(message_of(&free, "Ready").contains("check the labelSelector"));
    progress.set_objects(1, Arc::default());
    let found = status_in_namespaces(&kinds, &[], &[], &["wbe"]);
    assert!(!message_of(&found, "Ready").contains("0 objects"));
    assert!(!message_of(&found, "Synced").contains("0 objects"));
}
