//! Builds documents from objects: the native object, and the terms that queries search.

use std::{borrow::Cow, cell::RefCell, sync::Arc};

use bytes::Bytes;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{
    ClusterName, FieldPath, FieldType, Interpret, LeafVisitor, NameHash, Object, ObjectError,
    Projection, Quantity, Resource, SelectableField, Version,
    annotations::without_hidden_values,
    flat, hex,
    index_fields::{self, members},
    interpreted_fields, is_interpreted_field,
    json::{RawMembers, write_joined, write_key, write_text},
    json_line::JsonLine,
    json_tree::JsonTree,
    member_mask::MemberMask,
    number, quantity,
    sort_key::{OrderedValue, sort_field},
    well_known::{DOCUMENT_KEYS, LAST_APPLIED, MAX_FIELD_VALUE_BYTES, REDACTED_ANNOTATION},
};
use crate::planted::{Bug, planted};

mod restore;

pub use restore::{HitSource, Restored};

/// `OpenSearch` refuses ids of more than 512 bytes; the rest is for the partition of a shared index.
const MAX_ID_BYTES: usize = 480;
/// Bytes of the terms of one object's leaves, with their paths. The largest objects, definitions of custom resources with a megabyte of schema, have a
/// few megabytes; an object that is built to have more would have hundreds.
const MAX_LEAF_TERMS_BYTES: usize = 16 << 20;
/// Room that a thread keeps for the next document.
const MAX_SCRATCH_BYTES: usize = 64 << 10;

thread_local! {
    /// Documents are written here and then copied, so that those that wait take no more memory than they have bytes: their lengths are not known before.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}
/// Ends a cut value. Even if the cut removes three more bytes to keep a character whole, the value stays longer than any value of a
/// query, so that no query matches a cut value.
const CUT_MARK: &str = " (cut)";

/// Whether a top-level member of an object is stored in `search.native`: its name is one of [`DOCUMENT_KEYS`] or has a dot.
///
/// `OpenSearch` reads a name with a dot as a path, also at the top: `search.resource` would add a value to the field that every query
/// trusts, and `metadata.namespace` a namespace. API servers keep such members of custom resources whose schema preserves unknown fields.
/// Within `metadata` and below other members a dot leads to no field that queries trust, so these members stay where they are.
fn is_set_aside(name: &str) -> bool {
    DOCUMENT_KEYS.contains(&name) || name.contains('.')
}

/// One version of a document, ready to be written.
#[derive(Clone, Debug)]
pub struct Document {
    /// `<apiVersion>/<kind>/<uid>`, or a hash of it.
    pub id: Arc<str>,
    /// The object's resource version; for a deletion, that of the deletion.
    pub version: Version,
    /// The document; absent: it is to be deleted.
    pub body: Option<JsonLine>,
    /// Whether `search.rejected` is set, because queries cannot find the document by all of the object.
    pub is_partial: bool,
}

impl Document {
    /// The deletion of a document.
    pub fn deletion(id: Arc<str>, version: Version) -> Self {
        Self {
            id,
            version,
            body: None,
            is_partial: false,
        }
    }
}

/// The values of an object's selectable fields, in the order of its [`Projector::fields`].
pub struct FieldValues<'a>(Vec<(usize, Cow<'a, str>)>);

/// Builds the documents of the objects of one resource of one cluster.
#[derive(Clone, Debug)]
pub struct Projector {
    projection: Projection,
    fields: Arc<[SelectableField]>,
    /// How each field is read and sorted.
    readings: Vec<FieldReading>,
    /// What fields and the interpreter read.
    mask: MemberMask,
    /// How many fields are read from the object; those of the interpretation follow.
    native_fields: usize,
    /// `{"apiVersion":…,"kind":…,"cluster":…,"search":{"resource":…,"group":…`, and `"rulesHash":…` if it has one
    head: Vec<u8>,
    id_prefix: String,
    hides_data: bool,
    api_version: String,
    kind: String,
    interpreter: Option<Arc<dyn Interpret>>,
}

