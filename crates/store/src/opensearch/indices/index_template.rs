//! The index template: settings and mapping of every index of a prefix.

use fleetdex_core::model::{
    FieldPath, IndexPrefix, MAX_FIELD_VALUE_BYTES,
    index_fields::{self, members},
};
use serde_json::{Map, Value, json};

use super::index_settings::IndexSettings;

/// The version of [`mappings`]. Raise it here with every change that older indices lack:
/// `revision.rs` then rebuilds every index.
pub const MAPPING_VERSION: u32 = 5;

/// Above templates that match every index.
const PRIORITY: usize = 500;

/// The composable index template of a prefix. `fields` are the selectable fields that get a mapping
/// of their own.
pub fn index_template(
    prefix: &IndexPrefix,
    settings: &IndexSettings,
    fields: &[FieldPath],
) -> Value {
    json!({
        "index_patterns": [prefix.every_revision(), prefix.every_shared_index()],
        // The pattern separates the indices of two prefixes. The length is for templates of
        // releases in which one prefix could begin with another: OpenSearch refuses templates of
        // one priority whose patterns overlap.
        "priority": PRIORITY + prefix.as_str().len(),
        "template": revision_index(settings, fields),
    })
}

/// Settings and mapping of the index of a revision. Each creation repeats them: a template of
/// another program that matches the name and has a higher priority replaces the template above, but
/// not what the request says.
pub(crate) fn revision_index(settings: &IndexSettings, fields: &[FieldPath]) -> Value {
    json!({
        "settings": {
            "index": {
                "number_of_shards": settings.shards,
                "number_of_replicas": settings.replicas_of_new(),
                "refresh_interval": settings.refresh_interval_of_new(),
                // How long a delete keeps an older write from bringing a document back.
                "gc_deletes": "15m",
                // Every label, field and metadata key of a document is one value of a few array
                // fields.
                "mapping": { "total_fields": { "limit": 2000 } },
                // Documents are stored as they are.
                "default_pipeline": "_none",
                "final_pipeline": "_none",
            },
        },
        "mappings": mappings(fields, settings.is_full),
    })
}

/// The template of the checkpoint index: should that index be deleted, the next checkpoint creates
/// it as it was.
pub fn state_template(prefix: &IndexPrefix, settings: &IndexSettings, owner: &str) -> Value {
    json!({ "index_patterns": [prefix.state()], "priority": PRIORITY + prefix.as_str().len(), "template": state_index(settings, owner) })
}

/// Settings and mapping of the checkpoint index, which names the owner of the prefix.
pub fn state_index(settings: &IndexSettings, owner: &str) -> Value {
    json!({
        "settings": { "index": { "number_of_shards": 1, "number_of_replicas": settings.replicas_of_new() } },
        // Only read by id.
        "mappings": { "dynamic": false, "_meta": { "fleetdex": { "owner": owner } } },
    })
}

/// The mapping: listed fields are indexed, everything else is only stored. `is_full`: every path
/// can be searched.
pub fn mappings(fields: &[FieldPath], is_full: bool) -> Value {
    let keyword = || json!({ "type": "keyword", "ignore_above": MAX_FIELD_VALUE_BYTES });
    let date = || json!({ "type": "date", "ignore_malformed": true });
    let mut mapping = json!({
        "dynamic": false,
        // Only sorted and grouped by, never searched.
        "dynamic_templates": [{ "sort": {
            "path_match": index_fields::SORT_FIELDS,
            "mapping": { "type": "keyword", "ignore_above": 2 * MAX_FIELD_VALUE_BYTES, "index": false },
        } }],
        "properties": {
            (index_fields::API_VERSION): keyword(),
            (index_fields::KIND): keyword(),
            (index_fields::CLUSTER): keyword(),
            (index_fields::SEARCH): {
                "properties": {
                    (members::RESOURCE): keyword(),
                    (members::GROUP): keyword(),
                    // Label terms have at most 317 + 1 + 63 bytes, field terms a path and a cut
                    // value.
                    (members::LABELS): { "type": "keyword" },
                    (members::LABEL_KEYS): { "type": "keyword" },
                    (members::FIELDS): { "type": "keyword", "ignore_above": 8191 },
                    (members::NUMBERS): { "type": "keyword", "ignore_above": 8191 },
                    // The fields of the existing kinds, custom ones included: few, and one level.
                    (members::SORT): { "type": "object", "dynamic": true },
                    (members::OWNERS): keyword(),
                    // Only searched, by free words.
                    (members::OWNER_NAMES): { "type": "keyword", "doc_values": false },
                    (members::ANNOTATION_KEYS): { "type": "keyword", "doc_values": false },
                    (members::REJECTED): { "type": "keyword", "ignore_above": 8191 },
                    (members::HEALTH): keyword(),
                    (members::HEALTH_REASON): keyword(),
                    // For people who read documents.
                    (members::HEALTH_MESSAGE): { "type": "text", "index": false },
                    (members::REPLICAS): { "properties": { "desired": { "type": "long" }, "ready": { "type": "long" } } },
                    (members::RESOURCES): { "properties": { "cpu": { "type": "double" }, "memory": { "type": "long" } } },
                    (members::IMAGES): keyword(),
                    (members::DEPENDENCIES): keyword(),
                    (members::INTERPRETED_BY): keyword(),
                    // Only compared with the rules in use.
                    (members::RULES_HASH): { "type": "keyword", "doc_values": false },
                    (members::INDEXED_AT): { "type": "date" },
                    (members::NATIVE): { "type": "object", "enabled": false },
                },
            },
            "metadata": {
                "properties": {
                    "name": keyword(),
                    "namespace": keyword(),
                    "uid": keyword(),
                    "resourceVersion": keyword(),
                    "creationTimestamp": date(),
                    "deletionTimestamp": date(),
                    "labels": { "type": "flat_object" },
                },
            },
        },
    });
    if is_full {
        index_everything(&mut mapping);
    }
    for field in fields {
        add_field(&mut mapping, field, keyword());
    }
    mapping
}

