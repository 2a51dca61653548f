//! `fleetdex rollout status`.

use std::{process::ExitCode, time::Duration};

use fleetdex_cli::console::{self, CommandError, Console};
use tokio::time::sleep;

use super::{args::RolloutStatusArgs, live::LiveRollout, print, print::ShownRollout};

/// How often is looked with `--watch`.
const LOOK: Duration = Duration::from_secs(1);

/// Prints the status.
pub(super) async fn run(args: &RolloutStatusArgs) -> ExitCode {
    let mut has_failed = false;
    let is_complete = console::completes(
        args,
        async |args: &RolloutStatusArgs, console: &mut Console<'_>| {
            has_failed = print_status(args, console).await?;
            Ok(true)
        },
    )
    .await;
    match (is_complete, has_failed) {
        (true, false) => ExitCode::SUCCESS,
        (true, true) => ExitCode::from(1),
        (false, _) => ExitCode::from(2),
    }
}

/// Returns whether the rollout has failed.
async fn print_status(
    args: &RolloutStatusArgs,
    console: &mut Console<'_>,
) -> Result<bool, CommandError> {
    let live = LiveRollout::connect(&args.named).await;
    let live = live.map_err(CommandError::failed)?;
    let mut before: Option<ShownRollout> = None;
    loop {
        let object = live.get().await.map_err(CommandError::failed)?;
        let shown = ShownRollout::of(&object);
        if before.as_ref() != Some(&shown) {
            print::status(&shown, &object, before.is_none(), &args.output, console)?;
            console.out.flush()?;
        }
        if !args.watch || shown.has_ended() {
            return Ok(shown.has_failed());
        }
        before = Some(shown);
        sleep(LOOK).await;
    }
}
