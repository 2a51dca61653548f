//! The arguments of `fleetdex rollout`.

use fleetdex_cli::{ControlPlaneArgs, output::OutputArgs};

/// Which rollout.
#[derive(Clone, Debug, clap::Args)]
pub struct NamedRollout {
    /// The Distribution
    #[arg(value_name = "NAME")]
    pub name: String,

    /// Its namespace [default: that of the context]
    #[arg(short, long, value_name = "NS")]
    pub namespace: Option<String>,

    /// The control plane with the Distribution.
    #[command(flatten)]
    pub control_plane: ControlPlaneArgs,
}

/// Shows how far a rollout is.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
For example:
  fleetdex rollout status web -n shop
  fleetdex rollout status web -n shop --watch

Exit code: 0 if the rollout goes on or has ended, 1 if it has failed, 2 if it is not known.")]
pub struct RolloutStatusArgs {
    /// Which rollout.
    #[command(flatten)]
    pub named: NamedRollout,

    /// Print each change until all clusters have the revision, the rollout has failed, or it is
    /// undone
    #[arg(short, long)]
    pub watch: bool,

    /// How to print it.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Lists the revisions that are kept.
#[derive(Clone, Debug, clap::Args)]
pub struct RolloutHistoryArgs {
    /// Which rollout.
    #[command(flatten)]
    pub named: NamedRollout,

    /// How to print it.
    #[command(flatten)]
    pub output: OutputArgs,
}
