//! The indices that saved objects and roles are for.

use fleetdex_core::model::IndexPrefix;
use fleetdex_dashboards::{SavedObject, fields::built_in_fields, ndjson, saved_objects};
use fleetdex_store::opensearch::mappings;

/// The indices that the objects or roles are for.
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

impl IndexArgs {
    /// The saved objects for these indices.
    pub fn objects(&self) -> Vec<SavedObject> {
        saved_objects(&self.index_prefix, &mappings(&built_in_fields(), false))
    }
}

/// The file of saved objects for the default prefix.
pub fn exported() -> String {
    ndjson(&IndexArgs::default().objects())
}
