//! Connections to a member and to the store that fail in different ways.

use std::time::Duration;

use anyhow::ensure;
use e2e::{
    fleet::unique,
    http,
    poll::eventually,
    proxy::{Fault, FaultProxy},
    scenario::{DEADLINE, Stage},
};
use serde_json::{Value, json};

use super::{Fixture, enter, stop, until_written};

/// Less than a page of a list, and sometimes less than a bulk response.
const SOME_BYTES: u64 = 20_000;
const SLOW: Duration = Duration::from_millis(200);

#[tokio::test]
async fn no_change_is_lost_when_connections_to_a_member_fail() {
    let stage = enter().await;
    let cluster = unique("broken");
    let proxy = stage.register_behind_proxy(1, &cluster).await.unwrap();
    let fixture = Fixture::new(&stage, "broken", vec![(1, cluster.clone())], |_| ()).await;
    let churns = fixture.start_churn();
    for _ in 0..3 {
        until_written(&churns, 50).await;
        proxy.cut();
    }
    proxy.set(Fault::Delay(SLOW));
    until_written(&churns, 100).await;
    proxy.set(Fault::ResetAfter(SOME_BYTES));
    until_written(&churns, 200).await;
    proxy.set(Fault::None);
    fixture.registry.until_ready().await.unwrap();
    // All connections are silent, and none is closed.
    proxy.set(Fault::BlackHole);
    fixture
        .registry
        .until_phase(&cluster, "Failed", "Unreachable")
        .await
        .unwrap();
    proxy.set(Fault::None);
    until_written(&churns, 100).await;
    stop(churns).await;
    fixture.check_and_remove().await;
    stage.unregister(&cluster).await.unwrap();
}

#[tokio::test]
async fn no_change_is_lost_when_connections_to_the_store_fail() {
    let stage = enter().await;
    let proxy = FaultProxy::start(stage.fleet.opensearch().unwrap().url()).unwrap();
    let address = json!([proxy.url()]);
    let clusters = vec![(1, "member1".to_owned()), (2, "member2".to_owned())];
    let fixture = Fixture::new(&stage, "wires", clusters, |registry| {
        registry.store()["addresses"] = address;
    })
    .await;
    let churns = fixture.start_churn();
    for _ in 0..5 {
        until_written(&churns, 30).await;
        proxy.cut();
    }
    proxy.set(Fault::Delay(SLOW));
    until_written(&churns, 100).await;
    // Responses are cut off: the outcome of the request is unknown.
    proxy.set(Fault::ResetAfter(SOME_BYTES / 100));
    until_written(&churns, 200).await;
    proxy.set(Fault::Refuse);
    fixture
        .registry
        .until("StoreReachable", "False", "Unreachable", "")
        .await
        .unwrap();
    proxy.set(Fault::BlackHole);
    until_written(&churns, 200).await;
    proxy.set(Fault::None);
    until_written(&churns, 50).await;
    stop(churns).await;
    fixture.check_and_remove().await;
}

#[tokio::test]
async fn a_disconnected_member_keeps_its_documents_and_is_reported_stale() {
    let stage = enter().await;
    let cluster = unique("stale");
    let proxy = stage.register_behind_proxy(2, &cluster).await.unwrap();
    let fixture = Fixture::new(
        &stage,
        "stale",
        vec![(1, "member1".to_owned()), (2, cluster.clone())],
        |_| (),
    )
    .await;
    let count = fixture.until_equal().await;
    let (warnings, items) = query(&stage, &cluster).await;
    assert_eq!(warnings, [""; 0]);
    assert!(items > 0);

    proxy.set(Fault::Refuse);
    let status = fixture
        .registry
        .until_phase(&cluster, "Failed", "stay as they were")
        .await
        .unwrap();
    eprintln!("{status}");
    assert!(status["objects"].as_u64().unwrap() > 0, "{status}");
    let documents = stage
        .opensearch
        .count(&fixture.registry.prefix, &json!({ "match_all": {} }))
        .await
        .unwrap();
    assert_eq!(documents, count as u64);
    eventually("answers warn of it", DEADLINE, || async {
        let (warnings, still) = query(&stage, &cluster).await;
        ensure!(
            warnings.iter().any(|warning| warning.contains(&cluster)),
            "{warnings:?}"
        );
        ensure!(still == items, "{still} items");
        Ok(())
    })
    .await
    .unwrap();

    // Changes during the outage are indexed afterwards.
    let churns = fixture.start_churn();
    until_written(&churns, 100).await;
    stop(churns).await;
    proxy.set(Fault::None);
    fixture.until_equal().await;
    fixture.registry.until_ready().await.unwrap();
    eventually("nothing is stale any more", DEADLINE, || async {
        let (warnings, _) = query(&stage, &cluster).await;
        ensure!(warnings.is_empty(), "{warnings:?}");
        Ok(())
    })
    .await
    .unwrap();
    fixture.registry.remove().await.unwrap();
    stage.unregister(&cluster).await.unwrap();
}

/// Warnings and number of items of a query for the `ConfigMap`s of a cluster.
async fn query(stage: &Stage, cluster: &str) -> (Vec<String>, usize) {
    let path =
        format!("apis/search.fleetdex.io/v1alpha1/search/api/v1/configmaps?clusters={cluster}");
    let request = http::client(None)
        .unwrap()
        .get(format!("http://{}/{path}", stage.operator.api_address()));
    let answer = request
        .bearer_auth(stage.operator.token().unwrap())
        .send()
        .await
        .unwrap();
    let warnings = answer
        .headers()
        .get_all("warning")
        .iter()
        .map(|value| value.to_str().unwrap().to_owned())
        .collect();
    let status = answer.status();
    let body: Value = answer.json().await.unwrap();
    assert!(status.is_success(), "{status}: {body}");
    (warnings, body["items"].as_array().unwrap().len())
}
