//! Writes the terms by which queries find, sort and count documents.

use std::borrow::Cow;

use super::{
    field_values::{FieldReading, FieldValues},
    leaf_terms::{LeafTerms, stored_value},
    members::{write_items, write_list},
};
use crate::model::{
    MAX_FIELD_VALUE_BYTES, Object, Quantity, SelectableField,
    index_fields::members,
    json::{write_joined, write_key},
    number, quantity,
    sort_key::OrderedValue,
    well_known::{LAST_APPLIED, REDACTED_ANNOTATION},
};

pub(super) fn write_label_terms(out: &mut Vec<u8>, object: &Object<'_>) {
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

pub(super) fn write_owners(out: &mut Vec<u8>, object: &Object<'_>) {
    let owners = &object.metadata.owners;
    let uids = owners.iter().map(|owner| Cow::Borrowed(&*owner.uid.0));
    write_list(out, members::OWNERS, uids);
    let named = owners.iter().map(|owner| &*owner.name.0);
    let names = named.filter(|name| is_indexed(name)).map(Cow::Borrowed);
    write_list(out, members::OWNER_NAMES, names);
}

/// Whether a text is searched by words. Kubernetes does not limit the names of owners, and
/// OpenSearch refuses a document with a term of 32 KiB.
pub(super) fn is_indexed(text: &str) -> bool {
    (1..=MAX_FIELD_VALUE_BYTES).contains(&text.len())
}

pub(super) fn write_annotation_keys(out: &mut Vec<u8>, object: &Object<'_>) {
    let annotations = object.metadata.annotations.0.iter();
    let keys = annotations.map(|(key, _)| &*key.0);
    let shown =
        keys.filter(|key| is_indexed(key) && ![LAST_APPLIED, REDACTED_ANNOTATION].contains(key));
    write_list(out, members::ANNOTATION_KEYS, shown.map(Cow::Borrowed));
}

/// Writes the terms of fields, of leaves, and of their numbers and those of labels.
pub(super) fn write_field_terms(
    out: &mut Vec<u8>,
    fields: &[SelectableField],
    object: &Object<'_>,
    values: &FieldValues<'_>,
    leaves: &LeafTerms<'_>,
) {
    write_items(
        out,
        members::FIELDS,
        values.0.iter(),
        |out, (field, value)| {
            let path = fields[*field].path.as_str();
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
    let numbers_of_fields = values.0.iter().filter_map(|(field, value)| {
        let field = &fields[*field];
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
    write_list(
        out,
        members::NUMBERS,
        labels.chain(numbers_of_fields).chain(numbers),
    );
}

/// Writes the least value of each field, for sorting and grouping.
pub(super) fn write_sort_keys(
    out: &mut Vec<u8>,
    fields: &[SelectableField],
    readings: &[FieldReading],
    values: &FieldValues<'_>,
) {
    let mut any = false;
    for of_field in values.0.chunk_by(|one, next| one.0 == next.0) {
        let position = of_field[0].0;
        let field = &fields[position];
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
        write_key(out, &readings[position].sort_key);
        least.with_key_parts(|parts| write_joined(out, parts));
    }
    if any {
        out.push(b'}');
    }
}
