//! The index follows the APIs that each member serves: versions, groups, added and removed custom
//! resources, and unavailable APIs.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context as _, Result, ensure};
use e2e::{
    fleet::{OpenSearchKind, Options, unique},
    objects::Objects,
    oracle::documents,
    query_api::{kube_client, list_with_warnings},
    scenario::{DEADLINE, Registry, Stage, until, until_equal},
    test_result::Tested,
};
use futures::StreamExt;
use kube::{
    Api, ResourceExt,
    core::{DynamicObject, GroupVersionKind},
    discovery::ApiResource,
    runtime::{
        reflector::{Store, reflector, store::Writer},
        watcher::{self, watcher},
    },
};
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

/// Serves `autoscaling/v1` and `v2`, as every API server does.
const WITH_BOTH: &str = "member1";
/// Serves only `autoscaling/v1`.
const WITH_V1: &str = "member2";
/// Serves only `autoscaling/v2`.
const WITH_V2: &str = "member3";

/// The store of a reflector, which runs until this is dropped.
type RunningReflector = (Store<DynamicObject>, AbortOnDropHandle<()>);

async fn enter() -> Tested<Stage> {
    let member_flags: Vec<&[&str]> = vec![
        &[],
        &["--runtime-config=autoscaling/v2=false"],
        &["--runtime-config=autoscaling/v1=false"],
    ];
    let options = Options {
        members: 3,
        opensearch: OpenSearchKind::Plain,
        member_flags,
        ..Options::default()
    };
    Ok(Stage::with(options).await?)
}

/// A custom resource definition with these versions, and whether each is served; the first one is
/// the storage version.
fn definition(group: &str, kind: &str, versions: &[(&str, bool)]) -> Value {
    let plural = format!("{}s", kind.to_lowercase());
    let version = |(index, (name, served)): (usize, &(&str, bool))| {
        json!({
            "name": name, "served": served, "storage": index == 0,
            "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{group}") },
        "spec": {
            "group": group, "scope": "Namespaced", "names": { "kind": kind, "plural": plural, "singular": kind.to_lowercase() },
            "versions": versions.iter().enumerate().map(version).collect::<Vec<_>>(),
        },
    })
}

fn definition_path(definition: &Value) -> String {
    let name = definition["metadata"]["name"].as_str().unwrap();
    format!("apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")
}

/// An unmodified reflector of a kind, in version v1.
fn start_reflector(stage: &Stage, group: &str, kind: &str) -> Result<RunningReflector> {
    let client = kube_client(&stage.operator, "")?;
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
    let api: Api<DynamicObject> = Api::all_with(client, &resource);
    let writer = Writer::new(resource);
    let reader = writer.as_reader();
    let events = reflector(writer, watcher(api, watcher::Config::default()));
    let task = tokio::spawn(events.for_each(async |event| {
        if let Err(error) = event {
            eprintln!("watching: {error}");
        }
    }));
    Ok((reader, AbortOnDropHandle::new(task)))
}

async fn until_held((reader, _): &RunningReflector, names: &[&str]) -> Tested {
    until("what a reflector holds", || async {
        let mut held: Vec<String> = reader
            .state()
            .iter()
            .map(|object| object.name_any())
            .collect();
        held.sort();
        ensure!(held == names, "{held:?}");
        Ok(())
    })
    .await?;
    Ok(())
}

/// Applies a definition, and waits until `served` (such as `apis/example.com/v1/widgets`) answers.
async fn define(member: &Objects, definition: &Value, served: &str) -> Tested {
    member
        .apply(&definition_path(definition), definition)
        .await?;
    until(served, || member.get(served)).await?;
    Ok(())
}

/// Creates an object in the namespace `default`.
async fn create(member: &Objects, api_version: &str, kind: &str, name: &str) -> Tested {
    let object = json!({ "apiVersion": api_version, "kind": kind, "metadata": { "name": name }, "spec": { "size": 1 } });
    member
        .create(&collection(api_version, kind), &object)
        .await?;
    Ok(())
}

fn collection(api_version: &str, kind: &str) -> String {
    format!(
        "apis/{api_version}/namespaces/default/{}s",
        kind.to_lowercase()
    )
}

