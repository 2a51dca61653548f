//! Connections that break in every way, to a member and to the store.

use std::time::Duration;

use anyhow::ensure;
use e2e::{
    fleet::unique,
    http,
    poll::eventually,
    proxy::{Fault, FaultProxy},
    scenario::{PATIENCE, Stage},
};
use serde_json::{Value, json};

use super::{Scene, enter, go_on_for, stop};

/// Less than a page of a list, and less than a bulk request's answer now and then.
const SOME_BYTES: u64 = 20_000;
const SLOW: Duration = Duration::from_millis(200);

#[tokio::test]
async fn a_connection_to_a_member_that_breaks_in_every_way() {
    let stage = enter().await;
    let cluster = unique("broken");
    let proxy = stage.register_behind_proxy(1, &cluster).await.unwrap();
    let scene = Scene::new(&stage, "broken", vec![(1, cluster.clone())], |_| ()).await;
    let churns = scene.start_churn();
    for _ in 0..3 {
        go_on_for(&churns, 50).await;
        proxy.cut();
    }
    proxy.set(Fault::Delay(SLOW));
    go_on_for(&churns, 100).await;
    proxy.set(Fault::ResetAfter(SOME_BYTES));
    go_on_for(&churns, 200).await;
    proxy.set(Fault::None);
    scene.registry.until_ready().await.unwrap();
    // Nothing is said on any connection, and none is closed.
    proxy.set(Fault::BlackHole);
    scene
        .registry
        .until_phase(&cluster, "Failed", "Unreachable")
        .await
        .unwrap();
    proxy.set(Fault::None);
    go_on_for(&churns, 100).await;
    stop(churns).await;
    scene.ends_well().await;
    stage.unregister(&cluster).await.unwrap();
}

#[tokio::test]
async fn a_connection_to_the_store_that_breaks_in_every_way() {
    let stage = enter().await;
    let proxy = FaultProxy::start(stage.fleet.opensearch().unwrap().url()).unwrap();
    let address = json!([proxy.url()]);
    let clusters = vec![(1, "member1".to_owned()), (2, "member2".to_owned())];
    let scene = Scene::new(&stage, "wires", clusters, |registry| {
        registry.store()["addresses"] = address;
    })
    .await;
    let churns = scene.start_churn();
    for _ in 0..5 {
        go_on_for(&churns, 30).await;
        proxy.cut();
    }
    proxy.set(Fault::Delay(SLOW));
    go_on_for(&churns, 100).await;
    // Answers end in the middle: what became of the request is unknown.
    proxy.set(Fault::ResetAfter(SOME_BYTES / 100));
    go_on_for(&churns, 200).await;
    proxy.set(Fault::Refuse);
    scene
        .registry
        .until("StoreReachable", "False", "Unreachable", "")
        .await
        .unwrap();
    proxy.set(Fault::BlackHole);
    go_on_for(&churns, 200).await;
    proxy.set(Fault::None);
    go_on_for(&churns, 50).await;
    stop(churns).await;
    scene.ends_well().await;
}

#[tokio::test]
async fn a_member_that_is_cut_off_keeps_its_documents_and_is_told_to_be_stale() {
    let stage = enter().await;
    let cluster = unique("stale");
    let proxy = stage.register_behind_proxy(2, &cluster).await.unwrap();
    let scene = Scene::new(
        &stage,
        "stale",
        vec![(1, "member1".to_owned()), (2, cluster.clone())],
        |_| (),
    )
    .await;
    let count = scene.until_equal().await;
    let (warnings, items) = ask(&stage, &cluster).await;
    assert_eq!(warnings, [""; 0]);
    assert!(items > 0);

    proxy.set(Fault::Refuse);
    let status = scene
        .registry
        .until_phase(&cluster, "Failed", "stay as they were")
        .await
        .unwrap();
    eprintln!("{status}");
    assert!(status["objects"].as_u64().unwrap() > 0, "{status}");
    let documents = stage
        .opensearch
        .count(&scene.registry.prefix, &json!({ "match_all": {} }))
        .await
        .unwrap();
    assert_eq!(documents, count as u64);
    eventually("answers warn of it", PATIENCE, || async {
        let (warnings, still) = ask(&stage, &cluster).await;
        ensure!(
            warnings.iter().any(|warning| warning.contains(&cluster)),
            "{warnings:?}"
        );
        ensure!(still == items, "{still} items");
        Ok(())
    })
    .await
    .unwrap();

    // What changes meanwhile is caught up with.
    let churns = scene.start_churn();
    go_on_for(&churns, 100).await;
    stop(churns).await;
    proxy.set(Fault::None);
    scene.until_equal().await;
    scene.registry.until_ready().await.unwrap();
    eventually("nothing is stale any more", PATIENCE, || async {
        let (warnings, _) = ask(&stage, &cluster).await;
        ensure!(warnings.is_empty(), "{warnings:?}");
        Ok(())
    })
    .await
    .unwrap();
    scene.registry.remove().await.unwrap();
    stage.unregister(&cluster).await.unwrap();
}

/// Warnings and number of items of a query for the `ConfigMap`s of a cluster.
async fn ask(stage: &Stage, cluster: &str) -> (Vec<String>, usize) {
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
