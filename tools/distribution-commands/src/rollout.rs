//! `fleetdex rollout`: how far the rollout of a `Distribution` is, and pausing, resuming and
//! undoing it, as `kubectl rollout` does for workloads; and running its hooks again.

use std::process::ExitCode;

use fleetdex_cli::console;

use self::args::{NamedRollout, RolloutHistoryArgs, RolloutStatusArgs};

mod args;
mod changes;
mod live;
mod print;
mod watching;

/// The rollouts of Distributions.
#[derive(Clone, Debug, clap::Args)]
pub struct RolloutArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: RolloutCommand,
}

/// What to do about a rollout.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum RolloutCommand {
    /// Show how far the rollout of a Distribution is
    Status(RolloutStatusArgs),
    /// Let no further wave begin
    Pause(NamedRollout),
    /// Let the next wave begin: of a rollout that is paused, waits after a wave, has failed, or was
    /// undone
    Resume(NamedRollout),
    /// Go back to the last revision that was healthy in all clusters, in all clusters at once
    Undo(NamedRollout),
    /// Run the hooks again that have failed
    Retry(NamedRollout),
    /// List the revisions that are kept
    History(RolloutHistoryArgs),
}

/// Runs a command.
pub async fn run(args: &RolloutArgs) -> ExitCode {
    match &args.command {
        RolloutCommand::Status(status) => watching::run(status).await,
        RolloutCommand::Pause(named) => console::run(named, live::pause).await,
        RolloutCommand::Resume(named) => console::run(named, live::resume).await,
        RolloutCommand::Undo(named) => console::run(named, live::undo).await,
        RolloutCommand::Retry(named) => console::run(named, live::retry).await,
        RolloutCommand::History(history) => console::run(history, live::history).await,
    }
}
