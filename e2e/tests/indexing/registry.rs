//! The documents of a registry are exactly the selected objects, after edits, creations, deletions
//! and restarts.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::time::Duration;

use e2e::{
    fleet::{unique, unique_prefix},
    objects::{Objects, config_map_path},
    oracle::{document, indices, same_fields},
    poll::eventually,
    proxy::{Fault, FaultProxy},
    scenario::{DEADLINE, Registry, Stage, cluster_path, repository_file, until_equal},
};
use serde_json::{Value, json};

const BOTH: [&str; 2] = ["member1", "member2"];
const CONFIG_MAPS: &str = "api/v1/configmaps";
const SECRETS: &str = "api/v1/secrets";
const WORKLOADS: &str = "apis/workload.example.io/v1alpha1/workloads";

/// Two namespaces with two objects of two kinds each, one of them with the label `tier: web`.
async fn create_objects(member: &Objects) -> [String; 2] {
    let namespaces = [unique("left"), unique("right")];
    for namespace in &namespaces {
        member.create_namespace(namespace).await.unwrap();
        for (name, tier) in [("one", "web"), ("two", "db")] {
            member
                .apply_config_map(namespace, name, &json!({ "a": "b" }))
                .await
                .unwrap();
            let secret = json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name, "labels": { "tier": tier } },
                "stringData": { "password": "moonlight" },
            });
            member
                .apply(
                    &format!("api/v1/namespaces/{namespace}/secrets/{name}"),
                    &secret,
                )
                .await
                .unwrap();
        }
    }
    namespaces
}

async fn empty(member: &Objects, namespaces: &[String]) {
    for namespace in namespaces {
        for name in ["one", "two", "three"] {
            member
                .delete(&config_map_path(namespace, name))
                .await
                .unwrap();
            member
                .delete(&format!("api/v1/namespaces/{namespace}/secrets/{name}"))
                .await
                .unwrap();
        }
    }
}

fn in_namespace(namespace: &str, plural: &str) -> String {
    format!("api/v1/namespaces/{namespace}/{plural}")
}

#[tokio::test]
async fn objects_and_their_changes_are_indexed() {
    let stage = Stage::enter().await.unwrap();
    let fleet = &stage.fleet;
    let members = [stage.member(1).unwrap(), stage.member(2).unwrap()];
    let mut furnished = Vec::new();
    for member in &members {
        furnished.push(create_objects(member).await);
    }
    let [namespace, other] = &furnished[0];

    let selectors = json!([{ "apiVersion": "v1", "kind": "ConfigMap" }, { "apiVersion": "v1", "kind": "Namespace" }]);
    let registry = Registry::new(&stage, "changes", &BOTH, &selectors).unwrap();
    registry.apply().await.unwrap();
    registry.until_ready().await.unwrap();
    let mut oracle = registry.oracle();
    for (number, name) in (1..).zip(BOTH) {
        let member = fleet.member(number).unwrap();
        oracle = oracle
            .expects(name, member, CONFIG_MAPS)
            .unwrap()
            .expects(name, member, "api/v1/namespaces")
            .unwrap();
    }
    let before = until_equal(&oracle).await.unwrap();
    let status = registry.status().await.unwrap();
    assert_eq!(status["summary"]["objects"], before, "{status}");

    // Created by kubectl, which adds its annotation.
    let applied = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "three", "namespace": namespace, "labels": { "app": "x" }, "annotations": { "kept": "yes" } },
        "data": { "greeting": "hello" },
    });
    fleet
        .member(1)
        .unwrap()
        .kubectl()
        .unwrap()
        .apply(&applied.to_string())
        .await
        .unwrap();
    assert_eq!(until_equal(&oracle).await.unwrap(), before + 1);
    let object = members[0]
        .get(&config_map_path(namespace, "three"))
        .await
        .unwrap();
    let stored = document(&stage.opensearch, &registry.prefix, &object)
        .await
        .unwrap();
    same_fields(&stored, &object).unwrap();
    assert_eq!(stored["metadata"]["annotations"], json!({ "kept": "yes" }));
    assert_eq!(stored["search"]["labels"], json!(["app=x"]));

    members[0]
        .merge(
            &config_map_path(namespace, "three"),
            &json!({ "data": { "greeting": "goodbye" } }),
        )
        .await
        .unwrap();
    members[0]
        .delete(&config_map_path(other, "two"))
        .await
        .unwrap();
    assert_eq!(until_equal(&oracle).await.unwrap(), before);
    let object = members[0]
        .get(&config_map_path(namespace, "three"))
        .await
        .unwrap();
    let stored = document(&stage.opensearch, &registry.prefix, &object)
        .await
        .unwrap();
    assert_eq!(stored["data"]["greeting"], "goodbye");
    eventually("the status counts the objects", DEADLINE, || async {
        let status = registry.status().await?;
        anyhow::ensure!(status["summary"]["objects"] == before, "{status}");
        Ok(())
    })
    .await
    .unwrap();

    registry.remove().await.unwrap();
    for (member, namespaces) in members.iter().zip(&furnished) {
        empty(member, namespaces).await;
    }
}

