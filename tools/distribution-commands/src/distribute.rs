//! `fleetdex distribute`: the commands about distribution.

use std::process::ExitCode;

use fleetdex_cli::console;

use crate::{
    role::{self, RoleArgs},
    status::{self, StatusArgs},
};

/// Distribution of objects to members.
#[derive(Clone, Debug, clap::Args)]
pub struct DistributeArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: DistributeCommand,
}

/// What to do about distribution.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum DistributeCommand {
    /// Print the role that the credentials of members need, by the kinds of the policies and the
    /// Distributions
    Role(RoleArgs),
    /// List the objects that are distributed with their clusters, what each cluster shall have and
    /// has, and why they differ
    Status(StatusArgs),
}

/// Runs a command.
pub async fn run(args: &DistributeArgs) -> ExitCode {
    match &args.command {
        DistributeCommand::Role(role) => console::run(role, role::run).await,
        DistributeCommand::Status(status) => status::run(status).await,
    }
}
