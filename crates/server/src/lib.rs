//! The query API: Kubernetes list and watch requests over the whole fleet, served from the stores;
//! and verification of the stores' content.
//!
//! A request passes through pure steps, each its own module: [`request`] parses path and query,
//! [`query_plan`] finds the stores in the [`catalog`], [`api_error`] turns errors into responses.
//! [`list`] streams the response. [`serve`] connects the steps to the port of [`listen`].
//!
//! [`auth`] delegates authentication and authorization to the control plane; [`visible_objects`]
//! restricts responses accordingly. Without `auth` only loopback addresses are served, and every
//! request needs the token of [`token_file`], whose holder can read everything.

pub mod aggregate;
pub mod api_error;
mod api_state;
pub mod auth;
mod authentication_mode;
pub mod caller;
pub mod catalog;
pub mod changes;
pub mod clusterpedia;
mod compression;
pub mod continue_token;
pub mod coverage;
pub mod discovery;
mod etag;
pub mod explain;
pub mod flag;
pub mod group_discovery;
mod guarded_body;
mod handlers;
pub mod list;
pub mod listen;
pub mod owners;
mod page_memory;
mod page_reader;
pub mod peers;
pub mod percent;
mod planned_stream;
pub mod proxying;
pub mod query_plan;
mod remaining_pages;
pub mod report;
pub mod representation;
pub mod request;
mod response;
pub mod search_options;
pub mod serve;
pub mod snapshot;
pub mod table;
mod telemetry;
pub mod token_file;
pub mod uri;
pub mod verify;
pub mod visible_objects;
pub mod watch_options;
pub mod watch_response;

#[cfg(any(test, feature = "testing"))]
pub mod fake;
#[cfg(test)]
mod tests;

pub use caller::Caller;
pub use catalog::{Catalog, CatalogEntry};
pub use coverage::StoreCoverage;
pub use planned_stream::PlannedStream;
pub use serve::{DEFAULT_ADDRESS, Server, ServerArgs, ServerError};
pub use telemetry::Telemetry;
