//! What one replica sends to another, and what watches there get.

use std::{sync::Arc, time::Duration};

use fleetdex_core::{
    model::{Gvk, ReplicaRun, Resource},
    query::{Query, ResourceName, Selectable},
};
use proptest::prelude::*;
use serde_json::json;
use tokio::{runtime::Builder, time::timeout};

use super::{LineReader, write_end};
use crate::{
    StoreError,
    changes::{
        Bounds, Change, Event, Log, ReplicationLines, Sequence, Tail, Watch, fake,
        log::SubscriberKind,
    },
    compressed::Decompressor,
    document::StoredDocument,
};

const MOMENT: Duration = Duration::from_millis(1);

/// A replica's log.
fn log(tag: u16) -> Arc<Log> {
    let bounds = Bounds {
        changes: 1_000,
        bytes: 1 << 20,
        owns_documents: true,
        results_lag: false,
    };
    Arc::new(Log::new(
        Sequence::of(ReplicaRun::new(1_790_000_000_000, tag)),
        bounds,
    ))
}

fn resource(kind: &str, plural: &str) -> Resource {
    Resource {
        gvk: Gvk::new("", "v1", kind),
        plural: plural.into(),
        namespaced: true,
    }
}

fn pods() -> ResourceName {
    ResourceName::new("", "pods")
}

fn query(selector: &str) -> Query {
    let all = Query::all_of(pods(), Selectable::of(&Gvk::new("", "v1", "Pod"), &[]), 500);
    Query {
        labels: selector.parse().unwrap(),
        ..all
    }
}

/// A pod with a label, a phase and an owner; or another kind of object.
fn document(resource: &Resource, name: &str, version: u64, app: &str) -> Arc<StoredDocument> {
    let object = json!({
        "metadata": {
            "name": name, "namespace": "web", "uid": format!("uid-{name}"), "resourceVersion": version.to_string(),
            "creationTimestamp": "2026-01-01T00:00:00Z", "labels": { "app": app }, "ownerReferences": [{ "uid": "owner" }],
        },
        "status": { "phase": "Running" },
    });
    fake::document(resource, &object)
}

fn pod(name: &str, version: u64, app: &str) -> Arc<StoredDocument> {
    document(&resource("Pod", "pods"), name, version, app)
}

fn added(name: &str, version: u64) -> Change {
    Change {
        before: None,
        after: Some(pod(name, version, "web")),
    }
}

/// Copies everything that a tail has. Returns whether it has ended.
fn replicate(tail: &mut Tail, reader: &mut LineReader, log: &Log) -> bool {
    loop {
        let before = tail.position();
        let mut lines = tail.available().unwrap().lines;
        if tail.position() == before {
            write_end(&mut lines, before).unwrap();
        }
        let read: Vec<_> = lines
            .split_inclusive(|byte| *byte == b'\n')
            .map(|line| reader.read(line).unwrap())
            .collect();
        let is_last = read.last().is_some_and(|last| last.is_last);
        log.append_replicated(read);
        if is_last {
            return true;
        }
    }
}

/// The events that a watch has for now: kinds and objects, without the log's own numbers.
async fn events(watch: &mut Watch) -> Result<Vec<String>, StoreError> {
    let mut received = Vec::new();
    while let Ok(events) = timeout(MOMENT, watch.next()).await {
        received.extend(events?.iter().map(|Event { kind, object, .. }| {
            let shown = object.hit().unwrap().object.get();
            format!("{kind:?} {} {shown}", object.cluster())
        }));
    }
    Ok(received)
}

