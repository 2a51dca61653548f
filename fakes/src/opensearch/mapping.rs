//! Mappings: which members of a document are indexed, and how.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Map, Value, json};

use super::{dates::parse_date, json::java_text, response::Exception};

/// The treatment of members without a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dynamic {
    /// They are added to the mapping.
    True,
    /// They are stored, but not indexed.
    False,
    /// The document is rejected.
    Strict,
}

/// Field types. Other types of OpenSearch are rejected as unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Keyword,
    Text,
    Long,
    Float,
    Boolean,
    Date,
    FlatObject,
}

/// A field.
#[derive(Clone, Debug)]
pub(super) struct Field {
    /// Its full path.
    pub path: Arc<str>,
    pub kind: Kind,
    /// Longer values, in UTF-16 units, are not indexed.
    pub ignore_above: Option<usize>,
    /// Whether values of another type are not indexed; otherwise they reject the document.
    pub ignore_malformed: bool,
    /// Whether the field is searchable.
    pub is_indexed: bool,
    /// The path of another field that the values are copied to.
    pub copy_to: Option<String>,
    /// Fields that index the same values in another way.
    pub subfields: Vec<Self>,
}

/// An object with fields.
#[derive(Clone, Debug)]
pub(super) struct Object {
    /// Its full path; empty for the document itself.
    pub path: String,
    /// `None`: as the parent object.
    pub dynamic: Option<Dynamic>,
    /// If false, its members are stored, but not indexed.
    pub enabled: bool,
    pub children: BTreeMap<String, Node>,
}

/// The mapping of a member.
#[derive(Clone, Debug)]
pub(super) enum Node {
    Object(Object),
    Field(Field),
}

/// The mapping of an index.
#[derive(Clone, Debug)]
pub(super) struct Mapping {
    definition: Map<String, Value>,
    root: Object,
}

const ROOT_PARAMETERS: [&str; 6] = [
    "dynamic",
    "dynamic_templates",
    "properties",
    "_meta",
    "enabled",
    "date_detection",
];

impl Mapping {
    /// Creates a mapping from its definition.
    pub fn new(definition: &Value) -> Result<Self, Exception> {
        let empty = Self {
            definition: Map::new(),
            root: object("", &Map::new())?,
        };
        empty.merge(definition)
    }

    /// Returns the mapping with another one added.
    pub fn merge(&self, update: &Value) -> Result<Self, Exception> {
        let update = update
            .as_object()
            .ok_or_else(|| parsing("expected an object"))?;
        let unknown = |key: &&String| !ROOT_PARAMETERS.contains(&key.as_str());
        if let Some(key) = update.keys().find(unknown) {
            let shown = java_text(&update[key]);
            return Err(parsing(format!(
                "Root mapping definition has unsupported parameters:  [{key} : {shown}]"
            )));
        }
        // The update alone has to be valid, too.
        object("", update)?;
        let mut definition = self.definition.clone();
        for (key, value) in update {
            match (key.as_str(), value) {
                ("properties", Value::Object(properties)) => {
                    if !properties.is_empty() {
                        merge_into("", &mut definition, properties)?;
                    }
                }
                ("dynamic", dynamic) => {
                    definition.insert(key.clone(), java_text(dynamic).into());
                }
                _ => {
                    definition.insert(key.clone(), value.clone());
                }
            }
        }
        let root = object("", &definition)?;
        Ok(Self { definition, root })
    }

    /// Returns a template's mapping with the mapping of a new index on top, which may redefine
    /// fields.
    pub fn overlay(&self, over: &Value) -> Result<Self, Exception> {
        let mut definition = self.definition.clone();
        overlay("", &mut definition, over.as_object().unwrap_or(&Map::new()))?;
        Self::new(&Value::Object(definition))
    }

    /// Returns the mapping as responses contain it.
    pub fn definition(&self) -> Value {
        Value::Object(self.definition.clone())
    }

    /// Returns the definition that a dynamic template has for a new field. Only `path_match` with a
    /// trailing star is supported.
    pub fn templated(&self, path: &str) -> Option<Value> {
        let templates = self
            .definition
            .get("dynamic_templates")
            .and_then(Value::as_array);
        let mut templates = templates
            .into_iter()
            .flatten()
            .filter_map(Value::as_object)
            .flat_map(Map::values);
        templates.find_map(|template| {
            let pattern = template.get("path_match").and_then(Value::as_str)?;
            let fits = pattern
                .strip_suffix('*')
                .is_some_and(|prefix| path.starts_with(prefix));
            fits.then(|| template.get("mapping").cloned()).flatten()
        })
    }

    /// Returns the root object.
    pub fn root(&self) -> &Object {
        &self.root
    }

