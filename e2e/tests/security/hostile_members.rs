//! A hostile member against the real OpenSearch: its objects become documents of its own cluster,
//! and affect no other document.

#![allow(clippy::unwrap_used, reason = "a test")]

use anyhow::{Context, ensure};
use e2e::{
    fleet::unique,
    objects::config_map_path,
    scenario::{Registry, SECRETS, Stage, cluster_path, until},
    test_result::Tested,
};
use fakes::apiserver;
use serde_json::{Value, json};
use simulation::hostile::{self, Hostile, Malice};
use tokio::net::TcpListener;

const EVIL: &str = "evil";

/// Registers a server in this process, which accepts every token.
async fn register(stage: &Stage, name: &str, url: &str) -> Tested {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name, "namespace": SECRETS, "annotations": { "fleetdex.io/allowed-hosts": "127.0.0.1" } }, "data": { "token": "dG9rZW4=" },
    });
    let cluster = json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": { "name": name },
        "spec": {
            "syncMode": "Push", "apiEndpoint": url, "insecureSkipTLSVerification": true,
            "secretRef": { "namespace": SECRETS, "name": name },
        },
    });
    stage.put_secret(name, &secret).await?;
    stage.hub.apply(&cluster_path(name), &cluster).await?;
    Ok(())
}

/// The documents of one cluster.
async fn documents(stage: &Stage, prefix: &str, cluster: &str) -> Vec<Value> {
    stage
        .opensearch
        .documents(&format!("{prefix}-{cluster}"))
        .await
        .unwrap_or_default()
}

#[tokio::test]
async fn line_breaks_in_an_object_cannot_inject_writes_to_other_documents() -> Tested {
    let stage = Stage::enter().await?;
    let member = stage.member(1)?;
    let namespace = unique("victim");
    member.create_namespace(&namespace).await?;
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "victim" }, "data": { "a": "b" } });
    member
        .apply(&config_map_path(&namespace, "victim"), &map)
        .await?;

    let name = unique("mallory");
    let selectors = json!([{ "apiVersion": "v1", "kind": "ConfigMap" }]);
    let registry = Registry::new(&stage, "hostile", &["member1", &name], &selectors)?;
    registry.apply().await?;
    let prefix = registry.prefix.clone();
    let victim = until("the object of the other member is stored", || async {
        let found = documents(&stage, &prefix, "member1").await;
        let victim = found
            .into_iter()
            .find(|hit| hit["_source"]["metadata"]["name"] == "victim");
        victim.context("no victim yet")
    })
    .await?;
    let (alias, id) = (
        format!("{prefix}-member1"),
        victim["_id"].as_str().unwrap().to_owned(),
    );

    let server = apiserver::Server::new(apiserver::Options::new(1));
    let evil = |number: u32| json!({ "metadata": { "name": format!("evil{number}"), "namespace": "default" }, "data": {} });
    server.apply("configmaps", evil(1)).unwrap();
    let hostile = Hostile::new(
        server.clone(),
        1,
        &[Malice::LineBreaks],
        vec![(alias.clone(), id.clone())],
        0,
    );
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr().unwrap());
    let serving = tokio::spawn(hostile::serve(listener, hostile));
    register(&stage, &name, &url).await?;

    // One from a list, one from a watch.
    let stored = async |count: usize| {
        until("the hostile objects are stored", || async {
            let found = documents(&stage, &prefix, &name).await;
            ensure!(
                found.len() == count,
                "{} documents, not {count}",
                found.len()
            );
            Ok(found)
        })
        .await
        .unwrap()
    };
    stored(1).await;
    server.apply("configmaps", evil(2)).unwrap();
    for hit in stored(2).await {
        let source = &hit["_source"];
        assert_eq!(source["cluster"], name.as_str());
        let smuggled = json!([
            { "delete": { "_index": alias, "_id": id } },
            { "index": { "_index": alias, "_id": "planted" } },
            {},
        ]);
        assert_eq!(source[EVIL], smuggled, "it is stored as it is");
    }
    let left = documents(&stage, &prefix, "member1").await;
    assert!(
        left.iter().any(|hit| hit["_id"] == id.as_str()),
        "the object of the other member was deleted"
    );
    assert!(
        left.iter()
            .all(|hit| hit["_id"] != "planted" && hit["_source"]["cluster"] == "member1"),
        "a forged document was stored"
    );
    registry.until_ready().await?;
    serving.abort();
    stage.unregister(&name).await?;
    Ok(registry.remove().await?)
}
