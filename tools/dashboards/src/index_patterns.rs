//! The two index patterns over all clusters, and how they show fields.

use fleetdex_core::model::{IndexPrefix, index_fields};
use serde_json::{Value, json};

use crate::{
    fields::field_types,
    saved_object::{SavedObject, SavedObjectType, attributes},
};

/// What people read for an index pattern where Dashboards shows a name of its own (3.x).
struct PatternSpec {
    id: &'static str,
    name: &'static str,
    time_field: Option<&'static str>,
}

/// The pattern without time: everything that exists now.
pub(crate) const OBJECTS: &str = "objects";
/// The pattern by the time when an object was last written.
pub(crate) const CHANGES: &str = "changes";

const PATTERNS: [PatternSpec; 2] = [
    PatternSpec {
        id: OBJECTS,
        name: "all objects",
        time_field: None,
    },
    PatternSpec {
        id: CHANGES,
        name: "objects by last change",
        time_field: Some(index_fields::INDEXED_AT),
    },
];

/// Terms that queries search, which repeat what the document says; left out of what Discover shows.
/// The last two are in indices of registries with `indexing: Full`, and in a few documents.
pub(crate) const HIDDEN_FIELDS: [&str; 7] = [
    index_fields::FIELDS,
    index_fields::NUMBERS,
    index_fields::LABELS,
    index_fields::LABEL_KEYS,
    index_fields::SORT_FIELDS,
    index_fields::LEAVES,
    index_fields::NATIVE_FIELDS,
];

/// Words of health, each with a background colour.
const HEALTH_COLOURS: [(&str, &str); 6] = [
    ("Healthy", "#017D73"),
    ("Progressing", "#006BB4"),
    ("Suspended", "#69707D"),
    ("Degraded", "#BD271E"),
    ("Missing", "#BD271E"),
    ("Unknown", "#B9770E"),
];

/// Fields whose values are links to the web page, and the qualifier that searches for a value
/// there.
const LINKED_FIELDS: [(&str, &str); 5] = [
    (index_fields::CLUSTER, "cluster"),
    (index_fields::KIND, "kind"),
    (index_fields::NAMESPACE, "ns"),
    (index_fields::NAME, "name"),
    (index_fields::IMAGES, "image"),
];

/// The index patterns, both of the alias over all clusters. An index or a wildcard would also show
/// revisions that are not complete.
pub(crate) fn index_patterns(
    prefix: &IndexPrefix,
    mapping: &Value,
    web_page: Option<&str>,
) -> Vec<SavedObject> {
    let mut formats = field_formats(mapping);
    if let (Some(web_page), Some(formats)) = (web_page, formats.as_object_mut()) {
        for (field, qualifier) in LINKED_FIELDS {
            formats.insert(field.to_owned(), link_format(web_page, qualifier));
        }
    }
    PATTERNS
        .iter()
        .map(|pattern| pattern.build(prefix, &formats))
        .collect()
}

impl PatternSpec {
    /// Has no list of fields: Dashboards then reads it from the index, and shows fields that were
    /// added later, such as those of custom resources.
    fn build(&self, prefix: &IndexPrefix, formats: &Value) -> SavedObject {
        let alias = prefix.all();
        let hidden: Vec<Value> = HIDDEN_FIELDS
            .iter()
            .map(|field| json!({ "value": field }))
            .collect();
        let mut members = json!({
            "title": alias.as_str(),
            "displayName": format!("{alias}: {}", self.name),
            "fieldFormatMap": formats.to_string(),
            "sourceFilters": Value::Array(hidden).to_string(),
        });
        if let Some(field) = self.time_field {
            members["timeFieldName"] = field.into();
        }
        SavedObject {
            object_type: SavedObjectType::IndexPattern,
            id: format!("{}-{}", prefix.as_str(), self.id),
            attributes: attributes(members),
            references: Vec::new(),
        }
    }
}

/// How Dashboards shows the fields of a mapping, by their names.
fn field_formats(mapping: &Value) -> Value {
    let types = field_types(mapping);
    types
        .iter()
        .filter_map(|(field, field_type)| Some((field.clone(), field_format(field, field_type)?)))
        .collect()
}

/// `None`: as Dashboards shows the type by itself.
fn field_format(field: &str, field_type: &str) -> Option<Value> {
    let format = |id: &str, pattern: &str| json!({ "id": id, "params": { "pattern": pattern } });
    match (field, field_type) {
        (index_fields::MEMORY, _) => Some(format("bytes", "0,0.[0]b")),
        (index_fields::HEALTH, _) => Some(health_format()),
        (_, "date") => Some(format("date", "YYYY-MM-DD HH:mm:ss")),
        (_, "double") => Some(format("number", "0,0.[000]")),
        (_, "long") => Some(format("number", "0,0")),
        _ => None,
    }
}

/// A link to a search of the web page. Dashboards encodes the value for a URL; it cannot name other
/// fields of the document.
fn link_format(web_page: &str, qualifier: &str) -> Value {
    let address = format!(
        "{}/?q={qualifier}%3A{{{{value}}}}",
        web_page.trim_end_matches('/')
    );
    json!({ "id": "url", "params": { "type": "a", "urlTemplate": address, "labelTemplate": "{{value}}", "openLinkInCurrentTab": false } })
}

fn health_format() -> Value {
    let colours = HEALTH_COLOURS.iter().map(|(word, background)| {
        // `range` is for numbers, and Dashboards reads it for words as well.
        json!({ "range": "-Infinity:Infinity", "regex": format!("^{word}$"), "text": "#FFFFFF", "background": background })
    });
    json!({ "id": "color", "params": { "fieldType": "string", "colors": colours.collect::<Vec<_>>() } })
}
