//! The terms of documents, which the translation of queries spells as the writer of documents does.

pub use crate::model::number::label_term as label_number_term;

/// The term of a label in `search.labels`.
pub fn label_term(key: &str, value: &str) -> String {
    format!("{key}={value}")
}

/// The term of a selectable field in `search.fields`.
pub fn field_term(path: &str, value: &str) -> String {
    format!("{path}={value}")
}
