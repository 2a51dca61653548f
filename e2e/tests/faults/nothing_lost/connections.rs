//! Connections to a member and to the store that fail in different ways.

use std::time::Duration;

use anyhow::ensure;
use e2e::{
    fleet::unique,
    proxy::{Fault, FaultProxy},
    query_api::list_with_warnings,
    scenario::{Stage, until},
    test_result::Tested,
};
use serde_json::json;

use super::{Fixture, stop, until_written};

/// Less than a page of a list, and sometimes less than a bulk response.
const SOME_BYTES: u64 = 20_000;
const SLOW: Duration = Duration::from_millis(200);

#[tokio::test]
async fn no_change_is_lost_when_connections_to_a_member_fail() -> Tested {
    let stage = Stage::enter().await?;
    let cluster = unique("broken");
    let proxy = stage.register_behind_proxy(1, &cluster).await?;
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
    fixture.registry.until_ready().await?;
    // All connections are silent, and none is closed.
    proxy.set(Fault::BlackHole);
    fixture
        .registry
        .until_failed(&cluster, "Unreachable")
        .await?;
    proxy.set(Fault::None);
    until_written(&churns, 100).await;
    stop(churns).await?;
    fixture.check_and_remove().await?;
    Ok(stage.unregister(&cluster).await?)
}

#[tokio::test]
async fn no_change_is_lost_when_connections_to_the_store_fail() -> Tested {
    let stage = Stage::enter().await?;
    let proxy = FaultProxy::start(stage.fleet.opensearch()?.url())?;
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
        .until_store_fails("Unreachable", "")
        .await?;
    proxy.set(Fault::BlackHole);
    until_written(&churns, 200).await;
    proxy.set(Fault::None);
    until_written(&churns, 50).await;
    stop(churns).await?;
    fixture.check_and_remove().await
}

#[tokio::test]
async fn a_disconnected_member_keeps_its_documents_and_is_reported_stale() -> Tested {
    let stage = Stage::enter().await?;
    let cluster = unique("stale");
    let proxy = stage.register_behind_proxy(2, &cluster).await?;
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
        .until_failed(&cluster, "stay as they were")
        .await?;
    eprintln!("{status}");
    assert!(status["objects"].as_u64().unwrap() > 0, "{status}");
    let documents = stage
        .opensearch
        .count(&fixture.registry.prefix, &json!({ "match_all": {} }))
        .await?;
    assert_eq!(documents, count as u64);
    until("answers warn of it", || async {
        let (warnings, still) = query(&stage, &cluster).await;
        ensure!(
            warnings.iter().any(|warning| warning.contains(&cluster)),
            "{warnings:?}"
        );
        ensure!(still == items, "{still} items");
        Ok(())
    })
    .await?;

    // Changes during the outage are indexed afterwards.
    let churns = fixture.start_churn();
    until_written(&churns, 100).await;
    stop(churns).await?;
    proxy.set(Fault::None);
    fixture.until_equal().await;
    fixture.registry.until_ready().await?;
    until("nothing is stale any more", || async {
        let (warnings, _) = query(&stage, &cluster).await;
        ensure!(warnings.is_empty(), "{warnings:?}");
        Ok(())
    })
    .await?;
    fixture.registry.remove().await?;
    Ok(stage.unregister(&cluster).await?)
}

/// Warnings and number of items of a query for the `ConfigMap`s of a cluster.
async fn query(stage: &Stage, cluster: &str) -> (Vec<String>, usize) {
    let path = format!("api/v1/configmaps?clusters={cluster}");
    let answer = list_with_warnings(&stage.operator, &path).await;
    let (list, warnings) = answer.unwrap();
    (warnings, list["items"].as_array().unwrap().len())
}
