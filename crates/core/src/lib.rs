//! The words that all of Fleetdex shares: objects and their identity, selectors, queries, kinds, `JSONPath`.
//!
//! ```text
//!  selector, json_path ──> query ──> kinds ──> model
//! ```
//!
//! Nothing here does I/O, waits or reads a clock: every function gives the same answer for the same arguments. [`model`] has the names,
//! versions and documents, [`selector`] the label and field selectors of Kubernetes, [`query`] what can be asked of a store, [`kinds`] which
//! kinds have fields and columns of their own, [`json_path`] the `JSONPath` of kubectl and of printer columns.

pub mod json_path;
pub mod kinds;
pub mod model;
pub mod planted;
pub mod query;
pub mod selector;
pub mod terminal;
