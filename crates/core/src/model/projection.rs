//! What of an object is stored: redactions and extra selectable fields.

use std::{collections::BTreeSet, fmt, sync::Arc};

use serde_json::{Value, value::RawValue};
use serde_json_path::{JsonPath, NormalizedPath, PathElement};
use sha2::{Digest, Sha256};

use super::{FieldPath, hex};

/// Names the rules by which every document is made. It is part of every hash, so that documents made by older rules are built again. The rules of
/// this name: documents list what was removed, Secrets keep the values of well-known annotations only, each redaction removes all that it selects, and
/// members with a dot in their names are kept aside.
const RULES: &[u8] =
    b"marked, secrets' annotations listed, redactions located first, dotted names aside";

/// A redaction is no `JSONPath`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "redact: {path:?} is no JSONPath (RFC 9535), such as $.spec.template.spec.containers[*].env: {reason}"
)]
pub struct InvalidPath {
    /// The path as written.
    pub path: String,
    /// What is wrong with it.
    pub reason: String,
}

/// What of an object is stored. Part of a store, united over the registries that share it.
#[derive(Clone, Default)]
pub struct Projection {
    redact: Arc<[(String, JsonPath)]>,
    field_paths: Arc<[FieldPath]>,
    is_full: bool,
}

impl Projection {
    /// A projection that removes what the `JSONPath`s of `redact` select (a leading `$.` may be left out) and makes
    /// `field_paths` selectable in addition to what the apiserver supports.
    pub fn new(redact: &[String], field_paths: &[FieldPath]) -> Result<Self, InvalidPath> {
        let mut parsed = Vec::with_capacity(redact.len());
        for path in redact {
            let full = match path.strip_prefix('$') {
                Some(_) => path.clone(),
                None => format!("$.{}", path.trim_start_matches('.')),
            };
            let query = JsonPath::parse(&full).map_err(|error| InvalidPath {
                path: path.clone(),
                reason: error.to_string(),
            })?;
            parsed.push((full, query));
        }
        Ok(Self {
            redact: parsed.into(),
            field_paths: field_paths.into(),
            is_full: false,
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

    /// Whether every path is selectable: `indexing: Full`.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Fields that are selectable in addition to what the apiserver supports.
    pub fn field_paths(&self) -> &[FieldPath] {
        &self.field_paths
    }

    /// Whether nothing has to be removed.
    pub fn redacts_nothing(&self) -> bool {
        self.redact.is_empty()
    }

    /// A short hash that changes whenever the stored documents would.
    pub fn hash(&self) -> String {
        let mut hasher = Sha256::new();
        hasher.update(RULES);
        for (path, _) in self.redact.iter() {
            hasher.update(path.as_bytes());
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
        let digest = hasher.finalize();
        hex(&digest[..8])
    }

    /// The object without what must not be stored, and the paths at which there was any of that.
    ///
    /// All paths are looked up in the object as it came, so that none depends on what another one removes.
    pub(crate) fn redacted(
        &self,
        json: &str,
    ) -> Result<(Box<RawValue>, Vec<&str>), serde_json::Error> {
        let mut object: Value = serde_json::from_str(json)?;
        let mut removed = Vec::new();
        let mut places: BTreeSet<Place> = BTreeSet::new();
        for (path, query) in self.redact.iter() {
            let located = query.query_located(&object);
            let mut selected = located
                .locations()
                .map(place)
                .filter(|place| !is_kept(place))
                .peekable();
            if selected.peek().is_some() {
                removed.push(path.as_str());
            }
            places.extend(selected);
        }
        // Backwards: what is inside before what it is in, and later elements first, so that no removal moves what is still to be removed.
        for place in places.iter().rev() {
            remove(&mut object, place);
        }
        Ok((serde_json::value::to_raw_value(&object)?, removed))
    }
}

/// The steps from the object to one of its values.
type Place = Vec<Step>;

/// A step into an array or an object. Steps into one array are ordered by its elements.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Element(usize),
    Member(String),
}

fn place(path: &NormalizedPath<'_>) -> Place {
    let step = |element: &PathElement<'_>| match element {
        PathElement::Index(index) => Step::Element(*index),
        PathElement::Name(name) => Step::Member((*name).to_owned()),
    };
    path.iter().map(step).collect()
}

/// Members of `metadata` that stay, with `metadata` itself and the object.
const IDENTITY: [&str; 4] = ["name", "namespace", "uid", "resourceVersion"];

/// Identity always stays.
fn is_kept(place: &Place) -> bool {
    match place.as_slice() {
        [] => true,
        [Step::Member(top)] => top == "metadata",
        [Step::Member(top), Step::Member(name)] => {
            top == "metadata" && IDENTITY.contains(&name.as_str())
        }
        _ => false,
    }
}

/// Removes the value at a place.
fn remove(object: &mut Value, place: &Place) {
    let Some((last, parents)) = place.split_last() else {
        return;
    };
    let parent = parents.iter().try_fold(object, |value, step| match step {
        Step::Element(index) => value.get_mut(*index),
        Step::Member(name) => value.get_mut(name),
    });
    match (parent, last) {
        (Some(Value::Object(members)), Step::Member(name)) => {
            members.remove(name);
        }
        (Some(Value::Array(elements)), Step::Element(index)) if *index < elements.len() => {
            elements.remove(*index);
        }
        _ => {}
    }
}

impl PartialEq for Projection {
    fn eq(&self, other: &Self) -> bool {
        let paths = |projection: &Self| {
            projection
                .redact
                .iter()
                .map(|(path, _)| path.clone())
                .collect::<Vec<_>>()
        };
        paths(self) == paths(other)
            && self.field_paths == other.field_paths
            && self.is_full == other.is_full
    }
}

impl fmt::Debug for Projection {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Projection")
            .field(
                "redact",
                &self.redact.iter().map(|(path, _)| path).collect::<Vec<_>>(),
            )
            .field("field_paths", &self.field_paths)
            .field("is_full", &self.is_full)
            .finish()
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
            redacted(&["spec.args[*].a", "spec.args[?@.a == 3]"], nested),
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
            Just("[?@.a == 1]".to_owned()),
        ];
        prop::collection::vec(step, 1..4).prop_map(|steps| format!("$.spec{}", steps.concat()))
    }

