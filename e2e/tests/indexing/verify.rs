//! `fleetdex verify` finds documents that were tampered with, reports them in metrics and status,
//! and repairs them.

#![allow(clippy::unwrap_used, reason = "a test")]

use e2e::{
    fleet::unique,
    objects::Objects,
    opensearch::OpenSearch,
    scenario::{Registry, Stage, until, until_equal},
    test_result::Tested,
};
use reqwest::Method;
use serde_json::{Value, json};

use super::events::until_event;

const BOTH: [&str; 2] = ["member1", "member2"];

/// A registry of the config maps of one namespace and of all namespaces, in both members.
async fn create_objects(stage: &Stage, name: &str) -> Tested<(Registry, String)> {
    let namespace = unique(name);
    for number in [1, 2] {
        let objects = stage.member(number)?;
        objects.create_namespace(&namespace).await?;
        for map in ["fine", "missing", "old"] {
            objects
                .apply_config_map(&namespace, map, &json!({ "a": "first" }))
                .await?;
            objects
                .apply_config_map(&namespace, map, &json!({ "a": "second" }))
                .await?;
        }
    }
    let selectors = json!([{ "apiVersion": "v1", "kind": "ConfigMap", "namespace": namespace }, { "apiVersion": "v1", "kind": "Namespace" }]);
    let registry = Registry::ready(stage, name, &BOTH, &selectors).await?;
    until_everything_is_there(stage, &registry, &namespace).await?;
    Ok((registry, namespace))
}

async fn until_everything_is_there(stage: &Stage, registry: &Registry, namespace: &str) -> Tested {
    let maps = format!("api/v1/namespaces/{namespace}/configmaps");
    let collections = [&maps, "api/v1/namespaces"];
    let members = stage.fleet.named_members();
    until_equal(&registry.oracle().expects_all(members, &collections)).await?;
    Ok(())
}

/// An index whose documents are changed behind the operator's back.
struct Tampered<'s> {
    opensearch: &'s OpenSearch,
    index: String,
}

impl<'s> Tampered<'s> {
    /// Tombstones are dropped at once, so that any version can be written.
    async fn new(opensearch: &'s OpenSearch, registry: &Registry, cluster: &str) -> Self {
        let index = format!("{}-{cluster}.g1", registry.prefix);
        let path = format!("{index}/_settings");
        let body = json!({ "index.gc_deletes": "0s" });
        opensearch.put(&path, &body).await.unwrap();
        Self { opensearch, index }
    }

    async fn source(&self, object: &Value) -> Value {
        self.opensearch
            .get(&format!("{}/_doc/{}", self.index, path_of(object)))
            .await
            .unwrap()["_source"]
            .take()
    }

    async fn delete(&self, object: &Value) {
        self.opensearch
            .delete(&format!("{}/_doc/{}", self.index, path_of(object)))
            .await
            .unwrap();
        self.opensearch.refresh(&self.index).await.unwrap();
    }

    /// Writes a document in this version, as soon as the store has dropped the tombstone of a later
    /// one.
    async fn put(&self, object: &Value, document: &Value, version: u64) {
        let path = format!(
            "{}/_doc/{}?version={version}&version_type=external",
            self.index,
            path_of(object)
        );
        until("the document is accepted", || async {
            let answer = self
                .opensearch
                .send(Method::PUT, &path, Some(document))
                .await?;
            if answer.status == 409 {
                self.opensearch.refresh(&self.index).await?;
            }
            anyhow::ensure!(answer.status < 300, "{answer:?}");
            Ok(())
        })
        .await
        .unwrap();
    }
}

/// The id of an object's document, as a segment of a path.
fn path_of(object: &Value) -> String {
    let kind = object["kind"].as_str().unwrap_or("ConfigMap");
    format!(
        "v1%2F{kind}%2F{}",
        object["metadata"]["uid"].as_str().unwrap()
    )
}

fn version_of(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap()
}

/// The cells of the row of a cluster's kind, from OBJECTS on; none if there is no such row.
fn row<'t>(table: &'t str, cluster: &str, kind: &str) -> Vec<&'t str> {
    let Some(line) = table
        .lines()
        .find(|line| line.starts_with(cluster) && line.contains(kind))
    else {
        return Vec::new();
    };
    let cells = line
        .split("   ")
        .map(str::trim)
        .filter(|cell| !cell.is_empty());
    cells
        .skip_while(|cell| *cell != "-" && cell.parse::<u64>().is_err())
        .collect()
}

async fn tamper(stage: &Stage, registry: &Registry, objects: &Objects, namespace: &str) {
    let tampered = Tampered::new(&stage.opensearch, registry, "member1").await;
    let map = async |name: &str| objects.get_config_map(namespace, name).await.unwrap();
    let (missing, old, fine) = (map("missing").await, map("old").await, map("fine").await);
    tampered.delete(&missing).await;
    let document = tampered.source(&old).await;
    tampered.delete(&old).await;
    tampered.put(&old, &document, version_of(&old) - 1).await;
    let mut surplus = tampered.source(&fine).await;
    surplus["metadata"]["uid"] = json!("00000000-0000-0000-0000-000000000000");
    tampered.put(&surplus.clone(), &surplus, 1).await;
}

