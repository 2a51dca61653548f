//! Visits every leaf of an object: its path and its value.
//!
//! With `indexing: Full` documents hold the leaves as terms; otherwise a store reads them from the
//! object. Both use the same walk, so that a field selector of any path has the same result.

use std::{borrow::Cow, fmt};

use serde::{
    Deserializer,
    de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor},
};

use super::{
    Object,
    json::Text,
    well_known::{CLUSTER_ANNOTATION, LAST_APPLIED, REDACTED_ANNOTATION},
};

/// Bytes of the path of a leaf. Leaves with longer paths are skipped, so that a term with its value
/// stays far below the limit of a keyword.
pub const MAX_PATH_BYTES: usize = 1024;
/// Nested objects and arrays. Deeper leaves are skipped: `OpenSearch` parses a `flat_object`
/// recursively, and a node ends with a stack overflow between 200 and 900 levels.
pub const MAX_DEPTH: usize = 64;
/// Annotations that Fleetdex adds or removes, so that no leaf is stored for them.
const SKIPPED_ANNOTATIONS: [&str; 3] = [LAST_APPLIED, REDACTED_ANNOTATION, CLUSTER_ANNOTATION];

/// Receives the leaves of an object.
pub trait LeafVisitor {
    /// Whether to visit leaves at this path or below it.
    fn enters(&self, path: &str) -> bool;

    /// Receives a value at a path; an array has several. The value is never empty, because an empty
    /// value reads like an absent one.
    fn leaf(&mut self, path: &str, value: Cow<'_, str>);
}

impl Object<'_> {
    /// Visits all leaves except `metadata.name` and `metadata.namespace`, which every document has
    /// under their own paths.
    pub fn leaves(&self, api_version: &str, kind: &str, leaves: &mut impl LeafVisitor) {
        let mut walk = LeafWalk {
            path: String::new(),
            depth: 0,
            leaves,
        };
        walk.text("apiVersion", api_version);
        walk.text("kind", kind);
        walk.below("metadata", |walk| {
            let metadata = &self.metadata;
            walk.text("uid", &metadata.uid.0);
            walk.text("resourceVersion", &metadata.resource_version.0);
            walk.below("labels", |walk| {
                self.labels().for_each(|(key, value)| walk.text(key, value));
            });
            walk.below("annotations", |walk| {
                let annotations = metadata
                    .annotations
                    .0
                    .iter()
                    .filter(|(key, _)| !SKIPPED_ANNOTATIONS.contains(&&*key.0));
                annotations.for_each(|(key, value)| walk.raw(&key.0, value.get()));
            });
            metadata
                .rest
                .iter()
                .for_each(|(key, value)| walk.raw(&key.0, value.get()));
        });
        self.rest
            .iter()
            .for_each(|(key, value)| walk.raw(&key.0, value.get()));
    }
}

struct LeafWalk<'w, L> {
    path: String,
    depth: usize,
    leaves: &'w mut L,
}

impl<L: LeafVisitor> LeafWalk<'_, L> {
    /// Descends to a key, if a path can hold it and the visitor enters it.
    fn below(&mut self, name: &str, visit: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        if push_name(&mut self.path, name)
            && self.path.len() <= MAX_PATH_BYTES
            && self.leaves.enters(&self.path)
        {
            visit(self);
        }
        self.path.truncate(length);
    }

    fn text(&mut self, name: &str, value: &str) {
        self.below(name, |walk| walk.value(Cow::Borrowed(value)));
    }

    fn raw(&mut self, name: &str, json: &str) {
        self.below(name, |walk| {
            let mut json = serde_json::Deserializer::from_str(json);
            if let Err(error) = (Values(walk)).deserialize(&mut json) {
                tracing::debug!(%error, "the leaves of a field cannot be read");
            }
        });
    }

    fn value(&mut self, value: Cow<'_, str>) {
        if !value.is_empty() {
            self.leaves.leaf(&self.path, value);
        }
    }
}

/// Adds a key to a path, in the notation of [`FieldPath`](super::FieldPath). Returns false, and
/// adds nothing, for a key that no selector can write.
pub(super) fn push_name(path: &mut String, name: &str) -> bool {
    if name.contains('=') {
        return false;
    }
    if !name.is_empty() && !name.contains('.') && !name.contains("['") {
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(name);
        return true;
    }
    if name.contains("']") {
        return false;
    }
    path.push_str("['");
    path.push_str(name);
    path.push_str("']");
    true
}

/// Deserializes the values at the path of a walk and below it.
struct Values<'v, 'w, L>(&'v mut LeafWalk<'w, L>);

