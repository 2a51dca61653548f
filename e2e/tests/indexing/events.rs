//! Events on a registry report what people have to see. Those of drift are in `verify`, those of
//! refused objects in `objects`.

use anyhow::{Context, Result, ensure};
use e2e::{
    fleet::unique,
    proxy::Fault,
    scenario::{Registry, Stage, until},
    test_result::{Tested, assert_contains},
};
use serde_json::{Value, json};

/// The Events on a registry with this reason.
pub async fn events(stage: &Stage, registry: &Registry, reason: &str) -> Result<Vec<Value>> {
    let all = stage
        .hub
        .get("apis/events.k8s.io/v1/namespaces/default/events")
        .await?;
    let all = all["items"].as_array().context("no items")?;
    let found = all.iter().filter(|event| {
        event["regarding"]["name"] == registry.name.as_str() && event["reason"] == reason
    });
    Ok(found.cloned().collect())
}

/// Waits until there is exactly one of them.
pub async fn until_event(stage: &Stage, registry: &Registry, reason: &str) -> Tested<Value> {
    Ok(until(reason, || async {
        let found = events(stage, registry, reason).await?;
        ensure!(found.len() == 1, "{} Events: {found:?}", found.len());
        Ok(found[0].clone())
    })
    .await?)
}

#[tokio::test]
async fn a_cluster_that_fails_and_recovers_and_a_conflict_are_events() -> Tested {
    let stage = Stage::enter().await?;
    let cluster = unique("shaky");
    let proxy = stage.register_behind_proxy(1, &cluster).await?;
    let kinds = json!([{ "apiVersion": "v1", "kind": "ConfigMap" }]);
    let registry = Registry::ready(&stage, "eventful", &[&cluster], &kinds).await?;
    assert_eq!(events(&stage, &registry, "ClusterFailed").await?.len(), 0);

    proxy.set(Fault::Refuse);
    let failed = until_event(&stage, &registry, "ClusterFailed").await?;
    assert_eq!(
        (&failed["type"], &failed["related"]["name"]),
        (&json!("Warning"), &json!(cluster))
    );
    proxy.set(Fault::None);
    let recovered = until_event(&stage, &registry, "ClusterRecovered").await?;
    assert_eq!(recovered["type"], "Normal");

    let mut younger = registry.sibling("younger");
    younger.store()["numberOfShards"] = json!(2);
    younger.apply().await?;
    let conflict = until_event(&stage, &younger, "Conflict").await?;
    assert_contains(&conflict["note"], "numberOfShards");

    // The documents of their common store are the registry's.
    younger.delete().await?;
    younger.until_absent().await?;
    registry.remove().await?;
    Ok(stage.unregister(&cluster).await?)
}