#[tokio::test]
#[allow(clippy::too_many_lines, reason = "one scenario")]
async fn an_edit_of_a_registry_affects_only_the_streams_it_changes() {
    let stage = Stage::enter().await.unwrap();
    let [first, second] = [
        stage.fleet.member(1).unwrap(),
        stage.fleet.member(2).unwrap(),
    ];
    let objects = stage.member(1).unwrap();
    let namespaces = create_objects(&objects).await;
    let [left, right] = &namespaces;

    let config_maps = json!({ "apiVersion": "v1", "kind": "ConfigMap" });
    let mut registry = Registry::new(&stage, "edits", &BOTH, &json!([config_maps])).unwrap();
    registry.apply().await.unwrap();
    registry.until_ready().await.unwrap();
    let maps = || registry_maps(&stage, &registry.prefix, true);
    until_equal(&maps()).await.unwrap();
    let config_map_starts = |stage: &Stage| {
        let starts = stage.stream_starts().unwrap();
        BOTH.map(|cluster| starts[&format!("{cluster}:v1/ConfigMap")])
    };
    let starts = config_map_starts(&stage);

    // Each edit of the Secret's selector, and the lists that hold exactly what it selects.
    let of_all = |selector: Value| json!([config_maps, selector]);
    let tier = "?labelSelector=tier%3Dweb";
    let edits: [(Value, Vec<String>, Vec<&str>); 6] = [
        (
            json!({ "kind": "Secret", "apiVersion": "v1" }),
            vec![SECRETS.into()],
            vec![],
        ),
        (
            json!({ "kind": "Secret", "apiVersion": "v1", "namespace": left }),
            vec![in_namespace(left, "secrets")],
            vec![],
        ),
        (
            json!({ "kind": "Secret", "apiVersion": "v1", "namespaces": [left, right] }),
            vec![
                in_namespace(left, "secrets"),
                in_namespace(right, "secrets"),
            ],
            vec![],
        ),
        (
            json!({ "kind": "Secret", "apiVersion": "v1", "excludeNamespaces": [right] }),
            vec![SECRETS.into()],
            vec![right],
        ),
        (
            json!({ "kind": "Secret", "apiVersion": "v1", "labelSelector": { "matchLabels": { "tier": "web" } } }),
            vec![format!("{SECRETS}{tier}")],
            vec![],
        ),
        (
            json!({ "kind": "Secret", "apiVersion": "v1", "fieldSelector": { "matchExpressions": [
                { "key": "metadata.name", "operator": "NotIn", "values": ["one"] },
            ] } }),
            vec![format!("{SECRETS}?fieldSelector=metadata.name!%3Done")],
            vec![],
        ),
    ];
    for (selector, collections, outside) in edits {
        eprintln!("{selector}");
        registry.spec["resourceSelectors"] = of_all(selector);
        registry.apply().await.unwrap();
        registry.until_ready().await.unwrap();
        let mut oracle = maps();
        for (name, member) in [("member1", first), ("member2", second)] {
            for collection in &collections {
                oracle = oracle
                    .expects_outside(name, member, collection, &outside)
                    .unwrap();
            }
        }
        until_equal(&oracle).await.unwrap();
    }

    registry.spec["exclude"] = json!([{ "apiVersion": "v1", "kind": "Secret" }]);
    registry.apply().await.unwrap();
    registry.until_ready().await.unwrap();
    until_equal(&maps()).await.unwrap();
    assert_eq!(
        config_map_starts(&stage),
        starts,
        "a stream that no edit affects was restarted"
    );

    // A label that no longer matches removes the document; a matching one restores it.
    registry.spec["exclude"] = json!([]);
    registry.spec["resourceSelectors"] = of_all(
        json!({ "kind": "Secret", "apiVersion": "v1", "labelSelector": { "matchLabels": { "tier": "web" } } }),
    );
    registry.apply().await.unwrap();
    registry.until_ready().await.unwrap();
    let labelled = || {
        let selected = format!("{SECRETS}{tier}");
        maps()
            .expects("member1", first, &selected)
            .unwrap()
            .expects("member2", second, &selected)
            .unwrap()
    };
    let count = until_equal(&labelled()).await.unwrap();
    let secret = format!("api/v1/namespaces/{left}/secrets/one");
    objects
        .merge(
            &secret,
            &json!({ "metadata": { "labels": { "tier": "none" } } }),
        )
        .await
        .unwrap();
    assert_eq!(until_equal(&labelled()).await.unwrap(), count - 1);
    objects
        .merge(
            &secret,
            &json!({ "metadata": { "labels": { "tier": "web" } } }),
        )
        .await
        .unwrap();
    assert_eq!(until_equal(&labelled()).await.unwrap(), count);

    registry.spec["resourceSelectors"] = json!([config_maps]);
    registry.spec["targetCluster"]["clusterNames"] = json!(["member1"]);
    registry.apply().await.unwrap();
    registry.until_ready().await.unwrap();
    until_equal(&registry_maps(&stage, &registry.prefix, false))
        .await
        .unwrap();
    // The documents of a deleted index disappear shortly before its name does.
    eventually("the other index is gone", DEADLINE, || async {
        let left_over = indices(&stage.opensearch, &registry.prefix).await?;
        anyhow::ensure!(
            left_over == [format!("{}-member1.g1", registry.prefix)],
            "{left_over:?}"
        );
        Ok(())
    })
    .await
    .unwrap();
    assert_eq!(config_map_starts(&stage), starts);

    registry.remove().await.unwrap();
    empty(&objects, &namespaces).await;
}

