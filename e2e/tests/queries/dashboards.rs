//! The saved objects of OpenSearch Dashboards: each of their queries and aggregations finds in a
//! real OpenSearch what was put there, and names fields that Dashboards can use.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::{collections::BTreeMap, sync::Arc};

use anyhow::{Context, Result, ensure};
use e2e::{
    dashboards::{DashboardsRequest, Export, FieldUse, TimeRange, dql_clause},
    demo::workloads::Workloads,
    engine,
    fleet::{Fleet, OpenSearchKind, Options, unique_prefix},
    opensearch::OpenSearch,
    test_result::Tested,
};
use fleetdex_core::{
    kinds,
    model::{
        Document, DocumentShape, Gvk, IndexPrefix, InterpretationLevel, Object, Projection,
        Projector, fallback,
    },
};
use fleetdex_dashboards::{fields::built_in_fields, ndjson, saved_objects};
use fleetdex_interpreter::rules::RuleSet;
use fleetdex_store::{
    CompleteResources, DocumentWriter as _, RevisionStore as _,
    bulk::{Verdict, Write},
    opensearch::{Engine, EngineOptions, mappings},
};
use serde_json::{Value, json};

/// When all documents were written.
const INDEXED_AT: &str = "2026-01-01T12:00:00Z";
/// What is shown.
const DAY: TimeRange = TimeRange {
    from: "2026-01-01T00:00:00.000Z",
    to: "2026-01-02T00:00:00.000Z",
};
/// Everything that the objects find, as `name: hits or buckets`.
const ANSWERS: &str = include_str!("dashboards/answers.yaml");
/// What `buildOpenSearchQuery` of Dashboards 2.19.2 makes of the queries of all objects.
const QUERIES: &str = include_str!("dashboards/dql.json");
/// What is on the members besides the objects of the demo.
const MORE_OBJECTS: &str = include_str!("dashboards/objects.yaml");
/// The name of the object that is stored as a fallback document.
const REFUSED: &str = "refused";
/// Longer lists of hits are counted.
const MOST_HITS: usize = 40;
/// Shown from the document, and not in the list of fields.
const UNMAPPED: [&str; 1] = ["message"];

/// The objects of the three members of the demo, and some more of the first one.
fn objects(member: usize) -> Vec<Value> {
    let workloads = Workloads::of(member, "eu-west-1");
    let mut texts = vec![workloads.applications, workloads.pods];
    if member == 1 {
        texts.push(MORE_OBJECTS.to_owned());
    }
    let parsed = texts
        .iter()
        .flat_map(|text| serde_saphyr::from_multiple::<Value>(text).unwrap());
    let mut objects: Vec<Value> = parsed.collect();
    for namespace in objects
        .iter_mut()
        .filter(|object| object["kind"] == "Namespace")
    {
        namespace["status"] = json!({ "phase": "Active" });
    }
    let statuses: Vec<Value> = serde_saphyr::from_multiple(&workloads.deployment_statuses).unwrap();
    for status in statuses {
        let is_same = |object: &&mut Value| {
            object["kind"] == status["kind"]
                && ["name", "namespace"]
                    .iter()
                    .all(|key| object["metadata"][key] == status["metadata"][key])
        };
        objects.iter_mut().find(is_same).unwrap()["status"] = status["status"].clone();
    }
    objects
}