impl Projector {
    /// A projector for one resource of one cluster. `fields` are the kind's selectable fields without `metadata.name` and
    /// `metadata.namespace`, which every document has under their own paths.
    pub fn new(
        cluster: &ClusterName,
        resource: &Resource,
        projection: &Projection,
        fields: &[SelectableField],
    ) -> Self {
        let extra = projection
            .field_paths()
            .iter()
            .filter(|path| fields.iter().all(|field| field.path != **path))
            .map(SelectableField::optional);
        let fields: Arc<[SelectableField]> = fields
            .iter()
            .filter(|field| !field.path.as_str().starts_with("metadata.name"))
            .cloned()
            .chain(extra)
            .collect();
        let (readings, mask) = read_by(&fields);
        let gvk = &resource.gvk;
        let api_version = gvk.api_version();
        let mut head = b"{".to_vec();
        for (key, value) in [
            (index_fields::API_VERSION, api_version.as_str()),
            (index_fields::KIND, &*gvk.kind),
            (index_fields::CLUSTER, cluster.as_str()),
        ] {
            write_key(&mut head, key);
            write_text(&mut head, value);
        }
        write_key(&mut head, index_fields::SEARCH);
        head.push(b'{');
        for (key, value) in [
            (members::RESOURCE, &resource.plural),
            (members::GROUP, &gvk.group),
        ] {
            write_key(&mut head, key);
            write_text(&mut head, value);
        }
        Self {
            projection: projection.clone(),
            native_fields: fields.len(),
            fields,
            readings,
            mask,
            head,
            id_prefix: format!("{api_version}/{}/", gvk.kind),
            kind: gvk.kind.to_string(),
            hides_data: gvk.group.is_empty() && &*gvk.kind == "Secret",
            api_version,
            interpreter: None,
        }
    }

    /// The same, with what an interpreter says of each object. Its fields take the place of others of the same names.
    #[must_use]
    pub fn interpreted_by(mut self, interpreter: Arc<dyn Interpret>) -> Self {
        let native = self.fields.iter();
        let native = native.filter(|field| !is_interpreted_field(field.path.as_str()));
        let native: Vec<SelectableField> = native.cloned().collect();
        self.native_fields = native.len();
        let interpreted = interpreted_fields().iter().cloned();
        self.fields = native.into_iter().chain(interpreted).collect();
        (self.readings, self.mask) = read_by(&self.fields);
        self.mask.unite(interpreter.reads());
        self.interpreter = Some(interpreter);
        self
    }

    /// The same, with a hash of the rules by which documents are made, which each of them names.
    #[must_use]
    pub fn made_by(mut self, rules_hash: &str) -> Self {
        write_key(&mut self.head, members::RULES_HASH);
        write_text(&mut self.head, rules_hash);
        self
    }

    /// The selectable fields of the documents, without `metadata.name` and `metadata.namespace`.
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

    /// The start of the ids of its documents, unless they are hashes.
    pub fn id_prefix(&self) -> &str {
        &self.id_prefix
    }

    /// The hash of an object's name, for comparison with objects of its kind.
    pub fn name(&self, namespace: &str, name: &str) -> NameHash {
        NameHash::new(&self.id_prefix, namespace, name)
    }

