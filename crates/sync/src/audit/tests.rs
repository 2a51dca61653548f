//! Audits between a member and a store in memory, on a paused clock.

use fleetdex_core::model::{Document, Gvk, Resource};
use fleetdex_crds::registry::{ResourceRegistrySpec, ResourceSelector};
use fleetdex_store::bulk::Write;
use http::StatusCode;
use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

use super::{
    fake::{AuditFixture, version},
    *,
};
use crate::filter::ObjectFilter;

const LABELS: &str = r#"cluster="member1",kind="v1/ConfigMap""#;

#[tokio::test(start_paused = true)]
async fn without_drift_the_metadata_is_read_once() {
    let fixture = AuditFixture::new("member1").await;
    let uids: Vec<String> = (0..1_200).map(|number| format!("u{number:04}")).collect();
    let objects: Vec<(&str, u64)> = uids.iter().map(|uid| (uid.as_str(), 7)).collect();
    fixture.has(&objects);
    fixture.stores(&objects);
    let findings = fixture.audit.run().await.unwrap();
    assert_eq!(
        findings,
        Findings {
            listed: 1_200,
            stored: 1_200,
            ..Findings::default()
        }
    );
    let requests = fixture.member.lock().requests.clone();
    assert_eq!(requests.len(), 3, "{requests:?}");
    assert_eq!(requests[1].0, "/api/v1/configmaps?limit=500&continue=u0499");
    assert_eq!(
        requests[0].1,
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
    );
    assert_eq!(
        fixture.counter(&format!("fleetdex_audits_total{{{LABELS}}}")),
        1
    );
    assert!(!fixture.audit.progress.is_broken());
    assert!(fixture.audit.progress.status().audits.last.is_some());
}

#[tokio::test(start_paused = true)]
async fn drift_is_counted_and_recorded_and_restarts_the_stream() {
    let fixture = AuditFixture::new("member1").await;
    fixture.has(&[("fine", 3), ("missing", 4), ("old", 9)]);
    fixture.stores(&[("fine", 3), ("old", 8), ("surplus", 5)]);
    let findings = fixture.audit.run().await.unwrap();
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
            fixture.counter(&format!(
                "fleetdex_drift_documents_total{{{LABELS},drift=\"{drift}\"}}"
            )),
            1
        );
    }
    assert!(fixture.audit.progress.is_broken());
    let audits = fixture.audit.progress.status().audits;
    assert_eq!((audits.drift, audits.drift_found), (3, audits.last));
    let again = fixture.audit.run().await.unwrap_err();
    assert_eq!(
        again.to_string(),
        "the kind is not in sync: its stream is about to be restarted"
    );
}

