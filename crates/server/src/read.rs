//! Reads what a parsed request asks for from the stores, as far as its caller may see it.
//!
//! [`query_plan`] finds the stores in the catalog, [`permitted`] restricts the query,
//! [`list`] streams the pages.

pub mod across_kinds;
pub mod aggregate;
pub mod bindings;
pub mod completions;
pub(crate) mod counted_bytes;
pub mod explain;
pub mod fleet;
pub mod images;
pub mod interpretation;
pub mod interpreters;
pub mod list;
pub mod merged;
mod object_summary;
pub mod objects;
pub mod owners;
pub(crate) mod page_reader;
pub mod query_plan;
pub mod related;

pub mod permitted;
pub mod search;
pub mod snapshot;
pub mod store_moves;
pub mod verify;
