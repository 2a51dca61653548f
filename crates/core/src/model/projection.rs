//! Projections: which parts of an object are stored, and which further fields are selectable.

use std::{ptr, sync::Arc};

use ahash::AHashSet;
use serde::{Serialize, Serializer};
use serde_json::{Value, value::RawValue};
use sha2::{Digest, Sha256};

use super::{FieldPath, hex, redaction_error::RedactionError};
use crate::{
    fuel::{Fuel, MeteredEvaluation},
    json_path::{JsonPath, JsonPathError},
};

/// Names the rules by which every document is made. It is part of every hash, so that documents
/// made by older rules are built again. The rules of this name: documents list what was removed,
/// Secrets keep the values of well-known annotations only, each redaction removes all that it
/// selects, and members with a dot in their names are kept aside.
const RULES: &[u8] =
    b"marked, secrets' annotations listed, redactions located first, dotted names aside";

/// Steps that the redactions of an object may take: some, and for each redaction some for each byte
/// of the object.
const STEPS: u64 = 100_000;
const STEPS_PER_BYTE: u64 = 4;

/// A redaction cannot be read, or another dialect of `JSONPath` reads it in another way.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("redact: {0}")]
pub struct InvalidRedaction(JsonPathError);

/// Which parts of an object are stored, and which further fields are selectable. A store has one
/// projection: that of all registries that share it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Projection {
    redactions: Arc<[Redaction]>,
    field_paths: Arc<[FieldPath]>,
    is_full: bool,
    interpretation: InterpretationLevel,
}

/// Which rules say what objects mean. Of several registries that share a store, the greatest level
/// holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InterpretationLevel {
    /// None: documents have no interpretation.
    #[default]
    Off,
    /// The built-in rules only.
    BuiltIn,
    /// Built-in rules, scripts and webhooks.
    All,
}

/// What one path removes.
#[derive(Clone, Debug, PartialEq)]
struct Redaction {
    /// The path as documents list it, from `$` on.
    text: String,
    path: JsonPath,
}

impl Redaction {
    fn parse(text: &str) -> Result<Self, InvalidRedaction> {
        let path = JsonPath::unambiguous(text).map_err(InvalidRedaction)?;
        let trimmed = text.trim();
        let bare = trimmed
            .strip_prefix('{')
            .and_then(|rest| rest.strip_suffix('}'))
            .unwrap_or(trimmed);
        let rest = bare.strip_prefix(['$', '@']).unwrap_or(bare);
        let dot = if rest.is_empty() || rest.starts_with(['.', '[']) {
            ""
        } else {
            "."
        };
        Ok(Self {
            text: format!("${dot}{rest}"),
            path,
        })
    }
}

impl Projection {
    /// A projection that removes what the `JSONPath`s of `redact` select, and makes `field_paths`
    /// selectable in addition to the fields of the apiserver.
    pub fn new(redact: &[String], field_paths: &[FieldPath]) -> Result<Self, InvalidRedaction> {
        let redactions: Result<Vec<Redaction>, InvalidRedaction> =
            redact.iter().map(|text| Redaction::parse(text)).collect();
        Ok(Self {
            redactions: redactions?.into(),
            field_paths: field_paths.into(),
            is_full: false,
            interpretation: InterpretationLevel::Off,
        })
    }

    /// The same, with every path selectable.
    #[must_use]
    pub fn and_every_path(self) -> Self {
        Self {
            is_full: true,
            ..self
        }
    }

    /// The same, with what the rules of a level say of each object.
    #[must_use]
    pub fn and_interpretation(self, interpretation: InterpretationLevel) -> Self {
        Self {
            interpretation,
            ..self
        }
    }

    /// Which rules say what objects mean.
    pub fn interpretation(&self) -> InterpretationLevel {
        self.interpretation
    }

    /// Whether every path is selectable: `indexing: Full`.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Fields that are selectable in addition to what the apiserver supports.
    pub fn field_paths(&self) -> &[FieldPath] {
        &self.field_paths
    }

