//! The terms of an object's leaves, where every path is selectable.

use std::borrow::Cow;

use crate::model::{
    LeafVisitor, MAX_FIELD_VALUE_BYTES, Object, Quantity, SelectableField, number, quantity,
};

/// Bytes of the terms of one object's leaves, with their paths. The largest objects, definitions of
/// custom resources with a megabyte of schema, have a few megabytes; an object that is built to
/// have more would have hundreds.
const MAX_LEAF_TERMS_BYTES: usize = 16 << 20;
/// Ends a cut value. Even if the cut removes three more bytes to keep a character whole, the value
/// stays longer than any value of a query, so that no query matches a cut value.
const CUT_MARK: &str = " (cut)";

/// The terms of leaves that are not selectable fields already.
pub(super) struct LeafTerms<'p> {
    fields: &'p [SelectableField],
    /// Whether the data of a Secret is left out.
    hides_data: bool,
    pub(super) terms: Vec<String>,
    pub(super) numbers: Vec<String>,
    /// Bytes left for more terms; 0 once they did not suffice.
    room: usize,
}

impl<'p> LeafTerms<'p> {
    pub(super) fn new(fields: &'p [SelectableField], hides_data: bool) -> Self {
        Self {
            fields,
            hides_data,
            terms: Vec::new(),
            numbers: Vec::new(),
            room: MAX_LEAF_TERMS_BYTES,
        }
    }

    /// Adds the leaves of an object, each term once: elements of an array are often equal.
    pub(super) fn add(&mut self, object: &Object<'_>, api_version: &str, kind: &str) {
        object.leaves(api_version, kind, self);
        for list in [&mut self.terms, &mut self.numbers] {
            list.sort_unstable();
            list.dedup();
        }
    }

    /// Whether some terms were left out.
    pub(super) fn is_cut(&self) -> bool {
        self.room == 0
    }
}

impl LeafVisitor for LeafTerms<'_> {
    fn enters(&self, path: &str) -> bool {
        !(self.hides_data && is_data(path))
    }

    fn leaf(&mut self, path: &str, value: Cow<'_, str>) {
        let is_field = |field: &SelectableField| field.path.as_str() == path;
        if self.fields.iter().any(is_field) {
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
pub(super) fn stored_value(value: &str) -> Cow<'_, str> {
    if value.len() <= MAX_FIELD_VALUE_BYTES {
        return Cow::Borrowed(value);
    }
    Cow::Owned(format!(
        "{}{CUT_MARK}",
        number::cut(value, MAX_FIELD_VALUE_BYTES)
    ))
}

/// Whether a top-level member of a Secret is stored with its keys only.
pub(super) fn is_data(key: &str) -> bool {
    matches!(key, "data" | "stringData")
}
