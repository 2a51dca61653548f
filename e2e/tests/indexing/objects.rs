//! Awkward objects: each is a document with all of its fields, or a fallback with the reason, and
//! affects no other document.

#![allow(clippy::unwrap_used, reason = "a test")]

use base64::{Engine, engine::general_purpose::STANDARD};
use e2e::{
    fleet::unique,
    objects::Objects,
    oracle::{document, documents, same_fields},
    query_api::{bare_names_of, request},
    scenario::{DEADLINE, Registry, Stage, until, until_equal},
    test_result::Tested,
};
use serde_json::{Value, json};

use super::events::until_event;

const THINGS: &str = "apis/awkward.example.io/v1/things";

/// The schema preserves unknown fields.
fn things_crd() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "things.awkward.example.io" },
        "spec": {
            "group": "awkward.example.io", "scope": "Namespaced",
            "names": { "kind": "Thing", "listKind": "ThingList", "plural": "things", "singular": "thing" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
            }],
        },
    })
}

/// A namespace of the member, and a registry of its `ConfigMap`s, Secrets and Things.
async fn create_objects(stage: &Stage, name: &str) -> Tested<(Objects, String, Registry)> {
    let objects = stage.member(1)?;
    let crd = "apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.awkward.example.io";
    objects.apply(crd, &things_crd()).await?;
    until("the kind is served", || objects.get(THINGS)).await?;
    let namespace = unique(name);
    objects.create_namespace(&namespace).await?;
    let selectors = json!([
        { "apiVersion": "v1", "kind": "ConfigMap", "namespace": namespace },
        { "apiVersion": "v1", "kind": "Secret", "namespace": namespace },
        { "apiVersion": "awkward.example.io/v1", "kind": "Thing", "namespace": namespace },
    ]);
    let registry = Registry::new(stage, name, &["member1"], &selectors)?;
    Ok((objects, namespace, registry))
}

fn thing(name: &str, fields: &Value) -> Value {
    let mut object = json!({ "apiVersion": "awkward.example.io/v1", "kind": "Thing", "metadata": { "name": name } });
    for (key, value) in fields.as_object().unwrap() {
        if key == "metadata" {
            for (member, inner) in value.as_object().unwrap() {
                object["metadata"][member] = inner.clone();
            }
        } else {
            object[key] = value.clone();
        }
    }
    object
}

fn things_in(namespace: &str) -> String {
    format!("apis/awkward.example.io/v1/namespaces/{namespace}/things")
}

async fn until_everything_is_there(
    stage: &Stage,
    registry: &Registry,
    namespace: &str,
) -> Tested<usize> {
    let member = stage.fleet.member(1);
    let oracle = registry
        .oracle()
        .expects(
            "member1",
            member,
            &format!("api/v1/namespaces/{namespace}/configmaps"),
        )
        .expects(
            "member1",
            member,
            &format!("api/v1/namespaces/{namespace}/secrets"),
        )
        .expects("member1", member, &things_in(namespace));
    Ok(until_equal(&oracle).await?)
}

/// Incompressible text of letters.
fn noise(bytes: usize) -> String {
    (0..bytes)
        .map(|_| char::from(rand::random_range(b'a'..=b'z')))
        .collect()
}