    /// Whether there is no redaction.
    pub fn redacts_nothing(&self) -> bool {
        self.redactions.is_empty()
    }

    /// A short hash that changes whenever the stored documents would.
    pub fn hash(&self) -> String {
        let mut hasher = Sha256::new();
        hasher.update(RULES);
        for redaction in self.redactions.iter() {
            hasher.update(redaction.text.as_bytes());
            hasher.update([0]);
        }
        hasher.update([1]);
        for path in self.field_paths.iter() {
            hasher.update(path.as_str().as_bytes());
            hasher.update([0]);
        }
        if self.is_full {
            hasher.update([2]);
        }
        // Which rules there are beyond the built-in ones changes without the store: each stream
        // writes its documents again then.
        if self.interpretation > InterpretationLevel::Off {
            hasher.update([3]);
        }
        let digest = hasher.finalize();
        hex(&digest[..8])
    }

    /// The object without what the redactions select, and the redactions that selected anything.
    ///
    /// All paths are evaluated on the original object, so that none depends on what another one
    /// removes.
    pub(crate) fn redacted(
        &self,
        json: &str,
    ) -> Result<(Box<RawValue>, Vec<&str>), RedactionError> {
        let object: Value = serde_json::from_str(json)?;
        let fuel = self.fuel(json.len());
        let identity = identity(&object);
        let mut effective = Vec::new();
        let mut removed: AHashSet<*const Value> = AHashSet::new();
        for redaction in self.redactions.iter() {
            let mut selected = redaction.path.select(&object, &fuel)?;
            selected.retain(|value| !identity.contains(&ptr::from_ref(*value)));
            if !selected.is_empty() {
                effective.push(redaction.text.as_str());
            }
            removed.extend(selected.into_iter().map(ptr::from_ref));
        }
        let kept = Kept {
            value: &object,
            removed: &removed,
        };
        Ok((serde_json::value::to_raw_value(&kept)?, effective))
    }

    /// What the redactions of an object of so many bytes may take.
    fn fuel(&self, bytes: usize) -> Fuel {
        let of = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let of_all = of(self.redactions.len()).saturating_mul(of(bytes));
        let steps = STEPS.saturating_add(STEPS_PER_BYTE.saturating_mul(of_all));
        Fuel::of(MeteredEvaluation::Redaction, steps)
    }
}

/// Members of `metadata` that stay, with `metadata` itself and the object.
const IDENTITY: [&str; 4] = ["name", "namespace", "uid", "resourceVersion"];

/// The values of the object's identity, which no redaction removes.
fn identity(object: &Value) -> Vec<*const Value> {
    let metadata = object.get("metadata");
    let members = metadata.and_then(Value::as_object);
    let members = members.into_iter().flat_map(|members| {
        let of = |name: &str| members.get(name);
        IDENTITY.into_iter().filter_map(of)
    });
    [object]
        .into_iter()
        .chain(metadata)
        .chain(members)
        .map(ptr::from_ref)
        .collect()
}

/// A value without what is removed of it.
struct Kept<'v> {
    value: &'v Value,
    removed: &'v AHashSet<*const Value>,
}

impl Kept<'_> {
    fn below<'v>(&'v self, value: &'v Value) -> Option<Kept<'v>> {
        let is_kept = !self.removed.contains(&ptr::from_ref(value));
        is_kept.then_some(Kept {
            value,
            removed: self.removed,
        })
    }
}

impl Serialize for Kept<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.value {
            Value::Array(items) => {
                serializer.collect_seq(items.iter().filter_map(|item| self.below(item)))
            }
            Value::Object(members) => serializer.collect_map(
                members
                    .iter()
                    .filter_map(|(key, member)| Some((key, self.below(member)?))),
            ),
            scalar => scalar.serialize(serializer),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn redacted(paths: &[&str], json: &str) -> String {
        let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
        Projection::new(&paths, &[])
            .unwrap()
            .redacted(json)
            .unwrap()
            .0
            .get()
            .to_owned()
    }