/// `apiVersion` and name of every document of a kind.
async fn stored(stage: &Stage, registry: &Registry, kind: &str) -> Result<BTreeSet<String>> {
    let found = documents(&stage.opensearch, &registry.prefix).await?;
    let of_kind = found
        .iter()
        .map(|hit| &hit["_source"])
        .filter(|document| document["kind"] == kind);
    let text = |document: &Value, pointer: &str| {
        document
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    Ok(of_kind
        .map(|document| {
            let [cluster, api_version, name] = ["/cluster", "/apiVersion", "/metadata/name"]
                .map(|pointer| text(document, pointer));
            format!("{cluster} {api_version} {name}")
        })
        .collect())
}

async fn until_stored(stage: &Stage, registry: &Registry, kind: &str, expected: &[&str]) {
    let expected: BTreeSet<String> = expected.iter().map(|&line| line.to_owned()).collect();
    let what = format!("exactly {expected:?} is stored");
    until(&what, || async {
        let seen = stored(stage, registry, kind).await?;
        ensure!(seen == expected, "{seen:?}");
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn an_unserved_version_is_read_in_the_preferred_version() -> Tested {
    let stage = enter().await?;
    let name = unique("scaler");
    let scaler = |version: &str| {
        json!({
            "apiVersion": format!("autoscaling/{version}"), "kind": "HorizontalPodAutoscaler", "metadata": { "name": name },
            "spec": { "maxReplicas": 3, "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" } },
        })
    };
    let versions = ["v2", "v1", "v2"];
    for (number, version) in (1..).zip(versions) {
        let scalers =
            format!("apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers");
        stage
            .member(number)?
            .create(&scalers, &scaler(version))
            .await?;
    }

    let clusters = [WITH_BOTH, WITH_V1, WITH_V2];
    let selectors = json!([{ "apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler" }]);
    let registry = Registry::ready(&stage, "versions", &clusters, &selectors).await?;
    let mut oracle = registry.oracle();
    for (number, (cluster, version)) in (1..).zip(clusters.into_iter().zip(["v1", "v1", "v2"])) {
        let scalers = format!("apis/autoscaling/{version}/horizontalpodautoscalers");
        oracle = oracle.expects(cluster, stage.fleet.member(number), &scalers);
    }
    assert_eq!(
        until_equal(&oracle).await?,
        3,
        "documents keep the apiVersion that their member serves"
    );

    let first = r#"299 - "horizontalpodautoscalers.autoscaling of clusters member1, member2 are in version v1, not VERSION""#;
    let second = r#"299 - "horizontalpodautoscalers.autoscaling of cluster member3 are in version v2, not VERSION""#;
    for (version, warned) in [
        ("v1", vec![second]),
        ("v2", vec![first]),
        ("v2beta2", vec![second, first]),
    ] {
        let path = format!("apis/autoscaling/{version}/horizontalpodautoscalers");
        let (list, warnings) = list_with_warnings(&stage.operator, &path).await?;
        let found: Vec<&str> = list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["apiVersion"].as_str().unwrap())
            .collect();
        assert_eq!(
            (list["apiVersion"].as_str().unwrap(), found.len()),
            (&*format!("autoscaling/{version}"), 3),
            "{list}"
        );
        assert_eq!(
            found
                .iter()
                .filter(|api_version| **api_version == "autoscaling/v1")
                .count(),
            2
        );
        let warned: Vec<String> = warned
            .iter()
            .map(|text| text.replace("VERSION", version))
            .collect();
        assert_eq!(warnings, warned);
    }
    let got = stage
        .operator
        .run_command("get horizontalpodautoscalers -A -o name")
        .await?;
    assert_eq!((got.code, got.out.lines().count()), (0, 3), "{got:?}");

    registry.remove().await?;
    for (number, version) in (1..).zip(versions) {
        let scaler = format!(
            "apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers/{name}"
        );
        stage.member(number)?.delete(&scaler).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_kind_without_a_version_is_resolved_for_each_member() -> Tested {
    let stage = enter().await?;
    let [first, second] = [stage.member(1)?, stage.member(2)?];
    let (kind, left, right) = ("Gizmo", unique("left"), unique("right"));
    let groups = [format!("{left}.example"), format!("{right}.example")];
    let [in_left, in_right] = groups
        .each_ref()
        .map(|group| definition(group, kind, &[("v1", true)]));
    let [left_version, right_version] = groups.each_ref().map(|group| format!("{group}/v1"));
    for (member, definition, api_version) in [
        (&first, &in_left, &left_version),
        (&first, &in_right, &right_version),
        (&second, &in_right, &right_version),
    ] {
        define(member, definition, &collection(api_version, kind)).await?;
        create(member, api_version, kind, "one").await?;
    }

    let selectors = json!([{ "kind": "Namespace" }, { "kind": kind }, { "kind": "Nothing" }, { "kind": "TokenReview" }]);
    let mut registry = Registry::new(&stage, "kinds", &[WITH_BOTH, WITH_V1], &selectors)?;
    registry.apply().await?;
    let tie = format!(
        r#"the server has "{kind}" in several groups ({}, {}): set apiVersion to one of them"#,
        groups[0], groups[1]
    );
    let expected = [
        &*tie,
        r#"the server doesn't have a resource type "Nothing""#,
        r#"the server's "TokenReview" cannot be listed and watched"#,
    ];
    // While a fourth kind is not in sync yet, there is one for each reason.
    until("each kind has its message", || async {
        let status = registry.status().await?;
        let clusters = status["clusters"].as_array().context("no clusters")?;
        let cluster = clusters
            .iter()
            .find(|cluster| cluster["name"] == WITH_BOTH && cluster["phase"] == "Failed")
            .with_context(|| format!("{WITH_BOTH} has not failed: {status}"))?;
        let kinds = cluster["kinds"].as_array().context("no kinds")?;
        let messages: BTreeSet<&str> = kinds
            .iter()
            .filter_map(|kind| kind["message"].as_str())
            .collect();
        ensure!(messages == BTreeSet::from(expected), "{cluster}");
        Ok(())
    })
    .await?;
    until_stored(
        &stage,
        &registry,
        kind,
        &[&format!("{WITH_V1} {right_version} one")],
    )
    .await;
    // Several groups tie, so the kind stays uncertain, and becomes visible only after some time.
    until("one selector that fails stops no other", || async {
        let seen = stored(&stage, &registry, "Namespace").await?;
        ensure!(
            seen.iter().any(|line| line.starts_with(WITH_BOTH)),
            "{seen:?}"
        );
        Ok(())
    })
    .await?;

    // One of the two groups is removed: the other one is selected.
    first.delete(&definition_path(&in_left)).await?;
    registry.spec["resourceSelectors"] = json!([{ "kind": kind }]);
    registry.apply_until_ready().await?;
    let of = |cluster: &str| format!("{cluster} {right_version} one");
    until_stored(&stage, &registry, kind, &[&of(WITH_BOTH), &of(WITH_V1)]).await;

    registry.remove().await?;
    for member in [&first, &second] {
        member.delete(&definition_path(&in_right)).await?;
    }
    Ok(())
}

#[tokio::test]
async fn custom_resources_are_indexed_as_they_are_added_change_version_and_are_removed() -> Tested {
    let stage = enter().await?;
    let member = stage.member(1)?;
    let (kind, group) = ("Gadget", format!("{}.example", unique("gadgets")));
    let [old, new] = ["v1beta1", "v1"].map(|version| format!("{group}/{version}"));
    let selectors = json!([{ "apiVersion": old, "kind": kind }, { "kind": "Namespace" }]);
    let registry = Registry::new(&stage, "custom", &[WITH_BOTH], &selectors)?;
    registry.apply().await?;
    let unknown = format!("the server doesn't have a resource type \\\"{kind}\\\" in {old}");
    registry.until_failed(WITH_BOTH, &unknown).await?;

    // The CRD is created: the stream starts by itself.
    let both = definition(&group, kind, &[("v1beta1", true), ("v1", true)]);
    define(&member, &both, &collection(&old, kind)).await?;
    for name in ["one", "two"] {
        create(&member, &old, kind, name).await?;
    }
    registry.until_ready().await?;
    let lines = |api_version: &str, names: &[&str]| -> Vec<String> {
        names
            .iter()
            .map(|name| format!("{WITH_BOTH} {api_version} {name}"))
            .collect()
    };
    let until_lines = async |lines: Vec<String>| {
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        until_stored(&stage, &registry, kind, &lines).await;
    };
    until_lines(lines(&old, &["one", "two"])).await;

    // Its version is no longer served: the same objects are read in the served version. Each of
    // them is found at any time.
    let mut later = both.clone();
    later["spec"]["versions"][0]["served"] = json!(false);
    member.apply(&definition_path(&both), &later).await?;
    let expected: BTreeSet<String> = lines(&new, &["one", "two"]).into_iter().collect();
    let running_reflector = start_reflector(&stage, &group, kind).unwrap();
    until_held(&running_reflector, &["one", "two"]).await?;
    until("the documents have the new version", || async {
        let seen = stored(&stage, &registry, kind).await?;
        let names: BTreeSet<&str> = seen
            .iter()
            .filter_map(|line| line.rsplit(' ').next())
            .collect();
        assert_eq!(
            names,
            BTreeSet::from(["one", "two"]),
            "an existing object was not found: {seen:?}"
        );
        ensure!(seen == expected, "{seen:?}");
        Ok(())
    })
    .await?;
    // The old documents are or will be deleted: a client that keys objects by name still has the
    // existing ones.
    tokio::time::sleep(Duration::from_secs(2)).await;
    until_held(&running_reflector, &["one", "two"]).await?;
    create(&member, &new, kind, "three").await?;
    member
        .delete(&format!("{}/one", collection(&new, kind)))
        .await?;
    until_lines(lines(&new, &["three", "two"])).await;
    until_held(&running_reflector, &["three", "two"]).await?;
    registry.until_ready().await?;
    let oracle = registry.oracle();
    let server = stage.fleet.member(1);
    let plural = collection(&new, kind).replace("/namespaces/default", "");
    let oracle =
        oracle
            .expects(WITH_BOTH, server, &plural)
            .expects(WITH_BOTH, server, "api/v1/namespaces");
    until_equal(&oracle).await?;

    // The old version, which the registry names, is served again.
    member.apply(&definition_path(&both), &both).await?;
    until_lines(lines(&old, &["three", "two"])).await;

    // The CRD is deleted, and its objects with it.
    member.delete(&definition_path(&both)).await?;
    registry.until_failed(WITH_BOTH, &unknown).await?;
    until_lines(Vec::new()).await;
    Ok(registry.remove().await?)
}

/// member1 aggregates a group of member3, through an `APIService`.
async fn aggregate(stage: &Stage, group: &str) -> Tested {
    let outer = stage.member(1)?;
    let port: u16 = stage
        .fleet
        .member(3)
        .url()
        .rsplit(':')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "aggregated" },
        "spec": { "type": "ExternalName", "externalName": "localhost" },
    });
    outer
        .apply("api/v1/namespaces/default/services/aggregated", &service)
        .await?;
    let api_service = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": { "name": format!("v1.{group}") },
        "spec": {
            "group": group, "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 100, "insecureSkipTLSVerify": true,
            "service": { "name": "aggregated", "namespace": "default", "port": port },
        },
    });
    outer.apply(&api_service_path(group), &api_service).await?;
    let objects = format!("apis/{group}/v1/relics");
    until("the group is aggregated", || outer.get(&objects)).await?;
    Ok(())
}