    /// The values of an object's selectable fields.
    pub fn field_values<'a>(&self, object: &Object<'a>) -> FieldValues<'a> {
        let shown = self.without_hidden_data(object);
        self.values_in(&shown.tree("", "", &self.mask))
    }

    fn values_in<'a>(&self, object: &JsonTree<'a>) -> FieldValues<'a> {
        let mut values = Vec::with_capacity(self.fields.len());
        for position in 0..self.fields.len() {
            self.values_of(position, object, &mut values);
        }
        FieldValues(values)
    }

    /// Appends the values of one field: those of the first source that has any, else the value that an absent field reads.
    fn values_of<'a>(
        &self,
        field: usize,
        object: &JsonTree<'a>,
        values: &mut Vec<(usize, Cow<'a, str>)>,
    ) {
        for source in &self.readings[field].sources {
            let before = values.len();
            object.texts_at(source, &mut |text| {
                if !text.is_empty() {
                    values.push((field, text));
                }
            });
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

    /// The document of an object, with what its interpreter says. `indexed_at` is an RFC 3339 time. Where the projection redacts anything, the redacted
    /// text is parsed once more.
    pub fn document(&self, object: &Object<'_>, indexed_at: &str) -> Result<Document, ObjectError> {
        self.document_by(object, self.interpreter.as_deref(), indexed_at)
    }

    /// The document of an object, with what another interpreter says, which reads no more than the projector's own, or everything.
    pub fn document_by(
        &self,
        object: &Object<'_>,
        interpreter: Option<&dyn Interpret>,
        indexed_at: &str,
    ) -> Result<Document, ObjectError> {
        let details = DocumentDetails {
            interpreter,
            indexed_at,
        };
        if self.projection.redacts_nothing() {
            return Ok(self.without_hidden_values(object, Vec::new(), details));
        }
        let (redacted, removed) = self
            .projection
            .redacted(object.json)
            .map_err(ObjectError::Unredactable)?;
        let removed = removed.into_iter().map(str::to_owned).collect();
        Ok(self.without_hidden_values(&Object::parse(redacted.get())?, removed, details))
    }

    /// The document of an object that cannot be stored: its identity, and the reason.
    pub fn identity(&self, object: &Object<'_>, reason: &str, indexed_at: &str) -> Document {
        let mut out = self.head.clone();
        write_key(&mut out, members::REJECTED);
        write_text(&mut out, &number::cut(reason, MAX_FIELD_VALUE_BYTES));
        write_key(&mut out, members::INDEXED_AT);
        write_text(&mut out, indexed_at);
        out.push(b'}');
        write_key(&mut out, "metadata");
        write_metadata(&mut out, &object.identity(), "$");
        out.push(b'}');
        Document {
            id: self.id(object.uid()),
            version: object.version(),
            body: Some(JsonLine::new(out)),
            is_partial: true,
        }
    }

    /// `removed`: the paths of the values that redactions have removed.
    fn without_hidden_values(
        &self,
        object: &Object<'_>,
        mut removed: Vec<String>,
        details: DocumentDetails<'_>,
    ) -> Document {
        let hidden = object
            .rest
            .iter()
            .filter(|(key, value)| self.hides(&key.0) && value.get() != "null");
        removed.extend(hidden.map(|(key, _)| format!("$.{}", key.0)));
        match without_hidden_values(object, self.hides_data) {
            Some((stripped, paths)) => {
                removed.extend(paths);
                self.encode(&stripped, &removed, details)
            }
            None => self.encode(object, &removed, details),
        }
    }

    fn encode(
        &self,
        object: &Object<'_>,
        removed: &[String],
        details: DocumentDetails<'_>,
    ) -> Document {
        let shown = self.without_hidden_data(object);
        let mask = match details.interpreter.map(Interpret::reads) {
            Some(reads) if reads.is_everything() => reads,
            _ => &self.mask,
        };
        let tree = shown.tree(&self.api_version, &self.kind, mask);
        let interpretation = details
            .interpreter
            .map(|interpreter| interpreter.interpret(&tree));
        let mut values = self.values_in(&tree);
        if let Some(interpretation) = &interpretation {
            let first = self.native_fields;
            interpretation.for_each_value(|field, value| values.0.push((first + field, value)));
        }
        let values = &values;
        let mut out = SCRATCH.take();
        out.extend_from_slice(&self.head);
        write_label_terms(&mut out, object);
        let leaves = self.leaf_terms(object);
        let is_partial = leaves.room == 0;
        if is_partial {
            write_key(&mut out, members::REJECTED);
            write_text(&mut out, "it has too many fields to index all of them");
        }
        self.write_field_terms(&mut out, object, values, &leaves);
        self.write_sort_keys(&mut out, values);
        write_owners(&mut out, object);
        write_annotation_keys(&mut out, object);
        if let Some(interpretation) = &interpretation {
            interpretation.write(&mut out);
        }
        write_key(&mut out, members::INDEXED_AT);
        write_text(&mut out, details.indexed_at);
        let flat = if self.projection.is_full() {
            flat::unfit(object)
        } else {
            Vec::new()
        };
        write_native(&mut out, object, &flat);
        out.push(b'}');
        write_key(&mut out, "metadata");
        write_metadata(&mut out, object, &removed.join(", "));
        for (key, value) in &object.rest {
            if is_set_aside(&key.0)
                && !(planted(Bug::TrustMemberCluster) && key.0 == index_fields::CLUSTER)
            {
                continue;
            }
            if let Some((_, fit)) = flat.iter().find(|(name, _)| *name == key.0) {
                write_key(&mut out, &key.0);
                out.extend_from_slice(fit);
                continue;
            }
            write_key(&mut out, &key.0);
            if self.hides(&key.0) {
                write_hidden(&mut out, value.get());
            } else {
                out.extend_from_slice(value.get().as_bytes());
            }
        }
        out.push(b'}');
        let body = Bytes::copy_from_slice(&out);
        if out.capacity() <= MAX_SCRATCH_BYTES {
            out.clear();
            SCRATCH.set(out);
        }
        Document {
            id: self.id(object.uid()),
            version: object.version(),
            body: Some(JsonLine::new(body)),
            is_partial,
        }
    }

    /// An object as it is stored, without what is redacted or hidden.
    pub fn stored_value(&self, object: &Object<'_>) -> Result<Value, ObjectError> {
        if self.projection.redacts_nothing() {
            return Ok(self.shown_value(object));
        }
        let (redacted, _) = self
            .projection
            .redacted(object.json)
            .map_err(ObjectError::Unredactable)?;
        Ok(self.shown_value(&Object::parse(redacted.get())?))
    }

    fn shown_value(&self, object: &Object<'_>) -> Value {
        let stripped = without_hidden_values(object, self.hides_data);
        let object = stripped.as_ref().map_or(object, |(stripped, _)| stripped);
        let shown = self.without_hidden_data(object);
        (&shown.tree(&self.api_version, &self.kind, MemberMask::everything())).into()
    }

    /// An object without the members that are stored with their keys only.
    fn without_hidden_data<'o, 'a>(&self, object: &'o Object<'a>) -> Cow<'o, Object<'a>> {
        if !self.hides_data {
            return Cow::Borrowed(object);
        }
        let mut shown = object.clone();
        shown.rest.retain(|(key, _)| !self.hides(&key.0));
        Cow::Owned(shown)
    }

    /// Whether a top-level member is stored with its keys only.
    fn hides(&self, key: &str) -> bool {
        self.hides_data && matches!(key, "data" | "stringData")
    }

    /// The terms of the leaves of an object; none unless every path is selectable.
    fn leaf_terms(&self, object: &Object<'_>) -> LeafTerms<'_> {
        let mut found = LeafTerms {
            projector: self,
            terms: Vec::new(),
            numbers: Vec::new(),
            room: MAX_LEAF_TERMS_BYTES,
        };
        if self.projection.is_full() {
            object.leaves(&self.api_version, &self.kind, &mut found);
            // Elements of an array are often equal.
            for list in [&mut found.terms, &mut found.numbers] {
                list.sort_unstable();
                list.dedup();
            }
        }
        found
    }

    fn write_field_terms(
        &self,
        out: &mut Vec<u8>,
        object: &Object<'_>,
        values: &FieldValues<'_>,
        leaves: &LeafTerms<'_>,
    ) {
        write_items(
            out,
            members::FIELDS,
            values.0.iter(),
            |out, (field, value)| {
                let path = self.fields[*field].path.as_str();
                write_joined(out, &[path, "=", &stored_value(value)]);
            },
        );
        write_list(
            out,
            members::LEAVES,
            leaves.terms.iter().map(|term| Cow::Borrowed(term.as_str())),
        );
        let labels = object.labels().filter_map(|(key, value)| {
            number::parse_integer(value).map(|number| Cow::Owned(number::label_term(key, number)))
        });
        let fields = values.0.iter().filter_map(|(field, value)| {
            let field = &self.fields[*field];
            let quantity = field
                .kind
                .holds_numbers()
                .then(|| Quantity::parse(value))
                .flatten()?;
            Some(Cow::Owned(quantity::field_term(
                field.path.as_str(),
                quantity,
            )))
        });
        let numbers = leaves
            .numbers
            .iter()
            .map(|term| Cow::Borrowed(term.as_str()));
        write_list(out, members::NUMBERS, labels.chain(fields).chain(numbers));
    }

    /// Writes the least value of each field, for sorting and grouping.
    fn write_sort_keys(&self, out: &mut Vec<u8>, values: &FieldValues<'_>) {
        let mut any = false;
        for of_field in values.0.chunk_by(|one, next| one.0 == next.0) {
            let position = of_field[0].0;
            let field = &self.fields[position];
            let keys = of_field.iter();
            let keys = keys.map(|(_, value)| OrderedValue::of(field.kind, value));
            let Some(least) = keys.min() else {
                continue;
            };
            if field.kind.reads_without_sort_key() == Some(least.value()) {
                continue;
            }
            if !any {
                write_key(out, members::SORT);
                out.push(b'{');
                any = true;
            }
            write_key(out, &self.readings[position].sort_key);
            least.with_key_parts(|parts| write_joined(out, parts));
        }
        if any {
            out.push(b'}');
        }
    }
}

/// What a document has besides its object.
#[derive(Clone, Copy)]
struct DocumentDetails<'d> {
    /// Says what the object means.
    interpreter: Option<&'d dyn Interpret>,
    indexed_at: &'d str,
}

/// How a field is read and sorted.
#[derive(Clone, Debug)]
struct FieldReading {
    /// The names of the members on the way to each of its sources.
    sources: Vec<Vec<Box<str>>>,
    /// Its key in `search.sort`.
    sort_key: String,
}

/// How fields are read and sorted, and the members that are read for them.
fn read_by(fields: &[SelectableField]) -> (Vec<FieldReading>, MemberMask) {
    let mut mask = MemberMask::default();
    let mut names = |path: &FieldPath| {
        mask.add(path.segments());
        path.segments().map(Box::from).collect()
    };
    let readings = fields
        .iter()
        .map(|field| FieldReading {
            sources: field.sources.iter().map(&mut names).collect(),
            sort_key: sort_field(&field.path),
        })
        .collect();
    (readings, mask)
}

impl FieldValues<'_> {
    /// The first value of a field, by its position in [`Projector::fields`].
    pub fn get(&self, field: usize) -> Option<&str> {
        self.all(field).next()
    }

    /// Every value of a field, by its position in [`Projector::fields`].
    pub fn all(&self, field: usize) -> impl Iterator<Item = &str> {
        self.0
            .iter()
            .filter(move |(position, _)| *position == field)
            .map(|(_, value)| &**value)
    }
}

