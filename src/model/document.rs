//! Objects as documents: the native object plus what searching needs.

use std::{borrow::Cow, sync::Arc};

use bytes::Bytes;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::{
    ClusterName, FieldPath, FieldType, Leaves, Object, ObjectError, Projection, Quantity, Resource, SelectableField, Version,
    flat, hex,
    json::{PathTree, RawMembers, write_key, write_text},
    number,
    order::{sort_field, sort_value, sorted_value},
    told::REDACTED_ANNOTATION,
};

/// `OpenSearch` refuses longer ids.
const MAX_ID_BYTES: usize = 512;
/// Longer values of selectable fields are cut; a query for a longer one is refused.
pub const MAX_FIELD_VALUE_BYTES: usize = 1024;
/// The terms of one object's leaves, with their paths. The largest objects, definitions of custom resources with a megabyte of schema, have a few
/// megabytes; one that somebody has made to have more would take hundreds.
const MAX_LEAF_TERMS_BYTES: usize = 16 << 20;
/// Room for everything but `spec`, `status` and the like; more is made where it does not do.
const METADATA_BYTES: usize = 1536;
/// Ends a cut value. Even if the cut takes off three bytes more to keep a character whole, the value stays longer than any that a
/// query may ask for, so that none takes a cut value for a whole one.
const CUT_MARK: &str = " (cut)";
pub(super) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Keys that the document needs for itself; an object's own members of that name move to `search.native`.
const OWN_KEYS: [&str; 2] = ["cluster", "search"];

/// A document, ready to be written.
#[derive(Clone, Debug)]
pub struct Document {
    /// `<apiVersion>/<kind>/<uid>`, or a hash of it.
    pub id: Arc<str>,
    /// The object's resource version.
    pub version: Version,
    /// The document as one line of JSON.
    pub body: Bytes,
}

/// The values of an object's selectable fields, in the order of its [`Projector::fields`].
pub struct FieldValues<'a>(Vec<(usize, Cow<'a, str>)>);

/// Turns the objects of one resource of one cluster into documents.
#[derive(Clone, Debug)]
pub struct Projector {
    projection: Projection,
    fields: Arc<[SelectableField]>,
    /// Leaves are indices into `sources`.
    tree: PathTree,
    /// For every source path: the fields that read it, and its rank among the sources of each.
    sources: Vec<Vec<(usize, usize)>>,
    /// `{"apiVersion":…,"kind":…,"cluster":…,"search":{"resource":…,"group":…`
    head: Vec<u8>,
    id_prefix: String,
    hides_data: bool,
    api_version: String,
    kind: String,
}

impl Projector {
    /// A projector for one resource of one cluster. `fields` are the kind's selectable fields; `metadata.name` and
    /// `metadata.namespace` have fields of their own in every document and need not be among them.
    pub fn new(cluster: &ClusterName, resource: &Resource, projection: &Projection, fields: &[SelectableField]) -> Self {
        let extra = projection
            .field_paths()
            .iter()
            .filter(|path| fields.iter().all(|field| field.path != **path))
            .map(|path| SelectableField { path: path.clone(), sources: vec![path.clone()], kind: FieldType::Optional });
        let fields: Arc<[SelectableField]> =
            fields.iter().filter(|field| !field.path.as_str().starts_with("metadata.name")).cloned().chain(extra).collect();
        let mut tree = PathTree::default();
        let mut paths: Vec<&FieldPath> = Vec::new();
        let mut sources: Vec<Vec<(usize, usize)>> = Vec::new();
        for (position, field) in fields.iter().enumerate() {
            for (rank, source) in field.sources.iter().enumerate() {
                let known = paths.iter().position(|path| *path == source);
                let leaf = known.unwrap_or_else(|| {
                    tree.insert(source.segments(), paths.len());
                    paths.push(source);
                    sources.push(Vec::new());
                    paths.len() - 1
                });
                sources[leaf].push((position, rank));
            }
        }
        let gvk = &resource.gvk;
        let api_version = gvk.api_version();
        let mut head = b"{".to_vec();
        for (key, value) in [("apiVersion", api_version.as_str()), ("kind", &*gvk.kind), ("cluster", cluster.as_str())] {
            write_key(&mut head, key);
            write_text(&mut head, value);
        }
        write_key(&mut head, "search");
        head.push(b'{');
        for (key, value) in [("resource", &resource.plural), ("group", &gvk.group)] {
            write_key(&mut head, key);
            write_text(&mut head, value);
        }
        Self {
            projection: projection.clone(),
            fields,
            tree,
            sources,
            head,
            id_prefix: format!("{api_version}/{}/", gvk.kind),
            kind: gvk.kind.to_string(),
            hides_data: gvk.group.is_empty() && &*gvk.kind == "Secret",
            api_version,
        }
    }

