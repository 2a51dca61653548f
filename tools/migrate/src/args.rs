//! The arguments of `fleetdex migrate`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use fleetdex_cli::ControlPlaneArgs;
use fleetdex_clusters::secret_hosts::SecretHosts;

use fleetdex_checks::result::CheckFormat;

/// Moves an installation of another program to Fleetdex.
#[derive(Args, Clone, Debug)]
pub struct MigrateArgs {
    /// From what.
    #[command(subcommand)]
    pub from: MigrateCommand,
}

/// The programs that Fleetdex replaces.
#[derive(Clone, Debug, Subcommand)]
pub enum MigrateCommand {
    /// Take a Karmada control plane over from karmada-search, or give it back; a dry run without
    /// --apply
    KarmadaSearch(Box<KarmadaSearchArgs>),
}

/// Moves the registries of karmada-search.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Without --apply nothing is changed: the checks say what would be different. An interrupted migration or rollback goes on when the same command is run \
again. Exit code: 0 done, or possible; 1 it cannot be done, has failed, or a stored registry is not as in the export, with what to do.\n\n\
For example: fleetdex migrate karmada-search --export karmada-search.json --apply"
)]
pub struct KarmadaSearchArgs {
    /// Change the control plane. A migration needs --export.
    #[arg(long)]
    pub apply: bool,

    /// Write the registries, the `APIService` and its Service to this new file (JSON, mode 0600).
    /// With --rollback: the registries that Fleetdex has by then.
    #[arg(long, value_name = "FILE")]
    pub export: Option<PathBuf>,

    /// Give the control plane back to karmada-search, by the export of its migration: registries
    /// and CRD of Fleetdex are deleted.
    #[arg(long, value_name = "FILE")]
    pub rollback: Option<PathBuf>,

    /// Seconds that each step may wait for the control plane.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub timeout: u64,

    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    pub output: CheckFormat,

    /// The control plane.
    #[command(flatten)]
    pub control_plane: ControlPlaneArgs,

    /// The hosts that Secrets may be sent to, as `fleetdex run` will have them.
    #[command(flatten)]
    pub secret_hosts: SecretHosts,
}