#[tokio::test]
async fn drift_is_found_reported_and_repaired() -> Tested {
    let stage = Stage::enter().await?;
    let (registry, namespace) = create_objects(&stage, "drift").await?;
    let clean = stage.operator.run_command("verify").await?;
    eprintln!("{}{}", clean.out, clean.err);
    assert_eq!(clean.code, 0, "{clean:?}");
    assert_eq!(
        row(&clean.out, "member2", "v1/ConfigMap"),
        ["3", "3", "0", "0", "0", "ok"]
    );
    assert!(clean.out.contains(&namespace), "{}", clean.out);

    let objects = stage.member(1)?;
    tamper(&stage, &registry, &objects, &namespace).await;
    let found = stage
        .operator
        .run_command("verify --cluster member1")
        .await?;
    eprintln!("{}{}", found.out, found.err);
    assert_eq!(found.code, 1, "{found:?}");
    assert_eq!(
        row(&found.out, "member1", "v1/ConfigMap"),
        ["3", "3", "1", "1", "1", "drift, being repaired"]
    );
    assert!(!found.out.contains("member2"), "{}", found.out);
    until_everything_is_there(&stage, &registry, &namespace).await?;

    let labels = "cluster=\"member1\",kind=\"v1/ConfigMap\"";
    for drift in ["missing", "differing", "surplus"] {
        let labels = format!("{labels},drift=\"{drift}\"");
        let count = stage
            .operator
            .metric("fleetdex_drift_documents_total", &labels)
            .await?;
        assert!((count - 1.0).abs() < 0.5, "{drift}: {count}");
    }
    let status = registry
        .until_phase("member1", "Synced", "lastFoundTime")
        .await?;
    assert_eq!(status["drift"]["documents"], 3, "{status}");
    assert!(status["lastAuditTime"].is_string(), "{status}");
    let other = registry
        .until_phase("member2", "Synced", "lastAuditTime")
        .await?;
    assert!(other.get("drift").is_none(), "{other}");
    let event = until_event(&stage, &registry, "DriftFound").await?;
    assert_eq!(
        (&event["type"], &event["related"]["name"], &event["note"]),
        (
            &json!("Warning"),
            &json!("member1"),
            &json!(
                "member1: an audit found 3 documents that differed from their objects; they are being repaired"
            )
        ),
        "{event}"
    );
    registry.until_ready().await?;

    let repaired = stage.operator.run_command("verify -o json").await?;
    assert_eq!(repaired.code, 0, "{repaired:?}");
    let report: Value = serde_json::from_str(&repaired.out)?;
    assert_eq!(
        (&report["result"], report["rows"].as_array().unwrap().len()),
        (&json!("OK"), 4),
        "{report}"
    );
    // An audit without findings reports nothing more.
    until_event(&stage, &registry, "DriftFound").await?;
    Ok(registry.remove().await?)
}

#[tokio::test]
async fn units_that_cannot_be_verified_are_reported() -> Tested {
    let stage = Stage::enter().await?;
    let (registry, namespace) = create_objects(&stage, "unverified").await?;
    let unknown = stage
        .operator
        .run_command("verify --cluster member1,nowhere")
        .await?;
    assert_eq!((unknown.code, unknown.out.as_str()), (2, ""));
    assert!(
        unknown.err.starts_with(
            "Error from server (NotFound): clusters.search.fleetdex.io \"nowhere\" not found"
        ),
        "{unknown:?}"
    );

    stage.fleet.member(2).kill();
    registry
        .until_failed("member2", "stay as they were")
        .await?;
    let partly = stage.operator.run_command("verify").await?;
    eprintln!("{}{}", partly.out, partly.err);
    assert_eq!(partly.code, 2, "{partly:?}");
    assert_eq!(
        row(&partly.out, "member1", "v1/ConfigMap").last(),
        Some(&"ok")
    );
    let reason = row(&partly.out, "member2", "v1/ConfigMap").pop();
    assert!(
        reason.is_some_and(
            |reason| reason.starts_with("not verified: the cluster is disconnected since ")
        ),
        "{partly:?}"
    );
    let alone = stage
        .operator
        .run_command("verify --cluster=member1")
        .await?;
    assert_eq!(alone.code, 0, "{alone:?}");

    stage.fleet.member(2).restart().await?;
    registry.until_ready().await?;
    until_everything_is_there(&stage, &registry, &namespace).await?;
    until("all is verified again", || async {
        let all = stage.operator.run_command("verify").await?;
        anyhow::ensure!(all.code == 0, "{all:?}");
        Ok(())
    })
    .await?;
    Ok(registry.remove().await?)
}