#[tokio::test]
#[allow(clippy::too_many_lines, reason = "one scenario")]
async fn awkward_objects_are_indexed_completely() -> Tested {
    let stage = Stage::enter().await?;
    let (objects, namespace, registry) = create_objects(&stage, "awkward").await?;
    let things = things_in(&namespace);
    let awkward = [
        // Almost the size limit of etcd.
        thing("large", &json!({ "spec": { "text": noise(1_400_000) } })),
        thing(
            "larger-in-json",
            &json!({ "spec": { "text": "\u{1}\"\\".repeat(100_000) } }),
        ),
        thing(
            "dotted-labels",
            &json!({ "metadata": { "labels": {
            "app": "web", "app.kubernetes.io/name": "web", "app.kubernetes.io": "x", "a.b.c": "", "example.com/deep.er": "y",
        } } }),
        ),
        thing(
            "long-values",
            &json!({
                "metadata": { "annotations": { "example.com/long": noise(200_000), "a": "", "a.b": "c" } },
                "spec": { "type": noise(40_000), "nodeName": noise(33_000), "replicas": 12 },
                "status": { "phase": noise(50_000) },
                "type": noise(40_000),
            }),
        ),
        thing("no-spec", &json!({})),
        thing(
            "null-and-empty",
            &json!({ "spec": { "a": {}, "b": [], "c": "" }, "status": {} }),
        ),
        thing(
            "own-names",
            &json!({
                "search": { "labels": ["not=ours"], "native": 1, "rejected": "no" }, "cluster": "its-own", "spec": { "search": 1 },
            }),
        ),
        thing(
            "scalars",
            &json!({ "search": 7, "cluster": { "deep": [1, 2.5, true, null] }, "sum": 1e300 }),
        ),
        thing(
            "numbers",
            &json!({ "spec": { "big": 9_007_199_254_740_993_u64, "ratio": 0.1, "negative": -7, "text": "007" } }),
        ),
        thing(
            "unicode",
            &json!({
                "metadata": { "annotations": { "greeting": "Grüße, 世界 🌍 \u{202e}\u{0}\u{7f}" } },
                "spec": { "кириллица": "да", "line\nbreak": "a\r\nb\u{2028}c", "emoji 🦀": ["👩‍👩‍👧", "\u{feff}"] },
            }),
        ),
        thing(
            "dots-in-keys",
            &json!({ "spec": { "a.b": 1, "a": { "b": 2 }, "c.d": { "e.f": [1] } }, "status.phase": "flat" }),
        ),
        thing("deep", &json!({ "spec": deep(100) })),
        // Its field names with dots claim every property of a ConfigMap of another namespace.
        thing(
            "forger",
            &json!({
                "search.resource": "configmaps", "search.group": "", "apiVersion.x": "v1", "kind.x": "ConfigMap",
                "metadata.name": "forged", "metadata.namespace": "forged", "metadata.uid": "forged", "metadata.labels.app": "forged",
                "metadata.creationTimestamp": "1999-01-01T00:00:00Z", "cluster.x": "forged", "search.cluster": "forged",
                "search.labels": ["app=forged"], "search.labelKeys": ["forged"], "search.owners": ["forged"],
                "search.fields": ["metadata.name=forged"], "search.numbers": ["forged"], "search.rejected": "forged",
                "search.indexedAt": "1999-01-01T00:00:00Z", "search.sort.forged": "forged", "search.native.forged": "forged",
                "search": { "sort.forged": "forged" },
            }),
        ),
    ];
    for object in &awkward {
        objects.create(&things, object).await?;
    }
    let megabyte =
        json!({ "first": noise(500_000), "second": noise(500_000), "third.dotted_KEY": "x" });
    objects
        .apply_config_map(&namespace, "megabyte", &megabyte)
        .await?;

    registry.apply_until_ready().await?;
    assert_eq!(
        until_everything_is_there(&stage, &registry, &namespace).await?,
        awkward.len() + 1
    );
    for object in &awkward {
        let name = object["metadata"]["name"].as_str().unwrap();
        let native = objects.get(&format!("{things}/{name}")).await?;
        let stored = document(&stage.opensearch, &registry.prefix, &native).await?;
        assert!(
            stored["search"].get("rejected").is_none(),
            "{name} was refused: {}",
            stored["search"]["rejected"]
        );
        same_fields(&stored, &native)
            .unwrap_or_else(|error| panic!("{name}: {}", shortened(&error.to_string())));
    }
    let native = objects.get_config_map(&namespace, "megabyte").await?;
    let stored = document(&stage.opensearch, &registry.prefix, &native).await?;
    same_fields(&stored, &native).unwrap();

    // Labels with dots are found exactly.
    for (term, names) in [
        ("app=web", vec!["dotted-labels"]),
        ("app.kubernetes.io/name=web", vec!["dotted-labels"]),
        ("app=x", vec![]),
    ] {
        let filter = json!({ "term": { "search.labels": term } });
        let hits = stage
            .opensearch
            .search_all(&registry.prefix, &filter)
            .await?;
        let found: Vec<&str> = hits
            .iter()
            .filter_map(|hit| hit["_source"]["metadata"]["name"].as_str())
            .collect();
        assert_eq!(found, names, "{term}");
    }

    nothing_is_forged(&stage, &registry, &namespace, &things).await?;

    // They also arrive as changes, one watch event after the other.
    for object in &awkward {
        let name = object["metadata"]["name"].as_str().unwrap();
        let path = format!("{things}/{name}");
        let patch = json!({ "metadata": { "labels": { "round": "2" } } });
        objects.merge(&path, &patch).await?;
    }
    until_everything_is_there(&stage, &registry, &namespace).await?;
    for object in &awkward {
        objects
            .delete(&format!(
                "{things}/{}",
                object["metadata"]["name"].as_str().unwrap()
            ))
            .await?;
    }
    assert_eq!(
        until_everything_is_there(&stage, &registry, &namespace).await?,
        1
    );
    registry.remove().await?;
    objects.delete_config_map(&namespace, "megabyte").await?;
    Ok(())
}

