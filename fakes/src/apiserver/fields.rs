//! Sets of fields, as `fieldsV1` in managed fields has them.
//!
//! Source: [structured-merge-diff](https://github.com/kubernetes-sigs/structured-merge-diff). There
//! are no schemas here: of built-in kinds, lists of objects with names are maps by name; finalizers
//! are sets; other lists are atomic.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// Members of `fieldsV1` from the root to a field: `f:spec`, `k:{"name":"a"}`, `v:"a"`.
pub(super) type FieldPath = Vec<String>;

/// How a list is merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListType {
    /// As a whole.
    Atomic,
    /// Item by item; items of the same name are merged.
    Map,
    /// Item by item.
    Set,
}

/// What is known of the fields of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Schema {
    /// Whether lists of objects with names are maps.
    pub(super) has_named_items: bool,
}

impl Schema {
    /// How the list of a member is merged.
    pub(super) fn list_type(self, member: &str, items: &[Value]) -> ListType {
        if member == "finalizers" {
            ListType::Set
        } else if self.has_named_items
            && !items.is_empty()
            && items.iter().all(|item| item["name"].is_string())
        {
            ListType::Map
        } else {
            ListType::Atomic
        }
    }
}

/// A set of fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FieldSet(BTreeSet<FieldPath>);

impl FieldSet {
    /// The fields of an object that its writers own: not its identity, and of its metadata only
    /// what clients set.
    pub(super) fn of(object: &Value, schema: Schema) -> Self {
        const SERVER_FIELDS: [&str; 9] = [
            "name",
            "namespace",
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "generation",
            "managedFields",
        ];
        let mut found = Self::default();
        for (member, value) in object.as_object().into_iter().flatten() {
            match member.as_str() {
                "apiVersion" | "kind" => {}
                "metadata" => {
                    for (field, value) in value.as_object().into_iter().flatten() {
                        // Empty maps of metadata are not stored.
                        if !SERVER_FIELDS.contains(&field.as_str()) && !is_empty(value) {
                            let path = vec!["f:metadata".to_owned(), format!("f:{field}")];
                            found.add(path, field, value, schema);
                        }
                    }
                }
                _ => found.add(vec![format!("f:{member}")], member, value, schema),
            }
        }
        found
    }