/// The document of an object, as the operator makes it.
fn document(cluster: &str, number: usize, mut object: Value) -> Result<Document> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &mut object["metadata"];
    metadata["uid"] = format!("uid-{number}").into();
    metadata["resourceVersion"] = (100 + number).to_string().into();
    metadata["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
    let is_refused = metadata["name"] == REFUSED;
    let (group, version) = match text(&object["apiVersion"]).split_once('/') {
        Some((group, version)) => (group.to_owned(), version.to_owned()),
        None => (String::new(), text(&object["apiVersion"])),
    };
    let gvk = Gvk::new(&group, &version, &text(&object["kind"]));
    let resource = kinds::find(&gvk).context("no such kind")?.resource();
    let fields = kinds::selectable_fields(&gvk).unwrap_or_default();
    let has_status = object.get("status").is_some();
    let rules = RuleSet::default().of_kind(&resource, has_status, InterpretationLevel::BuiltIn);
    let rules = rules.context("no rules")?;
    let projector = Projector::new(&cluster.parse()?, &resource, &Projection::default(), fields)
        .interpreted_by(Arc::new(rules));
    let json = object.to_string();
    let mut document = projector.document(&Object::parse(&json)?, INDEXED_AT)?;
    if is_refused {
        let body = document.body.take().context("no body")?;
        let reason = "mapper_parsing_exception: failed to parse";
        document.body = Some(fallback(&body, DocumentShape::Unindexed, reason)?);
    }
    Ok(document)
}

/// Fills the indices of three clusters as the operator does.
async fn fill(engine: &Engine) -> Result<()> {
    engine.prepare().await?;
    for member in 1..=3 {
        let cluster = format!("member{member}");
        let revision = engine.open(&cluster.parse()?, None, 0).await?;
        let mut writes = Vec::new();
        for (number, object) in objects(member).into_iter().enumerate() {
            writes.push(Write {
                index: revision.target.clone(),
                document: document(&cluster, number, object)?,
            });
        }
        let verdicts = engine.write(&writes).await?;
        let is_indexed = |verdict: &Verdict| matches!(verdict, Verdict::Indexed);
        ensure!(verdicts.iter().all(is_indexed), "{verdicts:?}");
        engine.activate(&revision, &CompleteResources::All).await?;
    }
    Ok(())
}

/// The hits of a search as `cluster/namespace/kind/name`, or the counts of the buckets with the
/// values of the metrics.
fn answer(request: &DashboardsRequest, response: &Value) -> Vec<String> {
    let aggregations = response["aggregations"].as_object();
    let mut lines = Vec::new();
    match request.body["size"].as_u64() {
        Some(0) => {
            lines.push(format!("total: {}", response["hits"]["total"]["value"]));
            if let Some(aggregations) = aggregations {
                buckets("", aggregations, &mut lines);
            }
        }
        _ => {
            for hit in response["hits"]["hits"].as_array().unwrap() {
                let source = &hit["_source"];
                let names = [
                    &source["cluster"],
                    &source["metadata"]["namespace"],
                    &source["kind"],
                    &source["metadata"]["name"],
                ];
                lines.push(names.map(|name| name.as_str().unwrap_or("-")).join("/"));
            }
            lines.sort();
            if lines.len() > MOST_HITS {
                lines = vec![format!("{} hits", lines.len())];
            }
        }
    }
    lines
}

fn buckets(path: &str, aggregations: &serde_json::Map<String, Value>, lines: &mut Vec<String>) {
    let mut values = Vec::new();
    for (id, aggregation) in aggregations.iter().filter(|(_, each)| each.is_object()) {
        let Some(list) = aggregation["buckets"].as_array() else {
            values.push(format!("{id}={}", aggregation["value"]));
            continue;
        };
        for bucket in list {
            let key = bucket["key_as_string"].as_str().or(bucket["key"].as_str());
            let path = format!("{path}{}", key.unwrap());
            lines.push(format!("{path}: {}", bucket["doc_count"]));
            buckets(&format!("{path} > "), bucket.as_object().unwrap(), lines);
        }
    }
    if !values.is_empty() {
        let last = if path.is_empty() { None } else { lines.pop() };
        lines.push(
            format!("{} {}", last.unwrap_or_default(), values.join(" "))
                .trim()
                .to_owned(),
        );
    }
}