    /// What is left of a value when everything at these places goes, told without removing anything.
    fn without(value: &Value, at: &Place, places: &BTreeSet<Place>) -> Option<Value> {
        let below = |step: Step| at.iter().cloned().chain([step]).collect::<Place>();
        if places.contains(at) {
            return None;
        }
        Some(match value {
            Value::Array(elements) => {
                let left = elements.iter().enumerate();
                left.filter_map(|(index, element)| {
                    without(element, &below(Step::Element(index)), places)
                })
                .collect()
            }
            Value::Object(members) => {
                let left = members.iter();
                let left = left.filter_map(|(name, member)| {
                    Some((
                        name.clone(),
                        without(member, &below(Step::Member(name.clone())), places)?,
                    ))
                });
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
            let located = paths.iter().flat_map(|path| {
                let query = JsonPath::parse(path).unwrap();
                query.query_located(&object).locations().map(place).collect::<Vec<_>>()
            });
            let expected = without(&object, &Vec::new(), &located.collect());
            let (left, _) = Projection::new(&paths, &[]).unwrap().redacted(&object.to_string()).unwrap();
            prop_assert_eq!(serde_json::from_str::<Value>(left.get()).ok(), expected);
        }
    }

    #[test]
    fn a_broken_path_is_refused_by_name() {
        let error = Projection::new(&["spec[".to_owned()], &[]).unwrap_err();
        assert!(error.to_string().contains("\"spec[\""), "{error}");
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
