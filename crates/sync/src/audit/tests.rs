//! Audits between a member and a store in memory, on a paused clock.

use fleetdex_api::registry::{ResourceRegistrySpec, ResourceSelector};
use fleetdex_core::model::{Gvk, Resource};
use fleetdex_store::bulk::Write;
use http::StatusCode;
use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

use super::{
    fake::{World, version},
    *,
};
use crate::filter::ObjectFilter;

const LABELS: &str = r#"cluster="member1",kind="v1/ConfigMap""#;

#[tokio::test(start_paused = true)]
async fn what_is_as_it_should_be_is_read_once_and_only_as_metadata() {
    let world = World::new("member1").await;
    let uids: Vec<String> = (0..1_200).map(|number| format!("u{number:04}")).collect();
    let objects: Vec<(&str, u64)> = uids.iter().map(|uid| (uid.as_str(), 7)).collect();
    world.has(&objects);
    world.stores(&objects);
    let findings = world.audit.run().await.unwrap();
    assert_eq!(
        findings,
        Findings {
            listed: 1_200,
            stored: 1_200,
            ..Findings::default()
        }
    );
    let asked = world.member.lock().asked.clone();
    assert_eq!(asked.len(), 3, "{asked:?}");
    assert_eq!(asked[1].0, "/api/v1/configmaps?limit=500&continue=u0499");
    assert_eq!(
        asked[0].1,
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
    );
    assert_eq!(
        world.counter(&format!("fleetdex_audits_total{{{LABELS}}}")),
        1
    );
    assert!(!world.audit.progress.is_broken());
    assert!(world.audit.progress.view().audits.last.is_some());
}

#[tokio::test(start_paused = true)]
async fn drift_is_counted_noted_and_makes_the_stream_begin_anew() {
    let world = World::new("member1").await;
    world.has(&[("fine", 3), ("missing", 4), ("old", 9)]);
    world.stores(&[("fine", 3), ("old", 8), ("surplus", 5)]);
    let findings = world.audit.run().await.unwrap();
    let examples = ["old", "surplus", "missing"]
        .map(|uid| format!("v1/ConfigMap/{uid}"))
        .to_vec();
    assert_eq!(
        findings,
        Findings {
            listed: 3,
            stored: 3,
            missing: 1,
            differing: 1,
            surplus: 1,
            examples
        }
    );
    for drift in ["missing", "differing", "surplus"] {
        assert_eq!(
            world.counter(&format!(
                "fleetdex_drift_documents_total{{{LABELS},drift=\"{drift}\"}}"
            )),
            1
        );
    }
    assert!(world.audit.progress.is_broken());
    let audits = world.audit.progress.view().audits;
    assert_eq!((audits.drift, audits.drift_found), (3, audits.last));
    let again = world.audit.run().await.unwrap_err();
    assert_eq!(
        again.to_string(),
        "the kind is not in sync: it is about to be read anew"
    );
}

