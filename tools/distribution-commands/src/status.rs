//! `fleetdex distribute status`: the objects that are distributed with their clusters, as the
//! bindings of the control plane say.

use std::process::ExitCode;

use fleetdex_cli::console::{self, CommandError, Console};
use fleetdex_distribution::placement_report::PlacementReport;

mod args;
mod found;
mod print;

pub use args::StatusArgs;

/// Prints the status.
pub async fn run(args: &StatusArgs) -> ExitCode {
    let mut is_applied = false;
    let is_complete = console::completes(
        args,
        async |args: &StatusArgs, console: &mut Console<'_>| {
            is_applied = print_status(args, console).await?;
            Ok(true)
        },
    )
    .await;
    match (is_complete, is_applied) {
        (true, true) => ExitCode::SUCCESS,
        (true, false) => ExitCode::from(1),
        (false, _) => ExitCode::from(2),
    }
}

/// Returns whether all objects are as they shall be.
pub(crate) async fn print_status(
    args: &StatusArgs,
    console: &mut Console<'_>,
) -> Result<bool, CommandError> {
    let found = found::read(args).await.map_err(CommandError::failed)?;
    print::write(&found, args, console)?;
    let mut followed = found.reports.iter().filter(|report| !report.is_ignored);
    Ok(followed.all(PlacementReport::is_applied))
}