    /// The selectable fields of the documents, `metadata.name` and `metadata.namespace` aside.
    pub fn fields(&self) -> &[SelectableField] {
        &self.fields
    }

    /// The id of the document of an object.
    pub fn id(&self, uid: &str) -> Arc<str> {
        let id = format!("{}{uid}", self.id_prefix);
        if id.len() <= MAX_ID_BYTES {
            return id.into();
        }
        hex(&Sha256::digest(id.as_bytes())).into()
    }

    /// The values of an object's selectable fields.
    pub fn field_values<'a>(&self, object: &Object<'a>) -> FieldValues<'a> {
        let mut raw = Vec::new();
        if let Some(tree) = self.tree.child("metadata") {
            collect_metadata(tree, object, &mut raw);
        }
        for (key, value) in object.rest.iter().filter(|(key, _)| !self.hides(&key.0)) {
            if let Some(tree) = self.tree.child(&key.0) {
                tree.collect(value, &mut raw);
            }
        }
        let mut values: Vec<(usize, Cow<'a, str>)> = Vec::with_capacity(self.fields.len());
        for position in 0..self.fields.len() {
            self.values_of(position, &raw, &mut values);
        }
        FieldValues(values)
    }

    /// Appends the values of one field: those of its first source that has any, else what an absent value reads.
    fn values_of<'a>(&self, field: usize, raw: &[(usize, Cow<'a, str>)], values: &mut Vec<(usize, Cow<'a, str>)>) {
        let ranks = self.fields[field].sources.len();
        for rank in 0..ranks {
            let before = values.len();
            for (source, value) in raw {
                if self.sources[*source].contains(&(field, rank)) && !value.is_empty() {
                    values.push((field, value.clone()));
                }
            }
            if values.len() > before {
                return;
            }
        }
        match self.fields[field].kind {
            FieldType::Text => values.push((field, Cow::Borrowed(""))),
            FieldType::Number => values.push((field, Cow::Borrowed("0"))),
            FieldType::Flag => values.push((field, Cow::Borrowed("false"))),
            FieldType::Optional => {}
        }
    }

    /// The document of an object. `indexed_at` is an RFC 3339 time; `json` is what `object` was parsed from.
    pub fn document(&self, object: &Object<'_>, json: &str, indexed_at: &str) -> Result<Document, ObjectError> {
        if self.projection.redacts_nothing() {
            let values = self.field_values(object);
            return Ok(self.encode(object, &values, &[], indexed_at));
        }
        let (redacted, removed) = self.projection.redacted(json)?;
        let object = Object::parse(redacted.get())?;
        let values = self.field_values(&object);
        Ok(self.encode(&object, &values, &removed, indexed_at))
    }

    fn encode(&self, object: &Object<'_>, values: &FieldValues<'_>, removed: &[&str], indexed_at: &str) -> Document {
        let raw: usize = object.rest.iter().map(|(key, value)| key.0.len() + value.get().len()).sum();
        let mut out = Vec::with_capacity(raw + METADATA_BYTES);
        out.extend_from_slice(&self.head);
        write_label_terms(&mut out, object);
        let leaves = self.leaf_terms(object);
        if leaves.room == 0 {
            write_key(&mut out, "rejected");
            write_text(&mut out, "it has too many fields to index all of them");
        }
        self.write_field_terms(&mut out, object, values, &leaves);
        self.write_sort_values(&mut out, values);
        write_list(&mut out, "owners", object.metadata.owners.iter().map(|uid| Cow::Borrowed(&**uid)));
        write_key(&mut out, "indexedAt");
        write_text(&mut out, indexed_at);
        let flat = if self.projection.is_full() { flat::unfit(object) } else { Vec::new() };
        write_native(&mut out, object, &flat);
        out.push(b'}');
        write_key(&mut out, "metadata");
        let hidden =
            object.rest.iter().filter(|(key, value)| self.hides(&key.0) && value.get() != "null").map(|(key, _)| &*key.0);
        let removed: Vec<String> =
            removed.iter().map(|path| (*path).to_owned()).chain(hidden.map(|key| format!("$.{key}"))).collect();
        write_metadata(&mut out, object, &removed.join(", "));
        for (key, value) in &object.rest {
            if OWN_KEYS.contains(&&*key.0) {
                continue;
            }
            if let Some((_, fit)) = flat.iter().find(|(name, _)| *name == key.0) {
                write_key(&mut out, &key.0);
                out.extend_from_slice(fit);
                continue;
            }
            write_key(&mut out, &key.0);
            if self.hides(&key.0) {
                write_hidden(&mut out, value);
            } else {
                out.extend_from_slice(value.get().as_bytes());
            }
        }
        out.push(b'}');
        Document { id: self.id(object.uid()), version: object.version(), body: out.into() }
    }

    /// Whether a top-level member is there with its keys only.
    fn hides(&self, key: &str) -> bool {
        self.hides_data && matches!(key, "data" | "stringData")
    }

    /// What the leaves of an object are found by, where every path is selectable.
    fn leaf_terms(&self, object: &Object<'_>) -> LeafTerms<'_> {
        let mut found = LeafTerms { projector: self, terms: Vec::new(), numbers: Vec::new(), room: MAX_LEAF_TERMS_BYTES };
        if self.projection.is_full() {
            object.leaves(&self.api_version, &self.kind, &mut found);
            // Elements of an array are often alike.
            for list in [&mut found.terms, &mut found.numbers] {
                list.sort_unstable();
                list.dedup();
            }
        }
        found
    }

    fn write_field_terms(&self, out: &mut Vec<u8>, object: &Object<'_>, values: &FieldValues<'_>, leaves: &LeafTerms<'_>) {
        let terms =
            values.0.iter().map(|(field, value)| Cow::Owned(format!("{}={}", self.fields[*field].path, stored_value(value))));
        write_list(out, "fields", terms);
        write_list(out, "leaves", leaves.terms.iter().map(|term| Cow::Borrowed(term.as_str())));
        let labels = object
            .labels()
            .filter_map(|(key, value)| number::parse_integer(value).map(|number| Cow::Owned(number::label_term(key, number))));
        let fields = values.0.iter().filter_map(|(field, value)| {
            let field = &self.fields[*field];
            let quantity = field.kind.holds_numbers().then(|| Quantity::parse(value)).flatten()?;
            Some(Cow::Owned(number::field_term(field.path.as_str(), quantity)))
        });
        let numbers = leaves.numbers.iter().map(|term| Cow::Borrowed(term.as_str()));
        write_list(out, "numbers", labels.chain(fields).chain(numbers));
    }

    /// The least value of each field, for ordering and grouping.
    fn write_sort_values(&self, out: &mut Vec<u8>, values: &FieldValues<'_>) {
        let mut any = false;
        for (position, field) in self.fields.iter().enumerate() {
            let own = values.0.iter().filter(|(of, _)| *of == position);
            let Some(least) = own.map(|(_, value)| sort_value(field.kind, value)).min() else { continue };
            if field.kind.reads_without_sort_value() == Some(sorted_value(&least)) {
                continue;
            }
            if !any {
                write_key(out, "sort");
                out.push(b'{');
                any = true;
            }
            write_key(out, &sort_field(&field.path));
            write_text(out, &least);
        }
        if any {
            out.push(b'}');
        }
    }
}

