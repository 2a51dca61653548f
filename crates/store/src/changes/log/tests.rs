use std::collections::BTreeSet;

use fleetdex_core::{
    model::{Gvk, ReplicaRun, Resource},
    query::{Query, Selectable, Word},
};
use serde_json::json;
use tokio::time::advance;

use super::{
    gaps::{BETWEEN_WATCHES, GAPS},
    state::GRACE,
    *,
};
use crate::{
    StoreError,
    changes::{EventKind, Watch, WatchError, fake},
    document::StoredDocument,
};

const PODS: (&str, &str) = ("Pod", "pods");
const SERVICES: (&str, &str) = ("Service", "services");
const SECRETS: (&str, &str) = ("Secret", "secrets");

/// Room for every change of a test unless it says otherwise.
const ROOMY: Bounds = Bounds {
    changes: 1_000,
    bytes: 1 << 20,
    owns_documents: false,
    results_lag: false,
};
const MOMENT: Duration = Duration::from_millis(1);

fn log(bounds: Bounds) -> Arc<Log> {
    Arc::new(Log::new(
        Sequence::of(ReplicaRun::new(1_790_000_000_000, 0)),
        bounds,
    ))
}

fn resource((kind, plural): (&str, &str)) -> Resource {
    Resource {
        gvk: Gvk::new("", "v1", kind),
        plural: plural.into(),
        namespaced: true,
    }
}

fn name(of: (&str, &str)) -> ResourceName {
    ResourceName::new("", of.1)
}

fn query(of: (&str, &str)) -> Query {
    Query::all_of(name(of), Selectable::of(&resource(of).gvk, &[]), 500)
}

fn document(of: (&str, &str)) -> Arc<StoredDocument> {
    let metadata = json!({ "name": "a", "namespace": "web", "uid": "u", "resourceVersion": "7" });
    fake::document(&resource(of), &json!({ "metadata": metadata }))
}

fn added(of: (&str, &str)) -> Change {
    Change {
        before: None,
        after: Some(document(of)),
    }
}

fn pods(count: usize) -> Vec<Change> {
    vec![added(PODS); count]
}

fn append_one_by_one(log: &Log, count: usize) {
    for change in pods(count) {
        log.append(&[change]);
    }
}

/// The numbers of the events that a watch has for now, or why it ended.
async fn received(watch: &mut Watch) -> Result<Vec<u64>, StoreError> {
    let mut numbers = Vec::new();
    while let Ok(events) = timeout(MOMENT, watch.next()).await {
        numbers.extend(events?.iter().map(|event| event.sequence));
    }
    Ok(numbers)
}

fn is_too_old(log: &Arc<Log>, of: (&str, &str), after: u64) -> bool {
    match log.watch(&query(of), after) {
        Ok(_) => false,
        Err(error) => {
            assert_eq!(error, WatchError::TooOld(TooOld { after }));
            true
        }
    }
}

