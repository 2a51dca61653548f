//! The command line: one file per subcommand.

mod aligned;
mod api;
pub mod crd;
pub mod explain;
pub mod get;
mod query_args;
pub mod table;
pub mod verify;

pub use api::{ApiError, ServerFlags};
pub use query_args::{ArgsError, QueryArgs};
