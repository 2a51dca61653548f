//! The keywords under which documents are found: how the translation of queries spells what the writer of documents wrote.

use crate::model::number;

/// The term of a label in `search.labels`.
pub fn label_term(key: &str, value: &str) -> String {
    format!("{key}={value}")
}

/// The term of a label's number in `search.numbers`: in the order of the numbers for one label.
pub fn label_number_term(key: &str, value: i64) -> String {
    number::label_term(key, value)
}

/// The term of a selectable field in `search.fields`.
pub fn field_term(path: &str, value: &str) -> String {
    format!("{path}={value}")
}