#[tokio::test(start_paused = true)]
async fn changes_have_numbers_in_their_order() {
    let log = log(ROOMY);
    let start = log.newest();
    let mut watch = log.watch(&query(PODS), start).unwrap();
    log.append(&[]);
    assert_eq!(log.newest(), start, "no change has no number");
    log.append(&pods(2));
    log.append(&[added(SERVICES), added(PODS)]);
    assert_eq!((log.newest(), log.visible()), (start + 4, start + 4));
    assert_eq!(
        received(&mut watch).await.unwrap(),
        [start + 1, start + 2, start + 4]
    );
    assert_eq!(
        received(&mut log.watch(&query(PODS), start + 1).unwrap())
            .await
            .unwrap(),
        [start + 2, start + 4]
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_if_an_object_takes_too_many_steps_to_compare() {
    let with_keys = |count: usize| {
        let key = |number: usize| (format!("{}{number}", "a".repeat(250)), json!(""));
        let annotations: serde_json::Map<_, _> = (0..count).map(key).collect();
        let metadata = json!({ "name": "a", "namespace": "web", "uid": "u", "resourceVersion": "7", "annotations": annotations });
        let document = fake::document(&resource(PODS), &json!({ "metadata": metadata }));
        Change {
            before: None,
            after: Some(document),
        }
    };
    let log = log(Bounds {
        bytes: 1 << 30,
        ..ROOMY
    });
    let start = log.newest();
    let word = |last: char| Word::new(&format!("{}{last}", "a".repeat(249)), true);
    let query = Query {
        words: ['b', 'c', 'd'].map(word).into_iter().collect(),
        ..query(PODS)
    };
    let mut watch = log.watch(&query, start).unwrap();
    log.append(&[with_keys(1_000)]);
    assert_eq!(received(&mut watch).await.unwrap(), [start + 1]);
    log.append(&[with_keys(10_000)]);
    let ended = received(&mut watch).await;
    assert!(matches!(ended, Err(StoreError::TooComplex)), "{ended:?}");
}

#[tokio::test(start_paused = true)]
async fn one_watch_follows_queries_of_several_resources() {
    let log = log(ROOMY);
    let start = log.newest();
    let queries = [query(PODS), query(SERVICES)];
    let mut watch = log.watch_settled(&queries, start).await.unwrap();
    log.append(&[added(SERVICES), added(SECRETS), added(PODS)]);
    assert_eq!(received(&mut watch).await.unwrap(), [start + 1, start + 3]);
    assert!(log.is_watched(&name(PODS)) && log.is_watched(&name(SERVICES)));
    let followed = BTreeSet::from([name(PODS), name(SERVICES)]);
    assert_eq!(log.open_gap().1, followed);
    assert!(log.watch_settled(&queries, start).await.is_ok());
    let others = [query(PODS), query(SECRETS)];
    let from_before_the_gap = log.watch_settled(&others, start).await;
    assert!(from_before_the_gap.is_err(), "of secrets not all is known");
    log.lose(&name(SECRETS));
    assert_eq!(received(&mut watch).await.unwrap(), [0; 0]);
    log.lose(&name(SERVICES));
    let lost = received(&mut watch).await;
    assert!(matches!(lost, Err(StoreError::Expired)));
    drop(watch);
    assert_eq!(log.open_gap().1, followed, "the next watch usually follows");
}

#[tokio::test(start_paused = true)]
async fn objects_of_one_name_and_several_resources_do_not_wait_for_each_other() {
    let log = log(Bounds {
        results_lag: true,
        ..ROOMY
    });
    let start = log.newest();
    let gone = Change {
        before: Some(document(SERVICES)),
        after: None,
    };
    log.append(&[added(PODS), added(SECRETS), gone]);
    let queries = [query(PODS), query(SERVICES)];
    let mut watch = log.watch_settled(&queries, start).await.unwrap();
    assert_eq!(received(&mut watch).await.unwrap(), [start + 1, start + 3]);
}

#[tokio::test(start_paused = true)]
async fn lagging_results_show_a_change_only_once_it_is_marked_visible() {
    let log = log(Bounds {
        results_lag: true,
        ..ROOMY
    });
    let start = log.newest();
    log.append(&pods(2));
    assert_eq!((log.newest(), log.visible()), (start + 2, start));
    assert!(!log.reaches(start + 2, MOMENT).await);
    log.show(start + 1);
    assert!(log.reaches(start + 1, MOMENT).await);
    assert!(!log.reaches(start + 2, MOMENT).await);
    log.show(start + 2);
    log.show(start + 1);
    assert_eq!(log.visible(), start + 2, "what is seen stays seen");
    assert!(
        log.reaches(start + 900, MOMENT).await,
        "no watch waits for changes of another log"
    );
}

#[tokio::test(start_paused = true)]
async fn the_log_drops_the_oldest_changes_beyond_its_count() {
    let log = log(Bounds {
        changes: 4,
        ..ROOMY
    });
    let start = log.newest();
    append_one_by_one(&log, 4);
    assert!(!is_too_old(&log, PODS, start));
    append_one_by_one(&log, 2);
    assert!(is_too_old(&log, PODS, start + 1));
    assert_eq!(
        received(&mut log.watch(&query(PODS), start + 2).unwrap())
            .await
            .unwrap(),
        [start + 3, start + 4, start + 5, start + 6]
    );
    assert!(is_too_old(&log, PODS, log.before_start()));
    assert!(!is_too_old(&log, PODS, log.before_start() + 1));
}

#[tokio::test(start_paused = true)]
async fn the_log_drops_the_oldest_changes_beyond_its_bytes() {
    let size = document(PODS).footprint();
    let modified = || Change {
        before: Some(document(PODS)),
        after: Some(document(PODS)),
    };
    // The store has the newest document of an object anyhow; a log that keeps them alone counts
    // those that were replaced, too.
    for (owns_documents, kept) in [(false, 4), (true, 2)] {
        let log = log(Bounds {
            bytes: 4 * size,
            owns_documents,
            ..ROOMY
        });
        let start = log.newest();
        for _ in 0..6 {
            log.append(&[modified()]);
        }
        assert!(
            is_too_old(&log, PODS, start + 6 - kept - 1),
            "{owns_documents}"
        );
        assert!(
            !is_too_old(&log, PODS, start + 6 - kept),
            "{owns_documents}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_newest_batch_is_kept_whole_however_large_it_is() {
    let log = log(Bounds {
        changes: 2,
        ..ROOMY
    });
    let start = log.newest();
    log.append(&pods(10));
    assert_eq!(
        received(&mut log.watch(&query(PODS), start).unwrap())
            .await
            .unwrap()
            .len(),
        10
    );
    log.append(&pods(1));
    assert!(
        is_too_old(&log, PODS, start + 9),
        "nothing followed the log, so no watch waits for it"
    );
    assert!(!is_too_old(&log, PODS, start + 10));
}

#[tokio::test(start_paused = true)]
async fn a_large_batch_stays_for_a_grace_period_until_subscribers_have_read_it() {
    let bounds = Bounds {
        changes: 4,
        ..ROOMY
    };
    let start = log(bounds).newest();

    let patient = log(bounds);
    let mut slow = patient.watch(&query(PODS), start).unwrap();
    patient.append(&pods(10));
    append_one_by_one(&patient, 3);
    assert_eq!(received(&mut slow).await.unwrap().len(), 13);
    append_one_by_one(&patient, 1);
    assert!(is_too_old(&patient, PODS, start), "everybody has seen it");
    assert_eq!(received(&mut slow).await.unwrap(), [start + 14]);

    let impatient = log(bounds);
    let mut stuck = impatient.watch(&query(PODS), start).unwrap();
    impatient.append(&pods(10));
    advance(GRACE.saturating_sub(MOMENT)).await;
    append_one_by_one(&impatient, 1);
    assert!(!is_too_old(&impatient, PODS, start));
    advance(2 * MOMENT).await;
    append_one_by_one(&impatient, 1);
    assert!(is_too_old(&impatient, PODS, start));
    assert!(matches!(
        received(&mut stuck).await,
        Err(StoreError::Expired)
    ));
}

#[tokio::test(start_paused = true)]
async fn watches_of_tracked_resources_continue_across_a_gap() {
    let log = log(ROOMY);
    let start = log.newest();
    let watch = log.watch(&query(SERVICES), start).unwrap();
    log.note_listed(&name(PODS));
    assert_eq!(
        log.open_gap().1,
        BTreeSet::from([name(PODS), name(SERVICES)])
    );
    assert!(
        log.newest() > start,
        "a number from before the gap differs from one after it"
    );
    assert!(!is_too_old(&log, PODS, start));
    assert!(!is_too_old(&log, SERVICES, start));
    assert!(is_too_old(&log, SECRETS, start));
    assert!(!is_too_old(&log, SECRETS, log.newest()));
    drop(watch);
}

#[tokio::test(start_paused = true)]
async fn a_resource_stays_tracked_shortly_after_a_list_or_watch() {
    let log = log(ROOMY);
    log.note_listed(&name(PODS));
    drop(log.watch(&query(SERVICES), log.newest()).unwrap());
    assert!(!log.has_subscribers());
    advance(BETWEEN_WATCHES.saturating_sub(MOMENT)).await;
    log.note_listed(&name(SECRETS));
    assert_eq!(
        log.open_gap().1,
        BTreeSet::from([name(PODS), name(SECRETS), name(SERVICES)])
    );
    advance(2 * MOMENT).await;
    assert_eq!(log.open_gap().1, BTreeSet::from([name(SECRETS)]));
    advance(BETWEEN_WATCHES).await;
    assert_eq!(log.open_gap().1, BTreeSet::new());
    let _watch = log.watch(&query(PODS), log.newest()).unwrap();
    assert!(log.has_subscribers());
    advance(10 * BETWEEN_WATCHES).await;
    assert_eq!(log.open_gap().1, BTreeSet::from([name(PODS)]));
}

#[tokio::test(start_paused = true)]
async fn watches_from_before_the_oldest_gap_have_to_list_again() {
    let log = log(ROOMY);
    let start = log.newest();
    for _ in 0..GAPS {
        log.note_listed(&name(PODS));
        log.open_gap();
    }
    assert!(!is_too_old(&log, PODS, start));
    log.note_listed(&name(PODS));
    log.open_gap();
    assert!(is_too_old(&log, PODS, start));
    assert!(!is_too_old(&log, PODS, start + 1));
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_of_the_log_every_watch_has_to_list_again() {
    let log = log(ROOMY);
    let start = log.newest();
    let mut watch = log.watch(&query(PODS), start).unwrap();
    log.append(&pods(3));
    let before = log.newest();
    log.restart();
    assert!(log.newest() > before);
    assert!(matches!(
        received(&mut watch).await,
        Err(StoreError::Expired)
    ));
    assert!(is_too_old(&log, PODS, before));
    let mut next = log.watch(&query(PODS), log.newest()).unwrap();
    log.append(&pods(1));
    assert_eq!(received(&mut next).await.unwrap(), [log.newest()]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_a_future_number_is_refused() {
    let log = log(ROOMY);
    assert!(is_too_old(&log, PODS, log.newest() + 1));
    // Another log of the process has taken some: that is a later moment of this log, too.
    log.sequence().take(5);
    assert!(!is_too_old(&log, PODS, log.newest() + 5));
}

#[tokio::test(start_paused = true)]
async fn a_writer_waits_until_subscribers_have_read_what_would_be_dropped() {
    let bounds = Bounds {
        changes: 4,
        ..ROOMY
    };
    let patience = Duration::from_secs(1);
    let waited = async |log: &Log| {
        let since = Instant::now();
        log.wait_for_room(&pods(2), patience).await;
        since.elapsed()
    };

    let log = log(bounds);
    append_one_by_one(&log, 4);
    assert!(waited(&log).await < MOMENT, "nothing follows the log");

    let mut watch = log.watch(&query(PODS), log.newest() - 4).unwrap();
    assert!(
        waited(&log).await >= patience,
        "all four are still to be seen"
    );
    let reading = async {
        sleep(patience / 4).await;
        received(&mut watch).await.unwrap()
    };
    let (waited_for, seen) = tokio::join!(waited(&log), reading);
    assert_eq!(seen.len(), 4);
    assert!(
        (patience / 4..patience / 2).contains(&waited_for),
        "{waited_for:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_late_watch_gets_a_deletion_before_the_new_object_of_the_same_name() {
    let log = log(Bounds {
        results_lag: true,
        ..ROOMY
    });
    let start = log.newest();
    let pod = |uid: &str| {
        let metadata =
            json!({ "name": "a", "namespace": "web", "uid": uid, "resourceVersion": "7" });
        Some(fake::document(
            &resource(PODS),
            &json!({ "metadata": metadata }),
        ))
    };
    // An object is replaced by another one, and comes back in its place.
    for (before, after) in [
        ("first", None),
        ("second", Some(())),
        ("second", None),
        ("first", Some(())),
    ] {
        let change = match after {
            None => Change {
                before: pod(before),
                after: None,
            },
            Some(()) => Change {
                before: None,
                after: pod(before),
            },
        };
        log.append(&[change]);
    }
    let mut watch = log.watch(&query(PODS), start).unwrap();
    let mut heard = Vec::new();
    while let Ok(events) = timeout(MOMENT, watch.next()).await {
        heard.extend(events.unwrap().iter().map(|event| {
            (
                event.sequence - start,
                event.kind,
                event.object.hit().unwrap().object.get().contains("first"),
            )
        }));
    }
    assert_eq!(
        heard,
        [
            (2, EventKind::Deleted, false),
            (3, EventKind::Modified, true)
        ]
    );
    assert_eq!(
        received(&mut log.watch(&query(PODS), start + 3).unwrap())
            .await
            .unwrap(),
        [start + 4]
    );
}
