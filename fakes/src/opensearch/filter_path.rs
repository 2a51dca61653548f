//! `filter_path`: the members of a response that are sent.

use serde_json::{Map, Value};

use super::glob;

/// The segments of a path pattern: names with `*`, or `**` for any number of names.
type Pattern<'p> = Vec<&'p str>;

/// Applies `filter_path` to a body. Values that contain nothing requested are omitted, also an
/// empty array whose items have requested members.
pub(super) fn apply(body: Value, filter_path: &str) -> Value {
    let paths = || {
        filter_path
            .split(',')
            .map(str::trim)
            .filter(|path| !path.is_empty())
    };
    let included: Vec<Pattern<'_>> = paths()
        .filter(|path| !path.starts_with('-'))
        .map(|path| path.split('.').collect())
        .collect();
    let excluded: Vec<Pattern<'_>> = paths()
        .filter_map(|path| Some(path.strip_prefix('-')?.split('.').collect()))
        .collect();
    let filtered = if included.is_empty() {
        body
    } else {
        include(&body, &included).unwrap_or_else(|| Value::Object(Map::new()))
    };
    if excluded.is_empty() {
        filtered
    } else {
        exclude(filtered, &excluded)
    }
}

/// Returns the parts of a value that match the patterns, if any. `_source` uses it, too.
pub(super) fn include(value: &Value, patterns: &[Pattern<'_>]) -> Option<Value> {
    match value {
        Value::Object(members) => {
            let filtered: Map<String, Value> = members
                .iter()
                .filter_map(|(key, member)| {
                    let rest = advance(patterns, key);
                    let filtered = if is_named(&rest) {
                        Some(member.clone())
                    } else {
                        include(member, &rest)
                    };
                    Some((key.clone(), filtered?))
                })
                .collect();
            (!filtered.is_empty()).then_some(Value::Object(filtered))
        }
        Value::Array(items) => {
            let filtered: Vec<Value> = items
                .iter()
                .filter_map(|item| include(item, patterns))
                .collect();
            (!filtered.is_empty()).then_some(Value::Array(filtered))
        }
        _ => None,
    }
}

/// Removes the parts of a value that match the patterns.
pub(super) fn exclude(value: Value, patterns: &[Pattern<'_>]) -> Value {
    match value {
        Value::Object(members) => Value::Object(
            members
                .into_iter()
                .filter_map(|(key, member)| {
                    let rest = advance(patterns, &key);
                    (!is_named(&rest)).then(|| (key, exclude(member, &rest)))
                })
                .collect(),
        ),
        Value::Array(items) => Value::Array(
            items
                .into_iter()
                .map(|item| exclude(item, patterns))
                .collect(),
        ),
        other => other,
    }
}

/// Whether a pattern matches the value as a whole: no segment is left.
fn is_named(rest: &[Pattern<'_>]) -> bool {
    rest.iter()
        .any(|pattern| pattern.is_empty() || pattern == &["**"])
}

/// Returns the remaining patterns below a member.
fn advance<'p>(patterns: &[Pattern<'p>], key: &str) -> Vec<Pattern<'p>> {
    let mut rest = Vec::new();
    for pattern in patterns {
        let mut remaining = pattern.as_slice();
        if let Some((&"**", after)) = remaining.split_first() {
            rest.push(pattern.clone());
            remaining = after;
        }
        if let Some((segment, after)) = remaining.split_first()
            && glob::matches(segment, key)
        {
            rest.push(after.to_vec());
        }
    }
    rest
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_with_wildcards_select_members() {
        let body = || json!({ "took": 1, "hits": { "total": 2, "hits": [{ "_id": "a", "_index": "i" }, { "_id": "b" }] } });
        for (filter_path, expected) in [
            (
                "hits.hits._id",
                json!({ "hits": { "hits": [{ "_id": "a" }, { "_id": "b" }] } }),
            ),
            (
                "**._id",
                json!({ "hits": { "hits": [{ "_id": "a" }, { "_id": "b" }] } }),
            ),
            (
                "hits.h*s._i*",
                json!({ "hits": { "hits": [{ "_id": "a", "_index": "i" }, { "_id": "b" }] } }),
            ),
            (
                "took,hits.total",
                json!({ "took": 1, "hits": { "total": 2 } }),
            ),
            ("hits,-hits.hits", json!({ "hits": { "total": 2 } })),
            ("-hits", json!({ "took": 1 })),
            ("nothing", json!({})),
        ] {
            assert_eq!(apply(body(), filter_path), expected, "{filter_path}");
        }
    }

    #[test]
    fn an_empty_array_is_sent_only_if_a_path_names_it() {
        let body = || json!({ "hits": { "hits": [] } });
        assert_eq!(apply(body(), "hits.hits._id"), json!({}));
        assert_eq!(
            apply(body(), "hits.hits"),
            json!({ "hits": { "hits": [] } })
        );
        assert_eq!(apply(body(), "hits.*"), json!({ "hits": { "hits": [] } }));
    }
}
