//! Several sources at the same time.

use super::*;
use crate::member::{ApiServerEndpoint, MemberAccess};

fn aggregator() -> (Arc<MemberAggregator>, Readiness, Arc<Metrics>) {
    let (metrics, readiness) = (Arc::new(Metrics::new()), Readiness::new());
    (
        MemberAggregator::new(Arc::clone(&metrics), readiness.clone(), Arc::default()),
        readiness,
        metrics,
    )
}

fn member(name: &str, origin: &str, created: Option<&str>) -> Member {
    Member {
        name: name.parse().unwrap(),
        uid: origin.to_owned(),
        generation: None,
        labels: BTreeMap::new(),
        provider: None,
        region: None,
        zones: Vec::new(),
        origin: origin.to_owned(),
        created: created.map(|time| time.parse().unwrap()),
        access: MemberAccess::Endpoint(ApiServerEndpoint::default()),
    }
}

fn entries(members: Vec<Member>) -> BTreeMap<String, SourceEntry> {
    members
        .into_iter()
        .map(|member| {
            (
                member.origin.clone(),
                SourceEntry {
                    member: Ok(member),
                    cluster_object: None,
                },
            )
        })
        .collect()
}

fn origins(snapshot: &MemberSnapshot) -> Vec<&str> {
    snapshot
        .members
        .iter()
        .map(|member| member.origin.as_str())
        .collect()
}

#[test]
fn a_source_that_fails_is_reported_and_does_not_block_the_others() {
    let (aggregator, readiness, metrics) = aggregator();
    let (one, two) = (
        aggregator.add_source("one".into()),
        aggregator.add_source("two".into()),
    );
    assert!(!readiness.is_ready());
    one.report_error("the CRD is not installed".into());
    assert!(!readiness.is_ready(), "{}", readiness.report());
    two.replace(entries(vec![member("a", "Secret a", None)]));
    assert!(
        readiness.is_ready() && readiness.report().contains("the CRD is not installed"),
        "{}",
        readiness.report()
    );
    assert!(
        metrics
            .encode()
            .unwrap()
            .contains(r#"fleetdex_cluster_source_up{source="one"} 0"#)
    );
    let snapshot = aggregator.snapshot();
    assert_eq!(
        (origins(&snapshot), &snapshot.unread_sources),
        (vec!["Secret a"], &vec!["one".to_owned()])
    );

    one.replace(BTreeMap::new());
    assert_eq!(aggregator.snapshot().unread_sources, [""; 0]);
    assert!(
        metrics
            .encode()
            .unwrap()
            .contains(r#"fleetdex_cluster_source_up{source="one"} 1"#)
    );
    two.report_error("forbidden".into());
    assert_eq!(
        origins(&aggregator.snapshot()),
        ["Secret a"],
        "its last objects stay"
    );
    assert!(readiness.is_ready() && readiness.report().contains("forbidden"));
}

#[test]
fn the_oldest_registration_of_a_name_wins_and_the_next_one_replaces_it_when_removed() {
    let (aggregator, ..) = aggregator();
    let (one, two) = (
        aggregator.add_source("one".into()),
        aggregator.add_source("two".into()),
    );
    one.replace(entries(vec![
        member("a", "young", Some("2026-02-02T00:00:00Z")),
        member("b", "no age, first", None),
    ]));
    two.replace(entries(vec![
        member("a", "old", Some("2025-02-02T00:00:00Z")),
        member("b", "no age, second", None),
    ]));
    let snapshot = aggregator.snapshot();
    assert_eq!(origins(&snapshot), ["old", "no age, first"]);
    assert_eq!(
        snapshot.name_conflicts[&"a".parse().unwrap()][0].origin,
        "young"
    );
    let before = aggregator.version();
    two.remove("old");
    assert!(aggregator.version() > before);
    let snapshot = aggregator.snapshot();
    assert_eq!(origins(&snapshot), ["young", "no age, first"]);
    assert_eq!(snapshot.name_conflicts.len(), 1);
}

#[test]
fn objects_that_describe_no_member_are_left_out() {
    let (aggregator, readiness, _) = aggregator();
    let writer = aggregator.add_source("one".into());
    writer.replace(BTreeMap::new());
    writer.set(
        "x".into(),
        SourceEntry {
            member: Err("its label is empty".into()),
            cluster_object: None,
        },
    );
    assert!(aggregator.snapshot().members.is_empty() && writer.member("x").is_none());
    writer.set(
        "x".into(),
        SourceEntry {
            member: Ok(member("x", "x", None)),
            cluster_object: None,
        },
    );
    assert_eq!(writer.member("x").unwrap().origin, "x");
    writer.report_missing(Some("there is no context y".into()));
    assert!(readiness.is_ready() && readiness.report().contains("no context y"));
    writer.report_missing(None);
    assert!(!readiness.report().contains("no context y"));
}