    fn add(&mut self, path: FieldPath, member: &str, value: &Value, schema: Schema) {
        match value {
            Value::Null => {}
            Value::Object(members) if !members.is_empty() => {
                for (name, value) in members {
                    self.add(joined(&path, format!("f:{name}")), name, value, schema);
                }
            }
            Value::Array(items) if !items.is_empty() => match schema.list_type(member, items) {
                ListType::Atomic => {
                    self.0.insert(path);
                }
                ListType::Set => {
                    for item in items {
                        self.0.insert(joined(&path, format!("v:{item}")));
                    }
                }
                ListType::Map => {
                    for item in items {
                        let key = joined(&path, key_of(item));
                        self.0.insert(key.clone());
                        self.add(key, "", item, schema);
                    }
                }
            },
            _ => {
                self.0.insert(path);
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &FieldPath> {
        self.0.iter()
    }

    pub(super) fn contains(&self, path: &FieldPath) -> bool {
        self.0.contains(path)
    }

    /// Whether a field, or a part of it, is in the set.
    pub(super) fn reaches(&self, path: &FieldPath) -> bool {
        let next = self.0.range(path.clone()..).next();
        next.is_some_and(|next| next.starts_with(path))
    }

    pub(super) fn extend(&mut self, others: &Self) {
        self.0.extend(others.0.iter().cloned());
    }

    pub(super) fn insert(&mut self, path: FieldPath) {
        self.0.insert(path);
    }

    pub(super) fn remove_all(&mut self, others: &Self) {
        self.0.retain(|path| !others.0.contains(path));
    }

    /// As `fieldsV1`.
    pub(super) fn to_json(&self) -> Value {
        let mut root = Map::new();
        for path in &self.0 {
            insert_at(&mut root, path);
        }
        root.into()
    }
}

fn insert_at(level: &mut Map<String, Value>, path: &[String]) {
    let Some((first, rest)) = path.split_first() else {
        return;
    };
    let next = level.entry(first.clone()).or_insert_with(|| json!({}));
    let Value::Object(next) = next else {
        return;
    };
    // An item of a list is owned besides its fields.
    if rest.is_empty() && first.starts_with("k:") {
        next.insert(".".to_owned(), json!({}));
    }
    insert_at(next, rest);
}

/// The value of a field; `None`: it is absent.
pub(super) fn value_at<'v>(object: &'v Value, path: &[String]) -> Option<&'v Value> {
    let Some((first, rest)) = path.split_first() else {
        return Some(object);
    };
    let next = match first.split_at(2) {
        ("f:", name) => object.get(name)?,
        ("v:", text) => {
            let mut items = object.as_array()?.iter();
            items.find(|item| json_text(item) == text)?
        }
        _ => {
            let mut items = object.as_array()?.iter();
            items.find(|item| key_of(item) == *first)?
        }
    };
    value_at(next, rest)
}

/// How the path of an item of a set names it.
fn json_text(item: &Value) -> String {
    item.to_string()
}

/// Removes a field, and what is empty without it.
pub(super) fn remove_at(object: &mut Value, path: &[String]) {
    let Some((first, rest)) = path.split_first() else {
        return;
    };
    match (first.split_at(2), object) {
        (("f:", name), Value::Object(members)) => {
            if let Some(next) = members.get_mut(name) {
                remove_at(next, rest);
                if rest.is_empty() || is_empty(next) {
                    members.shift_remove(name);
                }
            }
        }
        (("v:", text), Value::Array(items)) => items.retain(|item| json_text(item) != text),
        (_, Value::Array(items)) => {
            if rest.is_empty() {
                items.retain(|item| key_of(item) != *first);
            } else if let Some(next) = items.iter_mut().find(|item| key_of(item) == *first) {
                remove_at(next, rest);
            }
        }
        _ => {}
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// The key of a list item with a name.
pub(super) fn key_of(item: &Value) -> String {
    format!("k:{}", json!({ "name": item["name"] }))
}

fn joined(path: &FieldPath, last: String) -> FieldPath {
    path.iter().cloned().chain([last]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUILT_IN: Schema = Schema {
        has_named_items: true,
    };

    fn object() -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": "a", "uid": "u", "labels": { "x": "1" }, "finalizers": ["f"] },
            "spec": {
                "containers": [{ "name": "web", "image": "i", "args": ["-v"] }],
                "none": {},
            },
        })
    }

    #[test]
    fn fields_are_written_as_fields_v1() {
        assert_eq!(
            FieldSet::of(&object(), BUILT_IN).to_json(),
            json!({
                "f:metadata": { "f:labels": { "f:x": {} }, "f:finalizers": { "v:\"f\"": {} } },
                "f:spec": {
                    "f:none": {},
                    "f:containers": {
                        "k:{\"name\":\"web\"}": { ".": {}, "f:name": {}, "f:image": {}, "f:args": {} },
                    },
                },
            })
        );
        let custom = Schema {
            has_named_items: false,
        };
        let fields = FieldSet::of(&object(), custom).to_json();
        assert_eq!(fields["f:spec"]["f:containers"], json!({}));
    }

    #[test]
    fn every_field_can_be_found_and_removed() {
        let object = object();
        let mut rest = object.clone();
        for path in FieldSet::of(&object, BUILT_IN).iter() {
            assert!(value_at(&object, path).is_some(), "{path:?}");
            remove_at(&mut rest, path);
            assert!(value_at(&rest, path).is_none(), "{path:?}: {rest}");
        }
        assert_eq!(rest["metadata"], json!({ "name": "a", "uid": "u" }));
        assert_eq!(rest["spec"], Value::Null);
    }
}
