//! `selectableFields` of custom resource definitions on real servers: they are selectable in the
//! index as at the member, also for objects that existed before.

#![allow(clippy::unwrap_used, reason = "a test")]

use anyhow::{Context, Result, ensure};
use e2e::{
    objects::Objects,
    query_api::{bare_names_of, names_by_field, store_at},
    scenario::{DEADLINE, Registry, Stage, until},
    test_result::{Tested, assert_contains},
};
use serde_json::{Value, json};

const PAINTS: &str = "apis/art.example.com/v1/namespaces/default/paints";
const DEFINITIONS: &str = "apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn definition(plural: &str, kind: &str, fields: &[&str]) -> Value {
    let text = || json!({ "type": "string" });
    let spec = json!({ "type": "object", "properties": { "color": text(), "maker": text(), "litres": { "type": "integer" } } });
    let fields: Vec<Value> = fields
        .iter()
        .map(|field| json!({ "jsonPath": field }))
        .collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.art.example.com") },
        "spec": {
            "group": "art.example.com", "scope": "Namespaced", "names": { "plural": plural, "kind": kind },
            "versions": [{
                "name": "v1", "served": true, "storage": true, "selectableFields": fields,
                "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": spec } } },
            }],
        },
    })
}

async fn define(member: &Objects, definition: &Value) -> Result<()> {
    let name = definition["metadata"]["name"]
        .as_str()
        .context("a definition without a name")?;
    member
        .apply(&format!("{DEFINITIONS}/{name}"), definition)
        .await
        .map(drop)
}

/// The names that the member finds.
async fn found_by_member(member: &Objects, selector: &str) -> Result<Vec<String>> {
    let url = reqwest::Url::parse_with_params("http://localhost/", [("fieldSelector", selector)])?;
    bare_names_of(
        &member
            .get(&format!("{PAINTS}?{}", url.query().unwrap_or_default()))
            .await?,
    )
}

#[tokio::test]
async fn selectable_fields_of_a_definition_are_selectable_in_the_index() -> Tested {
    let stage = Stage::enter().await?;
    let member = stage.member(1)?;
    define(&member, &definition("paints", "Paint", &[".spec.color"])).await?;
    for (name, spec) in [
        (
            "a",
            json!({ "color": "red", "maker": "north", "litres": 5 }),
        ),
        (
            "b",
            json!({ "color": "blue", "maker": "north", "litres": 10 }),
        ),
        ("c", json!({ "maker": "south" })),
    ] {
        let paint = json!({ "apiVersion": "art.example.com/v1", "kind": "Paint", "metadata": { "name": name }, "spec": spec });
        let path = format!("{PAINTS}/{name}");
        until("a paint is made", || async {
            member.apply(&path, &paint).await
        })
        .await?;
    }
    let selectors = json!([{ "apiVersion": "art.example.com/v1", "kind": "Paint" }]);
    let registry = Registry::ready(&stage, "paints", &["member1"], &selectors).await?;
    let store = store_at(stage.fleet.opensearch()?.url(), &registry.prefix)?;
    let found = |selector: &'static str| names_by_field(&stage.operator, &store, PAINTS, selector);
    let until_alike = async |selector: &'static str| {
        until(&format!("{selector} finds the same"), || async {
            let (ours, theirs) = (
                found(selector).await?,
                found_by_member(&member, selector).await?,
            );
            ensure!(
                ours.as_ref() == Ok(&theirs),
                "{ours:?}, and at the member {theirs:?}"
            );
            Ok(())
        })
        .await
        .unwrap();
    };
    for selector in ["spec.color=red", "spec.color!=red", "spec.color="] {
        until_alike(selector).await;
    }
    let refused = found("spec.maker=north").await?.unwrap_err();
    assert_contains(&refused, "field label not supported: spec.maker");
    assert_contains(&refused, "spec.color");

    // Only the definition changes, not the objects. Another kind shows at once that there is
    // something to read.
    let before = stage.opensearch.documents(&registry.prefix).await?;
    define(
        &member,
        &definition(
            "paints",
            "Paint",
            &[".spec.color", ".spec.maker", ".spec.litres"],
        ),
    )
    .await?;
    define(&member, &definition("brushes", "Brush", &[])).await?;
    for selector in [
        "spec.maker=north",
        "spec.maker!=north,spec.color=",
        "spec.litres=10",
        "spec.color=red,spec.maker=north",
    ] {
        until_alike(selector).await;
    }
    assert_eq!(found("spec.litres>5").await?, Ok(vec!["b".to_owned()]));
    let after = stage.opensearch.documents(&registry.prefix).await?;
    let versions = |documents: &[Value]| {
        let version = |document: &Value| document["_source"]["metadata"]["resourceVersion"].clone();
        documents.iter().map(version).collect::<Vec<_>>()
    };
    assert_eq!(versions(&before), versions(&after));

    // A restarted operator finds everything unchanged, and writes nothing.
    stage.operator.terminate(DEADLINE).await?;
    stage.operator.restart_until_ready(DEADLINE).await?;
    until_alike("spec.maker=north").await;
    let written = stage
        .operator
        .count_of("fleetdex_bulk_items_total", r#"verdict="indexed""#)
        .await?;
    assert!(written < 1.0, "{written} documents were written");
    Ok(registry.remove().await?)
}
