//! Which fields a field selector may name, for one kind.

use std::{collections::BTreeMap, fmt};

use crate::{
    kinds,
    model::{FieldPath, FieldType, Gvk, SelectableField},
};

/// A field selector names a field that the kind does not support, in the words of an apiserver.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("field label not supported: {label}; these are: {}", Listed(.supported))]
pub struct UnsupportedField {
    /// The field, as the selector names it.
    pub label: String,
    /// The fields that it could have named.
    pub supported: Vec<String>,
}

struct Listed<'a>(&'a [String]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0.join(", "))
    }
}

/// The fields that a field selector may name, for one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selectable {
    /// What each field label reads: a stored field, or always the empty text.
    labels: BTreeMap<String, Option<FieldPath>>,
    /// How a stored field reads where it is absent.
    types: BTreeMap<FieldPath, FieldType>,
    /// Any other path is selectable too.
    open: bool,
}

/// What objects are ordered or grouped by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ordered {
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
    /// What the apiserver supports for a built-in kind, or `metadata.name` and `metadata.namespace` for another one, and the given fields:
    /// `selectableFields` of a custom resource definition, `fieldPaths` of a registry.
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

    /// The same, and any other path: where everything is indexed, or where it is not known what is.
    #[must_use]
    pub fn and_any_path(mut self) -> Self {
        self.open = true;
        self
    }

    /// The field that a label of a field selector reads; nothing for a label that always reads empty.
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
        UnsupportedField {
            label: label.to_owned(),
            supported: self.labels.keys().cloned().collect(),
        }
    }

    /// Whether it is one of the fields that are known for the kind, and not only some path.
    pub fn is_known(&self, path: &FieldPath) -> bool {
        matches!(path.as_str(), "metadata.name" | "metadata.namespace")
            || self.types.contains_key(path)
    }

    /// What objects are ordered and grouped by when a client names this field; refused where documents hold no single value of it.
    pub fn ordered(&self, label: &str) -> Result<Ordered, UnsupportedField> {
        let Some(path) = self.stored_path(label)? else {
            return Ok(Ordered::Always(""));
        };
        match path.as_str() {
            "metadata.name" => Ok(Ordered::Name),
            "metadata.namespace" => Ok(Ordered::Namespace),
            _ => match self.types.get(&path) {
                Some(kind) => Ok(Ordered::Field(path, *kind)),
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

    /// Whether its values can be compared as numbers. Of a field that is not known, that may be.
    pub fn holds_numbers(&self, path: &FieldPath) -> bool {
        let is_own = matches!(path.as_str(), "metadata.name" | "metadata.namespace");
        !is_own && self.types.get(path).is_none_or(|kind| kind.holds_numbers())
    }

    /// What a field reads where it is absent.
    pub fn absent(&self, path: &str) -> &'static str {
        self.types
            .get(&FieldPath::new(path))
            .map_or("", |kind| kind.absent())
    }
}
