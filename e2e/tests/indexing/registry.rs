//! The documents of a registry are exactly the selected objects, after edits, creations, deletions
//! and restarts.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::time::Duration;

use e2e::{
    fleet::{unique, unique_prefix},
    objects::Objects,
    oracle::{Oracle, document, indices, same_fields},
    proxy::{Fault, FaultProxy},
    scenario::{DEADLINE, Registry, Stage, cluster_path, repository_file, until, until_equal},
    test_result::Tested,
};
use serde_json::{Value, json};

const BOTH: [&str; 2] = ["member1", "member2"];
const CONFIG_MAPS: &str = "api/v1/configmaps";
const SECRETS: &str = "api/v1/secrets";
const WORKLOADS: &str = "apis/workload.example.io/v1alpha1/workloads";

/// Two namespaces with two objects of two kinds each, one of them with the label `tier: web`.
async fn create_objects(member: &Objects) -> Tested<[String; 2]> {
    let namespaces = [unique("left"), unique("right")];
    for namespace in &namespaces {
        member.create_namespace(namespace).await?;
        for (name, tier) in [("one", "web"), ("two", "db")] {
            member
                .apply_config_map(namespace, name, &json!({ "a": "b" }))
                .await?;
            let secret = json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name, "labels": { "tier": tier } },
                "stringData": { "password": "moonlight" },
            });
            let path = format!("api/v1/namespaces/{namespace}/secrets/{name}");
            member.apply(&path, &secret).await?;
        }
    }
    Ok(namespaces)
}

async fn empty(member: &Objects, namespaces: &[String]) {
    for namespace in namespaces {
        for name in ["one", "two", "three"] {
            member.delete_config_map(namespace, name).await.unwrap();
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
async fn objects_and_their_changes_are_indexed() -> Tested {
    let stage = Stage::enter().await?;
    let fleet = &stage.fleet;
    let members = [stage.member(1)?, stage.member(2)?];
    let mut furnished = Vec::new();
    for member in &members {
        furnished.push(create_objects(member).await?);
    }
    let [namespace, other] = &furnished[0];

    let selectors = json!([{ "apiVersion": "v1", "kind": "ConfigMap" }, { "apiVersion": "v1", "kind": "Namespace" }]);
    let registry = Registry::ready(&stage, "changes", &BOTH, &selectors).await?;
    let collections = [CONFIG_MAPS, "api/v1/namespaces"];
    let oracle = registry
        .oracle()
        .expects_all(fleet.named_members(), &collections);
    let before = until_equal(&oracle).await?;
    let status = registry.status().await?;
    assert_eq!(status["summary"]["objects"], before, "{status}");

    // Created by kubectl, which adds its annotation.
    let applied = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "three", "namespace": namespace, "labels": { "app": "x" }, "annotations": { "kept": "yes" } },
        "data": { "greeting": "hello" },
    });
    fleet
        .member(1)
        .kubectl()?
        .apply(&applied.to_string())
        .await?;
    assert_eq!(until_equal(&oracle).await?, before + 1);
    let object = members[0].get_config_map(namespace, "three").await?;
    let stored = document(&stage.opensearch, &registry.prefix, &object).await?;
    same_fields(&stored, &object).unwrap();
    assert_eq!(stored["metadata"]["annotations"], json!({ "kept": "yes" }));
    assert_eq!(stored["search"]["labels"], json!(["app=x"]));

    let patch = json!({ "data": { "greeting": "goodbye" } });
    members[0]
        .merge_config_map(namespace, "three", &patch)
        .await?;
    members[0].delete_config_map(other, "two").await?;
    assert_eq!(until_equal(&oracle).await?, before);
    let object = members[0].get_config_map(namespace, "three").await?;
    let stored = document(&stage.opensearch, &registry.prefix, &object).await?;
    assert_eq!(stored["data"]["greeting"], "goodbye");
    until("the status counts the objects", || async {
        let status = registry.status().await?;
        anyhow::ensure!(status["summary"]["objects"] == before, "{status}");
        Ok(())
    })
    .await?;

    registry.remove().await?;
    for (member, namespaces) in members.iter().zip(&furnished) {
        empty(member, namespaces).await;
    }
    Ok(())
}