#[tokio::test(start_paused = true)]
async fn what_arrives_late_is_waited_for() {
    let world = World::new("member1").await;
    world.has(&[("late", 12)]);
    world.member.lock().version = 12;
    let began = Instant::now();
    let arrives = async {
        sleep(Duration::from_secs(40)).await;
        world.stores(&[("late", 12)]);
        world.audit.progress.reached(version(12));
    };
    let (findings, ()) = tokio::join!(world.audit.run(), arrives);
    assert_eq!(findings.unwrap().drift(), 0);
    assert!(
        (40..=42).contains(&began.elapsed().as_secs()),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_stays_behind_is_not_waited_for_without_end() {
    let world = World::new("member1").await;
    world.has(&[("lost", 12)]);
    world.member.lock().version = 12;
    assert_eq!(world.audit.run().await.unwrap().missing, 1);
}

#[tokio::test(start_paused = true)]
async fn changes_that_the_store_does_not_take_are_no_drift() {
    let world = World::new("member1").await;
    world.has(&[("waits", 12)]);
    world.member.lock().version = 12;
    let generation = world
        .audit
        .outlet
        .pipeline
        .open_generation_of(&world.audit.unit.cluster)
        .unwrap();
    let write = Write {
        index: generation.target,
        id: "v1/ConfigMap/waits".into(),
        version: version(12),
        body: None,
    };
    let ticket = world.audit.progress.ticket();
    let error = world.audit.run().await.unwrap_err();
    assert!(matches!(error, AuditError::Behind), "{error}");
    assert!(!world.audit.progress.is_broken());
    world.audit.outlet.pipeline.submit(write, None, ticket);
}

#[tokio::test(start_paused = true)]
async fn a_document_from_the_future_is_drift_and_a_change_after_the_list_is_none() {
    let world = World::new("member1").await;
    world.has(&[("a", 9)]);
    world.stores(&[("a", 50)]);
    assert_eq!(world.audit.run().await.unwrap().differing, 1);
    let other = World::new("member1").await;
    other.has(&[("a", 9)]);
    other.stores(&[("a", 11)]);
    other.member.lock().delay = Duration::from_secs(10);
    let changes = async {
        sleep(Duration::from_secs(15)).await;
        other.member.lock().version = 11;
    };
    let (findings, ()) = tokio::join!(other.audit.run(), changes);
    assert_eq!(findings.unwrap().drift(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_fails_is_named_and_counted() {
    let world = World::new("member1").await;
    world.member.lock().fails = Some(StatusCode::INTERNAL_SERVER_ERROR);
    let failed = world.audit.run().await.unwrap_err().to_string();
    assert!(
        failed.starts_with("the member cannot be listed: "),
        "{failed}"
    );
    world.audit.progress.failing(
        crate::progress::Obstacle::Refusal,
        "Forbidden",
        "configmaps is forbidden".to_owned(),
    );
    let failing = world.audit.run().await.unwrap_err().to_string();
    assert_eq!(
        failing,
        "the kind is not in sync: Forbidden: configmaps is forbidden"
    );
    world.audit.progress.list_begins();
    world.audit.progress.recovered();
    assert_eq!(
        world.audit.run().await.unwrap_err().to_string(),
        "the kind is not in sync: a list is under way"
    );
    world.audit.stop.cancel();
    assert!(matches!(
        world.audit.run().await.unwrap_err(),
        AuditError::Interrupted
    ));
    assert_eq!(
        world.counter(&format!("fleetdex_audits_failed_total{{{LABELS}}}")),
        4
    );
    assert_eq!(
        world.counter(&format!("fleetdex_audits_total{{{LABELS}}}")),
        0
    );
}

#[tokio::test(start_paused = true)]
async fn a_relist_between_the_looks_ends_the_audit() {
    let world = World::new("member1").await;
    world.stores(&[("surplus", 5)]);
    let relists = async {
        sleep(Duration::from_millis(500)).await;
        world.audit.progress.list_begins();
    };
    let (outcome, ()) = tokio::join!(world.audit.run(), relists);
    assert!(matches!(outcome.unwrap_err(), AuditError::NotInSync(_)));
}

#[tokio::test(start_paused = true)]
async fn objects_are_listed_whole_where_their_fields_decide() {
    let selector: ResourceSelector = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "fieldSelector": { "matchExpressions": [{ "key": "data.size", "operator": "In", "values": ["big"] }] },
    }))
    .unwrap();
    let resource = Resource {
        gvk: Gvk::new("", "v1", "ConfigMap"),
        plural: "configmaps".into(),
        namespaced: true,
    };
    let filter = ObjectFilter::new(&selector, &ResourceRegistrySpec::default(), &resource)
        .unwrap()
        .unwrap();
    let world = World::with("member1", filter, &mut Permits::default()).await;
    world.has(&[("unwanted", 3)]);
    assert_eq!(world.audit.run().await.unwrap(), Findings::default());
    assert_eq!(world.member.lock().asked[0].1, "application/json");
}

#[tokio::test(start_paused = true)]
async fn audits_come_at_random_times_and_one_in_an_interval_on_the_average() {
    let world = World::new("member1").await;
    let hour = Duration::from_hours(1);
    let audit = Arc::clone(&world.audit);
    let audits = AbortOnDropHandle::new(tokio::spawn(async move { audit.repeat(hour).await }));
    sleep(hour * 100).await;
    drop(audits);
    let count = world.counter(&format!("fleetdex_audits_total{{{LABELS}}}"));
    assert!(
        (80..120).contains(&count),
        "{count} audits in 100 intervals"
    );
}

#[tokio::test(start_paused = true)]
async fn few_audits_read_at_once() {
    let mut permits = Permits::default();
    let mut worlds = Vec::new();
    for cluster in ["a", "a", "b", "b", "c", "c"] {
        let world = World::with(cluster, ObjectFilter::default(), &mut permits).await;
        world.member.lock().delay = Duration::from_secs(10);
        worlds.push(world);
    }
    // Ten seconds each: two at a time, but not of one cluster.
    assert_eq!(seconds_of(&worlds).await, 30);
    assert_eq!(seconds_of(&worlds[..2]).await, 20);
}

/// How long it takes to audit all of them.
async fn seconds_of(worlds: &[World]) -> u64 {
    let began = Instant::now();
    let mut audits = JoinSet::new();
    for world in worlds {
        let audit = Arc::clone(&world.audit);
        audits.spawn(async move { audit.run().await.unwrap() });
    }
    audits.join_all().await;
    began.elapsed().as_secs()
}

#[tokio::test(start_paused = true)]
async fn a_list_without_end_is_given_up() {
    let world = World::new("member1").await;
    let endless = |objects, delay| {
        let mut member = world.member.lock();
        (member.endless, member.delay) = (Some(objects), delay);
    };
    endless(501, Duration::ZERO);
    let overfull = world.audit.run().await.unwrap_err().to_string();
    assert_eq!(
        overfull,
        "the member cannot be listed: a page has 501 objects where 500 were asked for, and is not the last one"
    );
    endless(0, Duration::from_secs(1));
    assert_eq!(
        world.audit.run().await.unwrap_err().to_string(),
        "objects and documents were not read within 15 minutes"
    );
    assert!(!world.audit.progress.is_broken());
    endless(500, Duration::ZERO);
    world.audit.progress.set_objects(700);
    assert!(matches!(
        world.audit.run().await.unwrap_err(),
        AuditError::TooMany(101_400)
    ));
    assert!(
        world.audit.progress.is_broken(),
        "what it has shown is not what it has"
    );
}
