//! Settings of indices: those of the registry hold, also for existing indices, whatever else is
//! configured in OpenSearch.

use anyhow::{Context, ensure};
use e2e::{
    fleet::unique,
    scenario::{Registry, Stage, until, until_equal},
    test_result::Tested,
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
async fn indices_are_as_the_registry_says_under_templates_of_others_and_when_it_changes() -> Tested
{
    let stage = Stage::enter().await?;
    let opensearch = &stage.opensearch;
    let strict = strictness(Some(false), Some(true));
    opensearch.put("_cluster/settings", &strict).await?;
    let template = format!("_index_template/{}", unique("others"));
    let foreign = json!({
        "index_patterns": ["*"], "priority": 10_000,
        "template": {
            "settings": { "number_of_replicas": 2, "refresh_interval": "1h", "default_pipeline": "absent" },
            "mappings": { "dynamic": true, "properties": { "kind": { "type": "text" } } },
        },
    });
    opensearch.put(&template, &foreign).await?;

    let kinds = json!([{ "apiVersion": "v1", "kind": "Namespace" }]);
    let mut registry = Registry::ready(&stage, "settings", &["member1"], &kinds).await?;
    let member = stage.fleet.member(1);
    let oracle = registry.oracle();
    let oracle = oracle.expects("member1", member, "api/v1/namespaces");
    until_equal(&oracle).await?;
    let index = format!("{}-member1.g1", registry.prefix);
    let created = opensearch.get(&index).await?[&index].take();
    assert_eq!(created["mappings"]["dynamic"], "false", "{created}");
    assert_eq!(created["mappings"]["properties"]["kind"]["type"], "keyword");
    let settings = &created["settings"]["index"];
    assert_eq!(settings["number_of_replicas"], "0", "{settings}");
    assert_eq!(settings["refresh_interval"], "1s", "{settings}");

    registry.store()["numberOfReplicas"] = json!(1);
    registry.store()["refreshInterval"] = json!("2s");
    registry.apply().await?;
    until("the settings are changed", || async {
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
    .await?;
    registry.until_ready().await?;
    until_equal(&oracle).await?;

    registry.remove().await?;
    opensearch.delete(&template).await?;
    let defaults = strictness(None, None);
    opensearch.put("_cluster/settings", &defaults).await?;
    Ok(())
}
