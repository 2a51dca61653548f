//! Which indices a command is for.

use fleetdex_core::model::IndexPrefix;

/// The indices that saved objects or roles are for.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct IndexArgs {
    /// The indexPrefix of the registries
    #[arg(
        long,
        value_name = "PREFIX",
        default_value = "fleetdex",
        env = "FLEETDEX_INDEX_PREFIX"
    )]
    pub index_prefix: IndexPrefix,
}
