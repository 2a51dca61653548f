//! The saved objects of an index.

use fleetdex_cli::IndexArgs;
use fleetdex_dashboards::{SavedObject, fields::built_in_fields, ndjson, saved_objects};
use fleetdex_store::opensearch::mappings;

/// What the saved objects are made of.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ObjectArgs {
    /// The indices.
    #[command(flatten)]
    pub index: IndexArgs,

    /// Address of Fleetdex's web page, such as <https://fleetdex.example.com/ui>: names in tables
    /// become links to it
    #[arg(long, value_name = "URL", env = "FLEETDEX_PAGE_URL", value_parser = page_url)]
    pub page_url: Option<String>,
}

/// An address that links can begin with.
fn page_url(text: &str) -> Result<String, String> {
    let url: http::Uri = text.parse().map_err(|error| format!("no URL: {error}"))?;
    match url.scheme_str() {
        Some("http" | "https") if url.query().is_none() => Ok(text.to_owned()),
        _ => Err("begins with http:// or https:// and has no query".to_owned()),
    }
}

impl ObjectArgs {
    /// The saved objects for these indices.
    pub fn objects(&self) -> Vec<SavedObject> {
        let mapping = mappings(&built_in_fields(), false);
        saved_objects(&self.index.index_prefix, &mapping, self.page_url.as_deref())
    }
}

/// The file of saved objects for the default prefix.
pub fn exported() -> String {
    ndjson(&ObjectArgs::default().objects())
}