/// The `ConfigMap`s of one or both members under a prefix.
fn registry_maps(stage: &Stage, prefix: &str, both: bool) -> e2e::oracle::Oracle {
    let clusters: &[&str] = if both { &BOTH } else { &BOTH[..1] };
    let mut oracle = e2e::oracle::Oracle::new(&stage.opensearch, prefix);
    for (number, name) in (1..).zip(clusters) {
        oracle = oracle
            .expects(name, stage.fleet.member(number).unwrap(), CONFIG_MAPS)
            .unwrap();
    }
    oracle
}

#[tokio::test]
async fn a_deleted_registry_keeps_documents_that_another_registry_selects() {
    let stage = Stage::enter().await.unwrap();
    let first = stage.fleet.member(1).unwrap();
    let objects = stage.member(1).unwrap();
    let namespaces = create_objects(&objects).await;
    let [left, _] = &namespaces;

    let everything = json!([{ "apiVersion": "v1", "kind": "ConfigMap" }, { "apiVersion": "v1", "kind": "Secret" }]);
    let leaving = Registry::new(&stage, "shared", &BOTH, &everything).unwrap();
    let mut staying = leaving.sibling("staying");
    staying.spec["resourceSelectors"] =
        json!([{ "apiVersion": "v1", "kind": "ConfigMap", "namespace": left }]);
    staying.spec["targetCluster"]["clusterNames"] = json!(["member1"]);
    leaving.apply().await.unwrap();
    staying.apply().await.unwrap();
    leaving.until_ready().await.unwrap();
    staying.until_ready().await.unwrap();
    let mut both = leaving.oracle();
    for (number, name) in (1..).zip(BOTH) {
        let member = stage.fleet.member(number).unwrap();
        both = both
            .expects(name, member, CONFIG_MAPS)
            .unwrap()
            .expects(name, member, SECRETS)
            .unwrap();
    }
    until_equal(&both).await.unwrap();

    leaving.delete().await.unwrap();
    leaving.until_absent().await.unwrap();
    let kept = staying
        .oracle()
        .expects("member1", first, &in_namespace(left, "configmaps"))
        .unwrap();
    assert_eq!(until_equal(&kept).await.unwrap(), 2);
    staying.until_ready().await.unwrap();

    staying.remove().await.unwrap();
    empty(&objects, &namespaces).await;
}

