//! The fields that a field selector may name, for one kind.

use std::collections::BTreeMap;

use crate::{
    kinds,
    model::{FieldPath, FieldType, Gvk, SelectableField, index_fields, is_interpreted_field},
};

/// A field selector names a field that the kind does not support. The message begins as that of an
/// apiserver.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("field label not supported: {label}; these are: {}", .supported.join(", "))]
pub struct UnsupportedField {
    /// The field, as the selector names it.
    pub label: String,
    /// The supported fields.
    pub supported: Vec<String>,
}

/// The fields that a field selector may name, for one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selectable {
    /// The stored field that each field label reads; `None`: it always reads the empty text.
    labels: BTreeMap<String, Option<FieldPath>>,
    /// The types of stored fields, which decide how an absent field reads.
    types: BTreeMap<FieldPath, FieldType>,
    /// Any other path is selectable, too.
    open: bool,
}

/// The field that objects are sorted or grouped by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SortField {
    /// The same for all of them.
    Always(&'static str),
    /// `metadata.name`
    Name,
    /// `metadata.namespace`
    Namespace,
    /// A selectable field in `search.sort`.
    Field(FieldPath, FieldType),
}

impl Selectable {
    /// The fields that the apiserver supports for a built-in kind, or `metadata.name` and
    /// `metadata.namespace` for another one, and the `registered` fields: `selectableFields` of a
    /// custom resource definition, `fieldPaths` of a registry.
    pub fn of(gvk: &Gvk, registered: &[SelectableField]) -> Self {
        let labels = kinds::field_labels(gvk)
            .map(|(label, reads)| (label.to_owned(), reads.map(FieldPath::new)))
            .collect();
        let mut selectable = Self {
            labels,
            types: BTreeMap::new(),
            open: false,
        };
        for field in kinds::selectable_fields(gvk)
            .into_iter()
            .flatten()
            .chain(registered)
        {
            selectable
                .labels
                .entry(field.path.to_string())
                .or_insert_with(|| Some(field.path.clone()));
            selectable
                .types
                .entry(field.path.clone())
                .or_insert(field.kind);
        }
        selectable
    }

    /// The same with any other path: for stores that index everything, and if the indexed fields
    /// are unknown.
    #[must_use]
    pub fn and_any_path(mut self) -> Self {
        self.open = true;
        self
    }

    /// The stored field that a label of a field selector reads; `None` for a label that always
    /// reads empty.
    pub fn stored_path(&self, label: &str) -> Result<Option<FieldPath>, UnsupportedField> {
        match self.labels.get(label) {
            Some(path) => Ok(path.clone()),
            None => {
                let open = if self.open {
                    FieldPath::new(label).canonical()
                } else {
                    None
                };
                open.map(Some).ok_or_else(|| self.unsupported(label))
            }
        }
    }

    fn unsupported(&self, label: &str) -> UnsupportedField {
        // The fields of the object first.
        let (interpreted, native): (Vec<&String>, Vec<&String>) = self
            .labels
            .keys()
            .partition(|label| is_interpreted_field(label));
        UnsupportedField {
            label: label.to_owned(),
            supported: native.into_iter().chain(interpreted).cloned().collect(),
        }
    }

    /// Whether the path is one of the fields of the kind, and not any other path.
    pub fn is_known(&self, path: &FieldPath) -> bool {
        matches!(path.as_str(), index_fields::NAME | index_fields::NAMESPACE)
            || self.types.contains_key(path)
    }

    /// The field that objects are sorted and grouped by when a client names this label. Refuses a
    /// field of which documents have no sort value.
    pub fn sort_field(&self, label: &str) -> Result<SortField, UnsupportedField> {
        let Some(path) = self.stored_path(label)? else {
            return Ok(SortField::Always(""));
        };
        match path.as_str() {
            index_fields::NAME => Ok(SortField::Name),
            index_fields::NAMESPACE => Ok(SortField::Namespace),
            _ => match self.types.get(&path) {
                Some(kind) => Ok(SortField::Field(path, *kind)),
                None => Err(self.unsupported(label)),
            },
        }
    }

    /// Whether every document of the kind has a term for this field, absent or not.
    pub fn is_always_stored(&self, path: &FieldPath) -> bool {
        self.types
            .get(path)
            .is_some_and(|kind| *kind != FieldType::Optional)
    }

    /// Whether the values of a field can be compared as numbers. An unknown field may have numbers.
    pub fn holds_numbers(&self, path: &FieldPath) -> bool {
        let is_own = matches!(path.as_str(), index_fields::NAME | index_fields::NAMESPACE);
        !is_own && self.types.get(path).is_none_or(|kind| kind.holds_numbers())
    }

    /// The value that a field reads if it is absent.
    pub fn absent(&self, path: &str) -> &'static str {
        self.types
            .get(&FieldPath::new(path))
            .map_or("", |kind| kind.absent())
    }
}
