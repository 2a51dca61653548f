//! Kubernetes' `JSONPath`: fields, keys in quotes, indices, slices, wildcards, recursive descent,
//! unions, and filters that compare or test existence.
//!
//! Printer columns of custom resources and redactions are paths ([`JsonPath`]). Tests render
//! kubectl's templates of paths, to compare the results with those of kubectl.
//!
//! The dialect differs from RFC 9535: an absent field selects nothing, a dot in a key needs a
//! backslash, also in quotes, and `$` is the same as `@`. In addition to kubectl this module reads
//! keys in double quotes, `..*`, and `.` for the whole value.
//!
//! Source of the rules: <https://kubernetes.io/docs/reference/kubectl/jsonpath/>,
//! `k8s.io/client-go/util/jsonpath`, and the behaviour of kubectl.

mod ast;
mod evaluate;
mod json;
mod literal;
mod parse;
mod print;
mod select;
#[cfg(test)]
mod template;
#[cfg(test)]
mod tests;
mod unambiguous;

use serde_json::Value;

pub use self::{
    ast::JsonPathError,
    json::{JsonValue, Scalar},
    print::{text, text_within},
};
use self::{ast::PathStep, evaluate::Evaluation, select::PathSelection};
use crate::fuel::{Fuel, OutOfFuel};

/// One path: `.spec.nodeName`, or `spec.nodeName` and `{.spec.nodeName}` as kubectl's `--sort-by`
/// and custom columns take it.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath(Vec<PathStep>);

impl std::str::FromStr for JsonPath {
    type Err = JsonPathError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parsed(text, parse::relaxed_path)
    }
}

impl JsonPath {
    /// Parses a path, and refuses one that RFC 9535 reads in another way: a dot without a backslash
    /// in a quoted key, `$` in a filter, a function, several conditions in one filter. kubectl
    /// takes some of these for keys that no object has. Also refuses `..` at the end, and filters
    /// that are empty or only a literal, which select everything in kubectl.
    pub fn unambiguous(text: &str) -> Result<Self, JsonPathError> {
        Self::parsed(text, parse::unambiguous_path)
    }

    fn parsed(
        text: &str,
        parse: impl Fn(&str) -> Result<Vec<PathStep>, String>,
    ) -> Result<Self, JsonPathError> {
        parse(text)
            .map(Self)
            .map_err(|problem| JsonPathError::Parse {
                template: text.to_owned(),
                problem,
            })
    }

    /// The values that the path selects. Fails without fuel.
    pub fn find<'v, T: JsonValue>(
        &self,
        value: &'v T,
        fuel: &Fuel,
    ) -> Result<Vec<&'v T>, JsonPathError> {
        Evaluation(fuel).steps(&self.0, vec![value])
    }

    /// The values that the path selects, each once, for code that removes them. Fails without fuel
    /// only: [`find`](Self::find) may fail otherwise, and so may miss values, which such code must
    /// not. An index beyond a list and a slice of a map select nothing, `[*]` and filters apply to
    /// maps too, and an absent value differs from every other value.
    pub fn select<'v>(&self, value: &'v Value, fuel: &Fuel) -> Result<Vec<&'v Value>, OutOfFuel> {
        PathSelection(fuel).steps(&self.0, vec![value])
    }

    /// The fields that the path begins with, up to the first step of another kind.
    pub fn leading_fields(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map_while(|step| match step {
            PathStep::Field(name) => Some(name.as_str()),
            _ => None,
        })
    }
}