#[tokio::test]
async fn deleting_a_cluster_removes_its_documents_and_registering_it_restores_them() {
    let stage = Stage::enter().await.unwrap();
    let second = stage.fleet.member(2).unwrap();
    let cluster = unique("extra");
    stage.register(2, &cluster).await.unwrap();
    let selectors = json!([{ "apiVersion": "v1", "kind": "ConfigMap" }]);
    let mut registry = Registry::new(&stage, "clusters", &[], &selectors).unwrap();
    registry.spec["targetCluster"] =
        json!({ "labelSelector": { "matchLabels": { "member": "member2" } } });
    registry.apply().await.unwrap();
    registry.until_ready().await.unwrap();
    let member_only = || {
        registry
            .oracle()
            .expects("member2", second, CONFIG_MAPS)
            .unwrap()
    };
    let both = || {
        member_only()
            .expects(&cluster, second, CONFIG_MAPS)
            .unwrap()
    };
    until_equal(&both()).await.unwrap();
    let starts = stage.stream_starts().unwrap()["member2:v1/ConfigMap"];

    stage.hub.delete(&cluster_path(&cluster)).await.unwrap();
    until_equal(&member_only()).await.unwrap();
    eventually("the index of the cluster is dropped", DEADLINE, || async {
        let left = indices(&stage.opensearch, &registry.prefix).await?;
        anyhow::ensure!(left.len() == 1, "{left:?}");
        Ok(())
    })
    .await
    .unwrap();

    stage.register(2, &cluster).await.unwrap();
    until_equal(&both()).await.unwrap();
    // A cluster that the selector no longer matches is left out as well.
    stage
        .hub
        .merge(
            &cluster_path(&cluster),
            &json!({ "metadata": { "labels": { "member": "none" } } }),
        )
        .await
        .unwrap();
    until_equal(&member_only()).await.unwrap();
    assert_eq!(
        stage.stream_starts().unwrap()["member2:v1/ConfigMap"],
        starts
    );

    registry.remove().await.unwrap();
    stage.hub.delete(&cluster_path(&cluster)).await.unwrap();
}

#[tokio::test]
async fn a_custom_kind_is_indexed_while_a_member_serves_it() {
    let stage = Stage::enter().await.unwrap();
    let [first, second] = [
        stage.fleet.member(1).unwrap(),
        stage.fleet.member(2).unwrap(),
    ];
    let selectors = json!([
        { "apiVersion": "v1", "kind": "ConfigMap" },
        { "apiVersion": "workload.example.io/v1alpha1", "kind": "Workload" },
    ]);
    let mut registry = Registry::new(&stage, "kinds", &BOTH, &selectors).unwrap();
    registry.apply().await.unwrap();
    registry
        .until("Synced", "False", "ClustersFailing", "Workload")
        .await
        .unwrap();
    let maps = || registry_maps(&stage, &registry.prefix, true);
    until_equal(&maps()).await.unwrap();
    let starts = stage.stream_starts().unwrap()["member1:v1/ConfigMap"];

    let crd = repository_file("tests/manifests/needs/workload-crd.yaml").unwrap();
    let kubectl = first.kubectl().unwrap();
    kubectl.apply(&crd).await.unwrap();
    let workload = repository_file("tests/manifests/workload.yaml").unwrap();
    eventually("the kind is served", DEADLINE, || kubectl.apply(&workload))
        .await
        .unwrap();
    let with_workload = || maps().expects("member1", first, WORKLOADS).unwrap();
    until_equal(&with_workload()).await.unwrap();
    registry.until_phase("member1", "Synced", "").await.unwrap();
    registry
        .until_phase("member2", "Failed", "Workload")
        .await
        .unwrap();
    let object = stage
        .member(1)
        .unwrap()
        .get("apis/workload.example.io/v1alpha1/namespaces/default/workloads/nginx")
        .await
        .unwrap();
    let stored = document(&stage.opensearch, &registry.prefix, &object)
        .await
        .unwrap();
    same_fields(&stored, &object).unwrap();

    second.kubectl().unwrap().apply(&crd).await.unwrap();
    registry.until_ready().await.unwrap();
    assert_eq!(
        stage.stream_starts().unwrap()["member1:v1/ConfigMap"],
        starts
    );

    for member in [first, second] {
        member.kubectl().unwrap().delete(&crd).await.unwrap();
    }
    until_equal(&maps()).await.unwrap();
    registry
        .until("Synced", "False", "ClustersFailing", "Workload")
        .await
        .unwrap();
    registry.spec["resourceSelectors"] = json!([{ "apiVersion": "v1", "kind": "ConfigMap" }]);
    registry.apply().await.unwrap();
    registry.until_ready().await.unwrap();
    registry.remove().await.unwrap();
}

