//! The command line: one file per subcommand.

pub mod crd;
pub mod explain;
mod query_args;

pub use query_args::{ArgsError, QueryArgs};