impl FieldValues<'_> {
    /// The first value of a field, by its position in [`Projector::fields`].
    pub fn get(&self, field: usize) -> Option<&str> {
        self.0.iter().find(|(position, _)| *position == field).map(|(_, value)| &**value)
    }
}

/// The terms of leaves that are not selectable fields anyhow.
struct LeafTerms<'p> {
    projector: &'p Projector,
    terms: Vec<String>,
    numbers: Vec<String>,
    /// Bytes that more of them may take; none when that was not enough.
    room: usize,
}

impl Leaves for LeafTerms<'_> {
    fn enters(&self, path: &str) -> bool {
        !self.projector.hides(path)
    }

    fn leaf(&mut self, path: &str, value: Cow<'_, str>) {
        if self.projector.fields.iter().any(|field| field.path.as_str() == path) {
            return;
        }
        self.room = self.room.saturating_sub(path.len() + value.len().min(MAX_FIELD_VALUE_BYTES));
        if self.room == 0 {
            return;
        }
        self.terms.push(format!("{path}={}", stored_value(&value)));
        self.numbers.extend(Quantity::parse(&value).map(|quantity| number::field_term(path, quantity)));
    }
}

/// The values below `metadata`, most of which is parsed already.
fn collect_metadata<'a>(tree: &PathTree, object: &Object<'a>, found: &mut Vec<(usize, Cow<'a, str>)>) {
    let metadata = &object.metadata;
    if let Some(annotations) = tree.child("annotations") {
        for (key, value) in metadata.annotations.0.iter().filter(|(key, _)| key.0 != LAST_APPLIED) {
            annotations.child(&key.0).into_iter().for_each(|tree| tree.collect(value, found));
        }
    }
    let labels = tree.child("labels").into_iter().flat_map(|labels| {
        metadata.labels.0.iter().filter_map(|(key, value)| Some((labels.child(&key.0)?.leaf()?, value.0.clone())))
    });
    found.extend(labels);
    for (name, text) in [("uid", &metadata.uid), ("resourceVersion", &metadata.resource_version)] {
        found.extend(tree.child(name).and_then(PathTree::leaf).map(|leaf| (leaf, text.0.clone())));
    }
    for (key, value) in &metadata.rest {
        tree.child(&key.0).into_iter().for_each(|tree| tree.collect(value, found));
    }
}

