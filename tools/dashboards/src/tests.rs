//! Holds the objects to what Dashboards accepts on import, and shows without an error.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet};

use fleetdex_core::model::IndexPrefix;
use serde_json::Value;

use super::*;
use crate::{fields::built_in_fields, panels::GRID_WIDTH};

/// Members of Events that are shown from the document.
const UNMAPPED_COLUMNS: [&str; 1] = ["message"];

fn mapping(is_full: bool) -> Value {
    fleetdex_store::opensearch::mappings(&built_in_fields(), is_full)
}

fn objects() -> Vec<SavedObject> {
    saved_objects(&IndexPrefix::default(), &mapping(false), None)
}

fn of_type(object_type: SavedObjectType) -> impl Iterator<Item = SavedObject> {
    objects()
        .into_iter()
        .filter(move |object| object.object_type == object_type)
}

/// The JSON in a string attribute.
fn parsed(object: &SavedObject, attribute: &str) -> Value {
    serde_json::from_str(object.attributes[attribute].as_str().unwrap()).unwrap()
}

fn search_source(object: &SavedObject) -> Value {
    let text = object.attributes["kibanaSavedObjectMeta"]["searchSourceJSON"].as_str();
    serde_json::from_str(text.unwrap()).unwrap()
}

/// Every value of a member `…RefName`, at any depth.
fn reference_names(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match member.as_str() {
                    Some(text) if name.ends_with("RefName") => {
                        found.insert(text.to_owned());
                    }
                    _ => reference_names(member, found),
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                reference_names(item, found);
            }
        }
        // Attributes that are JSON as text.
        Value::String(text) if text.starts_with(['{', '[']) => {
            // Or regular expressions.
            if let Ok(json) = serde_json::from_str(text) {
                reference_names(&json, found);
            }
        }
        _ => {}
    }
}

