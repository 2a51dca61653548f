//! The types that all crates of Fleetdex share: objects and documents, selectors, queries, kinds,
//! `JSONPath`.
//!
//! ```text
//!  query ──> selector, kinds ──> model ──> json_path ──> fuel
//! ```
//!
//! Guarantee: nothing here does I/O, waits or reads a clock. Every function returns the same result
//! for the same arguments. [`model`] has the names, versions and documents, [`selector`] the label
//! and field selectors of Kubernetes, [`query`] the queries to stores, [`kinds`] the built-in kinds
//! with their fields, [`json_path`] the `JSONPath` of kubectl, of printer columns and of
//! redactions, [`fuel`] the bound of evaluations, [`yaml`] the style of Kubernetes' YAML.

pub mod fuel;
pub mod json_path;
pub mod kinds;
pub mod model;
pub mod planted;
pub mod query;
pub mod selector;
pub mod terminal;
pub mod yaml;
