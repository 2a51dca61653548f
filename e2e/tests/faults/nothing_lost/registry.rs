//! Changes and deletion of a registry.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::{
    fleet::unique,
    oracle::{documents, indices, revisions},
    poll::always,
    proxy::{Fault, FaultProxy},
    scenario::{DEADLINE, Registry, Stage, until, until_equal},
    test_result::{Tested, assert_contains},
};
use serde_json::{Value, json};

use super::BOTH;

const MAPS: usize = 300;
/// How long a registry must not be deleted.
const STABLE_PERIOD: Duration = Duration::from_secs(5);

#[tokio::test]
async fn a_changed_projection_hides_no_object_and_removes_the_old_revision() -> Tested {
    let stage = Stage::enter().await?;
    let namespace = unique("redacted");
    let objects = stage.member(1)?;
    objects.create_namespace(&namespace).await?;
    let data = json!({ "color": "red", "password": "moonlight" });
    for number in 0..MAPS {
        objects
            .apply_config_map(&namespace, &format!("map-{number}"), &data)
            .await?;
    }
    let selectors = json!([{ "apiVersion": "v1", "kind": "ConfigMap", "namespace": namespace }]);
    let mut registry = Registry::new(&stage, "redacted", &["member1"], &selectors)?;
    let member = stage.fleet.member(1);
    let collection = format!("api/v1/namespaces/{namespace}/configmaps");
    let oracle = |registry: &Registry| registry.oracle().expects("member1", member, &collection);
    registry.apply_until_ready().await?;
    let count = until_equal(&oracle(&registry)).await?;
    assert!(count >= MAPS);
    let stored = documents(&stage.opensearch, &registry.prefix).await?;
    assert!(
        stored
            .iter()
            .any(|hit| hit["_source"]["data"]["password"] == "moonlight")
    );

    for (field, change) in [
        ("redact", json!(["data.password"])),
        ("fieldPaths", json!(["data.color"])),
        ("indexing", json!("Full")),
    ] {
        let old = revisions(&stage.opensearch, &registry.prefix, "member1").await?;
        match field {
            "redact" => registry.spec["redact"] = change,
            _ => registry.store()[field] = change,
        }
        registry.apply().await?;
        // Objects keep changing; none is deleted.
        let swapped = until("the old revision is gone", || async {
            let seen = visible(&stage, &registry.prefix).await?;
            assert!(
                seen >= count as u64,
                "a query sees {seen} documents of {count}"
            );
            let map_data = json!({ "color": "red", "seen": seen.to_string() });
            objects
                .apply_config_map(&namespace, "map-0", &map_data)
                .await?;
            let now = revisions(&stage.opensearch, &registry.prefix, "member1").await?;
            ensure!(now.len() == 1 && now != old, "{now:?}");
            Ok(())
        });
        swapped.await?;
        registry.until_ready().await?;
        assert_eq!(until_equal(&oracle(&registry)).await?, count);
    }
    for hit in documents(&stage.opensearch, &registry.prefix).await? {
        assert_eq!(hit["_source"]["data"]["password"], Value::Null, "{hit}");
        assert_eq!(hit["_source"]["data"]["color"], "red", "{hit}");
    }
    registry.remove().await?;
    objects.delete_config_map(&namespace, "map-0").await?;
    Ok(())
}

/// The documents that a query through either alias finds, without a refresh: the lower count.
async fn visible(stage: &Stage, prefix: &str) -> Result<u64> {
    let mut fewest = u64::MAX;
    for alias in [prefix.to_owned(), format!("{prefix}-member1")] {
        let answer = stage.opensearch.get(&format!("{alias}/_count")).await?;
        fewest = fewest.min(
            answer["count"]
                .as_u64()
                .with_context(|| format!("no count in {answer}"))?,
        );
    }
    Ok(fewest)
}

