//! The error of a text that is no search.

use std::ops::Range;

/// A text that is no search: where it is wrong, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {message}")]
pub struct SyntaxError {
    /// The wrong bytes of the text; empty where something is missing.
    pub span: Range<usize>,
    /// The position of the first of them, in characters from 1.
    pub column: usize,
    /// What is wrong, and what to write instead.
    pub message: String,
}

impl SyntaxError {
    /// The error of these bytes of the text. A span beyond the text or inside a character is moved
    /// to the character before.
    pub fn new(text: &str, span: Range<usize>, message: impl Into<String>) -> Self {
        let start = text.floor_char_boundary(span.start);
        let end = text.floor_char_boundary(span.end).max(start);
        Self {
            span: start..end,
            column: text[..start].chars().count() + 1,
            message: message.into(),
        }
    }
}
