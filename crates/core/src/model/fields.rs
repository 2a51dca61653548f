//! Selectable fields: the paths that field selectors may name.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use super::leaves::{MAX_DEPTH, MAX_PATH_BYTES, push_name};

/// A dotted path to a field, such as `status.phase`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FieldPath(Arc<str>);

impl FieldPath {
    /// A path from dotted text.
    pub fn new(path: &str) -> Self {
        Self(path.into())
    }

    /// The dotted text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The path as documents with every leaf write it: brackets only where they are needed. `None`
    /// if no document holds such a path.
    pub fn canonical(&self) -> Option<Self> {
        let mut path = String::with_capacity(self.0.len());
        let is_held = self.segments().all(|name| push_name(&mut path, name))
            && self.segments().count() <= MAX_DEPTH;
        (is_held && path.len() <= MAX_PATH_BYTES).then(|| Self(path.into()))
    }

    /// The keys of the path, outermost first; those in `['…']` may have dots.
    pub fn segments(&self) -> impl Iterator<Item = &str> {
        let mut rest = Some(&*self.0);
        std::iter::from_fn(move || {
            let text = rest?;
            if let Some((key, after)) = text
                .strip_prefix("['")
                .and_then(|inner| inner.split_once("']"))
            {
                rest = (!after.is_empty()).then(|| after.strip_prefix('.').unwrap_or(after));
                return Some(key);
            }
            let end = text
                .find('.')
                .into_iter()
                .chain(text.find("['").filter(|start| *start > 0))
                .min();
            let (name, after) = end.map_or((text, None), |end| (&text[..end], Some(&text[end..])));
            rest = after.map(|after| after.strip_prefix('.').unwrap_or(after));
            Some(name)
        })
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// The type of a field: the value that the apiserver compares if the field is absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FieldType {
    /// Text; absent reads `""`.
    Text,
    /// A number; absent reads `0`.
    Number,
    /// A flag; absent reads `false`.
    Flag,
    /// A field of a custom resource or a registry's `fieldPaths`. If it is absent, the document has
    /// no term for it, and it reads `""` as in the apiserver.
    Optional,
}

impl FieldType {
    /// The value that an absent field reads.
    pub const fn absent(self) -> &'static str {
        match self {
            Self::Text | Self::Optional => "",
            Self::Number => "0",
            Self::Flag => "false",
        }
    }

    /// Whether its values can be compared as numbers and quantities.
    pub const fn holds_numbers(self) -> bool {
        matches!(self, Self::Number | Self::Optional)
    }

    /// The value that a document without a sort value reads, if any: documents leave empty text
    /// out, which sorts first as a missing value does.
    pub const fn reads_without_sort_key(self) -> Option<&'static str> {
        match self {
            Self::Text => Some(""),
            Self::Flag | Self::Number | Self::Optional => None,
        }
    }
}

/// A field that selectors may name, and the paths of its value in the object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SelectableField {
    /// The name in a field selector.
    pub path: FieldPath,
    /// The paths of the value, tried in order until one is not empty. Usually only `path`; `source`
    /// of an Event is `source.component`, else `reportingComponent`.
    pub sources: Vec<FieldPath>,
    /// How an absent value reads.
    pub kind: FieldType,
}

impl SelectableField {
    /// A field of a custom resource or a registry's `fieldPaths`.
    pub fn optional(path: &FieldPath) -> Self {
        Self {
            path: path.clone(),
            sources: vec![path.clone()],
            kind: FieldType::Optional,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_in_brackets_may_have_dots() {
        let segments = |path: &str| {
            FieldPath::new(path)
                .segments()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(segments("status.phase"), ["status", "phase"]);
        assert_eq!(
            segments("metadata.annotations['a.b/c']"),
            ["metadata", "annotations", "a.b/c"]
        );
        assert_eq!(segments("spec['x.y'].z['q']"), ["spec", "x.y", "z", "q"]);
        assert_eq!(segments("['a.b']c"), ["a.b", "c"]);
        for odd in ["spec['x", "a..b", "", ".", "[']", "a.['b"] {
            assert!(!segments(odd).is_empty(), "{odd:?}");
        }
    }

    #[test]
    fn the_canonical_spelling_has_brackets_only_where_they_are_needed() {
        let canonical = |path: &str| {
            FieldPath::new(path)
                .canonical()
                .map(|path| path.to_string())
        };
        for (path, expected) in [
            ("spec['nodeName']", Some("spec.nodeName")),
            ("['spec'].x['y']z", Some("spec.x.y.z")),
            (
                "metadata.annotations['a.b/c']",
                Some("metadata.annotations['a.b/c']"),
            ),
            ("spec['a['b']", Some("spec['a['b']")),
            ("a..b", Some("a[''].b")),
            ("spec['a=b']", None),
        ] {
            assert_eq!(canonical(path).as_deref(), expected, "{path}");
            let again = expected.map(|path| canonical(path).unwrap());
            assert_eq!(again.as_deref(), expected);
        }
        assert_eq!(canonical(&"a".repeat(1_025)), None);
        assert_eq!(canonical(&["a"; 65].join(".")), None);
    }
}