    /// Returns the field that a search for `path` uses: the field itself, or the flat object that
    /// contains it.
    pub fn field(&self, path: &str) -> Option<&Field> {
        let mut children = &self.root.children;
        let mut rest = path;
        loop {
            let (name, below) = rest
                .split_once('.')
                .map_or((rest, None), |(name, below)| (name, Some(below)));
            match (children.get(name)?, below) {
                (Node::Object(object), Some(below)) => {
                    children = &object.children;
                    rest = below;
                }
                (Node::Object(_), None) => return None,
                (Node::Field(field), None) => return Some(field),
                (Node::Field(field), Some(_)) if field.kind == Kind::FlatObject => {
                    return Some(field);
                }
                (Node::Field(field), Some(_)) => {
                    return field.subfields.iter().find(|sub| sub.path.as_ref() == path);
                }
            }
        }
    }
}

/// 400 `mapper_parsing_exception`.
pub(super) fn parsing(reason: impl Into<String>) -> Exception {
    Exception::new(400, "mapper_parsing_exception", reason)
}

/// Returns the definition for a value without a mapping.
pub(super) fn dynamic_definition(value: &Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::Bool(_) => Some(json!({ "type": "boolean" })),
        Value::Number(number) => {
            Some(json!({ "type": if number.is_f64() { "float" } else { "long" } }))
        }
        Value::String(text) if parse_date(text).is_some() && text.contains('-') => {
            Some(json!({ "type": "date" }))
        }
        Value::String(_) => Some(
            json!({ "type": "text", "fields": { "keyword": { "type": "keyword", "ignore_above": 256 } } }),
        ),
        Value::Array(items) => items.iter().find_map(dynamic_definition),
        Value::Object(members) => {
            let properties: Map<String, Value> = members
                .iter()
                .filter_map(|(key, member)| Some((key.clone(), dynamic_definition(member)?)))
                .collect();
            let is_empty = properties.is_empty();
            Some(if is_empty {
                json!({ "type": "object" })
            } else {
                json!({ "properties": properties })
            })
        }
    }
}

fn object(path: &str, definition: &Map<String, Value>) -> Result<Object, Exception> {
    let mut children = BTreeMap::new();
    if let Some(properties) = definition.get("properties").and_then(Value::as_object) {
        for (name, child) in properties {
            let child_path = if path.is_empty() {
                name.clone()
            } else {
                format!("{path}.{name}")
            };
            children.insert(name.clone(), node(name, &child_path, child)?);
        }
    }
    let dynamic = match definition.get("dynamic").map(java_text).as_deref() {
        None => None,
        Some("true") => Some(Dynamic::True),
        Some("false") => Some(Dynamic::False),
        Some("strict") => Some(Dynamic::Strict),
        Some(other) => {
            return Err(parsing(format!(
                "Could not convert [dynamic.dynamic] to boolean: {other}"
            )));
        }
    };
    let enabled = definition.get("enabled").map(java_text).as_deref() != Some("false");
    Ok(Object {
        path: path.to_owned(),
        dynamic,
        enabled,
        children,
    })
}

fn node(name: &str, path: &str, definition: &Value) -> Result<Node, Exception> {
    let definition = definition.as_object().ok_or_else(|| {
        parsing(format!(
            "Expected map for property [fields] on field [{name}] but got a class java.lang.String"
        ))
    })?;
    let is_object = definition.contains_key("properties") || definition.contains_key("enabled");
    match definition.get("type").and_then(Value::as_str) {
        None if is_object => object(path, definition).map(Node::Object),
        None => Err(parsing(format!("No type specified for field [{name}]"))),
        Some("object") => object(path, definition).map(Node::Object),
        Some(kind) => field(name, path, kind, definition).map(Node::Field),
    }
}

fn field(
    name: &str,
    path: &str,
    kind: &str,
    definition: &Map<String, Value>,
) -> Result<Field, Exception> {
    let kind = match kind {
        "keyword" => Kind::Keyword,
        "text" => Kind::Text,
        "long" | "integer" => Kind::Long,
        "float" | "double" => Kind::Float,
        "boolean" => Kind::Boolean,
        "date" => Kind::Date,
        "flat_object" => Kind::FlatObject,
        other => {
            return Err(parsing(format!(
                "No handler for type [{other}] declared on field [{name}]"
            )));
        }
    };
    let mut subfields = Vec::new();
    for (sub, definition) in definition
        .get("fields")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        if let Node::Field(subfield) = node(sub, &format!("{path}.{sub}"), definition)? {
            subfields.push(subfield);
        }
    }
    let ignore_above = definition
        .get("ignore_above")
        .and_then(Value::as_u64)
        .and_then(|limit| usize::try_from(limit).ok());
    let ignore_malformed =
        definition.get("ignore_malformed").map(java_text).as_deref() == Some("true");
    let is_indexed = definition.get("index").map(java_text).as_deref() != Some("false");
    let copy_to = definition
        .get("copy_to")
        .and_then(|to| to.as_str().or_else(|| to.get(0)?.as_str()))
        .map(ToOwned::to_owned);
    Ok(Field {
        path: path.into(),
        kind,
        ignore_above,
        ignore_malformed,
        is_indexed,
        copy_to,
        subfields,
    })
}

