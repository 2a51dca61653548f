//! The syntax tree of paths and templates.

use serde_json::Value;

use crate::fuel::OutOfFuel;

/// One step of a path, which selects values in values.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PathStep {
    /// The value of a key.
    Field(String),
    /// `.*`
    Wildcard,
    /// `..`: the value and every collection in it that is not empty.
    Recursive,
    /// `[*]`: kubectl applies it to lists only, [`select`](super::JsonPath::select) to maps, too.
    BracketWildcard,
    /// `[2]`, `[-1:]`, `[:]`: of lists only.
    Slice(Slice),
    /// `[?(…)]`
    Filter(FilterExpression),
    /// `['a','b']`, `[0,2]`
    Union(Vec<Vec<PathStep>>),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Slice {
    pub(super) start: Option<i64>,
    pub(super) end: Option<i64>,
    pub(super) step: Option<usize>,
    /// `[2]`: `end` follows from `start`.
    pub(super) is_index: bool,
}

impl Slice {
    /// Start and end in a list of `count` items: negative ones count from its end. Either may be
    /// outside the list.
    pub(super) fn bounds(&self, count: usize) -> (i64, i64) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let from_end = |index: i64| {
            if index < 0 {
                index.saturating_add(count)
            } else {
                index
            }
        };
        let start = from_end(self.start.unwrap_or(0));
        let end = match self.end {
            _ if self.is_index => start.saturating_add(1),
            Some(end) => from_end(end),
            None => count,
        };
        (start, end)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum FilterExpression {
    Exists(Expression),
    Compare(Expression, ComparisonOperator, Expression),
}

/// The expression in the braces of a template, or on one side of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expression {
    Path(Vec<PathStep>),
    Literal(Literal),
}

/// `"text"`, `3`, `0.5`, `true`
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Literal {
    Text(String),
    Integer(i64),
    Float(f64),
    Flag(bool),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ComparisonOperator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// A path or a template cannot be parsed, or does not fit the value that it is applied to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonPathError {
    /// The text cannot be parsed.
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
    /// `[2:1]`
    #[error("starting index {start} is greater than ending index {end}")]
    Backwards {
        /// Where the slice begins.
        start: usize,
        /// Before which item it ends.
        end: usize,
    },
    /// `[…]` of a value that is no list.
    #[error("{0} is not a list")]
    NoList(String),
    /// A filter compares a list of values.
    #[error("a filter can only compare one value at a time")]
    SeveralValues,
    /// A filter compares a number with a text, or the like.
    #[error("incompatible types for comparison: {0} and {1}")]
    Incompatible(String, String),
    /// The path takes too many steps: unions and recursive descent multiply them.
    #[error(transparent)]
    OutOfFuel(#[from] OutOfFuel),
}

impl From<&Literal> for Value {
    fn from(literal: &Literal) -> Self {
        match literal {
            Literal::Text(text) => text.as_str().into(),
            Literal::Integer(number) => (*number).into(),
            Literal::Float(number) => (*number).into(),
            Literal::Flag(flag) => (*flag).into(),
        }
    }
}
