//! The objects that an object refers to, by name or by a label selector.
//!
//! ```text
//!  references ──> table (kind → path → kind), pods, conventions ──> found ──> reference
//!  selector_edges (selectors)
//! ```
//!
//! Guarantee: a bounded number of references, each once, in an order that depends only on the object. Whether the objects exist is
//! not looked at. Owners are known by uid and are not among them.

use serde_json::Value;

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
pub use reference::ObjectReference;
pub use selectors::{SelectorEdge, selector_edges};

/// The objects that an object refers to by name: those of its kind's edges first, then those of its pod templates, then, for a
/// custom kind, those in members whose names are conventions. An object that is referred to in several ways has the first one's
/// relation.
pub fn references(object: &Value) -> Vec<ObjectReference> {
    let referrer = Referrer::of(object);
    let mut found = Found::of(&referrer);
    table::add(&referrer, &mut found);
    pods::add(&referrer, &mut found);
    conventions::add(&referrer, &mut found);
    found.references()
}

#[cfg(test)]
mod tests;