#[tokio::test]
async fn changes_while_the_operator_is_down_are_indexed_after_a_restart() {
    let stage = Stage::enter().await.unwrap();
    let objects = stage.member(1).unwrap();
    let namespaces = create_objects(&objects).await;
    let [left, right] = &namespaces;
    let registry = Registry::new(
        &stage,
        "restart",
        &BOTH,
        &json!([{ "apiVersion": "v1", "kind": "ConfigMap" }]),
    )
    .unwrap();
    let leaving = Registry::new(
        &stage,
        "leaving",
        &BOTH,
        &json!([{ "apiVersion": "v1", "kind": "Secret" }]),
    )
    .unwrap();
    for each in [&registry, &leaving] {
        each.apply().await.unwrap();
        each.until_ready().await.unwrap();
    }
    let maps = || registry_maps(&stage, &registry.prefix, true);
    let count = until_equal(&maps()).await.unwrap();

    stage.operator.restart().unwrap();
    stage.operator.wait_ready(DEADLINE).await.unwrap();
    until_equal(&maps()).await.unwrap();

    let ended = stage
        .operator
        .terminate(Duration::from_secs(30))
        .await
        .unwrap();
    assert!(ended.success(), "{ended}");
    objects.delete(&config_map_path(left, "one")).await.unwrap();
    objects.delete(&config_map_path(left, "two")).await.unwrap();
    objects
        .merge(
            &config_map_path(right, "one"),
            &json!({ "data": { "a": "changed" } }),
        )
        .await
        .unwrap();
    objects
        .apply_config_map(right, "three", &json!({ "new": "yes" }))
        .await
        .unwrap();
    leaving.delete().await.unwrap();
    stage.operator.restart().unwrap();
    assert_eq!(until_equal(&maps()).await.unwrap(), count - 1);
    registry.until_ready().await.unwrap();
    leaving.until_absent().await.unwrap();
    assert_eq!(
        indices(&stage.opensearch, &leaving.prefix).await.unwrap(),
        [""; 0]
    );

    registry.remove().await.unwrap();
    empty(&objects, &namespaces).await;
}

#[tokio::test]
async fn index_prefixes_with_a_common_start_are_separate_stores() {
    let stage = Stage::enter().await.unwrap();
    let second = stage.fleet.member(2).unwrap();
    let short = Registry::new(
        &stage,
        "alike",
        &["member2"],
        &json!([{ "apiVersion": "v1", "kind": "ConfigMap" }]),
    )
    .unwrap();
    let mut long = short.sibling("alike-longer");
    long.prefix = format!("{}_longer", short.prefix);
    let prefix = long.prefix.clone();
    long.store()["indexPrefix"] = json!(prefix);
    long.spec["resourceSelectors"] = json!([{ "apiVersion": "v1", "kind": "Namespace" }]);
    for registry in [&short, &long] {
        registry.apply().await.unwrap();
        registry.until_ready().await.unwrap();
    }
    let maps = short
        .oracle()
        .expects("member2", second, CONFIG_MAPS)
        .unwrap();
    let namespaces = long
        .oracle()
        .expects("member2", second, "api/v1/namespaces")
        .unwrap();
    until_equal(&maps).await.unwrap();
    until_equal(&namespaces).await.unwrap();

    short.delete().await.unwrap();
    short.until_absent().await.unwrap();
    until_equal(&namespaces).await.unwrap();
    long.remove().await.unwrap();
}

