//! Kubernetes' `JSONPath`: fields, keys in quotes, indices, slices, wildcards, recursive descent, unions, and filters that compare or ask
//! whether something is there. Columns of custom resources are paths of it, `kubectl get -o jsonpath` has templates of them ([`Template`]).
//!
//! It is a dialect of its own, which RFC 9535 does not describe: a field that is not there is nothing, a dot in a key has a backslash, and `$`
//! is the same as `@`. What it reads beyond Kubernetes is what people mean by it: keys in double quotes, `..*`, and `.` for the whole.
//!
//! Source of the rules: <https://kubernetes.io/docs/reference/kubectl/jsonpath/>, `k8s.io/client-go/util/jsonpath`, and the behaviour of
//! kubectl.

mod evaluate;
mod json;
mod parse;
mod print;
mod template;
#[cfg(test)]
mod tests;

use std::cell::Cell;

use self::evaluate::Walk;
pub use self::{
    json::{Json, Scalar},
    print::{go_text, text},
    template::Template,
};

/// How many values a bounded walk looks at for each that it may find: most of what a filter or a descent comes by is not what is looked for.
const LOOKS: usize = 100;

/// A path alone: `.spec.nodeName`, and as `--sort-by` and custom columns of kubectl have it `spec.nodeName` or `{.spec.nodeName}`.
#[derive(Clone, Debug, PartialEq)]
pub struct Path(Vec<Step>);

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
}

#[derive(Clone, Debug, PartialEq, Default)]
struct Slice {
    start: Option<i64>,
    end: Option<i64>,
    step: Option<usize>,
    /// `[2]`: `end` follows from `start`.
    is_index: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum Filter {
    Exists(Expression),
    Compare(Expression, Comparison, Expression),
}

/// What stands in the braces of a template, or on one side of a comparison.
#[derive(Clone, Debug, PartialEq)]
enum Expression {
    Path(Vec<Step>),
    Literal(Literal),
}

/// `"text"`, `3`, `0.5`, `true`
#[derive(Clone, Debug, PartialEq)]
enum Literal {
    Text(String),
    Integer(i64),
    Float(f64),
    Flag(bool),
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

/// A path or a template that is none, or that does not fit what it is given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonPathError {
    /// The text is none.
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
    /// `[…]` of something else than a list.
    #[error("{0} is not a list")]
    NoList(String),
    /// A filter compares a list of values.
    #[error("a filter can only compare one value at a time")]
    SeveralValues,
    /// A filter compares a number with a text, or the like.
    #[error("incompatible types for comparison: {0} and {1}")]
    Incompatible(String, String),
    /// Recursive descent multiplies what there is.
    #[error("more than {0} values on the way")]
    TooMany(usize),
}

impl std::str::FromStr for Path {
    type Err = JsonPathError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parsed = parse::relaxed_path(text);
        parsed.map(Self).map_err(|problem| JsonPathError::Parse {
            template: text.to_owned(),
            problem,
        })
    }
}

impl Path {
    /// What is there.
    pub fn find<'v, T: Json>(&self, value: &'v T) -> Result<Vec<&'v T>, JsonPathError> {
        Walk::UNBOUNDED.steps(&self.0, vec![value])
    }

    /// What is there, as long as that is no more than so many values after any step, and a hundred times as many are looked at by all of them.
    pub fn find_within<'v, T: Json>(
        &self,
        value: &'v T,
        most: usize,
    ) -> Result<Vec<&'v T>, JsonPathError> {
        let looks = Cell::new(most.saturating_mul(LOOKS));
        Walk {
            most,
            looks: Some(&looks),
        }
        .steps(&self.0, vec![value])
    }

    /// The fields that it begins with, up to the first step that is none.
    pub fn leading_fields(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map_while(|step| match step {
            Step::Field(name) => Some(name.as_str()),
            _ => None,
        })
    }
}