/// Adds properties to a definition.
fn merge_into(
    path: &str,
    definition: &mut Map<String, Value>,
    update: &Map<String, Value>,
) -> Result<(), Exception> {
    let mut properties = match definition.remove("properties") {
        Some(Value::Object(properties)) => properties,
        _ => Map::new(),
    };
    merge_properties(path, &mut properties, update)?;
    definition.insert("properties".to_owned(), properties.into());
    Ok(())
}

fn merge_properties(
    path: &str,
    current: &mut Map<String, Value>,
    update: &Map<String, Value>,
) -> Result<(), Exception> {
    for (name, new) in update {
        let child_path = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        match current.get_mut(name) {
            None => {
                current.insert(name.clone(), normalized(new));
            }
            Some(old) => merge_node(&child_path, old, new)?,
        }
    }
    Ok(())
}

fn merge_node(path: &str, old: &mut Value, new: &Value) -> Result<(), Exception> {
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        return Ok(());
    };
    let leaf_type = |node: &Map<String, Value>| {
        node.get("type")
            .and_then(Value::as_str)
            .filter(|kind| *kind != "object")
            .map(ToOwned::to_owned)
    };
    match (leaf_type(old), leaf_type(new)) {
        (Some(before), Some(after)) if before != after => Err(Exception::illegal_argument(
            format!("mapper [{path}] cannot be changed from type [{before}] to [{after}]"),
        )),
        (Some(_), Some(_)) => {
            old.extend(new.clone());
            Ok(())
        }
        (Some(_), None) | (None, Some(_)) => Err(Exception::illegal_argument(format!(
            "can't merge a non object mapping [{path}] with an object mapping"
        ))),
        (None, None) => {
            if let Some(properties) = new.get("properties").and_then(Value::as_object) {
                merge_into(path, old, properties)?;
                old.remove("type");
            }
            Ok(())
        }
    }
}

fn overlay(
    path: &str,
    base: &mut Map<String, Value>,
    over: &Map<String, Value>,
) -> Result<(), Exception> {
    for (key, value) in over {
        match (base.get_mut(key), value) {
            (Some(Value::Object(members)), Value::Object(above)) if key == "properties" => {
                for (name, child) in above {
                    overlay_node(&format!("{path}{name}"), members, name, child)?;
                }
            }
            (Some(Value::Object(members)), Value::Object(above)) => deep_merge(members, above),
            _ => {
                base.insert(key.clone(), value.clone());
            }
        }
    }
    Ok(())
}

fn overlay_node(
    path: &str,
    siblings: &mut Map<String, Value>,
    name: &str,
    over: &Value,
) -> Result<(), Exception> {
    let is_leaf = |node: &Value| {
        node.get("properties").is_none() && node.get("type").is_some_and(|kind| kind != "object")
    };
    match (siblings.get_mut(name), over) {
        (Some(base), over) if is_leaf(base) != is_leaf(over) => Err(Exception::illegal_argument(
            format!("can't merge a non object mapping [{path}] with an object mapping"),
        )),
        (Some(Value::Object(base)), Value::Object(members)) if !is_leaf(over) => {
            overlay(&format!("{path}."), base, members)
        }
        _ => {
            siblings.insert(name.to_owned(), over.clone());
            Ok(())
        }
    }
}

fn deep_merge(base: &mut Map<String, Value>, over: &Map<String, Value>) {
    for (key, value) in over {
        match (base.get_mut(key), value) {
            (Some(Value::Object(members)), Value::Object(above)) => deep_merge(members, above),
            _ => {
                base.insert(key.clone(), value.clone());
            }
        }
    }
}

/// Returns a definition as responses contain it: an object with properties has no type.
fn normalized(definition: &Value) -> Value {
    let Value::Object(members) = definition else {
        return definition.clone();
    };
    let mut shown = Map::new();
    for (key, value) in members {
        match (key.as_str(), value) {
            ("properties", Value::Object(properties)) => {
                let properties: Map<String, Value> = properties
                    .iter()
                    .map(|(name, child)| (name.clone(), normalized(child)))
                    .collect();
                shown.insert(key.clone(), properties.into());
            }
            ("dynamic", dynamic) => {
                shown.insert(key.clone(), java_text(dynamic).into());
            }
            ("copy_to", Value::String(_)) => {
                shown.insert(key.clone(), json!([value]));
            }
            ("type", Value::String(kind))
                if kind == "object" && members.contains_key("properties") => {}
            _ => {
                shown.insert(key.clone(), value.clone());
            }
        }
    }
    Value::Object(shown)
}
