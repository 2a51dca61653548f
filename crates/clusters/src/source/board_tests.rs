//! Several sources at once.

use super::*;
use crate::member::{Access, Endpoint};

fn board() -> (Arc<Board>, Readiness, Arc<Metrics>) {
    let (metrics, readiness) = (Arc::new(Metrics::new()), Readiness::new());
    (
        Board::new(Arc::clone(&metrics), readiness.clone(), Arc::default()),
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
        access: Access::Endpoint(Endpoint::default()),
    }
}

fn entries(members: Vec<Member>) -> BTreeMap<String, Entry> {
    members
        .into_iter()
        .map(|member| {
            (
                member.origin.clone(),
                Entry {
                    member: Ok(member),
                    cluster: None,
                },
            )
        })
        .collect()
}

fn origins(snapshot: &Snapshot) -> Vec<&str> {
    snapshot
        .members
        .iter()
        .map(|member| member.origin.as_str())
        .collect()
}

#[test]
fn a_source_that_cannot_be_read_is_told_and_holds_up_no_other() {
    let (board, readiness, metrics) = board();
    let (one, two) = (board.feed("one".into()), board.feed("two".into()));
    assert!(!readiness.is_ready());
    one.trouble("the CRD is not installed".into());
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
    let snapshot = board.snapshot();
    assert_eq!(
        (origins(&snapshot), &snapshot.unread),
        (vec!["Secret a"], &vec!["one".to_owned()])
    );

    one.replace(BTreeMap::new());
    assert_eq!(board.snapshot().unread, [""; 0]);
    assert!(
        metrics
            .encode()
            .unwrap()
            .contains(r#"fleetdex_cluster_source_up{source="one"} 1"#)
    );
    two.trouble("forbidden".into());
    assert_eq!(
        origins(&board.snapshot()),
        ["Secret a"],
        "what it said before stands"
    );
    assert!(readiness.is_ready() && readiness.report().contains("forbidden"));
}

#[test]
fn of_one_name_the_oldest_registration_counts_and_the_next_follows_it() {
    let (board, ..) = board();
    let (one, two) = (board.feed("one".into()), board.feed("two".into()));
    one.replace(entries(vec![
        member("a", "young", Some("2026-02-02T00:00:00Z")),
        member("b", "no age, first", None),
    ]));
    two.replace(entries(vec![
        member("a", "old", Some("2025-02-02T00:00:00Z")),
        member("b", "no age, second", None),
    ]));
    let snapshot = board.snapshot();
    assert_eq!(origins(&snapshot), ["old", "no age, first"]);
    assert_eq!(snapshot.taken[&"a".parse().unwrap()][0].origin, "young");
    let before = board.version();
    two.remove("old");
    assert!(board.version() > before);
    let snapshot = board.snapshot();
    assert_eq!(origins(&snapshot), ["young", "no age, first"]);
    assert_eq!(snapshot.taken.len(), 1);
}

#[test]
fn what_is_no_member_is_left_out() {
    let (board, readiness, _) = board();
    let feed = board.feed("one".into());
    feed.replace(BTreeMap::new());
    feed.set(
        "x".into(),
        Entry {
            member: Err("its label is empty".into()),
            cluster: None,
        },
    );
    assert!(board.snapshot().members.is_empty() && feed.member("x").is_none());
    feed.set(
        "x".into(),
        Entry {
            member: Ok(member("x", "x", None)),
            cluster: None,
        },
    );
    assert_eq!(feed.member("x").unwrap().origin, "x");
    feed.missing(Some("there is no context y".into()));
    assert!(readiness.is_ready() && readiness.report().contains("no context y"));
    feed.missing(None);
    assert!(!readiness.report().contains("no context y"));
}
