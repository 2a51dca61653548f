//! An OpenSearch: indices, aliases, external versions, points in time, and faults.
//!
//! [`OpenSearch`] is both sides of it: [`OpenSearch::service`] is what a store sends its requests to, in place of the transport of
//! the `opensearch` crate, and everything else is the test's side, which sees the truth and lets things go wrong.
//!
//! It answers what Fleetdex asks, and beyond that refuses: a path, parameter, clause or setting that it does not know is an error,
//! as it is of the real server, and never passed over in silence.

mod admin;
mod aggregation;
mod alias;
mod aliases;
mod answer;
mod blocks;
mod bulk;
mod bulk_lines;
mod call;
mod cluster;
mod counters;
mod dates;
mod document;
mod faults;
mod filter_path;
mod glob;
mod index;
mod index_template;
mod json;
mod mapping;
mod plan;
mod point_in_time;
mod points;
mod query;
mod route;
mod search;
mod server;
mod service;
mod settings;
mod shards;
mod sort;
mod template;
mod transport;
mod version;

pub use counters::Counters;
pub use faults::{Fault, FaultKind, Span};
pub use server::{IndexState, OpenSearch, StoredDocument};