/// The terms of leaves that are not selectable fields already.
struct LeafTerms<'p> {
    projector: &'p Projector,
    terms: Vec<String>,
    numbers: Vec<String>,
    /// Bytes left for more terms; 0 once they did not suffice.
    room: usize,
}

impl LeafVisitor for LeafTerms<'_> {
    fn enters(&self, path: &str) -> bool {
        !self.projector.hides(path)
    }

    fn leaf(&mut self, path: &str, value: Cow<'_, str>) {
        if self
            .projector
            .fields
            .iter()
            .any(|field| field.path.as_str() == path)
        {
            return;
        }
        self.room = self
            .room
            .saturating_sub(path.len() + value.len().min(MAX_FIELD_VALUE_BYTES));
        if self.room == 0 {
            return;
        }
        self.terms.push(format!("{path}={}", stored_value(&value)));
        self.numbers
            .extend(Quantity::parse(&value).map(|quantity| quantity::field_term(path, quantity)));
    }
}

/// The value of a selectable field in a term: whole, or cut with a mark.
fn stored_value(value: &str) -> Cow<'_, str> {
    if value.len() <= MAX_FIELD_VALUE_BYTES {
        return Cow::Borrowed(value);
    }
    Cow::Owned(format!(
        "{}{CUT_MARK}",
        number::cut(value, MAX_FIELD_VALUE_BYTES)
    ))
}

