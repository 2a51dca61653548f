//! `fleetdex dashboards`: saved objects of OpenSearch Dashboards, and roles for its users.
//!
//! What the objects and roles are is in the crate `fleetdex-dashboards`; here are files, requests
//! and flags.

mod error;
mod import;
mod install;
mod login;
mod objects;
mod roles;

use fleetdex_cli::console::{CommandError, Console};
use fleetdex_dashboards::ndjson;

pub use self::{
    error::DashboardsError,
    import::RefusedObject,
    install::InstallArgs,
    login::LoginArgs,
    objects::{ObjectArgs, exported},
    roles::RolesArgs,
};

/// Saved objects and roles of OpenSearch Dashboards.
#[derive(Clone, Debug, clap::Args)]
pub struct DashboardsArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: DashboardsCommand,
}

/// What to do with Dashboards.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum DashboardsCommand {
    /// Print index patterns, saved searches, visualizations and dashboards as a file to import
    Export(ExportArgs),
    /// Create them in OpenSearch Dashboards, or replace what an earlier version created
    Install(InstallArgs),
    /// Print roles of OpenSearch that show users what Kubernetes' RBAC lets them list
    Roles(RolesArgs),
}

/// Prints the saved objects.
#[derive(Clone, Debug, clap::Args)]
pub struct ExportArgs {
    /// The objects.
    #[command(flatten)]
    pub objects: ObjectArgs,
}

/// Runs a command.
pub async fn run(args: &DashboardsArgs, console: &mut Console<'_>) -> Result<bool, CommandError> {
    match &args.command {
        DashboardsCommand::Export(export) => {
            write!(console.out, "{}", ndjson(&export.objects.objects()))?;
            Ok(true)
        }
        DashboardsCommand::Install(install) => install::install(install, console).await,
        DashboardsCommand::Roles(roles) => roles::print(roles, console).await,
    }
}