/// The value of a selectable field as a term holds it: whole, or unmistakably cut.
fn stored_value(value: &str) -> Cow<'_, str> {
    if value.len() <= MAX_FIELD_VALUE_BYTES {
        return Cow::Borrowed(value);
    }
    Cow::Owned(format!("{}{CUT_MARK}", number::cut(value, MAX_FIELD_VALUE_BYTES)))
}

fn write_label_terms(out: &mut Vec<u8>, object: &Object<'_>) {
    write_list(out, "labels", object.labels().map(|(key, value)| Cow::Owned(format!("{key}={value}"))));
    write_list(out, "labelKeys", object.labels().map(|(key, _)| Cow::Borrowed(key)));
}

/// Writes `"key":[…]`, or nothing when there is no item.
fn write_list<'i>(out: &mut Vec<u8>, key: &str, items: impl Iterator<Item = Cow<'i, str>>) {
    let mut any = false;
    for item in items {
        if any {
            out.push(b',');
        } else {
            write_key(out, key);
            out.push(b'[');
            any = true;
        }
        write_text(out, &item);
    }
    if any {
        out.push(b']');
    }
}

/// Members of the object whose names the document uses itself, and those that it holds only in part.
fn write_native(out: &mut Vec<u8>, object: &Object<'_>, partial: &[(&str, Vec<u8>)]) {
    let keys = OWN_KEYS.iter().chain(partial.iter().map(|(key, _)| key));
    let taken: Vec<_> = keys.filter_map(|key| object.member(key).map(|value| (*key, value))).collect();
    if taken.is_empty() {
        return;
    }
    write_key(out, "native");
    out.push(b'{');
    for (key, value) in taken {
        write_key(out, key);
        out.extend_from_slice(value.get().as_bytes());
    }
    out.push(b'}');
}