#[tokio::test(start_paused = true)]
async fn late_documents_are_waited_for() {
    let fixture = AuditFixture::new("member1").await;
    fixture.has(&[("late", 12)]);
    fixture.member.lock().version = 12;
    let began = Instant::now();
    let arrives = async {
        sleep(Duration::from_secs(40)).await;
        fixture.stores(&[("late", 12)]);
        fixture.audit.progress.reached(version(12));
    };
    let (findings, ()) = tokio::join!(fixture.audit.run(), arrives);
    assert_eq!(findings.unwrap().drift(), 0);
    assert!(
        (40..=42).contains(&began.elapsed().as_secs()),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_a_stream_ends() {
    let fixture = AuditFixture::new("member1").await;
    fixture.has(&[("lost", 12)]);
    fixture.member.lock().version = 12;
    assert_eq!(fixture.audit.run().await.unwrap().missing, 1);
}

#[tokio::test(start_paused = true)]
async fn changes_that_the_store_does_not_accept_are_no_drift() {
    let fixture = AuditFixture::new("member1").await;
    fixture.has(&[("waits", 12)]);
    fixture.member.lock().version = 12;
    let revision = fixture
        .audit
        .sink
        .pipeline
        .revisions
        .of_cluster(&fixture.audit.unit.cluster)
        .unwrap();
    let write = Write {
        index: revision.target,
        document: Document::deletion("v1/ConfigMap/waits".into(), version(12)),
    };
    let ticket = fixture.audit.progress.ticket();
    let error = fixture.audit.run().await.unwrap_err();
    assert!(matches!(error, AuditError::Behind), "{error}");
    assert!(!fixture.audit.progress.is_broken());
    fixture
        .audit
        .sink
        .pipeline
        .queue
        .submit(write, None, ticket);
}

#[tokio::test(start_paused = true)]
async fn a_document_from_the_future_is_drift_and_a_change_after_the_list_is_none() {
    let fixture = AuditFixture::new("member1").await;
    fixture.has(&[("a", 9)]);
    fixture.stores(&[("a", 50)]);
    assert_eq!(fixture.audit.run().await.unwrap().differing, 1);
    let other = AuditFixture::new("member1").await;
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
async fn failed_audits_have_a_reason_and_are_counted() {
    let fixture = AuditFixture::new("member1").await;
    fixture.member.lock().fails = Some(StatusCode::INTERNAL_SERVER_ERROR);
    let failed = fixture.audit.run().await.unwrap_err().to_string();
    assert!(
        failed.starts_with("the member cannot be listed: "),
        "{failed}"
    );
    fixture.audit.progress.failing(
        crate::progress::FailureCause::Refusal,
        "Forbidden",
        "configmaps is forbidden".to_owned(),
    );
    let failing = fixture.audit.run().await.unwrap_err().to_string();
    assert_eq!(
        failing,
        "the kind is not in sync: Forbidden: configmaps is forbidden"
    );
    fixture.audit.progress.list_started();
    fixture.audit.progress.recovered();
    assert_eq!(
        fixture.audit.run().await.unwrap_err().to_string(),
        "the kind is not in sync: a list is in progress"
    );
    fixture.audit.stop.cancel();
    assert!(matches!(
        fixture.audit.run().await.unwrap_err(),
        AuditError::Interrupted
    ));
    assert_eq!(
        fixture.counter(&format!("fleetdex_audits_failed_total{{{LABELS}}}")),
        4
    );
    assert_eq!(
        fixture.counter(&format!("fleetdex_audits_total{{{LABELS}}}")),
        0
    );
}

#[tokio::test(start_paused = true)]
async fn a_relist_between_the_passes_ends_the_audit() {
    let fixture = AuditFixture::new("member1").await;
    fixture.stores(&[("surplus", 5)]);
    let relists = async {
        sleep(Duration::from_millis(500)).await;
        fixture.audit.progress.list_started();
    };
    let (outcome, ()) = tokio::join!(fixture.audit.run(), relists);
    assert!(matches!(outcome.unwrap_err(), AuditError::NotInSync(_)));
}

#[tokio::test(start_paused = true)]
async fn whole_objects_are_listed_when_fields_select() {
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
    let fixture = AuditFixture::with("member1", filter, &mut Permits::default()).await;
    fixture.has(&[("unwanted", 3)]);
    assert_eq!(fixture.audit.run().await.unwrap(), Findings::default());
    assert_eq!(fixture.member.lock().requests[0].1, "application/json");
}

#[tokio::test(start_paused = true)]
async fn audits_run_once_in_an_interval_on_average() {
    let fixture = AuditFixture::new("member1").await;
    let hour = Duration::from_hours(1);
    let audit = Arc::clone(&fixture.audit);
    let audits = AbortOnDropHandle::new(tokio::spawn(async move { audit.repeat(hour).await }));
    sleep(hour * 100).await;
    drop(audits);
    let count = fixture.counter(&format!("fleetdex_audits_total{{{LABELS}}}"));
    assert!(
        (80..120).contains(&count),
        "{count} audits in 100 intervals"
    );
}

#[tokio::test(start_paused = true)]
async fn concurrent_audits_are_limited() {
    let mut permits = Permits::default();
    let mut fixtures = Vec::new();
    for cluster in ["a", "a", "b", "b", "c", "c"] {
        let fixture = AuditFixture::with(cluster, ObjectFilter::default(), &mut permits).await;
        fixture.member.lock().delay = Duration::from_secs(10);
        fixtures.push(fixture);
    }
    // Ten seconds each: two at a time, but not of one cluster.
    assert_eq!(seconds_of(&fixtures).await, 30);
    assert_eq!(seconds_of(&fixtures[..2]).await, 20);
}

/// How long it takes to audit all of them.
async fn seconds_of(fixtures: &[AuditFixture]) -> u64 {
    let began = Instant::now();
    let mut audits = JoinSet::new();
    for fixture in fixtures {
        let audit = Arc::clone(&fixture.audit);
        audits.spawn(async move { audit.run().await.unwrap() });
    }
    audits.join_all().await;
    began.elapsed().as_secs()
}

#[tokio::test(start_paused = true)]
async fn a_list_without_end_is_aborted() {
    let fixture = AuditFixture::new("member1").await;
    let endless = |objects, delay| {
        let mut member = fixture.member.lock();
        (member.endless, member.delay) = (Some(objects), delay);
    };
    endless(501, Duration::ZERO);
    let overfull = fixture.audit.run().await.unwrap_err().to_string();
    assert_eq!(
        overfull,
        "the member cannot be listed: a page has 501 objects, more than the limit 500, and is not the last one"
    );
    endless(0, Duration::from_secs(1));
    assert_eq!(
        fixture.audit.run().await.unwrap_err().to_string(),
        "objects and documents were not read within 15 minutes"
    );
    assert!(!fixture.audit.progress.is_broken());
    endless(500, Duration::ZERO);
    fixture.audit.progress.set_objects(700, Arc::default());
    assert!(matches!(
        fixture.audit.run().await.unwrap_err(),
        AuditError::TooMany(101_400)
    ));
    assert!(
        fixture.audit.progress.is_broken(),
        "its stream is restarted"
    );
}