#[tokio::test]
#[allow(clippy::too_many_lines, reason = "one scenario")]
async fn an_edit_of_a_registry_affects_only_the_streams_it_changes() -> Tested {
    let stage = Stage::enter().await?;
    let objects = stage.member(1)?;
    let namespaces = create_objects(&objects).await?;
    let [left, right] = &namespaces;

    let config_maps = json!({ "apiVersion": "v1", "kind": "ConfigMap" });
    let mut registry = Registry::ready(&stage, "edits", &BOTH, &json!([config_maps])).await?;
    let maps = || registry_maps(&stage, &registry.prefix, true);
    until_equal(&maps()).await?;
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
        registry.apply_until_ready().await?;
        let mut oracle = maps();
        for (name, member) in stage.fleet.named_members() {
            for collection in &collections {
                oracle = oracle.expects_outside(name, member, collection, &outside);
            }
        }
        until_equal(&oracle).await?;
    }

    registry.spec["exclude"] = json!([{ "apiVersion": "v1", "kind": "Secret" }]);
    registry.apply_until_ready().await?;
    until_equal(&maps()).await?;
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
    registry.apply_until_ready().await?;
    let labelled = || {
        let selected = format!("{SECRETS}{tier}");
        maps().expects_all(stage.fleet.named_members(), &[&selected])
    };
    let count = until_equal(&labelled()).await?;
    let secret = format!("api/v1/namespaces/{left}/secrets/one");
    let patch = json!({ "metadata": { "labels": { "tier": "none" } } });
    objects.merge(&secret, &patch).await?;
    assert_eq!(until_equal(&labelled()).await?, count - 1);
    let patch = json!({ "metadata": { "labels": { "tier": "web" } } });
    objects.merge(&secret, &patch).await?;
    assert_eq!(until_equal(&labelled()).await?, count);

    registry.spec["resourceSelectors"] = json!([config_maps]);
    registry.spec["targetCluster"]["clusterNames"] = json!(["member1"]);
    registry.apply_until_ready().await?;
    until_equal(&registry_maps(&stage, &registry.prefix, false)).await?;
    // The documents of a deleted index disappear shortly before its name does.
    until("the other index is gone", || async {
        let left_over = indices(&stage.opensearch, &registry.prefix).await?;
        anyhow::ensure!(
            left_over == [format!("{}-member1.g1", registry.prefix)],
            "{left_over:?}"
        );
        Ok(())
    })
    .await?;
    assert_eq!(config_map_starts(&stage), starts);

    registry.remove().await?;
    empty(&objects, &namespaces).await;
    Ok(())
}

/// The `ConfigMap`s of one or both members under a prefix.
fn registry_maps(stage: &Stage, prefix: &str, both: bool) -> Oracle {
    let members = stage.fleet.named_members().take(if both { 2 } else { 1 });
    Oracle::new(&stage.opensearch, prefix).expects_all(members, &[CONFIG_MAPS])
}