#[tokio::test]
async fn a_registry_with_an_unreachable_store_is_deleted_only_when_it_may_orphan_documents()
-> Tested {
    let stage = Stage::enter().await?;
    let proxy = FaultProxy::start(stage.fleet.opensearch()?.url())?;
    let mut registry = Registry::new(&stage, "orphan", &BOTH, &super::kinds())?;
    registry.store()["addresses"] = json!([proxy.url()]);
    registry.apply_until_ready().await?;
    assert_eq!(
        registry.status().await?["stores"][0]["neverOpened"],
        Value::Null
    );

    proxy.set(Fault::Refuse);
    registry.delete().await?;
    let message = registry
        .until_not_ready("DeletionBlocked", &proxy.url())
        .await?;
    let orphan = format!(
        "kubectl annotate rr {} fleetdex.io/orphan=true",
        registry.name
    );
    registry.until("Synced", "False", "Deleting", "").await?;
    let note = until_warning(&stage, &registry, "DeletionBlocked").await?;
    for text in [message, note] {
        assert_contains(&text, "make the store available again");
        assert_contains(&text, &orphan);
    }
    always(
        "the registry waits for its store",
        STABLE_PERIOD,
        || async {
            let object = stage.hub.get(&registry.path()).await?;
            let finalizers = &object["metadata"]["finalizers"];
            ensure!(
                finalizers.as_array().is_some_and(|all| !all.is_empty()),
                "{object}"
            );
            Ok::<(), anyhow::Error>(())
        },
    )
    .await?;
    let annotation = json!({ "metadata": { "annotations": { "fleetdex.io/orphan": "true" } } });
    stage.hub.merge(&registry.path(), &annotation).await?;
    registry.until_absent().await?;
    let left = indices(&stage.opensearch, &registry.prefix).await?;
    assert_eq!(left.len(), 2, "{left:?}");
    for index in left {
        stage.opensearch.delete(&index).await?;
    }
    Ok(())
}

/// Waits for a Warning of a registry with this reason. Returns its note.
async fn until_warning(stage: &Stage, registry: &Registry, reason: &str) -> Result<String> {
    until(reason, || async {
        let events = stage
            .hub
            .get("apis/events.k8s.io/v1/namespaces/default/events")
            .await?;
        let all = events["items"].as_array().context("no items")?;
        let found = all.iter().find(|event| {
            event["regarding"]["name"] == registry.name.as_str() && event["reason"] == reason
        });
        let found = found.with_context(|| format!("no {reason} in {events}"))?;
        ensure!(found["type"] == "Warning", "{found}");
        Ok(found["note"].as_str().context("no note")?.to_owned())
    })
    .await
}

/// A registry whose store refuses connections, until the proxy in front of it has no fault any
/// more.
async fn with_unreachable_store(stage: &Stage, name: &str) -> Tested<(Registry, FaultProxy)> {
    let proxy = FaultProxy::start(stage.fleet.opensearch()?.url())?;
    proxy.set(Fault::Refuse);
    let mut registry = Registry::new(stage, name, &BOTH, &super::kinds())?;
    registry.store()["addresses"] = json!([proxy.url()]);
    registry.apply().await?;
    registry
        .until_not_ready("Unreachable", &proxy.url())
        .await?;
    Ok((registry, proxy))
}

#[tokio::test]
async fn a_registry_whose_store_never_answered_is_deleted_at_once_also_after_a_restart() -> Tested {
    let stage = Stage::enter().await?;
    for is_restarted in [false, true] {
        let (registry, _proxy) = with_unreachable_store(&stage, "unopened").await?;
        let status = registry.status().await?;
        assert_eq!(status["stores"][0]["neverOpened"], true, "{status:#}");
        if is_restarted {
            stage.operator.restart_until_ready(DEADLINE).await?;
        }
        registry.delete().await?;
        registry.until_absent().await?;
        let left = indices(&stage.opensearch, &registry.prefix).await?;
        assert!(left.is_empty(), "{left:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_store_that_answers_late_is_filled_and_its_registry_waits_for_it_from_then_on() -> Tested
{
    let stage = Stage::enter().await?;
    let (registry, proxy) = with_unreachable_store(&stage, "late").await?;
    proxy.set(Fault::None);
    registry.until_ready().await?;

    proxy.set(Fault::Refuse);
    stage.operator.restart_until_ready(DEADLINE).await?;
    registry.delete().await?;
    registry
        .until_not_ready("DeletionBlocked", &proxy.url())
        .await?;
    proxy.set(Fault::None);
    registry.until_absent().await?;
    let left = indices(&stage.opensearch, &registry.prefix).await?;
    assert!(left.is_empty(), "{left:?}");
    Ok(())
}
