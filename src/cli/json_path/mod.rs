//! kubectl's `JSONPath` templates: `{range .items[*]}{.metadata.name}{"\n"}{end}`.
//!
//! It is a dialect of its own, which RFC 9535 does not describe: a field that is not there is nothing, a dot in a key has a backslash, and `$`
//! is the same as `@`. Source of the rules: <https://kubernetes.io/docs/reference/kubectl/jsonpath/> and the behaviour of kubectl 1.36.

mod evaluate;
mod parse;
mod print;
#[cfg(test)]
mod tests;

use serde_json::Value;

pub use print::{go_text, text};

/// A text with paths in braces.
#[derive(Clone, Debug, PartialEq)]
pub struct Template(Vec<Node>);

/// A path alone, as `--sort-by` and custom columns have it: `.spec.nodeName`, `spec.nodeName` or `{.spec.nodeName}`.
#[derive(Clone, Debug, PartialEq)]
pub struct Path(Vec<Step>);

/// A part of a template.
#[derive(Clone, Debug, PartialEq)]
enum Node {
    Text(String),
    Path(Vec<Step>),
    Range(Vec<Step>, Vec<Node>),
}

/// From values to values.
#[derive(Clone, Debug, PartialEq)]
enum Step {
    /// The value of a key.
    Field(String),
    /// `.*`
    Wildcard,
    /// `..`: the value and everything in it that holds something.
    Recursive,
    /// `[2]`, `[-1:]`, `[*]`
    Slice(Slice),
    /// `[?(…)]`
    Filter(Filter),
    /// `['a','b']`, `[0,2]`
    Union(Vec<Vec<Step>>),
    /// `"text"`, `3`, `true`
    Literal(Value),
}

#[derive(Clone, Debug, PartialEq, Default)]
struct Slice {
    start: Option<i64>,
    end: Option<i64>,
    step: Option<i64>,
    /// `[2]`: `end` follows from `start`.
    is_index: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum Filter {
    Exists(Vec<Step>),
    Compare(Vec<Step>, Comparison, Vec<Step>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// A template that is none, or that does not fit what it is given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonPathError {
    /// The text is no template.
    #[error("JSONPath {template:?}: {problem}")]
    Parse {
        /// The text.
        template: String,
        /// What is wrong.
        problem: String,
    },
    /// `[3]` of a shorter list.
    #[error("array index out of bounds: index {index}, length {length}")]
    OutOfBounds {
        /// The index that was asked for.
        index: i64,
        /// How many there are.
        length: usize,
    },
    /// `[…]` of something else than a list.
    #[error("{0} is not a list")]
    NoList(String),
    /// A filter compares a list of values.
    #[error("a filter can only compare one value at a time")]
    SeveralValues,
    /// A filter compares a number with a text, or the like.
    #[error("incompatible types for comparison: {0} and {1}")]
    Incompatible(String, String),
}

impl std::str::FromStr for Template {
    type Err = JsonPathError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parsed = parse::template(text);
        parsed.map(Self).map_err(|problem| JsonPathError::Parse { template: text.to_owned(), problem })
    }
}

impl std::str::FromStr for Path {
    type Err = JsonPathError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parsed = parse::relaxed_path(text);
        parsed.map(Self).map_err(|problem| JsonPathError::Parse { template: text.to_owned(), problem })
    }
}

impl Template {
    /// The text of a value.
    pub fn render(&self, value: &Value) -> Result<String, JsonPathError> {
        let mut out = String::new();
        evaluate::render(&self.0, value, &mut out)?;
        Ok(out)
    }
}

impl Path {
    /// What is there.
    pub fn find<'v>(&'v self, value: &'v Value) -> Result<Vec<&'v Value>, JsonPathError> {
        evaluate::walk(&self.0, vec![value])
    }
}