#[test]
fn ids_are_unique_and_begin_with_the_prefix() {
    let prefix: IndexPrefix = "fleet_2".parse().unwrap();
    let objects = saved_objects(&prefix, &mapping(false), None);
    let ids: BTreeSet<&str> = objects.iter().map(|object| object.id.as_str()).collect();
    assert_eq!(ids.len(), objects.len());
    assert!(ids.iter().all(|id| id.starts_with("fleet_2-")), "{ids:?}");
    assert!(objects[0].line().contains(r#""title":"fleet_2""#));
}

#[test]
fn names_are_links_to_the_web_page_if_its_address_is_known() {
    let formats = |page: Option<&str>| {
        let objects = saved_objects(&IndexPrefix::default(), &mapping(false), page);
        parsed(&objects[0], "fieldFormatMap")
    };
    assert!(formats(None).get("metadata.name").is_none());
    let linked = formats(Some("https://fleetdex.example.com/ui/"));
    assert_eq!(
        linked["metadata.name"]["params"]["urlTemplate"],
        "https://fleetdex.example.com/ui/?q=name%3A{{value}}"
    );
    assert_eq!(linked["search.health"], formats(None)["search.health"]);
}

#[test]
fn titles_are_unique_in_their_type_except_for_index_patterns() {
    let mut titles = BTreeSet::new();
    for object in objects() {
        let is_new = titles.insert((object.object_type, object.title().to_owned()));
        let is_pattern = object.object_type == SavedObjectType::IndexPattern;
        assert!(is_new || is_pattern, "{}", object.id);
        assert!(!object.title().is_empty(), "{}", object.id);
    }
}

#[test]
fn objects_have_only_attributes_that_the_index_of_saved_objects_maps() {
    for object in objects() {
        let known = object.object_type.attributes();
        for name in object.attributes.keys() {
            assert!(known.contains(&name.as_str()), "{}: {name}", object.id);
        }
    }
}

#[test]
fn each_reference_is_used_and_leads_to_an_earlier_object() {
    let mut earlier = BTreeSet::new();
    for object in objects() {
        let mut used = BTreeSet::new();
        reference_names(&Value::Object(object.attributes.clone()), &mut used);
        let named: BTreeSet<String> = object
            .references
            .iter()
            .map(|reference| reference.name.clone())
            .collect();
        assert_eq!(used, named, "{}", object.id);
        assert_eq!(named.len(), object.references.len(), "{}", object.id);
        for reference in &object.references {
            let target = (reference.object_type, reference.id.clone());
            assert!(earlier.contains(&target), "{}: {target:?}", object.id);
        }
        earlier.insert((object.object_type, object.id));
    }
}

#[test]
fn every_search_and_visualization_is_on_a_dashboard() {
    let shown: BTreeSet<String> = of_type(SavedObjectType::Dashboard)
        .flat_map(|dashboard| dashboard.references)
        .map(|reference| reference.id)
        .collect();
    let all = of_type(SavedObjectType::Search).chain(of_type(SavedObjectType::Visualization));
    let all: BTreeSet<String> = all.map(|object| object.id).collect();
    assert_eq!(shown, all);
}

#[test]
fn panels_have_a_version_and_do_not_overlap() {
    for dashboard in of_type(SavedObjectType::Dashboard) {
        let mut taken = BTreeSet::new();
        for panel in parsed(&dashboard, "panelsJSON").as_array().unwrap() {
            assert_eq!(panel["version"], "2.19.0");
            let place = &panel["gridData"];
            assert_eq!(place["i"], panel["panelIndex"]);
            let number = |name: &str| place[name].as_u64().unwrap();
            assert!(number("x") + number("w") <= u64::from(GRID_WIDTH));
            for x in number("x")..number("x") + number("w") {
                for y in number("y")..number("y") + number("h") {
                    assert!(taken.insert((x, y)), "{}: {panel}", dashboard.id);
                }
            }
        }
    }
}

#[test]
fn a_panel_of_a_saved_search_repeats_its_order() {
    for dashboard in of_type(SavedObjectType::Dashboard) {
        for panel in parsed(&dashboard, "panelsJSON").as_array().unwrap() {
            let name = panel["panelRefName"].as_str().unwrap();
            let mut references = dashboard.references.iter();
            let target = references.find(|reference| reference.name == name).unwrap();
            let search = of_type(SavedObjectType::Search).find(|search| search.id == target.id);
            let order = search.map(|search| search.attributes["sort"].clone());
            let repeated = panel["embeddableConfig"].get("sort").cloned();
            assert_eq!(repeated, order, "{}", target.id);
        }
    }
}

#[test]
fn series_and_orders_refer_to_metrics() {
    for object in of_type(SavedObjectType::Visualization) {
        let state = parsed(&object, "visState");
        assert_eq!(state["title"], object.attributes["title"]);
        let aggregations = state["aggs"].as_array().unwrap();
        let metrics: BTreeSet<&str> = aggregations
            .iter()
            .filter(|aggregation| aggregation["schema"] == "metric")
            .map(|aggregation| aggregation["id"].as_str().unwrap())
            .collect();
        let ids: BTreeSet<&str> = aggregations
            .iter()
            .map(|aggregation| aggregation["id"].as_str().unwrap())
            .collect();
        assert_eq!(ids.len(), aggregations.len(), "{}", object.id);
        for bucket in aggregations {
            if let Some(order) = bucket["params"]["orderBy"].as_str() {
                assert!(metrics.contains(order), "{}: {bucket}", object.id);
            }
        }
        let series = state["params"]["seriesParams"].as_array();
        let drawn = series.into_iter().flatten();
        let drawn: BTreeSet<&str> = drawn
            .map(|series| series["data"]["id"].as_str().unwrap())
            .collect();
        assert!(drawn.is_empty() || drawn == metrics, "{}", object.id);
    }
}

/// Dashboards aggregates keywords, numbers and dates, and sums only numbers.
fn can_aggregate(function: &str, field_type: &str) -> bool {
    match function {
        "sum" => matches!(field_type, "long" | "double"),
        "date_histogram" => field_type == "date",
        "terms" | "cardinality" => matches!(field_type, "keyword" | "long" | "double" | "date"),
        _ => false,
    }
}

#[test]
fn aggregations_and_controls_work_on_every_index() {
    let types = [false, true].map(|is_full| fields::field_types(&mapping(is_full)));
    for object in of_type(SavedObjectType::Visualization) {
        let state = parsed(&object, "visState");
        for aggregation in state["aggs"].as_array().unwrap() {
            let Some(field) = aggregation["params"]["field"].as_str() else {
                assert_eq!(aggregation["type"], "count");
                continue;
            };
            for types in &types {
                let function = aggregation["type"].as_str().unwrap();
                assert!(
                    can_aggregate(function, &types[field]),
                    "{}: {field}",
                    object.id
                );
            }
        }
        for control in state["params"]["controls"].as_array().into_iter().flatten() {
            let field = control["fieldName"].as_str().unwrap();
            assert!(
                types.iter().all(|types| types[field] == "keyword"),
                "{field}"
            );
        }
    }
}

/// The fields of a query in Dashboards' language: a word before a colon.
fn fields_of(query: &str) -> Vec<&str> {
    let mut fields = Vec::new();
    for (position, _) in query.match_indices(": ") {
        let before = &query[..position];
        let start = before.rfind([' ', '(']).map_or(0, |space| space + 1);
        fields.push(&before[start..]);
    }
    fields
}

#[test]
fn queries_columns_and_orders_name_mapped_fields() {
    let types = fields::field_types(&mapping(false));
    let mut named: BTreeMap<String, String> = BTreeMap::new();
    for object in objects() {
        if object.attributes.contains_key("kibanaSavedObjectMeta") {
            let source = search_source(&object);
            let query = source["query"]["query"].as_str().unwrap();
            for field in fields_of(query) {
                named.insert(field.to_owned(), object.id.clone());
            }
        }
        let columns = object.attributes.get("columns").and_then(Value::as_array);
        for column in columns.into_iter().flatten() {
            let column = column.as_str().unwrap();
            if !UNMAPPED_COLUMNS.contains(&column) {
                named.insert(column.to_owned(), object.id.clone());
            }
        }
        if let Some(order) = object.attributes.get("sort") {
            let field = order[0][0].as_str().unwrap();
            assert_eq!(types[field], "date", "{}", object.id);
        }
    }
    for (field, object) in named {
        assert!(types.contains_key(&field), "{object}: {field}");
    }
}

#[test]
fn index_patterns_format_the_fields_of_the_mapping() {
    let pattern = of_type(SavedObjectType::IndexPattern).next().unwrap();
    let formats = parsed(&pattern, "fieldFormatMap");
    let ids: BTreeMap<&str, &Value> = formats
        .as_object()
        .unwrap()
        .iter()
        .map(|(field, format)| (field.as_str(), &format["id"]))
        .collect();
    insta::assert_json_snapshot!(ids, @r#"
    {
      "metadata.creationTimestamp": "date",
      "metadata.deletionTimestamp": "date",
      "search.health": "color",
      "search.indexedAt": "date",
      "search.replicas.desired": "number",
      "search.replicas.ready": "number",
      "search.resources.cpu": "number",
      "search.resources.memory": "bytes"
    }
    "#);
}

#[test]
fn lines_are_sorted_objects_of_their_own() {
    let text = ndjson(&objects());
    assert_eq!(text.lines().count(), objects().len());
    let first: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    let names: Vec<&String> = first.as_object().unwrap().keys().collect();
    assert_eq!(
        names,
        ["attributes", "id", "migrationVersion", "references", "type"]
    );
    assert!(!text.contains("exportedCount"));
}
