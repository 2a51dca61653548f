//! `fleetdex store role`: prints the role that a user of OpenSearch needs for Fleetdex.

use fleetdex_core::yaml;
use fleetdex_store::opensearch::role::role;
use serde_json::json;

use crate::{
    IndexArgs,
    console::{CommandError, Console},
    output::OutputError,
};

/// What a store has to permit.
#[derive(Clone, Debug, clap::Args)]
pub struct StoreArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: StoreCommand,
}

/// What to do with a store.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum StoreCommand {
    /// Print the role of OpenSearch that the user of a registry needs, with no more permissions
    /// than that
    Role(StoreRoleArgs),
}

/// Prints the role.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Give the role to the user whose name and password are in the Secret of the registry.\n\n\
For example: fleetdex store role -o json | curl --user admin --request PUT --header 'Content-Type: application/json' --data @- \
https://search.example.com:9200/_plugins/_security/api/roles/fleetdex"
)]
pub struct StoreRoleArgs {
    /// yaml: the role `fleetdex` as in the file roles.yml of securityadmin; json: a body for the
    /// REST API of the security plugin
    #[arg(short, long, default_value = "yaml")]
    pub output: StoreRoleFormat,

    /// The indices.
    #[command(flatten)]
    pub index: IndexArgs,
}

/// How the role is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum StoreRoleFormat {
    /// A YAML document.
    #[default]
    Yaml,
    /// A JSON object.
    Json,
}

/// Runs a command.
pub fn store(args: &StoreArgs, console: &mut Console<'_>) -> Result<bool, CommandError> {
    let StoreCommand::Role(args) = &args.command;
    write!(console.out, "{}", args.text()?)?;
    Ok(true)
}

impl StoreRoleArgs {
    fn text(&self) -> Result<String, OutputError> {
        let role = role(&self.index.index_prefix);
        match self.output {
            StoreRoleFormat::Json => Ok(format!("{role:#}\n")),
            StoreRoleFormat::Yaml => {
                let file = json!({
                    "_meta": { "type": "roles", "config_version": 2 },
                    "fleetdex": role,
                });
                Ok(yaml::to_string(&file)?)
            }
        }
    }
}