/// The object `forger` is found by its real properties only, and by nothing that its names with
/// dots claim.
async fn nothing_is_forged(
    stage: &Stage,
    registry: &Registry,
    namespace: &str,
    things: &str,
) -> Tested {
    let opensearch = &stage.opensearch;
    for (field, value) in [
        ("metadata.name", "forged"),
        ("metadata.namespace", "forged"),
        ("metadata.uid", "forged"),
        ("metadata.labels", "forged"),
        ("metadata.labels.app", "forged"),
        ("metadata.creationTimestamp", "1999-01-01T00:00:00Z"),
        ("search.labels", "app=forged"),
        ("search.labelKeys", "forged"),
        ("search.owners", "forged"),
        ("search.fields", "metadata.name=forged"),
        ("search.numbers", "forged"),
        ("search.rejected", "forged"),
        ("search.indexedAt", "1999-01-01T00:00:00Z"),
    ] {
        let hits = opensearch
            .search_all(&registry.prefix, &json!({ "term": { field: value } }))
            .await?;
        assert!(hits.is_empty(), "{field}: {hits:?}");
    }
    let alias = format!("{}-member1", registry.prefix);
    let mapping = opensearch
        .get(&format!("{alias}/_mapping"))
        .await?
        .to_string();
    assert!(
        !mapping.contains("forged"),
        "a name with dots was mapped: {mapping}"
    );

    let run_command = async |arguments: &[&str]| {
        let result = stage.operator.run_command(arguments).await.unwrap();
        assert_eq!(result.code, 0, "{result:?}");
        result.out
    };
    let maps = run_command(&["get", "configmaps", "-n", namespace, "-o", "name"]).await;
    assert!(
        maps.contains("megabyte") && !maps.contains("forge"),
        "{maps}"
    );
    let all = run_command(&["get", "configmaps", "-A", "-o", "name"]).await;
    assert!(!all.contains("forge"), "{all}");
    let counted: Value = serde_json::from_str(
        &run_command(&["count", "configmaps", "-n", namespace, "-o", "json"]).await,
    )?;
    let listed = stage
        .member(1)?
        .get(&format!("api/v1/namespaces/{namespace}/configmaps"))
        .await?;
    assert_eq!(
        counted["total"],
        listed["items"].as_array().unwrap().len(),
        "{counted}"
    );
    let path = "search/api/v1/configmaps?ownerUID=forged";
    let answer = request(&stage.operator, path)?.send().await?;
    let owned: Value = answer.error_for_status()?.json().await?;
    assert!(bare_names_of(&owned)?.is_empty(), "{owned}");
    // The document of the object itself is complete.
    let got = run_command(&[
        "get",
        "things.awkward.example.io",
        "forger",
        "-n",
        namespace,
        "-o",
        "json",
    ])
    .await;
    let list: Value = serde_json::from_str(&got)?;
    let mut got = list["items"][0].clone();
    let native = stage.member(1)?.get(&format!("{things}/forger")).await?;
    got["metadata"] = native["metadata"].clone();
    assert_eq!(got, native);
    Ok(())
}

