//! Settings of indices: those of the registry hold, also for existing indices, whatever else is
//! configured in OpenSearch.

#![allow(clippy::unwrap_used, reason = "a test")]

use anyhow::{Context, ensure};
use e2e::{
    fleet::unique,
    poll::eventually,
    scenario::{DEADLINE, Registry, Stage, until_equal},
};
use serde_json::{Value, json};

/// Restricts what is created and deleted implicitly.
fn strictness(auto_create: Option<bool>, requires_name: Option<bool>) -> Value {
    json!({ "persistent": {
        "action.auto_create_index": auto_create,
        "action.destructive_requires_name": requires_name,
    } })
}

#[tokio::test]
async fn indices_are_as_the_registry_says_under_templates_of_others_and_when_it_changes() {
    let stage = Stage::enter().await.unwrap();
    let opensearch = &stage.opensearch;
    let strict = strictness(Some(false), Some(true));
    opensearch.put("_cluster/settings", &strict).await.unwrap();
    let template = format!("_index_template/{}", unique("others"));
    let foreign = json!({
        "index_patterns": ["*"], "priority": 10_000,
        "template": {
            "settings": { "number_of_replicas": 2, "refresh_interval": "1h", "default_pipeline": "absent" },
            "mappings": { "dynamic": true, "properties": { "kind": { "type": "text" } } },
        },
    });
    opensearch.put(&template, &foreign).await.unwrap();

    let kinds = json!([{ "apiVersion": "v1", "kind": "Namespace" }]);
    let mut registry = Registry::new(&stage, "settings", &["member1"], &kinds).unwrap();
    registry.apply().await.unwrap();
    registry.until_ready().await.unwrap();
    let member = stage.fleet.member(1).unwrap();
    let oracle = registry.oracle();
    let oracle = oracle
        .expects("member1", member, "api/v1/namespaces")
        .unwrap();
    until_equal(&oracle).await.unwrap();
    let index = format!("{}-member1.g1", registry.prefix);
    let created = opensearch.get(&index).await.unwrap()[&index].take();
    assert_eq!(created["mappings"]["dynamic"], "false", "{created}");
    assert_eq!(created["mappings"]["properties"]["kind"]["type"], "keyword");
    let settings = &created["settings"]["index"];
    assert_eq!(settings["number_of_replicas"], "0", "{settings}");
    assert_eq!(settings["refresh_interval"], "1s", "{settings}");

    registry.store()["numberOfReplicas"] = json!(1);
    registry.store()["refreshInterval"] = json!("2s");
    registry.apply().await.unwrap();
    eventually("the settings are changed", DEADLINE, || async {
        let mut now = opensearch.get(&index).await?;
        let now = now.get_mut(&index).context("no index")?["settings"]["index"].take();
        ensure!(
            now["number_of_replicas"] == "1" && now["refresh_interval"] == "2s",
            "{now}"
        );
        // It is the same index.
        ensure!(now["uuid"] == settings["uuid"], "{now}");
        let state = format!("{}.state", registry.prefix);
        let mut of_state = opensearch.get(&format!("{state}/_settings")).await?;
        let of_state = of_state[&state]["settings"]["index"].take();
        ensure!(of_state["number_of_replicas"] == "1", "{of_state}");
        Ok(())
    })
    .await
    .unwrap();
    registry.until_ready().await.unwrap();
    until_equal(&oracle).await.unwrap();

    registry.remove().await.unwrap();
    opensearch.delete(&template).await.unwrap();
    let defaults = strictness(None, None);
    opensearch
        .put("_cluster/settings", &defaults)
        .await
        .unwrap();
}