#[tokio::test]
async fn a_deleted_registry_keeps_documents_that_another_registry_selects() -> Tested {
    let stage = Stage::enter().await?;
    let first = stage.fleet.member(1);
    let objects = stage.member(1)?;
    let namespaces = create_objects(&objects).await?;
    let [left, _] = &namespaces;

    let everything = json!([{ "apiVersion": "v1", "kind": "ConfigMap" }, { "apiVersion": "v1", "kind": "Secret" }]);
    let leaving = Registry::new(&stage, "shared", &BOTH, &everything)?;
    let mut staying = leaving.sibling("staying");
    staying.spec["resourceSelectors"] =
        json!([{ "apiVersion": "v1", "kind": "ConfigMap", "namespace": left }]);
    staying.spec["targetCluster"]["clusterNames"] = json!(["member1"]);
    leaving.apply().await?;
    staying.apply().await?;
    leaving.until_ready().await?;
    staying.until_ready().await?;
    let (members, collections) = (stage.fleet.named_members(), [CONFIG_MAPS, SECRETS]);
    let both = leaving.oracle().expects_all(members, &collections);
    until_equal(&both).await?;

    leaving.delete().await?;
    leaving.until_absent().await?;
    let kept = staying
        .oracle()
        .expects("member1", first, &in_namespace(left, "configmaps"));
    assert_eq!(until_equal(&kept).await?, 2);
    staying.until_ready().await?;

    staying.remove().await?;
    empty(&objects, &namespaces).await;
    Ok(())
}

#[tokio::test]
async fn deleting_a_cluster_removes_its_documents_and_registering_it_restores_them() -> Tested {
    let stage = Stage::enter().await?;
    let second = stage.fleet.member(2);
    let cluster = unique("extra");
    stage.register(2, &cluster).await?;
    let selectors = json!([{ "apiVersion": "v1", "kind": "ConfigMap" }]);
    let mut registry = Registry::new(&stage, "clusters", &[], &selectors)?;
    registry.spec["targetCluster"] =
        json!({ "labelSelector": { "matchLabels": { "member": "member2" } } });
    registry.apply_until_ready().await?;
    let member_only = || registry.oracle().expects("member2", second, CONFIG_MAPS);
    let both = || member_only().expects(&cluster, second, CONFIG_MAPS);
    until_equal(&both()).await?;
    let starts = stage.stream_starts()?["member2:v1/ConfigMap"];

    stage.hub.delete(&cluster_path(&cluster)).await?;
    until_equal(&member_only()).await?;
    until("the index of the cluster is dropped", || async {
        let left = indices(&stage.opensearch, &registry.prefix).await?;
        anyhow::ensure!(left.len() == 1, "{left:?}");
        Ok(())
    })
    .await?;

    stage.register(2, &cluster).await?;
    until_equal(&both()).await?;
    // A cluster that the selector no longer matches is left out as well.
    let patch = json!({ "metadata": { "labels": { "member": "none" } } });
    stage.hub.merge(&cluster_path(&cluster), &patch).await?;
    until_equal(&member_only()).await?;
    assert_eq!(stage.stream_starts()?["member2:v1/ConfigMap"], starts);

    registry.remove().await?;
    Ok(stage.hub.delete(&cluster_path(&cluster)).await?)
}

#[tokio::test]
async fn a_custom_kind_is_indexed_while_a_member_serves_it() -> Tested {
    let stage = Stage::enter().await?;
    let [first, second] = [stage.fleet.member(1), stage.fleet.member(2)];
    let selectors = json!([
        { "apiVersion": "v1", "kind": "ConfigMap" },
        { "apiVersion": "workload.example.io/v1alpha1", "kind": "Workload" },
    ]);
    let mut registry = Registry::new(&stage, "kinds", &BOTH, &selectors)?;
    registry.apply().await?;
    registry
        .until("Synced", "False", "ClustersFailing", "Workload")
        .await?;
    let maps = || registry_maps(&stage, &registry.prefix, true);
    until_equal(&maps()).await?;
    let starts = stage.stream_starts()?["member1:v1/ConfigMap"];

    let crd = repository_file("tests/manifests/needs/workload-crd.yaml")?;
    let kubectl = first.kubectl()?;
    kubectl.apply(&crd).await?;
    let workload = repository_file("tests/manifests/workload.yaml")?;
    until("the kind is served", || kubectl.apply(&workload)).await?;
    let with_workload = || maps().expects("member1", first, WORKLOADS);
    until_equal(&with_workload()).await?;
    registry.until_phase("member1", "Synced", "").await?;
    registry.until_failed("member2", "Workload").await?;
    let object = stage
        .member(1)?
        .get("apis/workload.example.io/v1alpha1/namespaces/default/workloads/nginx")
        .await?;
    let stored = document(&stage.opensearch, &registry.prefix, &object).await?;
    same_fields(&stored, &object).unwrap();

    second.kubectl()?.apply(&crd).await?;
    registry.until_ready().await?;
    assert_eq!(stage.stream_starts()?["member1:v1/ConfigMap"], starts);

    for member in [first, second] {
        member.kubectl()?.delete(&crd).await?;
    }
    until_equal(&maps()).await?;
    registry
        .until("Synced", "False", "ClustersFailing", "Workload")
        .await?;
    registry.spec["resourceSelectors"] = json!([{ "apiVersion": "v1", "kind": "ConfigMap" }]);
    registry.apply_until_ready().await?;
    Ok(registry.remove().await?)
}

