//! Kubernetes' `JSONPath`: fields, keys in quotes, indices, slices, wildcards, recursive descent, unions, and filters that compare or ask
//! whether something is there. Columns of custom resources are paths of it, `kubectl get -o jsonpath` has templates of them ([`Template`]).
//!
//! It is a dialect of its own, which RFC 9535 does not describe: a field that is not there is nothing, a dot in a key has a backslash, and `$`
//! is the same as `@`. What it reads beyond Kubernetes is what people mean by it: keys in double quotes, `..*`, and `.` for the whole.
//!
//! Source of the rules: <https://kubernetes.io/docs/reference/kubectl/jsonpath/>, `k8s.io/client-go/util/jsonpath`, and the behaviour of
//! kubectl.

mod ast;
mod evaluate;
mod json;
mod parse;
mod print;
mod template;
#[cfg(test)]
mod tests;

use std::cell::Cell;

pub use self::{
    ast::JsonPathError,
    json::{Json, Scalar},
    print::{go_text, text},
    template::Template,
};
use self::{ast::Step, evaluate::Walk};

/// How many values a bounded walk looks at for each that it may find: most of what a filter or a descent comes by is not what is looked for.
const LOOKS: usize = 100;

/// A path alone: `.spec.nodeName`, and as `--sort-by` and custom columns of kubectl have it `spec.nodeName` or `{.spec.nodeName}`.
#[derive(Clone, Debug, PartialEq)]
pub struct Path(Vec<Step>);

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