/// Waits until no index of a prefix is left, and the status names only the current store location.
async fn until_moved(stage: &Stage, registry: &Registry, left: &str) {
    eventually("the place that was left is empty", DEADLINE, || async {
        let found = indices(&stage.opensearch, left).await?;
        anyhow::ensure!(found.is_empty(), "{found:?}");
        let status = registry.status().await?;
        let stores = status["stores"].as_array().map_or(0, Vec::len);
        anyhow::ensure!(stores == 1, "{status}");
        let has_condition = status["conditions"].to_string().contains("OldStoresSwept");
        anyhow::ensure!(!has_condition, "{status}");
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test]
#[allow(clippy::too_many_lines, reason = "one scenario")]
async fn a_moved_registry_leaves_no_documents_behind_even_after_a_restart() {
    let stage = Stage::enter().await.unwrap();
    let objects = stage.member(1).unwrap();
    let namespaces = create_objects(&objects).await;
    let direct = stage.fleet.opensearch().unwrap().url().to_owned();
    let proxy = FaultProxy::start(&direct).unwrap();
    let mut registry = Registry::new(
        &stage,
        "moves",
        &BOTH,
        &json!([{ "apiVersion": "v1", "kind": "ConfigMap" }]),
    )
    .unwrap();
    let first = registry.prefix.clone();
    let to = |registry: &mut Registry, address: &str, prefix: &str| {
        registry.prefix = prefix.to_owned();
        let store = registry.store();
        store["addresses"] = json!([address]);
        store["indexPrefix"] = json!(prefix);
    };
    registry.apply().await.unwrap();
    registry.until_ready().await.unwrap();
    let count = until_equal(&registry_maps(&stage, &registry.prefix, true))
        .await
        .unwrap();

    // Another prefix, through another address.
    let second = unique_prefix("second");
    to(&mut registry, &proxy.url(), &second);
    registry.apply().await.unwrap();
    assert_eq!(
        until_equal(&registry_maps(&stage, &second, true))
            .await
            .unwrap(),
        count
    );
    until_moved(&stage, &registry, &first).await;

    // The previous location is unreachable, and the operator is restarted meanwhile.
    proxy.set(Fault::Refuse);
    let third = unique_prefix("third");
    to(&mut registry, &direct, &third);
    registry.apply().await.unwrap();
    assert_eq!(
        until_equal(&registry_maps(&stage, &third, true))
            .await
            .unwrap(),
        count
    );
    registry
        .until(
            "OldStoresSwept",
            "False",
            "Unreachable",
            &format!("{second}-member1.g*"),
        )
        .await
        .unwrap();
    stage.operator.restart().unwrap();
    stage.operator.wait_ready(DEADLINE).await.unwrap();
    registry
        .until(
            "OldStoresSwept",
            "False",
            "Unreachable",
            &format!("{second}-member1.g*"),
        )
        .await
        .unwrap();
    assert_ne!(indices(&stage.opensearch, &second).await.unwrap(), [""; 0]);
    proxy.set(Fault::None);
    until_moved(&stage, &registry, &second).await;

    // Another address of the same store is the same location.
    to(&mut registry, &proxy.url(), &third);
    registry.apply().await.unwrap();
    registry.until_ready().await.unwrap();
    until_moved(&stage, &registry, &second).await;
    assert_eq!(
        until_equal(&registry_maps(&stage, &third, true))
            .await
            .unwrap(),
        count
    );

    // While a previous location is unreachable, a registry cannot be deleted unless it may orphan
    // its documents.
    proxy.set(Fault::Refuse);
    let fourth = unique_prefix("fourth");
    to(&mut registry, &direct, &fourth);
    registry.apply().await.unwrap();
    until_equal(&registry_maps(&stage, &fourth, true))
        .await
        .unwrap();
    registry
        .until("OldStoresSwept", "False", "Unreachable", &third)
        .await
        .unwrap();
    registry.delete().await.unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(
        stage.hub.find(&registry.path()).await.unwrap().is_some(),
        "the registry was deleted although a store location is not empty"
    );
    stage
        .hub
        .merge(
            &registry.path(),
            &json!({ "metadata": { "annotations": { "fleetdex.io/orphan": "true" } } }),
        )
        .await
        .unwrap();
    registry.until_absent().await.unwrap();
    for left in indices(&stage.opensearch, &third).await.unwrap() {
        stage.opensearch.delete(&left).await.unwrap();
    }
    empty(&objects, &namespaces).await;
}