#[tokio::test(start_paused = true)]
async fn a_replica_does_not_pass_on_changes_of_other_replicas() {
    let (first, second) = (log(1), log(2));
    let mut tail = first.tail(&pods(), None).unwrap();
    first.append_from_replica(&[added("theirs", 5)]);
    first.append(&[
        added("ours", 6),
        Change {
            before: None,
            after: Some(document(&resource("Secret", "secrets"), "s", 7, "web")),
        },
    ]);
    let mut watch = second.watch(&query(""), second.newest()).unwrap();
    assert!(replicate(&mut tail, &mut LineReader::default(), &second));
    let received = events(&mut watch).await.unwrap();
    assert!(
        received.len() == 1 && received[0].contains("\"ours\""),
        "{received:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_tail_resumes_at_the_position_of_another_one_unless_it_is_dropped() {
    let first = log(1);
    let mut tail = first.tail(&pods(), None).unwrap();
    first.append(&[added("a", 5)]);
    tail.available().unwrap();
    let position = first.sequence().number(tail.position()).unwrap();
    drop(tail);
    first.append(&[added("b", 6)]);
    let lines = first
        .tail(&pods(), Some(position))
        .unwrap()
        .available()
        .unwrap()
        .lines;
    assert!(String::from_utf8(lines).unwrap().contains("uid-b"));
    first.restart();
    assert!(first.tail(&pods(), Some(position)).is_err());
}

#[tokio::test(start_paused = true)]
async fn lost_changes_end_only_watches_of_their_resource() {
    let log = log(1);
    let start = log.newest();
    let secrets = Query {
        resource: ResourceName::new("", "secrets"),
        ..query("")
    };
    let (mut watch, mut other) = (
        log.watch(&query(""), start).unwrap(),
        log.watch(&secrets, start).unwrap(),
    );
    let number = log.lose(&pods());
    assert!(log.reaches(number, MOMENT).await, "answers do not lag");
    assert!(matches!(events(&mut watch).await, Err(StoreError::Expired)));
    assert_eq!(events(&mut other).await.unwrap(), [""; 0]);
    assert!(log.watch(&query(""), start).is_err() && log.watch(&secrets, start).is_ok());
    assert!(
        log.follow(
            &Arc::new([pods()].into()),
            Some(start),
            SubscriberKind::Replica
        )
        .is_ok(),
        "what this replica has changed is known"
    );
    log.append(&[added("a", 5)]);
    assert_eq!(
        events(&mut log.watch(&query(""), number).unwrap())
            .await
            .unwrap()
            .len(),
        1
    );
}

#[tokio::test(start_paused = true)]
async fn a_list_includes_lost_changes_only_after_a_refresh() {
    let bounds = Bounds {
        changes: 1_000,
        bytes: 1 << 20,
        owns_documents: true,
        results_lag: true,
    };
    let log = Arc::new(Log::new(
        Sequence::of(ReplicaRun::new(1_790_000_000_000, 1)),
        bounds,
    ));
    let number = log.lose(&pods());
    assert!(
        !log.reaches(number, MOMENT).await,
        "what another replica has written may not be visible yet"
    );
    assert!(
        log.watch(&query(""), log.visible()).is_err(),
        "a list of now may lack it"
    );
    log.show(number);
    assert!(log.watch(&query(""), log.visible()).is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_tail_ends_only_when_its_log_has_ended() {
    let log = log(1);
    let mut tail = log.tail(&pods(), None).unwrap();
    log.append(&[added("a", 5)]);
    assert!(
        !tail.available().unwrap().is_last && !tail.available().unwrap().is_last,
        "it may write more"
    );
    log.append(&[added("b", 6)]);
    log.end();
    let lines = tail.available().unwrap();
    assert!(!lines.is_last && String::from_utf8(lines.lines).unwrap().contains("uid-b"));
    assert!(timeout(MOMENT, tail.next()).await.unwrap().unwrap().is_last);
    assert!(!log.wait_for_replicas_to_leave(MOMENT).await);
    drop(tail);
    assert!(log.wait_for_replicas_to_leave(MOMENT).await);
    log.restart();
    assert!(
        !log.tail(&pods(), None)
            .unwrap()
            .available()
            .unwrap()
            .is_last,
        "what is uncertain is no end"
    );
}

#[tokio::test(start_paused = true)]
async fn a_tail_advances_to_a_number_without_a_change() {
    let log = log(1);
    let mut tail = log.tail(&pods(), None).unwrap();
    // It has lost changes of other replicas, or changes what responses show: watches at other
    // replicas wait until this number is known there.
    for _ in 0..2 {
        log.lose(&pods());
        let (step, _) = log.open_gap();
        assert!(
            timeout(MOMENT, tail.next())
                .await
                .unwrap()
                .unwrap()
                .lines
                .is_empty()
        );
        assert_eq!(
            log.sequence().number(tail.position()),
            Some(step - 1),
            "changes of a step are not sent before it ends"
        );
        assert!(timeout(MOMENT, tail.next()).await.is_err());
        log.end_step(step);
        timeout(MOMENT, tail.next()).await.unwrap().unwrap();
        assert_eq!(tail.position(), log.sequence().version(log.settled().await));
    }
    log.append(&[added("a", 5)]);
    let (step, _) = log.open_gap();
    log.append(&[added("b", 6)]);
    let text = |lines: ReplicationLines| String::from_utf8(lines.lines).unwrap();
    assert!(text(tail.available().unwrap()).contains("uid-a"));
    assert!(text(tail.available().unwrap()).is_empty());
    log.end_step(step);
    assert!(text(tail.available().unwrap()).contains("uid-b"));
}

#[test]
fn an_invalid_line_is_refused() {
    let refused = |line: &str| {
        LineReader::default()
            .read(line.as_bytes())
            .unwrap_err()
            .to_string()
    };
    let document = |id: &str, more: &str| {
        format!(
            r#"{{"version":"7","after":{{"cluster":"member1","group":"","resource":"pods","id":"{id}","resourceVersion":"5","terms":[],{more}"object":{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"a","uid":"u"}}}}}}}}"#
        )
    };
    assert!(
        LineReader::default()
            .read(document("v1/Pod/u", "").as_bytes())
            .is_ok()
    );
    for wrong in [
        "",
        "{}",
        r#"{"version":"0"}"#,
        r#"{"version":"7","more":1}"#,
        &document("v1/Pod/u", r#""x":1,"#),
    ] {
        assert!(!refused(wrong).is_empty(), "{wrong}");
    }
}

/// Changes of some objects: which object, and its new label; none if it is deleted.
fn steps() -> impl Strategy<Value = Vec<(usize, Option<bool>)>> {
    prop::collection::vec((0..4_usize, prop::option::of(any::<bool>())), 1..40)
}

proptest! {
    /// Whatever the selector: a watch on the receiving replica gets the same events as one where
    /// the change was made.
    #[test]
    fn watches_get_the_same_events_at_every_replica(steps in steps(), cut in 0..40_usize) {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let (first, second) = (log(1), log(2));
            let queries = ["", "app=web", "app!=web"].map(query);
            let mut there: Vec<Watch> = queries.iter().map(|query| first.watch(query, first.newest()).unwrap()).collect();
            let mut here: Vec<Watch> = queries.iter().map(|query| second.watch(query, second.newest()).unwrap()).collect();
            let (mut tail, mut reader) = (first.tail(&pods(), None).unwrap(), LineReader::default());
            let mut objects: Vec<Option<Arc<StoredDocument>>> = vec![None; 4];
            for (at, (number, label)) in steps.into_iter().enumerate() {
                let app = |is_web: bool| if is_web { "web" } else { "api" };
                let after = label.map(|is_web| pod(&format!("pod-{number}"), 10 + at as u64, app(is_web)));
                let before = std::mem::replace(&mut objects[number], after.clone());
                if before.is_some() || after.is_some() {
                    first.append(&[Change { before, after }]);
                }
                if at == cut {
                    // The connection breaks, and goes on where it was.
                    let position = first.sequence().number(tail.position());
                    tail = first.tail(&pods(), position).unwrap();
                }
            }
            replicate(&mut tail, &mut reader, &second);
            for (there, here) in there.iter_mut().zip(&mut here) {
                assert_eq!(events(there).await.unwrap(), events(here).await.unwrap());
            }
        });
    }

    #[test]
    fn a_replicated_document_equals_the_original(name in "[a-z]{1,8}", version in 1..1_000_000_u64, app in "[a-z=\\\\\"]{0,8}") {
        let sent = pod(&name, version, &app);
        let log = log(1);
        let mut tail = log.tail(&pods(), None).unwrap();
        log.append(&[Change { before: None, after: Some(Arc::clone(&sent)) }]);
        let replication = LineReader::default().read(&tail.available().unwrap().lines).unwrap();
        let received = replication.change.unwrap().after.unwrap();
        let words = |document: &StoredDocument| {
            let words = document.origin.vocabulary.read();
            let mut terms: Vec<String> =
                document.terms().filter_map(|number| words.term(number)).map(|term| format!("{}={}", term.key(), term.value())).collect();
            terms.sort();
            terms
        };
        prop_assert_eq!(words(&sent), words(&received));
        prop_assert_eq!(sent.sort_position(), received.sort_position());
        prop_assert_eq!((sent.id(), sent.version), (received.id(), received.version));
        let mut decompressor = Decompressor::new();
        prop_assert_eq!(sent.object(&mut decompressor).unwrap(), received.object(&mut decompressor).unwrap());
    }
}
