//! `indexing: Full` on real servers: field selectors on any path, objects of any shape, and a
//! registry that enables and disables it.

#![allow(clippy::unwrap_used, reason = "a test")]

use anyhow::{Result, ensure};
use e2e::{
    engine,
    fleet::{Fleet, OpenSearchKind, OpenSearchServer, Options, unique, unique_prefix},
    oracle::revisions,
    query_api::{names_by_field, store_at},
    scenario::{Registry, Stage, until},
    test_result::{Tested, assert_contains},
};
use fleetdex_store::opensearch::{Engine, EngineOptions, IndexSettings};
use serde_json::json;
use simulation::every_path::compare;

const SEED: u64 = 11;
const SELECTORS: usize = 600;
/// Nearly the maximal depth of an object; a `flat_object` field of this depth crashes OpenSearch.
const MAX_DEPTH: usize = 490;

fn engine(server: &OpenSearchServer) -> Result<Engine> {
    let options = engine::options(server, &unique_prefix("paths"), 1)?;
    let settings = IndexSettings {
        replicas: Some(0),
        is_full: true,
        ..IndexSettings::default()
    };
    Ok(Engine::new(
        engine::service(server)?,
        EngineOptions {
            settings,
            projection: "full".to_owned(),
            ..options
        },
    ))
}

async fn any_path_selects_the_same(kind: OpenSearchKind) -> Result<()> {
    let fleet = Fleet::start(Options::of(0, kind)).await?;
    let engine = engine(fleet.opensearch()?)?;
    engine.prepare().await?;
    let report = compare(&engine, SEED, SELECTORS, MAX_DEPTH).await?;
    ensure!(
        report.disagreements.is_empty(),
        "{:#?}",
        report.disagreements
    );
    ensure!(
        report.discriminating > SELECTORS / 10,
        "only {} selectors select some objects, but not all",
        report.discriminating
    );
    Ok(())
}

#[tokio::test]
async fn any_path_selects_the_same_in_every_engine() -> Tested {
    any_path_selects_the_same(OpenSearchKind::Plain).await?;
    Ok(())
}

#[tokio::test]
async fn any_path_selects_the_same_in_opensearch_2() -> Tested {
    any_path_selects_the_same(OpenSearchKind::Secure).await?;
    Ok(())
}