#[tokio::test]
async fn changes_while_the_operator_is_down_are_indexed_after_a_restart() -> Tested {
    let stage = Stage::enter().await?;
    let objects = stage.member(1)?;
    let namespaces = create_objects(&objects).await?;
    let [left, right] = &namespaces;
    let selectors = json!([{ "apiVersion": "v1", "kind": "ConfigMap" }]);
    let registry = Registry::new(&stage, "restart", &BOTH, &selectors)?;
    let selectors = json!([{ "apiVersion": "v1", "kind": "Secret" }]);
    let leaving = Registry::new(&stage, "leaving", &BOTH, &selectors)?;
    for each in [&registry, &leaving] {
        each.apply_until_ready().await?;
    }
    let maps = || registry_maps(&stage, &registry.prefix, true);
    let count = until_equal(&maps()).await?;

    stage.operator.restart_until_ready(DEADLINE).await?;
    until_equal(&maps()).await?;

    let ended = stage.operator.terminate(Duration::from_secs(30)).await?;
    assert!(ended.success(), "{ended}");
    objects.delete_config_map(left, "one").await?;
    objects.delete_config_map(left, "two").await?;
    let patch = json!({ "data": { "a": "changed" } });
    objects.merge_config_map(right, "one", &patch).await?;
    objects
        .apply_config_map(right, "three", &json!({ "new": "yes" }))
        .await?;
    leaving.delete().await?;
    stage.operator.restart()?;
    assert_eq!(until_equal(&maps()).await?, count - 1);
    registry.until_ready().await?;
    leaving.until_absent().await?;
    assert_eq!(indices(&stage.opensearch, &leaving.prefix).await?, [""; 0]);

    registry.remove().await?;
    empty(&objects, &namespaces).await;
    Ok(())
}

#[tokio::test]
async fn index_prefixes_with_a_common_start_are_separate_stores() -> Tested {
    let stage = Stage::enter().await?;
    let second = stage.fleet.member(2);
    let selectors = json!([{ "apiVersion": "v1", "kind": "ConfigMap" }]);
    let short = Registry::new(&stage, "alike", &["member2"], &selectors)?;
    let mut long = short.sibling("alike-longer");
    long.prefix = format!("{}_longer", short.prefix);
    let prefix = long.prefix.clone();
    long.store()["indexPrefix"] = json!(prefix);
    long.spec["resourceSelectors"] = json!([{ "apiVersion": "v1", "kind": "Namespace" }]);
    for registry in [&short, &long] {
        registry.apply_until_ready().await?;
    }
    let maps = short.oracle().expects("member2", second, CONFIG_MAPS);
    let namespaces = long
        .oracle()
        .expects("member2", second, "api/v1/namespaces");
    until_equal(&maps).await?;
    until_equal(&namespaces).await?;

    short.delete().await?;
    short.until_absent().await?;
    until_equal(&namespaces).await?;
    Ok(long.remove().await?)
}

