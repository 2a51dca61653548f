//! The command line: one file per subcommand.

mod aligned;
mod api;
pub mod console;
pub mod count;
pub mod crd;
pub mod explain;
pub mod get;
pub mod json_path;
mod query_args;
pub mod table;
pub mod verify;

pub use api::{ApiError, Place};
pub use query_args::{ArgsError, QueryArgs};