#[tokio::test]
async fn an_object_that_becomes_too_deep_is_indexed_by_identity_only_and_can_be_deleted() -> Tested
{
    let stage = Stage::enter().await?;
    let (objects, namespace, registry) = create_objects(&stage, "too-deep").await?;
    let path = format!("{}/abyss", things_in(&namespace));
    let abyss = |levels: usize| {
        let mut object = thing(
            "abyss",
            &json!({ "spec": "SPEC", "status": { "phase": "shown" } }),
        );
        object["metadata"]["namespace"] = json!(namespace);
        // Compared as text: serde_json does not parse JSON of this depth either.
        object.to_string().replace(
            "\"SPEC\"",
            &format!("{{\"a\":{}1{}}}", "[".repeat(levels), "]".repeat(levels)),
        )
    };
    let kubectl = stage.fleet.member(1).kubectl()?;
    kubectl.create(&abyss(3)).await?;
    registry.apply_until_ready().await?;
    assert_eq!(
        until_everything_is_there(&stage, &registry, &namespace).await?,
        1
    );

    kubectl.apply_server_side(&abyss(600)).await?;
    registry
        .until_phase(
            "member1",
            "Synced",
            "1 refused by the store, or too large or deep for it",
        )
        .await?;
    until_rejected(&stage, 1).await?;
    let stored = documents(&stage.opensearch, &registry.prefix).await?;
    let source = &stored[0]["_source"];
    assert_eq!(
        source["search"]["rejected"],
        "the object is nested deeper than the 500 levels that are indexed"
    );
    assert!(
        stored.len() == 1 && !source.to_string().contains("shown"),
        "{source}"
    );
    // An audit finds no drift, and the object is still counted after a restart.
    assert_eq!(stage.operator.run_command("verify").await?.code, 0);
    stage.operator.terminate(DEADLINE).await?;
    stage.operator.restart_until_ready(DEADLINE).await?;
    until_rejected(&stage, 1).await?;

    kubectl.apply_server_side(&abyss(4)).await?;
    assert_eq!(
        until_everything_is_there(&stage, &registry, &namespace).await?,
        1
    );
    until_not_rejected(&stage).await?;
    kubectl.apply_server_side(&abyss(600)).await?;
    until_rejected(&stage, 1).await?;
    objects.delete(&path).await?;
    assert_eq!(
        until_everything_is_there(&stage, &registry, &namespace).await?,
        0
    );
    until_not_rejected(&stage).await?;
    Ok(registry.remove().await?)
}

/// `{"a":{"a":…}}`
fn deep(levels: usize) -> Value {
    (0..levels).fold(json!("bottom"), |inner, _| json!({ "a": inner }))
}

fn shortened(text: &str) -> String {
    text.chars().take(3_000).collect()
}