fn write_label_terms(out: &mut Vec<u8>, object: &Object<'_>) {
    write_items(
        out,
        members::LABELS,
        object.labels(),
        |out, (key, value)| {
            write_joined(out, &[key, "=", value]);
        },
    );
    write_list(
        out,
        members::LABEL_KEYS,
        object.labels().map(|(key, _)| Cow::Borrowed(key)),
    );
}

fn write_owners(out: &mut Vec<u8>, object: &Object<'_>) {
    let owners = &object.metadata.owners;
    let uids = owners.iter().map(|owner| Cow::Borrowed(&*owner.uid.0));
    write_list(out, members::OWNERS, uids);
    let named = owners.iter().map(|owner| &*owner.name.0);
    let names = named.filter(|name| is_indexed(name)).map(Cow::Borrowed);
    write_list(out, members::OWNER_NAMES, names);
}

/// Whether a text is searched by words. Kubernetes does not limit the names of owners, and OpenSearch refuses a document with a term of 32 KiB.
fn is_indexed(text: &str) -> bool {
    (1..=MAX_FIELD_VALUE_BYTES).contains(&text.len())
}

fn write_annotation_keys(out: &mut Vec<u8>, object: &Object<'_>) {
    let annotations = object.metadata.annotations.0.iter();
    let keys = annotations.map(|(key, _)| &*key.0);
    let shown =
        keys.filter(|key| is_indexed(key) && ![LAST_APPLIED, REDACTED_ANNOTATION].contains(key));
    write_list(out, members::ANNOTATION_KEYS, shown.map(Cow::Borrowed));
}

