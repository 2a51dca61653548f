//! The command line: one file per subcommand.

mod aligned;
mod api;
pub mod completion;
pub mod console;
pub mod count;
pub mod crd;
pub mod describe;
pub mod explain;
#[cfg(test)]
mod fake;
pub mod get;
mod pages;
mod query_args;
pub mod verify;

pub use api::{ApiError, Place};
pub use query_args::{ArgsError, QueryArgs};