/// Indexes the leaves of objects, and `spec` and `status` for people who type queries.
///
/// A `flat_object` cannot answer field selectors by itself: `exists` finds nothing below it in
/// OpenSearch 2.19, it does not distinguish `a.b` from a key with a dot, and it compares no
/// quantities. It has no mapped fields below it either: `status.phase: Running` queries the flat
/// object.
fn index_everything(mapping: &mut Value) {
    // Searched like the selectable fields, and separate from them for people who read documents. It
    // stays in what is stored: OpenSearch would otherwise rewrite each document, with its members
    // in another order.
    let search = &mut mapping["properties"][index_fields::SEARCH]["properties"];
    search[members::LEAVES] = json!({
        "type": "keyword",
        "index": false,
        "doc_values": false,
        "copy_to": index_fields::FIELDS,
    });
    for terms in [members::FIELDS, members::NUMBERS] {
        // Nothing is sorted or counted by them, and there are many.
        search[terms]["doc_values"] = false.into();
    }
    for member in ["spec", "status"] {
        mapping["properties"][member] = json!({ "type": "flat_object" });
    }
}

/// Adds a mapping at a path, unless the path runs through a field that is mapped as a leaf already.
fn add_field(mapping: &mut Value, field: &FieldPath, leaf: Value) {
    let mut node = mapping;
    let segments: Vec<&str> = field.segments().collect();
    let Some((last, parents)) = segments.split_last() else {
        return;
    };
    // A mapping splits names at their dots, and a map with such keys has others with the same
    // beginning.
    if segments.iter().any(|segment| segment.contains('.')) {
        return;
    }
    for parent in parents {
        let Some(properties) = properties(node) else {
            return;
        };
        node = properties
            .entry(*parent)
            .or_insert_with(|| json!({ "properties": {} }));
        if node.get("type").is_some() {
            return;
        }
    }
    if let Some(properties) = properties(node) {
        properties.entry(*last).or_insert(leaf);
    }
}

fn properties(node: &mut Value) -> Option<&mut Map<String, Value>> {
    node.as_object_mut()?
        .entry("properties")
        .or_insert_with(|| json!({}))
        .as_object_mut()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectable_fields_are_mapped_under_their_own_path() {
        let mapping = mappings(
            &[
                "status.phase",
                "type",
                "spec.a.b",
                "spec.a",
                "metadata.labels.x",
                "spec['b.c']",
            ]
            .map(FieldPath::new),
            false,
        );
        assert!(mapping["properties"]["spec"]["properties"]["b"].is_null());
        assert_eq!(
            mapping["properties"]["status"]["properties"]["phase"]["type"],
            "keyword"
        );
        assert_eq!(mapping["properties"]["type"]["type"], "keyword");
        assert_eq!(
            mapping["properties"]["spec"]["properties"]["a"]["properties"]["b"]["type"],
            "keyword"
        );
        assert_eq!(
            mapping["properties"]["metadata"]["properties"]["labels"],
            json!({ "type": "flat_object" })
        );
    }

    #[test]
    fn where_everything_is_indexed_spec_and_status_are_flat_and_leaves_are_found_as_fields() {
        let mapping = mappings(&["status.phase", "type"].map(FieldPath::new), true);
        assert_eq!(
            mapping["properties"]["status"],
            json!({ "type": "flat_object" })
        );
        assert_eq!(mapping["properties"]["type"]["type"], "keyword");
        assert_eq!(
            mapping["properties"]["search"]["properties"]["leaves"]["copy_to"],
            "search.fields"
        );
    }

    #[test]
    fn the_template_covers_the_revisions_of_its_prefix_only() {
        let template = index_template(&IndexPrefix::default(), &IndexSettings::default(), &[]);
        assert_eq!(
            template["index_patterns"],
            json!(["fleetdex-*.g*", "fleetdex.shared.*"])
        );
        assert!(
            template["template"]["aliases"].is_null(),
            "a revision that is not complete must not be seen"
        );
        assert_eq!(template["template"]["mappings"]["dynamic"], json!(false));
    }
}
