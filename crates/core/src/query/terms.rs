//! The terms of documents, which the translation of queries spells as the writer of documents does.

use crate::model::number;

/// The term of a label in `search.labels`.
pub fn label_term(key: &str, value: &str) -> String {
    format!("{key}={value}")
}

/// The term of a label's number in `search.numbers`. The terms of one label sort like the numbers.
pub fn label_number_term(key: &str, value: i64) -> String {
    number::label_term(key, value)
}

/// The term of a selectable field in `search.fields`.
pub fn field_term(path: &str, value: &str) -> String {
    format!("{path}={value}")
}