/// `redacted` says what is not stored of the object; empty: nothing.
fn write_metadata(out: &mut Vec<u8>, object: &Object<'_>, redacted: &str) {
    let metadata = &object.metadata;
    out.push(b'{');
    write_key(out, "name");
    write_text(out, &metadata.name.0);
    if let Some(namespace) = object.namespace() {
        write_key(out, "namespace");
        write_text(out, namespace);
    }
    for (key, text) in [("uid", &metadata.uid), ("resourceVersion", &metadata.resource_version)] {
        write_key(out, key);
        write_text(out, &text.0);
    }
    if !metadata.labels.0.is_empty() {
        write_key(out, "labels");
        out.push(b'{');
        for (key, value) in &metadata.labels.0 {
            write_key(out, &key.0);
            write_text(out, &value.0);
        }
        out.push(b'}');
    }
    let stored = |key: &str| key != LAST_APPLIED && (key != REDACTED_ANNOTATION || redacted.is_empty());
    let mut annotations = metadata.annotations.0.iter().filter(|(key, _)| stored(&key.0)).peekable();
    if annotations.peek().is_some() || !redacted.is_empty() {
        write_key(out, "annotations");
        out.push(b'{');
        for (key, value) in annotations {
            write_key(out, &key.0);
            out.extend_from_slice(value.get().as_bytes());
        }
        if !redacted.is_empty() {
            write_key(out, REDACTED_ANNOTATION);
            write_text(out, redacted);
        }
        out.push(b'}');
    }
    for (key, value) in &metadata.rest {
        write_key(out, &key.0);
        out.extend_from_slice(value.get().as_bytes());
    }
    out.push(b'}');
}

/// The keys of a Secret's data, each with an empty value.
fn write_hidden(out: &mut Vec<u8>, data: &RawValue) {
    let members: RawMembers<'_> = serde_json::from_str(data.get()).unwrap_or_default();
    out.push(b'{');
    for (key, _) in &members.0 {
        write_key(out, &key.0);
        out.extend_from_slice(b"\"\"");
    }
    out.push(b'}');
}

/// The annotation on every answered object that names its member. Source: Karmada's search API.
pub const CLUSTER_ANNOTATION: &str = "resource.karmada.io/cached-from-cluster";

/// The object of a document in its native shape, with [`CLUSTER_ANNOTATION`]; the reverse of [`Projector::document`].
pub fn restore(source: &RawValue) -> Result<(ClusterName, Box<RawValue>), serde_json::Error> {
    use serde::de::Error as _;
    let document: RawMembers<'_> = serde_json::from_str(source.get())?;
    let member = |members: &RawMembers<'_>, name: &str| {
        members.0.iter().find(|(key, _)| key.0 == name).map(|(_, value)| value.get().to_owned())
    };
    let cluster: ClusterName = match member(&document, "cluster") {
        Some(cluster) => serde_json::from_str(&cluster)?,
        None => return Err(serde_json::Error::missing_field("cluster")),
    };
    let search = member(&document, "search").unwrap_or_else(|| "{}".to_owned());
    let search: RawMembers<'_> = serde_json::from_str(&search)?;
    let native = member(&search, "native").unwrap_or_else(|| "{}".to_owned());
    let native: RawMembers<'_> = serde_json::from_str(&native)?;
    let mut out = Vec::with_capacity(source.get().len() + 64);
    out.push(b'{');
    for (key, value) in document.0.iter().filter(|(key, _)| !OWN_KEYS.contains(&&*key.0)) {
        if key.0 == "metadata" {
            let metadata = member(&native, "metadata").unwrap_or_else(|| value.get().to_owned());
            write_key(&mut out, "metadata");
            write_annotated(&mut out, &metadata, &cluster)?;
        } else {
            let whole = native.0.iter().find(|(name, _)| name.0 == key.0).map_or(value, |(_, whole)| whole);
            write_key(&mut out, &key.0);
            out.extend_from_slice(whole.get().as_bytes());
        }
    }
    let is_elsewhere = |key: &str| OWN_KEYS.contains(&key) || document.0.iter().all(|(name, _)| name.0 != key);
    for (key, value) in native.0.iter().filter(|(key, _)| is_elsewhere(&key.0)) {
        write_key(&mut out, &key.0);
        out.extend_from_slice(value.get().as_bytes());
    }
    out.push(b'}');
    let json = String::from_utf8(out).map_err(serde_json::Error::custom)?;
    Ok((cluster, RawValue::from_string(json)?))
}