impl<'de, L: LeafVisitor> DeserializeSeed<'de> for Values<'_, '_, L> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.0.depth == MAX_DEPTH {
            return deserializer.deserialize_ignored_any(IgnoredAny).map(drop);
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de, L: LeafVisitor> Visitor<'de> for Values<'_, '_, L> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.0
            .value(Cow::Borrowed(if value { "true" } else { "false" }));
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.0.value(Cow::Owned(value.to_string()));
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.0.value(Cow::Owned(value.to_string()));
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        self.0.value(Cow::Owned(value.to_string()));
        Ok(())
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        self.0.value(Cow::Borrowed(value));
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        self.0.depth += 1;
        while items.next_element_seed(Values(&mut *self.0))?.is_some() {}
        self.0.depth -= 1;
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let walk = self.0;
        walk.depth += 1;
        while let Some(name) = members.next_key::<Text<'de>>()? {
            let (mut value, mut outcome) = (Some(&mut members), Ok(()));
            walk.below(&name.0, |walk| {
                if let Some(members) = value.take() {
                    outcome = members.next_value_seed(Values(walk));
                }
            });
            outcome?;
            if let Some(members) = value {
                members.next_value::<IgnoredAny>()?;
            }
        }
        walk.depth -= 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::model::{
        FieldPath, Gvk, Projection, Projector, Quantity, Resource, Restored, quantity,
    };

    fn document(kind: &str, object: &Value, redact: &[String]) -> (Value, Value) {
        let resource = Resource {
            gvk: Gvk::new("", "v1", kind),
            plural: "objects".into(),
            namespaced: true,
        };
        let known = FieldPath::new("spec.known");
        let projection = Projection::new(redact, &[known]).unwrap().and_every_path();
        let projector = Projector::new(&"member1".parse().unwrap(), &resource, &projection, &[]);
        let json = object.to_string();
        let document = projector
            .document(&Object::parse(&json).unwrap(), "2026-01-01T00:00:00Z")
            .unwrap();
        let Restored {
            object: restored, ..
        } = Restored::parse(document.body.as_deref().unwrap()).unwrap();
        let mut restored: Value = serde_json::from_str(restored.get()).unwrap();
        restored["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("annotations");
        (
            serde_json::from_slice(document.body.as_deref().unwrap()).unwrap(),
            restored,
        )
    }

    fn leaves(document: &Value) -> Vec<&str> {
        document["search"]["leaves"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_str)
            .collect()
    }

    fn metadata() -> Value {
        json!({ "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7" })
    }

    #[test]
    fn every_leaf_is_a_term_once_and_numbers_are_numbers() {
        let object = json!({ "metadata": metadata(), "spec": { "known": 5, "x.y": [[1, "b"], { "c": true }, "b"], "": null, "k=v": "z", "e": "" } });
        let (document, _) = document("Pod", &object, &[]);
        let expected = [
            "apiVersion=v1",
            "kind=Pod",
            "metadata.resourceVersion=7",
            "metadata.uid=u",
            "spec['x.y'].c=true",
            "spec['x.y']=1",
            "spec['x.y']=b",
        ];
        assert_eq!(leaves(&document), expected);
        assert_eq!(document["search"]["fields"], json!(["spec.known=5"]));
        let terms = [
            ("spec.known", 5),
            ("metadata.resourceVersion", 7),
            ("spec['x.y']", 1),
        ];
        let numbers: Vec<String> = terms
            .iter()
            .map(|(path, value)| quantity::field_term(path, Quantity::from(*value)))
            .collect();
        assert_eq!(document["search"]["numbers"], json!(numbers));
    }

    #[test]
    fn what_is_not_stored_is_no_leaf() {
        let mut metadata = metadata();
        metadata["annotations"] = json!({ LAST_APPLIED: "{\"x\":\"moonlight\"}", "tool": "moonlight", "helm.sh/hook": "yes" });
        let object = json!({ "metadata": metadata, "data": { "k": "moonlight" }, "stringData": { "k": "moonlight" }, "spec": { "t": "moonlight", "a": "b" } });
        let (document, _) = document("Secret", &object, &["spec.t".to_owned()]);
        assert!(!document.to_string().contains("moonlight"), "{document}");
        assert!(
            leaves(&document).contains(&"metadata.annotations['helm.sh/hook']=yes")
                && leaves(&document).contains(&"spec.a=b")
        );
    }

    #[test]
    fn what_cannot_be_indexed_is_whole_in_answers() {
        let long = "x".repeat(40_000);
        let object = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata(), "spec": { "a": long }, "status": "odd", "search": 1 });
        let (document, restored) = document("Pod", &object, &[]);
        assert_eq!(document["spec"]["a"], "x".repeat(1_024));
        assert_eq!(document["status"], Value::Null);
        assert!(leaves(&document).contains(&"status=odd"));
        assert_eq!(restored, object);
        assert_eq!(
            restored.as_object().unwrap().keys().collect::<Vec<_>>(),
            ["apiVersion", "kind", "metadata", "spec", "status", "search"]
        );
        let body = crate::model::fallback(
            document.to_string().as_bytes(),
            crate::model::DocumentShape::Unindexed,
            "odd",
        )
        .unwrap();
        assert_eq!(String::from_utf8_lossy(&body).matches(&long).count(), 1);
    }

    #[test]
    fn there_are_no_leaves_in_too_deep_or_behind_too_long_names() {
        let nested = |levels: usize| (0..levels).fold(json!("a"), |inner, _| json!({ "a": inner }));
        let object = json!({ "metadata": metadata(), "spec": nested(MAX_DEPTH - 1), "status": nested(100), "data": { ("n".repeat(1_020)): "a", "b": "c" } });
        let (document, _) = document("Pod", &object, &[]);
        let found = leaves(&document);
        assert_eq!(
            found
                .iter()
                .filter(|leaf| leaf.starts_with("spec.a"))
                .count(),
            1
        );
        assert!(
            found.iter().all(|leaf| !leaf.starts_with("status")) && found.contains(&"data.b=c")
        );
        assert!(found.iter().all(|leaf| !leaf.starts_with("data.n")));
    }

    #[test]
    fn an_object_with_too_many_fields_says_that_not_all_are_indexed() {
        let many: Vec<usize> = (0..20_000).collect();
        let object = json!({ "metadata": metadata(), "spec": { ("n".repeat(1_000)): many } });
        let (document, restored) = document("Pod", &object, &[]);
        assert!(
            document["search"]["rejected"]
                .as_str()
                .unwrap()
                .contains("too many fields")
        );
        assert!(document.to_string().len() < 64 << 20);
        assert_eq!(restored["spec"], object["spec"]);
        let few = json!({ "metadata": metadata(), "spec": { "a": 1 } });
        assert!(self::document("Pod", &few, &[]).0["search"]["rejected"].is_null());
    }
}
