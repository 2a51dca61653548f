//! Faults of OpenSearch, and changes of its indices by other clients.

use std::time::Duration;

use e2e::{
    fleet::unique,
    oracle::revisions,
    poll::eventually,
    query_api::{bare_names_of, list_with_warnings, names_of},
    test_result::Tested,
};
use serde_json::{Value, json};

use super::{BOTH, Fixture, Stage, stop, until_written};

/// Long enough for every retry to reach its longest backoff.
const OUTAGE: Duration = Duration::from_mins(1);

#[tokio::test]
async fn no_change_is_lost_when_the_store_is_down_for_a_minute() -> Tested {
    let stage = Stage::enter().await?;
    let fixture = Fixture::both_members(&stage, "outage").await;
    let churns = fixture.start_churn();
    until_written(&churns, 50).await;
    let server = stage.fleet.opensearch()?;
    server.kill();
    tokio::time::sleep(OUTAGE).await;
    server.restart().await?;
    until_written(&churns, 100).await;
    stop(churns).await?;
    fixture.check_and_remove().await
}

#[tokio::test]
async fn no_change_is_lost_during_a_write_block() -> Tested {
    let stage = Stage::enter().await?;
    let fixture = Fixture::both_members(&stage, "blocked").await;
    let settings = format!("{}/_settings", fixture.indices());
    let churns = fixture.start_churn();
    // The second one is that of the flood-stage watermark.
    for (block, named) in [
        ("write", "index write (api)"),
        ("read_only_allow_delete", "flood-stage watermark"),
    ] {
        let set = |value: Value| json!({ format!("index.blocks.{block}"): value });
        until_written(&churns, 50).await;
        stage.opensearch.put(&settings, &set(json!(true))).await?;
        let message = fixture.registry.until_store_fails("Blocked", named).await?;
        assert!(message.contains("nothing is lost"), "{message}");
        until_written(&churns, 200).await;
        stage.opensearch.put(&settings, &set(Value::Null)).await?;
        until_written(&churns, 50).await;
    }
    stop(churns).await?;
    fixture.check_and_remove().await
}

#[tokio::test]
async fn results_are_stale_while_changes_wait_for_the_store() -> Tested {
    let stage = Stage::enter().await?;
    let fixture = Fixture::both_members(&stage, "stale").await;
    let settings = format!("{}/_settings", fixture.indices());
    let block = |value: Value| json!({ "index.blocks.read_only_allow_delete": value });
    let path = "api/v1/namespaces/default/configmaps";
    let clusters = async || {
        let result = stage.operator.run_command("clusters").await.unwrap();
        result.out
    };
    eventually("results are current", OUTAGE, || async {
        let (_, warnings) = list_with_warnings(&stage.operator, path).await?;
        anyhow::ensure!(warnings.is_empty(), "{warnings:?}");
        Ok(())
    })
    .await?;
    assert!(!clusters().await.contains("Stale"), "{}", clusters().await);

    stage.opensearch.put(&settings, &block(json!(true))).await?;
    let name = unique("waits");
    let member = stage.member(1)?;
    let data = json!({ "a": "b" });
    member.apply_config_map("default", &name, &data).await?;
    eventually("results are stale", OUTAGE, || async {
        let (list, warnings) = list_with_warnings(&stage.operator, path).await?;
        let text = warnings.join("; ");
        let is_named = text.contains("configmaps of cluster member1 are as they were at 20")
            && text.contains("later changes wait for the store (Blocked)");
        anyhow::ensure!(is_named, "{text}");
        anyhow::ensure!(
            !text.contains("member2"),
            "nothing waits of member2: {text}"
        );
        anyhow::ensure!(
            list["metadata"]["asOf"]["member1"].is_string(),
            "{}",
            list["metadata"]
        );
        Ok(())
    })
    .await?;
    assert!(clusters().await.contains("Stale"), "{}", clusters().await);

    stage.opensearch.put(&settings, &block(Value::Null)).await?;
    eventually("results are current again", OUTAGE, || async {
        let (list, warnings) = list_with_warnings(&stage.operator, path).await?;
        anyhow::ensure!(warnings.is_empty(), "{warnings:?}");
        anyhow::ensure!(bare_names_of(&list)?.contains(&name), "{name} is missing");
        Ok(())
    })
    .await?;
    fixture.check_and_remove().await
}

#[tokio::test]
async fn deleted_indices_are_filled_again_with_and_without_changes() -> Tested {
    let stage = Stage::enter().await?;
    let fixture = Fixture::both_members(&stage, "deleted").await;
    let delete = async |cluster: &str| {
        for index in revisions(&stage.opensearch, &fixture.registry.prefix, cluster)
            .await
            .unwrap()
        {
            stage.opensearch.delete(&index).await.unwrap();
        }
    };
    let churns = fixture.start_churn();
    until_written(&churns, 50).await;
    delete(BOTH[0]).await;
    until_written(&churns, 100).await;
    stop(churns).await?;
    fixture.until_equal().await;

    // Nothing is written to this index.
    delete(BOTH[1]).await;
    fixture.check_and_remove().await
}

#[tokio::test]
async fn removed_aliases_are_restored() -> Tested {
    let stage = Stage::enter().await?;
    let fixture = Fixture::both_members(&stage, "aliases").await;
    let prefix = &fixture.registry.prefix;
    let own = format!("{prefix}-{}", BOTH[0]);
    let index = &revisions(&stage.opensearch, prefix, BOTH[0]).await?[0];
    for alias in [prefix, &own] {
        let remove = json!({ "actions": [{ "remove": { "index": index, "alias": alias } }] });
        stage.opensearch.post("_aliases", &remove).await?;
        fixture.until_equal().await;
    }
    fixture.registry.until_ready().await?;
    Ok(fixture.registry.remove().await?)
}

#[tokio::test]
async fn a_list_that_lacks_an_index_that_no_node_has_is_an_error_and_not_a_shorter_list() -> Tested
{
    let stage = Stage::enter().await?;
    let fixture = Fixture::both_members(&stage, "unavailable").await;
    let path = "api/v1/namespaces/default/configmaps";
    let (whole, _) = list_with_warnings(&stage.operator, path).await?;

    let index = format!("unavailable-{}", fixture.registry.prefix);
    let nowhere = json!({
        "settings": { "number_of_replicas": 0, "index.routing.allocation.require._name": "none" },
        "aliases": { (fixture.registry.prefix.clone()): {} },
    });
    let create = format!("{index}?wait_for_active_shards=0");
    stage.opensearch.put(&create, &nowhere).await?;
    // What OpenSearch answers looks whole: no shard has failed.
    let search = format!("{}/_search", fixture.registry.prefix);
    let shards = &stage.opensearch.get(&search).await?["_shards"];
    assert_eq!(shards["failed"], 0, "{shards}");
    for path in [path.to_owned(), format!("{path}?limit=1")] {
        let refused = list_with_warnings(&stage.operator, &path)
            .await
            .unwrap_err();
        let refused = refused.to_string();
        assert!(refused.contains("429"), "{refused}");
    }

    stage.opensearch.delete(&index).await?;
    eventually("the list is whole again", OUTAGE, || async {
        let (list, _) = list_with_warnings(&stage.operator, path).await?;
        let names: [Vec<String>; 2] = [names_of(&list)?, names_of(&whole)?];
        anyhow::ensure!(names[0] == names[1], "{names:?}");
        Ok(())
    })
    .await?;
    fixture.check_and_remove().await
}
