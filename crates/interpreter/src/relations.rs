//! The objects that an object refers to, by name or by a label selector.
//!
//! ```text
//!  references ──> table (kind → path → kind), pods, conventions ──> found ──> reference
//!  selector_edge (selectors)
//! ```
//!
//! Guarantee: a bounded number of references, each once, in an order that depends only on the
//! object. Whether the objects exist is not looked at. Owners are known by uid and are not among
//! them.

use crate::{pod_template, value::Tree};

use found::Found;
use reference::Referrer;

mod conventions;
mod found;
mod paths;
mod pods;
mod reference;
mod selectors;
mod table;
mod versions;

pub use found::MAX_REFERENCES;
pub(crate) use paths::without_brackets;
pub(crate) use pods::paths as pod_paths;
pub use reference::ObjectReference;
pub use selectors::{SelectorEdge, selector_edge};
pub(crate) use table::paths_of_kind;

/// The objects that an object refers to by name: those of its kind's edges first, then those of its
/// pod templates, then, for a custom kind, those in members whose names are conventions. An object
/// that is referred to in several ways has the first one's relation.
pub fn references(object: Tree<'_>) -> Vec<ObjectReference> {
    let referrer = Referrer::of(object);
    found(&referrer, &pod_template::pod_specs(object)).references()
}

/// The objects that the edges of an object's kind lead to. A member counts for the place that the
/// kind gives it, never for its name alone.
pub fn references_of_kind(object: Tree<'_>) -> Vec<ObjectReference> {
    let referrer = Referrer::of(object);
    let mut found = Found::of(&referrer);
    table::add(&referrer, &mut found);
    found.references()
}

/// The terms of the [references] of an object whose pods have these specs.
pub(crate) fn terms(object: Tree<'_>, pods: &[Tree<'_>]) -> Vec<String> {
    let referrer = Referrer::of(object);
    found(&referrer, pods).terms()
}

fn found<'r>(referrer: &'r Referrer<'r>, pods: &[Tree<'_>]) -> Found<'r> {
    let mut found = Found::of(referrer);
    table::add(referrer, &mut found);
    pods::add(referrer, pods, &mut found);
    conventions::add(referrer, &mut found);
    found
}

#[cfg(test)]
mod tests;