    #[test]
    fn selected_values_are_removed_and_the_rest_keeps_its_order() {
        let json = r#"{"spec":{"containers":[{"name":"a","env":[{"name":"X","value":"secret"}]},{"name":"b"}],"z":1,"a":2}}"#;
        assert_eq!(
            redacted(&["spec.containers[*].env"], json),
            r#"{"spec":{"containers":[{"name":"a"},{"name":"b"}],"z":1,"a":2}}"#
        );
        assert_eq!(
            redacted(&["$.spec.containers[*]"], json),
            r#"{"spec":{"containers":[],"z":1,"a":2}}"#
        );
    }

    #[test]
    fn identity_cannot_be_redacted() {
        let json = r#"{"metadata":{"name":"a","annotations":{"x/y":"1"}}}"#;
        assert_eq!(
            redacted(&["metadata.name", "metadata.annotations['x/y']"], json),
            r#"{"metadata":{"name":"a","annotations":{}}}"#
        );
        assert_eq!(redacted(&["$.metadata"], json), json);
    }

    #[test]
    fn the_paths_that_selected_anything_are_listed() {
        let projection = Projection::new(
            &[
                "spec.a".to_owned(),
                "$.spec.b".to_owned(),
                "metadata".to_owned(),
            ],
            &[],
        )
        .unwrap();
        let (_, removed) = projection
            .redacted(r#"{"metadata":{"name":"x"},"spec":{"b":1}}"#)
            .unwrap();
        assert_eq!(removed, ["$.spec.b"]);
    }

    #[test]
    fn several_elements_of_one_array_are_all_removed() {
        let json = r#"{"metadata":{"name":"a"},"spec":{"args":["a","b","c"]}}"#;
        let kept = |left: &str| json.replace(r#"["a","b","c"]"#, left);
        assert_eq!(
            redacted(&["spec.args[0]", "spec.args[1]"], json),
            kept(r#"["c"]"#)
        );
        assert_eq!(
            redacted(&["spec.args[1]", "spec.args[0]"], json),
            kept(r#"["c"]"#)
        );
        assert_eq!(
            redacted(&["spec.args[-1]", "spec.args[0]", "spec.args[0]"], json),
            kept(r#"["b"]"#)
        );
        let nested = r#"{"spec":{"args":[{"a":1,"b":2},{"a":3,"b":4}]}}"#;
        assert_eq!(
            redacted(&["spec.args[0]", "spec.args[*].a"], nested),
            r#"{"spec":{"args":[{"b":4}]}}"#
        );
        // A selection by what another path removes.
        assert_eq!(
            redacted(&["spec.args[*].a", "spec.args[?(@.a == 3)]"], nested),
            r#"{"spec":{"args":[{"b":2}]}}"#
        );
    }

    #[test]
    fn a_path_within_another_one_is_among_those_that_selected_anything() {
        let projection = Projection::new(&["spec".to_owned(), "spec.b".to_owned()], &[]).unwrap();
        let (left, removed) = projection.redacted(r#"{"spec":{"b":1}}"#).unwrap();
        assert_eq!((left.get(), removed), ("{}", vec!["$.spec", "$.spec.b"]));
    }

    fn json_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(json!(null)),
            (0..3_u8).prop_map(|number| json!(number)),
            "[ab]".prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[abc/~]", inner, 0..4)
                    .prop_map(|members| members.into_iter().collect()),
            ]
        })
    }

    fn json_path() -> impl Strategy<Value = String> {
        let step = prop_oneof![
            (-3..4_i8).prop_map(|index| format!("[{index}]")),
            "[abc/~]".prop_map(|name| format!("['{name}']")),
            Just("[*]".to_owned()),
            Just("[0:2]".to_owned()),
            Just("..a".to_owned()),
            Just("[?(@.a == 1)]".to_owned()),
            Just("[?(@.a != 1)]".to_owned()),
            Just("['a','b']".to_owned()),
            Just("[0,-1]".to_owned()),
        ];
        prop::collection::vec(step, 1..4).prop_map(|steps| format!("$.spec{}", steps.concat()))
    }

    /// The rest of a value without these values, built in another way.
    fn without(value: &Value, removed: &[&Value]) -> Option<Value> {
        if removed.iter().any(|removed| ptr::eq(*removed, value)) {
            return None;
        }
        Some(match value {
            Value::Array(elements) => {
                let left = elements.iter();
                left.filter_map(|element| without(element, removed))
                    .collect()
            }
            Value::Object(members) => {
                let left = members.iter();
                let left = left
                    .filter_map(|(name, member)| Some((name.clone(), without(member, removed)?)));
                Value::Object(left.collect())
            }
            plain => plain.clone(),
        })
    }

    proptest! {
        #[test]
        fn exactly_what_any_of_the_paths_selects_in_the_original_is_removed(
            spec in json_value(),
            paths in prop::collection::vec(json_path(), 1..5),
        ) {
            let object = json!({ "metadata": { "name": "a" }, "spec": spec });
            let removed = |path: &String| {
                let path = JsonPath::unambiguous(path).unwrap();
                path.select(&object, &Fuel::unbounded()).unwrap()
            };
            let expected = without(&object, &paths.iter().flat_map(removed).collect::<Vec<_>>());
            let (left, _) = Projection::new(&paths, &[]).unwrap().redacted(&object.to_string()).unwrap();
            prop_assert_eq!(serde_json::from_str::<Value>(left.get()).ok(), expected);
        }
    }

    #[test]
    fn redactions_of_a_deeply_nested_object_hold_each_value_once() {
        let mut spec = json!({ "x": 1 });
        for _ in 0..100 {
            spec = json!({ "a": spec, "b": [{}, {}, {}] });
        }
        let json = json!({ "metadata": { "name": "a" }, "spec": spec }).to_string();
        let paths = ["..x", "..a..x", "..b[*]"].map(str::to_owned);
        let projection = Projection::new(&paths, &[]).unwrap();
        let (left, effective) = projection.redacted(&json).unwrap();
        assert_eq!(effective.len(), 3);
        assert!(!left.get().contains('x') && left.get().contains(r#""b":[]"#));
    }

    #[test]
    fn redactions_that_take_too_many_steps_are_an_error() {
        // Each level compares all that is below it.
        let filter = "[?(@.a==@.b)]";
        let mut spec = json!(vec![0; 100_000]);
        for _ in 0..50 {
            spec = json!([{ "a": spec, "b": "x" }]);
        }
        let json = json!({ "metadata": { "name": "a" }, "spec": spec }).to_string();
        let paths = [format!("spec..{filter}")];
        let refused = Projection::new(&paths, &[])
            .unwrap()
            .redacted(&json)
            .map(drop);
        assert!(
            matches!(refused, Err(RedactionError::OutOfFuel(_))),
            "{refused:?}"
        );
    }

    #[test]
    fn a_path_may_have_any_form_that_kubectl_takes() {
        let json = r#"{"metadata":{"name":"a","annotations":{"example.com/token":"t"}},"spec":{"token":"t"}}"#;
        for path in [
            "spec.token",
            ".spec.token",
            "$.spec.token",
            "{.spec.token}",
            "{$.spec.token}",
            " {spec['token']} ",
        ] {
            let projection = Projection::new(&[path.to_owned()], &[]).unwrap();
            let (left, effective) = projection.redacted(json).unwrap();
            assert!(left.get().ends_with(r#""spec":{}}"#), "{path}: {left}");
            assert!(effective[0].starts_with("$.spec"), "{path}: {effective:?}");
        }
        for path in [
            r"metadata.annotations.example\.com/token",
            r"metadata.annotations['example\.com/token']",
        ] {
            assert!(
                redacted(&[path], json).contains(r#""annotations":{}"#),
                "{path}"
            );
        }
        assert_eq!(
            redacted(&["..token"], json),
            json.replace(r#""token":"t""#, "")
        );
    }

    #[test]
    fn a_slice_of_a_map_removes_nothing() {
        let json = r#"{"spec":{"map":{"a":1,"b":2},"list":[1,2]}}"#;
        let with_empty_list = json.replace("[1,2]", "[]");
        for slice in ["[:]", "[::]", "[0:]", "[::1]"] {
            let (map, list) = (format!("spec.map{slice}"), format!("spec.list{slice}"));
            assert_eq!(redacted(&[&map, &list], json), with_empty_list, "{slice}");
        }
        assert_eq!(
            redacted(&["spec.map[*]"], json),
            json.replace(r#"{"a":1,"b":2}"#, "{}")
        );
    }

    #[test]
    fn a_key_with_brackets_is_written_with_backslashes() {
        assert_eq!(
            redacted(&[r"data.a\[0\]\.b\?"], r#"{"data":{"a[0].b?":1,"a":[2]}}"#),
            r#"{"data":{"a":[2]}}"#
        );
    }

    /// Each of these selected something as RFC 9535 reads it, or is easily written for something
    /// else than kubectl reads.
    #[test]
    fn a_path_that_kubectl_reads_in_another_way_is_refused_with_what_to_write() {
        let refusal = |path: &str| {
            Projection::new(&[path.to_owned()], &[])
                .map_or_else(|error| error.to_string(), |_| "accepted".to_owned())
        };
        let paths = [
            "metadata.annotations['example.com/token']",
            r"metadata.annotations['example\.com/a.b']",
            "data['a[0]']",
            "data['a[0].b?']",
            "data['a b']",
            "data['*']",
            "data['']",
            r"data['a\u0062']",
            r"data['a\\b']",
            "data.*[?@.a == 3]",
            "spec.list[?(@.a == $.spec.b)]",
            "spec.list[?(@.a && @.b)]",
            "spec.list[?(@.a&&@.b)]",
            "spec.list[?(@.a == 1 || @.b == 2)]",
            "spec.list[?(!@.a)]",
            "spec.list[?(length(@.a) > 3)]",
            "spec.list[?(match(@.a, 'x'))]",
            "spec.list[?(@.a == null)]",
            "spec.list[?(@.*.a == 1)]",
            "spec.list[?(@.a[-1] == 1)]",
            "spec.list[?('x')]",
            "spec.list[?(true)]",
            "spec.list[?()]",
            "spec.list[?(@..)]",
            "spec.list[::-1]",
            "spec.list.length()",
            "spec.a?",
            "spec.a$.b",
            "spec.",
            "spec..",
            "..",
            "{spec.. }",
            "spec[",
            ".",
        ];
        let lines: Vec<String> = paths.iter().map(|path| refusal(path)).collect();
        insta::assert_snapshot!(lines.join("\n"), @r#"
        redact: JSONPath "metadata.annotations['example.com/token']": a '.' in quotes ends the key, as in kubectl; write ['example\.com/token'] for one key
        redact: JSONPath "metadata.annotations['example\\.com/a.b']": a '.' in quotes ends the key, as in kubectl; write ['example\.com/a\.b'] for one key
        redact: JSONPath "data['a[0]']": a '[' in quotes ends the key, as in kubectl; write .a\[0\], without quotes and brackets, for one key
        redact: JSONPath "data['a[0].b?']": a '[' in quotes ends the key, as in kubectl; write .a\[0\]\.b\?, without quotes and brackets, for one key
        redact: JSONPath "data['a b']": a ' ' in quotes ends the key, as in kubectl; write ['a\ b'] for one key
        redact: JSONPath "data['*']": ['*'] is every key, as in kubectl; write [*] for that
        redact: JSONPath "data['']": there is no key in ['']
        redact: JSONPath "data['a\\u0062']": a key cannot have the escape \u; a backslash stands before a dot, a quote or another mark
        redact: JSONPath "data['a\\\\b']": a key cannot have the escape \\; a backslash stands before a dot, a quote or another mark
        redact: JSONPath "data.*[?@.a == 3]": a filter stands in parentheses; write [?(@.a == 3)]
        redact: JSONPath "spec.list[?(@.a == $.spec.b)]": $ in a filter is the same as @, the item, and not the whole object; compare with a literal
        redact: JSONPath "spec.list[?(@.a && @.b)]": Kubernetes' JSONPath has no && and no ||; write one path for each alternative
        redact: JSONPath "spec.list[?(@.a&&@.b)]": Kubernetes' JSONPath has no && and no ||; write one path for each alternative
        redact: JSONPath "spec.list[?(@.a == 1 || @.b == 2)]": Kubernetes' JSONPath has no && and no ||; write one path for each alternative
        redact: JSONPath "spec.list[?(!@.a)]": ! is no comparison; these are: ==, !=, <, <=, >, >=
        redact: JSONPath "spec.list[?(length(@.a) > 3)]": length() is a function, and Kubernetes' JSONPath has none; compare a field instead
        redact: JSONPath "spec.list[?(match(@.a, 'x'))]": match() is a function, and Kubernetes' JSONPath has none; compare a field instead
        redact: JSONPath "spec.list[?(@.a == null)]": a filter cannot compare with null; write [?(@.key)] for a key that is there
        redact: JSONPath "spec.list[?(@.*.a == 1)]": a filter cannot compare @.*.a; it compares paths of fields and of indices from 0 up
        redact: JSONPath "spec.list[?(@.a[-1] == 1)]": a filter cannot compare @.a[-1]; it compares paths of fields and of indices from 0 up
        redact: JSONPath "spec.list[?('x')]": the filter [?('x')] has no field of the item; write [?(@.key)], [?(@.key=='value')], or [*] for every item
        redact: JSONPath "spec.list[?(true)]": the filter [?(true)] has no field of the item; write [?(@.key)], [?(@.key=='value')], or [*] for every item
        redact: JSONPath "spec.list[?()]": the filter [?()] has no field of the item; write [?(@.key)], [?(@.key=='value')], or [*] for every item
        redact: JSONPath "spec.list[?(@..)]": .. has no key behind it; write ..key for a key at every depth, or leave the dots out
        redact: JSONPath "spec.list[::-1]": [::-1]: the step must be above 0
        redact: JSONPath "spec.list.length()": length() is a function, and Kubernetes' JSONPath has none; compare a field instead
        redact: JSONPath "spec.a?": a key with '?' needs quotes, such as ['a?']
        redact: JSONPath "spec.a$.b": $ begins a path; write \$ if it is a letter of a key
        redact: JSONPath "spec.": a dot has no key behind it
        redact: JSONPath "spec..": .. has no key behind it; write ..key for a key at every depth, or leave the dots out
        redact: JSONPath "..": .. has no key behind it; write ..key for a key at every depth, or leave the dots out
        redact: JSONPath "{spec.. }": .. has no key behind it; write ..key for a key at every depth, or leave the dots out
        redact: JSONPath "spec[": a bracket [ is not closed
        redact: JSONPath ".": a dot has no key behind it
        "#);
    }

    #[test]
    fn the_hash_follows_the_projection() {
        let plain = Projection::default();
        let fields = Projection::new(&[], &[FieldPath::new("spec.x")]).unwrap();
        assert_ne!(plain.hash(), fields.hash());
        assert_eq!(plain.hash(), Projection::default().hash());
        assert_ne!(plain.hash(), Projection::default().and_every_path().hash());
    }
}
