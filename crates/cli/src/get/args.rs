//! The flags of `fleetdex get`.

use fleetdex_core::json_path::Path;

use super::{
    Format,
    resolve::Held,
    targets::{Target, targets},
};
use crate::{QueryArgs, api::Place, console::CommandError, pages::unlimited};

/// Objects asked for at a time.
const PAGE: usize = 500;

/// Shows objects of the fleet.
#[derive(Clone, Debug, clap::Args)]
#[command(mut_arg("limit", unlimited))]
pub struct Args {
    /// What to look for.
    #[command(flatten)]
    pub query: QueryArgs,

    /// What to look for beyond what kubectl knows.
    #[command(flatten)]
    pub beyond: BeyondArgs,

    /// How to show it.
    #[command(flatten)]
    pub shown: ShownArgs,

    /// Whom to ask.
    #[command(flatten)]
    pub server: Place,
}

/// What kubectl cannot ask an apiserver for.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct BeyondArgs {
    /// Only objects that this one owns, directly or through others, such as deployment/web; it is found by its name
    #[arg(long, value_name = "TYPE/NAME", env = "FLEETDEX_OWNER")]
    pub owner: Option<String>,

    /// Let the index order by these fields, such as 'spec.nodeName,metadata.creationTimestamp desc'
    #[arg(
        long,
        value_name = "FIELDS",
        env = "FLEETDEX_ORDER_BY",
        conflicts_with = "sort_by"
    )]
    pub order_by: Option<String>,
}

impl BeyondArgs {
    /// The parameters of a list.
    pub(super) fn parameters(
        &self,
        held: &[Held],
    ) -> Result<Vec<(&'static str, String)>, CommandError> {
        let mut parameters: Vec<(&str, String)> = self
            .order_by
            .iter()
            .map(|order| ("orderBy", order.clone()))
            .collect();
        if let Some(owner) = &self.owner {
            let owners = targets(owner, &[], held)?;
            let [Target { held, names }] = owners.as_slice() else {
                return Err(not_one_owner(owner));
            };
            let [name] = names.as_slice() else {
                return Err(not_one_owner(owner));
            };
            parameters.push(("ownerName", name.clone()));
            parameters.push(("ownerGR", held.qualified_plural()));
            parameters.push(("ownerSeniority", "any".to_owned()));
        }
        Ok(parameters)
    }
}

fn not_one_owner(owner: &str) -> CommandError {
    CommandError::Usage(format!(
        "--owner {owner:?}: expected TYPE/NAME, such as deployment/web"
    ))
}

/// How objects are shown.
#[derive(Clone, Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of kubectl")]
pub struct ShownArgs {
    /// table, wide, json, yaml, name, jsonpath=TEMPLATE, jsonpath-file=FILE, custom-columns=HEADER:PATH,… or custom-columns-file=FILE
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        default_value = "table",
        env = "FLEETDEX_OUTPUT"
    )]
    pub output: Format,

    /// Sort by the field at this `JSONPath`, such as .metadata.creationTimestamp
    #[arg(long, value_name = "PATH", env = "FLEETDEX_SORT_BY")]
    pub sort_by: Option<Path>,

    /// Show all labels in the last column
    #[arg(long, env = "FLEETDEX_SHOW_LABELS")]
    pub show_labels: bool,

    /// Show these labels as columns (repeatable, or separated by commas)
    #[arg(
        short = 'L',
        long,
        value_name = "LABEL",
        value_delimiter = ',',
        env = "FLEETDEX_LABEL_COLUMNS"
    )]
    pub label_columns: Vec<String>,

    /// Leave the line of titles out
    #[arg(long, env = "FLEETDEX_NO_HEADERS")]
    pub no_headers: bool,

    /// Exit with 0 and say nothing where a named object is not found
    #[arg(long, env = "FLEETDEX_IGNORE_NOT_FOUND")]
    pub ignore_not_found: bool,

    /// Then show every change until stopped
    #[arg(short, long, env = "FLEETDEX_WATCH")]
    pub watch: bool,

    /// Show changes only, not what there is
    #[arg(long, env = "FLEETDEX_WATCH_ONLY")]
    pub watch_only: bool,

    /// Tell with --watch or --watch-only what happened: ADDED, MODIFIED or DELETED
    #[arg(long, env = "FLEETDEX_OUTPUT_WATCH_EVENTS")]
    pub output_watch_events: bool,

    /// Objects to ask for at a time; 0: as many as the server gives
    #[arg(long, value_name = "N", default_value_t = PAGE, env = "FLEETDEX_CHUNK_SIZE")]
    pub chunk_size: usize,
}

impl ShownArgs {
    pub(super) fn follows(&self) -> bool {
        self.watch || self.watch_only
    }
}
