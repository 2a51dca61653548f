//! Empty tables of a result: Lua cannot tell an empty map from an empty list.
//!
//! An empty table that is not the whole result becomes `{}` or `[]`, as an empty value at the same
//! path of the objects that the script was given, and is removed where these have none. The path
//! has no positions of lists. Where the objects have both, `{}` wins. Source:
//! `convertEmptySliceToEmptyStructPartly` of Karmada's `luavm`, which goes wrong for keys with dots
//! and for several empty items of one list; here these follow the same rule.

use std::collections::HashSet;

use serde_json::{Map, Value};

/// Stands between the keys of a path.
const SEPARATOR: char = '\0';

#[derive(Default)]
struct Seen {
    maps: HashSet<String>,
    lists: HashSet<String>,
}

/// Settles the empty tables below the root of a result, which are empty lists until then.
pub fn settle(result: &mut Value, references: &[&Value]) {
    let mut seen = Seen::default();
    for reference in references {
        seen.collect(reference, &mut String::new());
    }
    seen.settle(result, &mut String::new());
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

impl Seen {
    fn collect(&mut self, value: &Value, path: &mut String) {
        match value {
            Value::Array(items) => {
                for item in items {
                    self.collect_member(item, path);
                }
            }
            Value::Object(members) => {
                for (key, member) in members {
                    within(path, key, |path| self.collect_member(member, path));
                }
            }
            _ => {}
        }
    }

    fn collect_member(&mut self, member: &Value, path: &mut String) {
        match member {
            Value::Array(items) if items.is_empty() => {
                self.lists.insert(path.clone());
            }
            Value::Object(members) if members.is_empty() => {
                self.maps.insert(path.clone());
            }
            other => self.collect(other, path),
        }
    }

    fn settle(&self, value: &mut Value, path: &mut String) {
        match value {
            Value::Array(items) => items.retain_mut(|item| self.keep(item, path)),
            Value::Object(members) => {
                members.retain(|key, member| within(path, key, |path| self.keep(member, path)));
            }
            _ => {}
        }
    }

    fn keep(&self, member: &mut Value, path: &mut String) -> bool {
        if !is_empty(member) {
            self.settle(member, path);
            return true;
        }
        if self.maps.contains(path.as_str()) {
            *member = Value::Object(Map::new());
            return true;
        }
        self.lists.contains(path.as_str())
    }
}

fn within<T>(path: &mut String, key: &str, visit: impl FnOnce(&mut String) -> T) -> T {
    let length = path.len();
    path.push_str(key);
    path.push(SEPARATOR);
    let result = visit(path);
    path.truncate(length);
    result
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn settled(mut result: Value, references: &[Value]) -> Value {
        let references: Vec<&Value> = references.iter().collect();
        settle(&mut result, &references);
        result
    }

    #[test]
    fn an_empty_table_becomes_what_the_references_have_at_its_path() {
        let reference =
            json!({"spec": {"map": {}, "list": [], "rules": [{"from": {}}, {"to": []}]}});
        let result = json!({"spec": {"map": [], "list": [], "rules": [{"from": [], "to": []}]}});
        let expected = json!({"spec": {"map": {}, "list": [], "rules": [{"from": {}, "to": []}]}});
        assert_eq!(settled(result, &[reference]), expected);
    }

    #[test]
    fn an_empty_table_that_no_reference_has_is_removed_and_its_parent_stays() {
        let result = json!({"a": {"new": []}, "b": [[], 1, []], "c": 1});
        assert_eq!(
            settled(result, &[json!({"c": {}})]),
            json!({"a": {}, "b": [1], "c": 1})
        );
    }

    #[test]
    fn a_map_wins_over_a_list_and_any_reference_counts() {
        let references = [json!({"x": []}), json!({"x": {}, "y": []})];
        assert_eq!(
            settled(json!({"x": [], "y": []}), &references),
            json!({"x": {}, "y": []})
        );
    }

    #[test]
    fn keys_with_dots_are_one_step_of_the_path() {
        let reference = json!({"m": {"f:app.kubernetes.io/name": {}}, "n": {"a": {"b": {}}}});
        let result = json!({"m": {"f:app.kubernetes.io/name": []}, "n": {"a.b": []}});
        assert_eq!(
            settled(result, &[reference]),
            json!({"m": {"f:app.kubernetes.io/name": {}}, "n": {}})
        );
    }

    #[test]
    fn empty_items_of_a_list_follow_the_path_of_the_list() {
        let reference = json!({"ingress": [{}]});
        assert_eq!(
            settled(json!({"ingress": [[], []]}), &[reference]),
            json!({"ingress": [{}, {}]})
        );
    }
}