/// Writes `metadata` with the annotation that names the member.
fn write_annotated(out: &mut Vec<u8>, metadata: &str, cluster: &ClusterName) -> Result<(), serde_json::Error> {
    let metadata: RawMembers<'_> = serde_json::from_str(metadata)?;
    out.push(b'{');
    for (key, value) in metadata.0.iter().filter(|(key, _)| key.0 != "annotations") {
        write_key(out, &key.0);
        out.extend_from_slice(value.get().as_bytes());
    }
    write_key(out, "annotations");
    out.push(b'{');
    if let Some((_, annotations)) = metadata.0.iter().find(|(key, _)| key.0 == "annotations") {
        let annotations: RawMembers<'_> = serde_json::from_str(annotations.get())?;
        for (key, value) in annotations.0.iter().filter(|(key, _)| key.0 != CLUSTER_ANNOTATION) {
            write_key(out, &key.0);
            out.extend_from_slice(value.get().as_bytes());
        }
    }
    write_key(out, CLUSTER_ANNOTATION);
    write_text(out, cluster.as_str());
    out.extend_from_slice(b"}}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{FieldPath, Gvk};
    use serde_json::{Value, json};

    fn resource(api_version: &str, kind: &str, plural: &str) -> Resource {
        Resource { gvk: Gvk::from_api_version(api_version, kind), plural: plural.into(), namespaced: true }
    }

    fn text_field(path: &str) -> SelectableField {
        SelectableField { path: FieldPath::new(path), sources: vec![FieldPath::new(path)], kind: FieldType::Text }
    }

    fn encode(resource: &Resource, projection: &Projection, fields: &[SelectableField], object: &Value) -> (Document, Value) {
        let json = object.to_string();
        let projector = Projector::new(&"member1".parse().unwrap(), resource, projection, fields);
        let parsed = Object::parse(&json).unwrap();
        let document = projector.document(&parsed, &json, "2026-01-01T00:00:00Z").unwrap();
        let body = serde_json::from_slice(&document.body).unwrap();
        (document, body)
    }

    #[test]
    fn a_pod_keeps_its_shape_and_gains_what_searching_needs() {
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "web-1", "namespace": "shop", "uid": "u1", "resourceVersion": "7",
                "labels": {"app": "web", "app.kubernetes.io/part-of": "shop", "tier": "3"},
                "annotations": {LAST_APPLIED: "{secret}", "note": "a\"b"},
                "ownerReferences": [{"kind": "ReplicaSet", "uid": "rs1"}],
                "managedFields": [{"manager": "x"}], "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"nodeName": "n1", "containers": [{"name": "a"}]}, "status": {"phase": "Running"}});
        let fields = [text_field("spec.nodeName"), text_field("status.phase"), text_field("spec.schedulerName")];
        let (document, body) = encode(&resource("v1", "Pod", "pods"), &Projection::default(), &fields, &pod);
        assert_eq!(&*document.id, "v1/Pod/u1");
        assert_eq!(document.version.get(), 7);
        assert_eq!(body["spec"], pod["spec"]);
        assert_eq!(body["status"], pod["status"]);
        assert_eq!(body["cluster"], "member1");
        assert_eq!(body["metadata"]["annotations"], json!({"note": "a\"b"}));
        assert!(body["metadata"].get("managedFields").is_none());
        assert_eq!(body["search"]["labels"], json!(["app=web", "app.kubernetes.io/part-of=shop", "tier=3"]));
        assert_eq!(body["search"]["labelKeys"], json!(["app", "app.kubernetes.io/part-of", "tier"]));
        assert_eq!(body["search"]["fields"], json!(["spec.nodeName=n1", "status.phase=Running", "spec.schedulerName="]));
        assert_eq!(body["search"]["numbers"], json!([number::label_term("tier", 3)]));
        assert_eq!(body["search"]["owners"], json!(["rs1"]));
    }

    #[test]
    fn a_secret_keeps_its_keys_and_loses_its_values() {
        let secret = json!({"metadata": {"name": "s", "uid": "u", "resourceVersion": "1"},
            "data": {"password": "aHVudGVyMg=="}, "stringData": {"k": "v"}, "type": "Opaque"});
        let (document, body) = encode(&resource("v1", "Secret", "secrets"), &Projection::default(), &[], &secret);
        assert_eq!(body["data"], json!({"password": ""}));
        assert_eq!(body["stringData"], json!({"k": ""}));
        assert_eq!(body["type"], "Opaque");
        assert_eq!(body["metadata"]["annotations"], json!({REDACTED_ANNOTATION: "$.data, $.stringData"}));
        assert!(!String::from_utf8_lossy(&document.body).contains("aHVudGVyMg"));
    }

    #[test]
    fn fields_below_metadata_are_found_too() {
        let object = json!({"metadata": {"name": "s", "uid": "u", "resourceVersion": "7", "generation": 3,
            "labels": {"app": "web"}, "annotations": {"a.b/c": "x", LAST_APPLIED: "{}"}}});
        let paths = [
            "metadata.annotations['a.b/c']",
            "metadata.labels.app",
            "metadata.generation",
            "metadata.uid",
            "metadata.annotations['kubectl.kubernetes.io/last-applied-configuration']",
        ];
        let projection = Projection::new(&[], &paths.map(FieldPath::new)).unwrap();
        let (_, body) = encode(&resource("x.io/v1", "Foo", "foos"), &projection, &[], &object);
        let expected = ["metadata.annotations['a.b/c']=x", "metadata.labels.app=web", "metadata.generation=3", "metadata.uid=u"];
        assert_eq!(body["search"]["fields"], json!(expected));
        let number = number::field_term("metadata.generation", Quantity::from(3));
        assert_eq!(body["search"]["numbers"], json!([number]));
        let sorts = json!({"metadata/annotations['a/b//c']": "=x", "metadata/labels/app": "=web", "metadata/uid": "=u",
            "metadata/generation": format!("#{}=3", Quantity::from(3).ordered())});
        assert_eq!(body["search"]["sort"], sorts);
    }

    #[test]
    fn redactions_reach_selectable_fields_too() {
        let object = json!({"metadata": {"name": "s", "uid": "u", "resourceVersion": "1"}, "spec": {"token": "t0p", "a": 1}});
        let projection =
            Projection::new(&["spec.token".to_owned()], &[FieldPath::new("spec.token"), FieldPath::new("spec.a")]).unwrap();
        let (document, body) = encode(&resource("x.io/v1", "Foo", "foos"), &projection, &[], &object);
        assert_eq!(body["spec"], json!({"a": 1}));
        assert_eq!(body["metadata"]["annotations"], json!({REDACTED_ANNOTATION: "$.spec.token"}));
        assert_eq!(body["search"]["fields"], json!(["spec.a=1"]));
        assert!(!String::from_utf8_lossy(&document.body).contains("t0p"));
    }

    #[test]
    fn a_cut_value_is_longer_than_any_value_that_a_query_may_ask_for() {
        let longest = "x".repeat(MAX_FIELD_VALUE_BYTES);
        assert_eq!(stored_value(&longest), longest);
        // The cut falls within a character of four bytes, or between two characters.
        for start in ["", "x", "xx", "xxx"] {
            let value = format!("{start}{}", "🚀".repeat(MAX_FIELD_VALUE_BYTES / 4 + 1));
            let stored = stored_value(&value);
            assert!(stored.len() > MAX_FIELD_VALUE_BYTES && stored.ends_with(" (cut)"), "{stored}");
        }
    }

    #[test]
    fn sources_are_tried_in_order() {
        let source = SelectableField {
            path: FieldPath::new("source"),
            sources: vec![FieldPath::new("source.component"), FieldPath::new("reportingComponent")],
            kind: FieldType::Text,
        };
        let meta = json!({"name": "e", "uid": "u", "resourceVersion": "1"});
        let events = resource("v1", "Event", "events");
        for (object, expected) in [
            (json!({"metadata": meta, "reportingComponent": "r", "source": {"component": "c"}}), "source=c"),
            (json!({"metadata": meta, "reportingComponent": "r", "source": {}}), "source=r"),
            (json!({"metadata": meta}), "source="),
        ] {
            let (_, body) = encode(&events, &Projection::default(), std::slice::from_ref(&source), &object);
            assert_eq!(body["search"]["fields"], json!([expected]));
        }
    }

    #[test]
    fn two_fields_may_read_the_same_source() {
        let reporter = FieldPath::new("reportingComponent");
        let field = |path: &str, sources: &[&FieldPath]| SelectableField {
            path: FieldPath::new(path),
            sources: sources.iter().map(|source| (*source).clone()).collect(),
            kind: FieldType::Text,
        };
        let fields =
            [field("reportingComponent", &[&reporter]), field("source", &[&FieldPath::new("source.component"), &reporter])];
        let object = json!({"metadata": {"name": "e", "uid": "u", "resourceVersion": "1"}, "reportingComponent": "r"});
        let (_, body) = encode(&resource("v1", "Event", "events"), &Projection::default(), &fields, &object);
        assert_eq!(body["search"]["fields"], json!(["reportingComponent=r", "source=r"]));
    }

    #[test]
    fn members_named_like_ours_come_back_in_answers() {
        let object = json!({"apiVersion": "x.io/v1", "kind": "Foo", "metadata": {"name": "s", "uid": "u", "resourceVersion": "1"},
            "cluster": {"a": 1}, "search": "mine", "data": [1]});
        let (document, body) = encode(&resource("x.io/v1", "Foo", "foos"), &Projection::default(), &[], &object);
        assert_eq!(body["cluster"], "member1");
        let source: Box<RawValue> = serde_json::from_slice(&document.body).unwrap();
        let (cluster, restored) = restore(&source).unwrap();
        assert_eq!(cluster.as_str(), "member1");
        let mut expected = object.clone();
        expected["metadata"]["annotations"] = json!({CLUSTER_ANNOTATION: "member1"});
        assert_eq!(serde_json::from_str::<Value>(restored.get()).unwrap(), expected);
    }

    #[test]
    fn a_fallback_document_indexes_only_identity_and_loses_nothing() {
        let object = json!({"apiVersion": "x.io/v1", "kind": "Foo", "metadata": {"name": "s", "namespace": "n", "uid": "u", "resourceVersion": "1",
            "labels": {"a": "b"}, "creationTimestamp": "odd"}, "search": 1, "spec": {"x": "y"}});
        let (document, _) = encode(&resource("x.io/v1", "Foo", "foos"), &Projection::default(), &[], &object);
        let body =
            crate::model::fallback(&document.body, crate::model::Shape::Unindexed, "mapper_parsing_exception: odd").unwrap();
        let parsed: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(parsed["search"]["rejected"], "mapper_parsing_exception: odd");
        assert_eq!(parsed["metadata"], json!({"name": "s", "namespace": "n", "uid": "u", "resourceVersion": "1"}));
        assert!(parsed.get("spec").is_none());
        let source: Box<RawValue> = serde_json::from_slice(&body).unwrap();
        let (_, restored) = restore(&source).unwrap();
        let mut expected = object.clone();
        expected["metadata"]["annotations"] = json!({CLUSTER_ANNOTATION: "member1"});
        assert_eq!(serde_json::from_str::<Value>(restored.get()).unwrap(), expected);
    }

    #[test]
    fn an_id_too_long_for_the_store_becomes_a_hash() {
        let projector = Projector::new(&"m".parse().unwrap(), &resource("v1", "Pod", "pods"), &Projection::default(), &[]);
        assert_eq!(projector.id(&"u".repeat(600)).len(), 64);
    }

    #[test]
    fn an_object_without_identity_is_refused() {
        for (json, missing) in [
            (r#"{"metadata":{"uid":"u","resourceVersion":"1"}}"#, "name"),
            (r#"{"metadata":{"name":"n","resourceVersion":"1"}}"#, "uid"),
        ] {
            assert!(Object::parse(json).unwrap_err().to_string().contains(missing));
        }
        assert!(Object::parse(r#"{"metadata":{"name":"n","uid":"u","resourceVersion":"x"}}"#).is_err());
        assert!(Object::parse("[]").is_err());
    }
}
