//! The command line: one file per subcommand.

pub mod crd;
pub mod explain;
pub mod get;
mod query_args;
pub mod table;

pub use query_args::{ArgsError, QueryArgs};