fn api_service_path(group: &str) -> String {
    format!("apis/apiregistration.k8s.io/v1/apiservices/v1.{group}")
}

#[tokio::test]
async fn an_unavailable_api_deletes_no_document() -> Tested {
    let stage = enter().await?;
    let [outer, inner] = [stage.member(1)?, stage.member(3)?];
    let (kind, group) = ("Relic", format!("{}.example", unique("relics")));
    let api_version = format!("{group}/v1");
    let definition = definition(&group, kind, &[("v1", true)]);
    define(&inner, &definition, &collection(&api_version, kind)).await?;
    aggregate(&stage, &group).await?;
    create(&outer, &api_version, kind, "one").await?;

    // Selected in three ways, each resolved by the member's discovery.
    let selectors = [
        json!({ "kind": kind }),
        json!({ "apiVersion": format!("{group}/v2"), "kind": kind }),
        json!({ "apiVersion": api_version, "kind": "*" }),
    ];
    let registries: Vec<Registry> = selectors
        .iter()
        .map(|selector| {
            Registry::new(
                &stage,
                "down",
                &[WITH_BOTH],
                &json!([selector, { "kind": "Namespace" }]),
            )
            .unwrap()
        })
        .collect();
    let line = format!("{WITH_BOTH} {api_version} one");
    for registry in &registries {
        registry.apply_until_ready().await?;
        until_stored(&stage, registry, kind, &[&line]).await;
    }

    // The API goes down; the aggregating member loses its cached discovery; then the operator is
    // restarted.
    stage.fleet.member(3).kill();
    stage.fleet.member(1).restart().await?;
    for registry in &registries {
        registry.until_failed(WITH_BOTH, "").await?;
    }
    stage.operator.restart_until_ready(DEADLINE).await?;
    let not_certain = "the server did not answer for";
    for mut registry in registries.iter().cloned() {
        registry.until_failed(WITH_BOTH, not_certain).await?;
        // A plan that no longer selects a kind, so that garbage collection runs.
        registry.spec["resourceSelectors"][1] = json!({ "kind": "Node" });
        registry.apply().await?;
        registry.until_failed(WITH_BOTH, not_certain).await?;
        outer.create_namespace(&unique("meanwhile")).await?;
        assert_eq!(
            stored(&stage, &registry, kind).await?,
            BTreeSet::from([line.clone()])
        );
    }

    stage.fleet.member(3).restart().await?;
    for registry in &registries {
        registry.until_ready().await?;
    }
    create(&outer, &api_version, kind, "two").await?;
    for registry in &registries {
        until_stored(
            &stage,
            registry,
            kind,
            &[&line, &format!("{WITH_BOTH} {api_version} two")],
        )
        .await;
        // The deselected documents are deleted now.
        until_stored(&stage, registry, "Namespace", &[]).await;
        registry.remove().await?;
    }
    outer.delete(&api_service_path(&group)).await?;
    inner.delete(&definition_path(&definition)).await?;
    Ok(())
}
