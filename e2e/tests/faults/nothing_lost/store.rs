//! Faults of OpenSearch, and what others do to its indices.

use std::time::Duration;

use e2e::oracle::revisions;
use serde_json::json;

use super::{BOTH, Scene, enter, go_on_for, stop};

/// Long enough for every retry to have come to its longest pause.
const OUTAGE: Duration = Duration::from_mins(1);

#[tokio::test]
async fn a_store_that_is_down_for_a_minute_amid_changes() {
    let stage = enter().await;
    let scene = Scene::of_both(&stage, "outage").await;
    let churns = scene.start_churn();
    go_on_for(&churns, 50).await;
    let server = stage.fleet.opensearch().unwrap();
    server.kill();
    tokio::time::sleep(OUTAGE).await;
    server.restart().await.unwrap();
    go_on_for(&churns, 100).await;
    stop(churns).await;
    scene.ends_well().await;
}

#[tokio::test]
async fn a_write_block_amid_changes() {
    let stage = enter().await;
    let scene = Scene::of_both(&stage, "blocked").await;
    let settings = format!("{}/_settings", scene.indices());
    let churns = scene.start_churn();
    go_on_for(&churns, 50).await;
    stage
        .opensearch
        .put(&settings, &json!({ "index.blocks.write": true }))
        .await
        .unwrap();
    scene
        .registry
        .until("StoreReachable", "False", "Blocked", "")
        .await
        .unwrap();
    go_on_for(&churns, 200).await;
    stage
        .opensearch
        .put(&settings, &json!({ "index.blocks.write": null }))
        .await
        .unwrap();
    go_on_for(&churns, 50).await;
    stop(churns).await;
    scene.ends_well().await;
}

#[tokio::test]
async fn indices_that_somebody_deletes_amid_changes_and_in_silence() {
    let stage = enter().await;
    let scene = Scene::of_both(&stage, "deleted").await;
    let delete = async |cluster: &str| {
        for index in revisions(&stage.opensearch, &scene.registry.prefix, cluster)
            .await
            .unwrap()
        {
            stage.opensearch.delete(&index).await.unwrap();
        }
    };
    let churns = scene.start_churn();
    go_on_for(&churns, 50).await;
    delete(BOTH[0]).await;
    go_on_for(&churns, 100).await;
    stop(churns).await;
    scene.until_equal().await;

    // Nothing is written to this one.
    delete(BOTH[1]).await;
    scene.ends_well().await;
}

#[tokio::test]
async fn aliases_that_somebody_removes() {
    let stage = enter().await;
    let scene = Scene::of_both(&stage, "aliases").await;
    let prefix = &scene.registry.prefix;
    let own = format!("{prefix}-{}", BOTH[0]);
    let index = &revisions(&stage.opensearch, prefix, BOTH[0]).await.unwrap()[0];
    for alias in [prefix, &own] {
        let remove = json!({ "actions": [{ "remove": { "index": index, "alias": alias } }] });
        stage.opensearch.post("_aliases", &remove).await.unwrap();
        scene.until_equal().await;
    }
    scene.registry.until_ready().await.unwrap();
    scene.registry.remove().await.unwrap();
}
