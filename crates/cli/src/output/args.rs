//! The flags of output.

use super::{OutputFormat, printer::Layout};

/// How a list is printed.
#[derive(Clone, Debug, clap::Args)]
pub struct OutputArgs {
    /// table, wide, json, yaml or name
    #[arg(
        short = 'o',
        long = "output",
        value_name = "FORMAT",
        default_value = "table"
    )]
    pub format: OutputFormat,

    /// Print tables without the header line
    #[arg(long)]
    pub no_headers: bool,
}

impl OutputArgs {
    /// The layout of a list whose Table has columns for the namespace and the kind.
    pub(crate) fn layout(&self) -> Layout {
        Layout {
            format: self.format,
            with_namespace: false,
            with_kind: false,
            with_headers: !self.no_headers,
            is_bare: false,
        }
    }
}
