//! Merges what a client sends into an object.

use serde_json::{Map, Value};

use super::fields::{ListType, Schema, key_of};

/// Merges an applied configuration into an object.
pub(super) fn apply(live: &mut Value, sent: &Value, member: &str, schema: Schema) {
    match (&mut *live, sent) {
        (_, Value::Null) => {}
        (Value::Object(live), Value::Object(sent)) => {
            for (name, value) in sent {
                let known = live.entry(name.clone()).or_insert(Value::Null);
                apply(known, value, name, schema);
            }
            live.retain(|_, value| !value.is_null());
        }
        (Value::Array(known), Value::Array(items)) => match schema.list_type(member, items) {
            ListType::Atomic => known.clone_from(items),
            ListType::Set => {
                let new = items.iter().filter(|item| !known.contains(item));
                let new: Vec<Value> = new.cloned().collect();
                known.extend(new);
            }
            ListType::Map => {
                for item in items {
                    let same = known.iter_mut().find(|one| key_of(one) == key_of(item));
                    match same {
                        Some(same) => apply(same, item, "", schema),
                        None => known.push(item.clone()),
                    }
                }
            }
        },
        (live, Value::Object(sent)) => {
            let mut made = Value::Object(Map::new());
            apply(&mut made, &Value::Object(sent.clone()), member, schema);
            *live = made;
        }
        (live, sent) => *live = sent.clone(),
    }
}

/// A merge patch (RFC 7386).
pub(super) fn merge_patch(live: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *live = patch.clone();
        return;
    };
    if !live.is_object() {
        *live = Value::Object(Map::new());
    }
    let Value::Object(live) = live else {
        return;
    };
    for (name, value) in patch {
        if value.is_null() {
            live.shift_remove(name);
        } else {
            merge_patch(live.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn maps_and_named_items_are_merged_and_other_lists_are_replaced() {
        let schema = Schema {
            has_named_items: true,
        };
        let mut live = json!({
            "data": { "a": "1", "b": "1" },
            "containers": [{ "name": "x", "image": "1" }, { "name": "y", "image": "1" }],
            "args": ["1", "2"], "finalizers": ["f"],
        });
        let sent = json!({
            "data": { "b": "2", "c": null, "d": { "e": "2", "f": null } },
            "containers": [{ "name": "y", "image": "2" }, { "name": "z" }],
            "args": ["3"], "finalizers": ["f", "g"],
        });
        apply(&mut live, &sent, "", schema);
        assert_eq!(
            live,
            json!({
                "data": { "a": "1", "b": "2", "d": { "e": "2" } },
                "containers": [{ "name": "x", "image": "1" }, { "name": "y", "image": "2" }, { "name": "z" }],
                "args": ["3"], "finalizers": ["f", "g"],
            })
        );
    }

    #[test]
    fn a_null_of_a_merge_patch_removes_a_member() {
        let mut live = json!({ "a": { "b": 1, "c": 2 }, "l": [1] });
        merge_patch(
            &mut live,
            &json!({ "a": { "b": null, "x": { "y": null } }, "l": [2] }),
        );
        assert_eq!(live, json!({ "a": { "c": 2, "x": {} }, "l": [2] }));
    }
}