#[tokio::test]
#[allow(clippy::too_many_lines, reason = "one scenario")]
async fn a_registry_makes_every_path_selectable_and_takes_it_back() -> Tested {
    let stage = Stage::enter().await?;
    let member = stage.member(1)?;
    let namespace = unique("paths");
    member.create_namespace(&namespace).await?;
    let long = "x".repeat(40_000);
    let pod = |name: &str, image: &str, memory: &str, argument: &str| {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": name, "annotations": { "example.com/team": image } },
            "spec": { "containers": [
                { "name": "side", "image": "side" },
                { "name": "main", "image": image, "args": [argument], "resources": { "requests": { "memory": memory } } },
            ] },
        })
    };
    for (name, image, memory, argument) in [
        ("a", "web", "2Gi", "short"),
        ("b", "web", "500Mi", long.as_str()),
        ("c", "db", "1", ""),
    ] {
        let path = format!("api/v1/namespaces/{namespace}/pods/{name}");
        member
            .apply(&path, &pod(name, image, memory, argument))
            .await?;
    }
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s" }, "stringData": { "k": "moonlight" } });
    member
        .apply(&format!("api/v1/namespaces/{namespace}/secrets/s"), &secret)
        .await?;
    let selectors = json!([
        { "apiVersion": "v1", "kind": "Pod", "namespace": namespace },
        { "apiVersion": "v1", "kind": "Secret", "namespace": namespace },
    ]);
    let mut registry = Registry::ready(&stage, "paths", &["member1"], &selectors).await?;
    let store = store_at(stage.fleet.opensearch()?.url(), &registry.prefix)?;
    let pods = format!("api/v1/namespaces/{namespace}/pods");
    let image = "spec.containers.image=web";
    let refused = names_by_field(&stage.operator, &store, &pods, image)
        .await?
        .unwrap_err();
    assert_contains(&refused, "field label not supported: spec.containers.image");

    let before = revisions(&stage.opensearch, &registry.prefix, "member1").await?;
    registry.store()["indexing"] = "Full".into();
    registry.apply().await?;
    until("every path is selectable", || async {
        let names = names_by_field(&stage.operator, &store, &pods, image).await?;
        ensure!(
            names == Ok(vec!["a".to_owned(), "b".to_owned()]),
            "{names:?}"
        );
        Ok(())
    })
    .await?;
    let after = revisions(&stage.opensearch, &registry.prefix, "member1").await?;
    assert!(after.len() == 1 && after != before, "{after:?}");
    for (selector, names) in [
        ("spec.containers.resources.requests.memory>=1Gi", vec!["a"]),
        (
            "spec.containers.resources.requests.memory<1Gi",
            vec!["b", "c"],
        ),
        ("spec.containers.image in (db,cache)", vec!["c"]),
        ("spec.containers.image!=web", vec!["c"]),
        ("spec.containers.args", vec!["a", "b"]),
        ("!spec.containers.args", vec!["c"]),
        ("spec.containers.args=short", vec!["a"]),
        (
            "metadata.annotations['example.com/team'] notin (db)",
            vec!["a", "b"],
        ),
        (
            "spec['containers'].name=side,spec.schedulerName=default-scheduler",
            vec!["a", "b", "c"],
        ),
        (
            "kind=Pod,apiVersion=v1,metadata.generation>0",
            vec!["a", "b", "c"],
        ),
        ("spec.nothing=here", vec![]),
    ] {
        let answer = names_by_field(&stage.operator, &store, &pods, selector).await?;
        assert_eq!(
            answer,
            Ok(names.iter().map(ToString::to_string).collect()),
            "{selector}"
        );
    }
    // Objects whose value cannot be a term are still returned, and values that are never stored are
    // not found.
    let hits = stage.opensearch.documents(&registry.prefix).await?;
    let stored = hits
        .iter()
        .find(|hit| hit["_source"]["metadata"]["name"] == "b")
        .unwrap();
    assert_eq!(
        stored["_source"]["search"]["native"]["spec"]["containers"][1]["args"][0],
        long
    );
    assert!(
        hits.iter()
            .all(|hit| hit["_source"]["search"]["rejected"].is_null())
    );
    let secrets = format!("api/v1/namespaces/{namespace}/secrets");
    for selector in ["data.k", "data.k=bW9vbmxpZ2h0"] {
        assert_eq!(
            names_by_field(&stage.operator, &store, &secrets, selector).await?,
            Ok(Vec::new()),
            "{selector}"
        );
    }
    let typed = json!({ "query_string": { "query": "spec.containers.image:db" } });
    assert_eq!(stage.opensearch.count(&registry.prefix, &typed).await?, 1);

    registry.store()["indexing"] = "Selectable".into();
    registry.apply().await?;
    until("other paths are refused again", || async {
        let answer = names_by_field(&stage.operator, &store, &pods, image).await?;
        ensure!(answer.is_err(), "{answer:?}");
        let now = revisions(&stage.opensearch, &registry.prefix, "member1").await?;
        ensure!(now.len() == 1 && now != after, "{now:?}");
        Ok(())
    })
    .await?;
    assert_eq!(
        names_by_field(&stage.operator, &store, &pods, "status.phase=Pending")
            .await?
            .map(|names| names.len()),
        Ok(3)
    );
    registry.remove().await?;
    for name in ["a", "b", "c"] {
        member
            .delete(&format!("api/v1/namespaces/{namespace}/pods/{name}"))
            .await?;
    }
    Ok(())
}
