//! Saved objects in the export format of OpenSearch Dashboards: one JSON object a line.
//!
//! Source: `src/core/server/saved_objects` and `src/plugins/*/server/saved_objects` of
//! <https://github.com/opensearch-project/OpenSearch-Dashboards>, in 2.19.

use serde_json::{Map, Value, json};

/// The name by which a search source refers to its index pattern.
pub(crate) const INDEX_REFERENCE: &str = "kibanaSavedObjectMeta.searchSourceJSON.index";

/// The types of saved objects that are used here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SavedObjectType {
    /// Which indices are searched, and how their fields are shown.
    IndexPattern,
    /// A saved search of Discover.
    Search,
    /// A chart, a table, a number, or controls.
    Visualization,
    /// Panels of the others.
    Dashboard,
}

impl SavedObjectType {
    /// The name of the type in Dashboards.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::IndexPattern => "index-pattern",
            Self::Search => "search",
            Self::Visualization => "visualization",
            Self::Dashboard => "dashboard",
        }
    }

    /// The newest migration of the type in 2.19 and 3.x. Dashboards refuses a file with a newer
    /// one, and runs all migrations on objects without one.
    fn migration(self) -> &'static str {
        match self {
            Self::IndexPattern => "7.6.0",
            Self::Search | Self::Dashboard => "7.9.3",
            Self::Visualization => "7.10.0",
        }
    }

    /// The attributes that 2.19 and 3.x have. The index of saved objects refuses others, except for
    /// index patterns.
    pub fn attributes(self) -> &'static [&'static str] {
        match self {
            // 2.19 stores `displayName` and does not show it; 3.x shows it instead of the title.
            Self::IndexPattern => &[
                "title",
                "displayName",
                "timeFieldName",
                "fieldFormatMap",
                "sourceFilters",
            ],
            Self::Search => &[
                "title",
                "description",
                "hits",
                "columns",
                "sort",
                "version",
                "kibanaSavedObjectMeta",
            ],
            Self::Visualization => &[
                "title",
                "description",
                "version",
                "visState",
                "uiStateJSON",
                "kibanaSavedObjectMeta",
            ],
            Self::Dashboard => &[
                "title",
                "description",
                "hits",
                "version",
                "panelsJSON",
                "optionsJSON",
                "timeRestore",
                "timeFrom",
                "timeTo",
                "refreshInterval",
                "kibanaSavedObjectMeta",
            ],
        }
    }
}

/// A saved object that another one refers to by a name of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedObjectReference {
    /// The name in the attributes of the object that refers.
    pub name: String,
    /// The type of the object that is referred to.
    pub object_type: SavedObjectType,
    /// Its id.
    pub id: String,
}

/// A saved object of Dashboards.
#[derive(Clone, Debug, PartialEq)]
pub struct SavedObject {
    /// Its type.
    pub object_type: SavedObjectType,
    /// Its id, which stays the same from one export to the next: an import replaces it.
    pub id: String,
    /// What Dashboards stores; members named `…JSON`, `visState` and the like are strings of JSON.
    pub attributes: Map<String, Value>,
    /// What it refers to.
    pub references: Vec<SavedObjectReference>,
}

impl SavedObject {
    /// The title that people see.
    pub fn title(&self) -> &str {
        self.attributes
            .get("title")
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// The object as one line of an export, without the line break. Members are sorted, as
    /// Dashboards exports them.
    pub fn line(&self) -> String {
        let references: Vec<Value> = self
            .references
            .iter()
            .map(SavedObjectReference::json)
            .collect();
        let object = json!({
            "attributes": self.attributes,
            "id": self.id,
            "migrationVersion": { self.object_type.as_str(): self.object_type.migration() },
            "references": references,
            "type": self.object_type.as_str(),
        });
        sorted(object).to_string()
    }
}

impl SavedObjectReference {
    fn json(&self) -> Value {
        json!({ "id": self.id, "name": self.name, "type": self.object_type.as_str() })
    }
}

/// An export file of the objects. It has no line of details: an import would take one that counts
/// no objects for an object.
pub fn ndjson(objects: &[SavedObject]) -> String {
    objects.iter().map(|object| object.line() + "\n").collect()
}

/// Sorts the members of all objects by name.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut members: Vec<(String, Value)> = members
                .into_iter()
                .map(|(name, member)| (name, sorted(member)))
                .collect();
            members.sort_by(|(left, _), (right, _)| left.cmp(right));
            Value::Object(members.into_iter().collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        other => other,
    }
}

/// The attributes of an object, from a JSON object.
pub(crate) fn attributes(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

/// A search in an index pattern, as its attribute `kibanaSavedObjectMeta` and the reference that it
/// needs. `query` is in Dashboards' query language (DQL).
pub(crate) fn search_source(query: &str, index_pattern: &str) -> (Value, SavedObjectReference) {
    let source = json!({
        "query": { "query": query, "language": "kuery" },
        "filter": [],
        "indexRefName": INDEX_REFERENCE,
    });
    let reference = SavedObjectReference {
        name: INDEX_REFERENCE.to_owned(),
        object_type: SavedObjectType::IndexPattern,
        id: index_pattern.to_owned(),
    };
    (json!({ "searchSourceJSON": source.to_string() }), reference)
}

/// The attribute `kibanaSavedObjectMeta` of an object that searches no index pattern of its own.
pub(crate) fn no_index() -> Value {
    let source = json!({ "query": { "query": "", "language": "kuery" }, "filter": [] });
    json!({ "searchSourceJSON": source.to_string() })
}