/// Fails unless Dashboards can do with every field what the objects do with it.
async fn check_fields(
    opensearch: &OpenSearch,
    prefix: &str,
    requests: &[DashboardsRequest],
) -> Result<()> {
    let caps = opensearch
        .get(&format!("{prefix}/_field_caps?fields=*"))
        .await?;
    for request in requests {
        for (field, used) in &request.fields {
            if UNMAPPED.contains(&field.as_str()) {
                continue;
            }
            let types = caps["fields"][field].as_object();
            let types = types.with_context(|| format!("{}: no field {field}", request.name))?;
            ensure!(types.len() == 1, "{field} has several types: {types:?}");
            let capability = types.values().next().unwrap();
            let is_usable = match used {
                FieldUse::Aggregated => capability["aggregatable"] == true,
                FieldUse::Searched => capability["searchable"] == true,
                FieldUse::Shown => true,
            };
            ensure!(is_usable, "{}: {field}: {capability}", request.name);
        }
    }
    Ok(())
}

async fn everything_is_found(kind: OpenSearchKind) -> Result<()> {
    let fleet = Fleet::start(Options::of(0, kind)).await?;
    let server = fleet.opensearch()?;
    let prefix = unique_prefix("dashboards");
    let fields = built_in_fields();
    let engine = Engine::new(
        engine::service(server)?,
        EngineOptions {
            fields: fields.clone(),
            ..engine::options(server, &prefix, 1)?
        },
    );
    fill(&engine).await?;
    let opensearch = server.client()?;
    opensearch.refresh(&prefix).await?;

    let file = ndjson(&saved_objects(
        &prefix.parse()?,
        &mappings(&fields, false),
        None,
    ));
    let requests = Export::parse(&file)?.requests(DAY)?;
    check_fields(&opensearch, &prefix, &requests).await?;
    let mut answers: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for request in &requests {
        ensure!(
            request.indices == prefix,
            "{} searches {}",
            request.name,
            request.indices
        );
        let path = format!("{prefix}/_search?ignore_unavailable=true&track_total_hits=true");
        let response = opensearch.post(&path, &request.body).await;
        let response = response.with_context(|| request.name.clone())?;
        ensure!(
            response["_shards"]["failed"] == 0,
            "{}: {response}",
            request.name
        );
        let name = request
            .name
            .trim_start_matches(&prefix)
            .trim_start_matches('-');
        answers.insert(name.to_owned(), answer(request, &response));
    }
    let expected: BTreeMap<String, Vec<String>> = serde_saphyr::from_str(ANSWERS)?;
    for (name, lines) in &answers {
        ensure!(
            expected.get(name) == Some(lines),
            "{name}: {lines:#?}\nall answers: {}",
            json!(answers)
        );
        ensure!(!lines.is_empty(), "{name} finds nothing");
    }
    ensure!(answers.len() == expected.len(), "{answers:#?}");
    Ok(())
}

#[test]
fn queries_are_translated_as_dashboards_does() -> Tested {
    let translated: BTreeMap<String, Value> = serde_json::from_str(QUERIES)?;
    for (query, clause) in &translated {
        assert_eq!(dql_clause(query).unwrap(), *clause, "{query}");
    }
    let mapping = mappings(&built_in_fields(), false);
    for object in saved_objects(&IndexPrefix::default(), &mapping, None) {
        let Some(meta) = object.attributes.get("kibanaSavedObjectMeta") else {
            continue;
        };
        let source: Value = serde_json::from_str(meta["searchSourceJSON"].as_str().unwrap())?;
        let query = source["query"]["query"].as_str().unwrap();
        assert!(translated.contains_key(query), "{}: {query}", object.id);
    }
    for unsupported in ["a", "a: ", "a: (b or", "a: b c: d", "a: \"b c\""] {
        assert!(dql_clause(unsupported).is_err(), "{unsupported}");
    }
    Ok(())
}

#[tokio::test]
async fn saved_objects_find_what_was_put_there() -> Tested {
    everything_is_found(OpenSearchKind::Plain).await?;
    Ok(())
}

#[tokio::test]
async fn saved_objects_find_what_was_put_there_in_opensearch_2() -> Tested {
    everything_is_found(OpenSearchKind::Secure).await?;
    Ok(())
}