/// Waits until no index of a prefix is left, and the status names only the current store location.
async fn until_moved(stage: &Stage, registry: &Registry, left: &str) -> Tested {
    until("the place that was left is empty", || async {
        let found = indices(&stage.opensearch, left).await?;
        anyhow::ensure!(found.is_empty(), "{found:?}");
        let status = registry.status().await?;
        let stores = status["stores"].as_array().map_or(0, Vec::len);
        anyhow::ensure!(stores == 1, "{status}");
        let has_condition = status["conditions"].to_string().contains("OldStoresSwept");
        anyhow::ensure!(!has_condition, "{status}");
        Ok(())
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn a_moved_registry_leaves_no_documents_behind_even_after_a_restart() -> Tested {
    let stage = Stage::enter().await?;
    let objects = stage.member(1)?;
    let namespaces = create_objects(&objects).await?;
    let direct = stage.fleet.opensearch()?.url().to_owned();
    let proxy = FaultProxy::start(&direct)?;
    let selectors = json!([{ "apiVersion": "v1", "kind": "ConfigMap" }]);
    let mut registry = Registry::new(&stage, "moves", &BOTH, &selectors)?;
    let first = registry.prefix.clone();
    let to = |registry: &mut Registry, address: &str, prefix: &str| {
        registry.prefix = prefix.to_owned();
        let store = registry.store();
        store["addresses"] = json!([address]);
        store["indexPrefix"] = json!(prefix);
    };
    registry.apply_until_ready().await?;
    let count = until_equal(&registry_maps(&stage, &registry.prefix, true)).await?;

    // Another prefix, through another address.
    let second = unique_prefix("second");
    to(&mut registry, &proxy.url(), &second);
    registry.apply().await?;
    assert_eq!(
        until_equal(&registry_maps(&stage, &second, true)).await?,
        count
    );
    until_moved(&stage, &registry, &first).await?;

    // The previous location is unreachable, and the operator is restarted meanwhile.
    proxy.set(Fault::Refuse);
    let third = unique_prefix("third");
    to(&mut registry, &direct, &third);
    registry.apply().await?;
    assert_eq!(
        until_equal(&registry_maps(&stage, &third, true)).await?,
        count
    );
    let pattern = format!("{second}-member1.g*");
    registry
        .until("OldStoresSwept", "False", "Unreachable", &pattern)
        .await?;
    stage.operator.restart_until_ready(DEADLINE).await?;
    registry
        .until("OldStoresSwept", "False", "Unreachable", &pattern)
        .await?;
    assert_ne!(indices(&stage.opensearch, &second).await?, [""; 0]);
    proxy.set(Fault::None);
    until_moved(&stage, &registry, &second).await?;

    // Another address of the same store is the same location.
    to(&mut registry, &proxy.url(), &third);
    registry.apply_until_ready().await?;
    until_moved(&stage, &registry, &second).await?;
    assert_eq!(
        until_equal(&registry_maps(&stage, &third, true)).await?,
        count
    );

    // While a previous location is unreachable, a registry cannot be deleted unless it may orphan
    // its documents.
    proxy.set(Fault::Refuse);
    let fourth = unique_prefix("fourth");
    to(&mut registry, &direct, &fourth);
    registry.apply().await?;
    until_equal(&registry_maps(&stage, &fourth, true)).await?;
    registry
        .until("OldStoresSwept", "False", "Unreachable", &third)
        .await?;
    registry.delete().await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(
        stage.hub.find(&registry.path()).await?.is_some(),
        "the registry was deleted although a store location is not empty"
    );
    let patch = json!({ "metadata": { "annotations": { "fleetdex.io/orphan": "true" } } });
    stage.hub.merge(&registry.path(), &patch).await?;
    registry.until_absent().await?;
    for left in indices(&stage.opensearch, &third).await? {
        stage.opensearch.delete(&left).await?;
    }
    empty(&objects, &namespaces).await;
    Ok(())
}
