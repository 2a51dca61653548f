//! Writes members of documents.

use std::borrow::Cow;

use crate::model::{
    Object,
    index_fields::members,
    json::{RawMembers, write_key, write_text, write_text_member},
    well_known::{DOCUMENT_KEYS, LAST_APPLIED, REDACTED_ANNOTATION},
};

/// Whether a top-level member of an object is stored in `search.native`: its name is one of
/// [`DOCUMENT_KEYS`] or has a dot.
///
/// `OpenSearch` reads a name with a dot as a path, also at the top: `search.resource` would add a
/// value to the field that every query trusts, and `metadata.namespace` a namespace. API servers
/// keep such members of custom resources whose schema preserves unknown fields. Within `metadata`
/// and below other members a dot leads to no field that queries trust, so these members stay where
/// they are.
pub(super) fn is_set_aside(name: &str) -> bool {
    DOCUMENT_KEYS.contains(&name) || name.contains('.')
}

/// Writes `"key":[…]`, or nothing without an item.
pub(super) fn write_list<'i>(
    out: &mut Vec<u8>,
    key: &str,
    items: impl Iterator<Item = Cow<'i, str>>,
) {
    write_items(out, key, items, |out, item| write_text(out, &item));
}

/// Writes `"key":[…]`; nothing if there are no items.
pub(super) fn write_items<T>(
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

/// Writes the members of the object that [are set aside](is_set_aside), and those that the document
/// indexes only in part.
pub(super) fn write_native(out: &mut Vec<u8>, object: &Object<'_>, partial: &[(&str, Vec<u8>)]) {
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
pub(super) fn write_metadata(out: &mut Vec<u8>, object: &Object<'_>, redacted: &str) {
    let metadata = &object.metadata;
    out.push(b'{');
    write_text_member(out, "name", &metadata.name.0);
    if let Some(namespace) = object.namespace() {
        write_text_member(out, "namespace", namespace);
    }
    write_text_member(out, "uid", &metadata.uid.0);
    write_text_member(out, "resourceVersion", &metadata.resource_version.0);
    if !metadata.labels.0.is_empty() {
        write_key(out, "labels");
        out.push(b'{');
        for (key, value) in &metadata.labels.0 {
            write_text_member(out, &key.0, &value.0);
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
            write_text_member(out, REDACTED_ANNOTATION, redacted);
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
pub(super) fn write_hidden(out: &mut Vec<u8>, data: &str) {
    let members = RawMembers::parse(data).unwrap_or_default();
    out.push(b'{');
    for (key, _) in &members.0 {
        write_key(out, &key.0);
        out.extend_from_slice(b"\"\"");
    }
    out.push(b'}');
}
