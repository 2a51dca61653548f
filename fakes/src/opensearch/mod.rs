//! A fake OpenSearch: indices, aliases, external versions, points in time, and faults.
//!
//! [`OpenSearch`] has two sides: a store sends its requests to [`OpenSearch::service`], in place of
//! the transport of the `opensearch` crate. Tests use the other methods to inspect the state and
//! inject faults.
//!
//! It supports what Fleetdex uses and rejects the rest: an unknown path, parameter, clause or
//! setting is an error, as on the real server, and is never ignored silently.

mod admin;
mod aggregation;
mod alias;
mod aliases;
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
mod response;
mod route;
mod search;
mod searchable;
mod serve;
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
pub use serve::serve;
pub use server::{IndexState, OpenSearch, StoredDocument};
