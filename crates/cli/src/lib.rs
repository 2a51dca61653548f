//! The command line: one file per subcommand, and a client of the query API.
//!
//! ```text
//!  get · count · search · unhealthy · related · images · explain · verify · ui · kubeconfig ──> api ──> server on this machine, or apiserver ──> server
//!                    │
//!                    └──> console: standard output, warnings, errors, exit code
//!                    ┌──────^
//!     tools: interpreter-workbench · dashboards-commands
//! ```
//!
//! Responses are bounded and printed page by page; text from servers and members never controls the
//! terminal; errors say what to do.

mod api;
pub mod clusters;
pub mod completion;
pub mod console;
mod control_plane_args;
pub mod count;
pub mod crd;
pub mod documents;
pub mod explain;
mod fleet_reader;
pub mod get;
pub mod images;
mod index_args;
pub mod kubeconfig;
pub mod output;
mod pages;
mod query_args;
pub mod ready;
pub mod related;
pub mod resources;
mod scope_args;
pub mod search;
pub mod store;
mod targets;
#[cfg(test)]
mod test_server;
pub mod ui;
pub mod unhealthy;
pub mod verify;

pub use api::{ApiserverClient, ClientConfig, ClientError};
pub use control_plane_args::ControlPlaneArgs;
pub use fleet_reader::{FleetReader, FleetServerArgs};
pub use index_args::IndexArgs;
pub use query_args::{ArgsError, QueryArgs};
pub use scope_args::ScopeArgs;