#[tokio::test]
#[allow(clippy::too_many_lines, reason = "one scenario")]
async fn a_rejected_document_gets_a_fallback_and_its_batch_is_not_affected() -> Tested {
    let stage = Stage::enter().await?;
    let (objects, namespace, registry) = create_objects(&stage, "refused").await?;
    let things = things_in(&namespace);
    // `status.phase` and `type` are mapped as keywords for built-in kinds; these objects have other
    // types there. And OpenSearch refuses a field without a name.
    let refused = [
        thing("empty-key", &json!({ "spec": { "": 4, "a": { "b": 5 } } })),
        thing("dot-key", &json!({ "spec": { ".": 4, "x..y": 5 } })),
        thing(
            "phase-object",
            &json!({ "metadata": { "labels": { "app": "odd" } }, "status": { "phase": { "name": "Running" } } }),
        ),
        thing(
            "type-object",
            &json!({ "type": { "deep": true }, "search": "own", "cluster": "own" }),
        ),
    ];
    let mates: Vec<Value> = (0..50)
        .map(|number| {
            thing(
                &format!("mate-{number}"),
                &json!({ "status": { "phase": "Running" } }),
            )
        })
        .collect();
    for object in mates.iter().chain(&refused) {
        objects.create(&things, object).await?;
    }
    registry.apply_until_ready().await?;
    assert_eq!(
        until_everything_is_there(&stage, &registry, &namespace).await?,
        54
    );
    let status = registry
        .until_phase("member1", "Synced", "4 refused by the store")
        .await?;
    let uids = async || -> Vec<String> {
        let listed = objects.get(&things).await.unwrap();
        listed["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["metadata"]["uid"].as_str().unwrap().to_owned())
            .collect()
    };
    let names_one = uids().await.iter().any(|uid| {
        status
            .to_string()
            .contains(&format!("such as awkward.example.io/v1/Thing/{uid}"))
    });
    assert!(names_one, "{status}");
    until_rejected(&stage, 4).await?;
    let event = until_event(&stage, &registry, "ObjectsRefused").await?;
    assert_eq!(
        (&event["type"], &event["related"]["name"]),
        (&json!("Warning"), &json!("member1")),
        "{event}"
    );
    let note = event["note"].as_str().unwrap();
    assert!(
        note.contains("Thing: ") && note.contains("refused by the store"),
        "{event}"
    );
    // The fallbacks have the versions of their objects.
    let verified = stage.operator.run_command("verify").await?;
    assert_eq!(verified.code, 0, "{verified:?}");
    // After a restart nothing is refused again, and the rejection is still reported.
    stage.operator.terminate(DEADLINE).await?;
    stage.operator.restart_until_ready(DEADLINE).await?;
    registry
        .until_phase("member1", "Synced", "4 refused by the store")
        .await?;
    until_rejected(&stage, 4).await?;
    until_event(&stage, &registry, "ObjectsRefused").await?;

    for object in &refused {
        let name = object["metadata"]["name"].as_str().unwrap();
        let native = objects.get(&format!("{things}/{name}")).await?;
        let stored = document(&stage.opensearch, &registry.prefix, &native).await?;
        let reason = stored["search"]["rejected"].as_str().unwrap();
        let expected = match name {
            "type-object" => "[type]",
            "phase-object" => "[status.phase]",
            _ => "field name",
        };
        assert!(reason.contains(expected), "{name}: {reason}");
        for field in ["name", "namespace", "uid", "resourceVersion"] {
            assert_eq!(
                stored["metadata"][field], native["metadata"][field],
                "{stored}"
            );
        }
        for (field, value) in native.as_object().unwrap() {
            if !["apiVersion", "kind", "metadata"].contains(&field.as_str()) {
                assert_eq!(stored["search"]["native"][field], *value, "{stored}");
            }
        }
    }
    let filter = json!({ "term": { "search.labels": "app=odd" } });
    let hits = stage
        .opensearch
        .search_all(&registry.prefix, &filter)
        .await?;
    assert_eq!(hits.len(), 1);

    // Once corrected, it is an ordinary document.
    let path = format!("{things}/phase-object");
    let patch = json!({ "status": { "phase": "Running" } });
    objects.merge(&path, &patch).await?;
    assert_eq!(
        until_everything_is_there(&stage, &registry, &namespace).await?,
        54
    );
    let native = objects.get(&format!("{things}/phase-object")).await?;
    let stored = document(&stage.opensearch, &registry.prefix, &native).await?;
    same_fields(&stored, &native).unwrap();
    assert!(stored["search"].get("rejected").is_none(), "{stored}");
    registry
        .until_phase("member1", "Synced", "3 refused by the store")
        .await?;
    until_rejected(&stage, 3).await?;
    Ok(registry.remove().await?)
}

/// Waits until the gauge has this value.
async fn until_rejected(stage: &Stage, count: u32) -> Tested {
    until("the documents that are refused are counted", || async {
        let labels = "cluster=\"member1\",kind=\"awkward.example.io/v1/Thing\"";
        let seen = stage
            .operator
            .metric("fleetdex_rejected_documents", labels)
            .await?;
        anyhow::ensure!((seen - f64::from(count)).abs() < 0.5, "{seen}");
        Ok(())
    })
    .await?;
    Ok(())
}

/// Waits until the series is absent, as for a kind without refused documents.
async fn until_not_rejected(stage: &Stage) -> Tested {
    until("no document is refused", || async {
        let text = stage.operator.metrics().await?;
        let series =
            "fleetdex_rejected_documents{cluster=\"member1\",kind=\"awkward.example.io/v1/Thing\"}";
        anyhow::ensure!(!text.contains(series), "it is still counted");
        Ok(())
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn values_of_secrets_are_nowhere_in_the_store() -> Tested {
    let stage = Stage::enter().await?;
    let (objects, namespace, registry) = create_objects(&stage, "secrets").await?;
    let password = format!("plain{}", noise(20));
    let manifest = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "applied", "namespace": namespace, "labels": { "app": "vault" } },
        "stringData": { "password": password, "user": "u", "empty": "" },
    });
    // kubectl's annotation contains the values too.
    stage
        .fleet
        .member(1)
        .kubectl()?
        .apply(&manifest.to_string())
        .await?;
    registry.apply_until_ready().await?;
    assert_eq!(
        until_everything_is_there(&stage, &registry, &namespace).await?,
        1
    );
    let changed = format!("later{}", noise(20));
    let path = format!("api/v1/namespaces/{namespace}/secrets/applied");
    objects
        .merge(&path, &json!({ "stringData": { "password": changed } }))
        .await?;
    until_everything_is_there(&stage, &registry, &namespace).await?;

    let native = objects.get(&path).await?;
    assert!(
        native.to_string().contains(&password),
        "the annotation should hold the first password: {native}"
    );
    let stored = document(&stage.opensearch, &registry.prefix, &native).await?;
    assert_eq!(
        stored["data"],
        json!({ "empty": "", "password": "", "user": "" })
    );
    assert_eq!(stored["type"], "Opaque");
    let everything =
        Value::Array(documents(&stage.opensearch, &registry.prefix).await?).to_string();
    assert!(everything.contains("vault"));
    for value in [&password, &changed] {
        assert!(
            !everything.contains(value.as_str()),
            "the store holds a value of a Secret"
        );
        assert!(
            !everything.contains(&STANDARD.encode(value)),
            "the store holds a value of a Secret in base64"
        );
    }
    let log = std::fs::read_to_string(stage.operator.process().log())?;
    assert!(
        !log.contains(&password) && !log.contains(&STANDARD.encode(&password)),
        "the log holds a value of a Secret"
    );

    registry.remove().await?;
    objects.delete(&path).await?;
    Ok(())
}

#[tokio::test]
async fn redacted_fields_are_nowhere_in_the_store() -> Tested {
    let stage = Stage::enter().await?;
    let (objects, namespace, mut registry) = create_objects(&stage, "redacted").await?;
    let word = noise(24);
    let object = thing(
        "redacted",
        &json!({ "spec": { "kept": 1, "list": [{ "token": word, "name": "a" }, { "token": word }], "token": word } }),
    );
    objects.create(&things_in(&namespace), &object).await?;
    registry.spec["redact"] = json!(["spec.token", "spec.list[*].token"]);
    registry.apply_until_ready().await?;
    until_everything_is_there(&stage, &registry, &namespace).await?;
    let native = objects
        .get(&format!("{}/redacted", things_in(&namespace)))
        .await?;
    let stored = document(&stage.opensearch, &registry.prefix, &native).await?;
    assert_eq!(
        stored["spec"],
        json!({ "kept": 1, "list": [{ "name": "a" }, {}] })
    );
    let everything =
        Value::Array(documents(&stage.opensearch, &registry.prefix).await?).to_string();
    assert!(!everything.contains(&word));

    registry.remove().await?;
    objects
        .delete(&format!("{}/redacted", things_in(&namespace)))
        .await?;
    Ok(())
}