/// Writes `"key":[…]`, or nothing without an item.
fn write_list<'i>(out: &mut Vec<u8>, key: &str, items: impl Iterator<Item = Cow<'i, str>>) {
    write_items(out, key, items, |out, item| write_text(out, &item));
}

/// Writes `"key":[…]`; nothing if there are no items.
fn write_items<T>(
    out: &mut Vec<u8>,
    key: &str,
    items: impl Iterator<Item = T>,
    write_item: impl Fn(&mut Vec<u8>, T),
) {
    let mut any = false;
    for item in items {
        if any {
            out.push(b',');
        } else {
            write_key(out, key);
            out.push(b'[');
            any = true;
        }
        write_item(out, item);
    }
    if any {
        out.push(b']');
    }
}

/// Writes the members of the object that [are set aside](is_set_aside), and those that the document indexes only in part.
fn write_native(out: &mut Vec<u8>, object: &Object<'_>, partial: &[(&str, Vec<u8>)]) {
    let is_native = |key: &str| is_set_aside(key) || partial.iter().any(|(name, _)| *name == key);
    let mut written = object
        .rest
        .iter()
        .filter(|(key, _)| is_native(&key.0))
        .peekable();
    if written.peek().is_none() {
        return;
    }
    write_key(out, members::NATIVE);
    out.push(b'{');
    for (key, value) in written {
        write_key(out, &key.0);
        out.extend_from_slice(value.get().as_bytes());
    }
    out.push(b'}');
}

/// `redacted` lists what is not stored of the object; empty: nothing.
fn write_metadata(out: &mut Vec<u8>, object: &Object<'_>, redacted: &str) {
    let metadata = &object.metadata;
    out.push(b'{');
    write_key(out, "name");
    write_text(out, &metadata.name.0);
    if let Some(namespace) = object.namespace() {
        write_key(out, "namespace");
        write_text(out, namespace);
    }
    for (key, text) in [
        ("uid", &metadata.uid),
        ("resourceVersion", &metadata.resource_version),
    ] {
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
    let stored =
        |key: &str| key != LAST_APPLIED && (key != REDACTED_ANNOTATION || redacted.is_empty());
    let mut annotations = metadata
        .annotations
        .0
        .iter()
        .filter(|(key, _)| stored(&key.0))
        .peekable();
    if annotations.peek().is_some() || !redacted.is_empty() {
        write_key(out, "annotations");
        out.push(b'{');
        for (key, value) in annotations {
            write_key(out, &key.0);
            // Kubernetes reads null as the empty text.
            let written = if value.get() == "null" {
                "\"\""
            } else {
                value.get()
            };
            out.extend_from_slice(written.as_bytes());
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

/// Writes the keys of a Secret's data, each with an empty value.
fn write_hidden(out: &mut Vec<u8>, data: &str) {
    let members = RawMembers::parse(data).unwrap_or_default();
    out.push(b'{');
    for (key, _) in &members.0 {
        write_key(out, &key.0);
        out.extend_from_slice(b"\"\"");
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests;
