//! Builds the documents of the objects of one resource of one cluster.

use std::{borrow::Cow, cell::RefCell, sync::Arc};

use bytes::Bytes;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{
    Document,
    field_values::{FieldReading, FieldValues, read_by},
    leaf_terms::{LeafTerms, is_data},
    members::{is_set_aside, write_hidden, write_metadata, write_native},
    terms::{
        write_annotation_keys, write_field_terms, write_label_terms, write_owners, write_sort_keys,
    },
};
use crate::{
    model::{
        ClusterName, Interpret, MAX_FIELD_VALUE_BYTES, NameHash, Object, ObjectError, Projection,
        Resource, SelectableField,
        annotations::without_hidden_values,
        flat, hex,
        index_fields::{self, members},
        interpreted_fields, is_interpreted_field,
        json::{write_key, write_text, write_text_member},
        json_line::JsonLine,
        member_mask::MemberMask,
        number,
    },
    planted::{Bug, planted},
};

/// `OpenSearch` refuses ids of more than 512 bytes; the rest is for the partition of a shared
/// index.
const MAX_ID_BYTES: usize = 480;
/// Room that a thread keeps for the next document.
const MAX_SCRATCH_BYTES: usize = 64 << 10;

thread_local! {
    /// Documents are written here and then copied, so that those that wait take no more memory than
    /// they have bytes: their lengths are not known before.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

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
    /// `{"apiVersion":…,"kind":…,"cluster":…,"search":{"resource":…,"group":…`, and `"rulesHash":…`
    /// if it has one
    head: Vec<u8>,
    id_prefix: String,
    hides_data: bool,
    api_version: String,
    kind: String,
    interpreter: Option<Arc<dyn Interpret>>,
}

impl Projector {
    /// A projector for one resource of one cluster. `fields` are the kind's selectable fields
    /// without `metadata.name` and `metadata.namespace`, which every document has under their own
    /// paths.
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
            write_text_member(&mut head, key, value);
        }
        write_key(&mut head, index_fields::SEARCH);
        head.push(b'{');
        for (key, value) in [
            (members::RESOURCE, &resource.plural),
            (members::GROUP, &gvk.group),
        ] {
            write_text_member(&mut head, key, value);
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

    /// The same, with what an interpreter says of each object. Its fields take the place of others
    /// of the same names.
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
        FieldValues::read(
            &self.fields,
            &self.readings,
            &shown.tree("", "", &self.mask),
        )
    }

    /// The document of an object, with what its interpreter says. `indexed_at` is an RFC 3339 time.
    /// Where the projection redacts anything, the redacted text is parsed once more.
    pub fn document(&self, object: &Object<'_>, indexed_at: &str) -> Result<Document, ObjectError> {
        self.document_by(object, self.interpreter.as_deref(), indexed_at)
    }

    /// The document of an object, with what another interpreter says, which reads no more than the
    /// projector's own, or everything.
    pub fn document_by(
        &self,
        object: &Object<'_>,
        interpreter: Option<&dyn Interpret>,
        indexed_at: &str,
    ) -> Result<Document, ObjectError> {
        if self.projection.redacts_nothing() {
            return Ok(self.without_hidden_values(object, Vec::new(), interpreter, indexed_at));
        }
        let (redacted, removed) = self
            .projection
            .redacted(object.json)
            .map_err(ObjectError::Unredactable)?;
        let removed = removed.into_iter().map(str::to_owned).collect();
        Ok(self.without_hidden_values(
            &Object::parse(redacted.get())?,
            removed,
            interpreter,
            indexed_at,
        ))
    }

    /// The document of an object that cannot be stored: its identity, and the reason.
    pub fn identity(&self, object: &Object<'_>, reason: &str, indexed_at: &str) -> Document {
        let mut out = self.head.clone();
        let reason = number::cut(reason, MAX_FIELD_VALUE_BYTES);
        write_text_member(&mut out, members::REJECTED, &reason);
        write_text_member(&mut out, members::INDEXED_AT, indexed_at);
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
        interpreter: Option<&dyn Interpret>,
        indexed_at: &str,
    ) -> Document {
        let hidden = object
            .rest
            .iter()
            .filter(|(key, value)| self.hides(&key.0) && value.get() != "null");
        removed.extend(hidden.map(|(key, _)| format!("$.{}", key.0)));
        match without_hidden_values(object, self.hides_data) {
            Some((stripped, paths)) => {
                removed.extend(paths);
                self.encode(&stripped, &removed, interpreter, indexed_at)
            }
            None => self.encode(object, &removed, interpreter, indexed_at),
        }
    }

    fn encode(
        &self,
        object: &Object<'_>,
        removed: &[String],
        interpreter: Option<&dyn Interpret>,
        indexed_at: &str,
    ) -> Document {
        let shown = self.without_hidden_data(object);
        let mask = match interpreter.map(Interpret::reads) {
            Some(reads) if reads.is_whole => reads,
            _ => &self.mask,
        };
        let tree = shown.tree(&self.api_version, &self.kind, mask);
        let interpretation = interpreter.map(|interpreter| interpreter.interpret(&tree));
        let mut values = FieldValues::read(&self.fields, &self.readings, &tree);
        if let Some(interpretation) = &interpretation {
            let first = self.native_fields;
            interpretation.for_each_value(|field, value| values.0.push((first + field, value)));
        }
        let mut leaves = LeafTerms::new(&self.fields, self.hides_data);
        let mut flat = Vec::new();
        if self.projection.is_full() {
            leaves.add(object, &self.api_version, &self.kind);
            flat = flat::unfit(object);
        }
        let is_partial = leaves.is_cut();
        let mut out = SCRATCH.take();
        out.extend_from_slice(&self.head);
        self.write_terms(&mut out, object, &values, &leaves);
        if let Some(interpretation) = &interpretation {
            interpretation.write(&mut out);
        }
        write_text_member(&mut out, members::INDEXED_AT, indexed_at);
        write_native(&mut out, object, &flat);
        out.push(b'}');
        write_key(&mut out, "metadata");
        write_metadata(&mut out, object, &removed.join(", "));
        self.write_rest(&mut out, object, &flat);
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

    /// Writes what queries find, sort and count the document by.
    fn write_terms(
        &self,
        out: &mut Vec<u8>,
        object: &Object<'_>,
        values: &FieldValues<'_>,
        leaves: &LeafTerms<'_>,
    ) {
        write_label_terms(out, object);
        if leaves.is_cut() {
            let reason = "it has too many fields to index all of them";
            write_text_member(out, members::REJECTED, reason);
        }
        write_field_terms(out, &self.fields, object, values, leaves);
        write_sort_keys(out, &self.fields, &self.readings, values);
        write_owners(out, object);
        write_annotation_keys(out, object);
    }

    /// Writes the members of the object beside `metadata`; `flat`: those that are written in part.
    fn write_rest(&self, out: &mut Vec<u8>, object: &Object<'_>, flat: &[(&str, Vec<u8>)]) {
        for (key, value) in &object.rest {
            let is_trusted = planted(Bug::TrustMemberCluster) && key.0 == index_fields::CLUSTER;
            if is_set_aside(&key.0) && !is_trusted {
                continue;
            }
            write_key(out, &key.0);
            if let Some((_, fit)) = flat.iter().find(|(name, _)| *name == key.0) {
                out.extend_from_slice(fit);
            } else if self.hides(&key.0) {
                write_hidden(out, value.get());
            } else {
                out.extend_from_slice(value.get().as_bytes());
            }
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
        self.hides_data && is_data(key)
    }
}
