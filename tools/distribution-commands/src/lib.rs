//! `fleetdex plan`: which objects would go to which clusters, and why not to the others.
//! `fleetdex distribute role`: what members have to permit. `fleetdex distribute status`: what is
//! distributed, and what has become of it. `fleetdex rollout`: how far the rollout of a
//! `Distribution` is, and pausing, resuming and undoing it.
//!
//! ```text
//!  files ────────────────────────────┐
//!  control plane ──> control_plane ──┼──> live ──> inputs ──> plan ──> output ──> diff
//!  members ──> members, observed ────┤
//!  Distributions ──> planned_sets ───┘
//!                       └──> planned_hooks
//! ```
//!
//! What decides is in the crate `fleetdex-distribution`; here are files, flags and output.

mod args;
mod control_plane;
mod diff;
mod distribute;
mod distributed_sets;
mod given_room;
mod inputs;
mod live;
mod members;
mod observed;
mod operations;
mod output;
mod planned_hooks;
mod planned_sets;
mod redacted;
mod role;
mod rollout;
mod status;

use std::{io, process::ExitCode};

use fleetdex_cli::{
    console::{self, CommandError, Console},
    documents::{DocumentReader, SourceDocument},
};
use fleetdex_distribution::plan;

pub use self::{
    args::PlanArgs,
    distribute::{DistributeArgs, run as distribute},
    distributed_sets::{DistributedSets, sets},
    output::PlanFormat,
    role::{policies, rules},
    rollout::{RolloutArgs, run as roll_out},
};
use self::{
    live::LivePlan,
    operations::OfflineOperations,
    planned_sets::{UnrenderedSets, add_sets},
};

/// Prints the plan.
pub async fn run(args: &PlanArgs) -> ExitCode {
    let mut has_changes = false;
    let is_complete =
        console::completes(args, async |args: &PlanArgs, console: &mut Console<'_>| {
            has_changes = print_plan(args, &mut io::stdin().lock(), console).await?;
            Ok(true)
        })
        .await;
    match (is_complete, has_changes) {
        (true, false) => ExitCode::SUCCESS,
        (true, true) => ExitCode::from(1),
        (false, _) => ExitCode::from(2),
    }
}

/// Returns whether something would be written or deleted.
async fn print_plan(
    args: &PlanArgs,
    standard_input: &mut dyn io::Read,
    console: &mut Console<'_>,
) -> Result<bool, CommandError> {
    let mut reader = DocumentReader::new(standard_input);
    let documents = reader
        .objects(&args.filenames, args.recursive)
        .await
        .map_err(CommandError::failed)?;
    let LivePlan {
        plan,
        observed,
        failures,
    } = if args.offline {
        offline_plan(args, documents, console).await?
    } else {
        live::plan(args, documents, console).await?
    };
    output::write(&plan, &observed, args.format, console.out)?;
    if !failures.is_empty() {
        return Err(CommandError::failed(UnrenderedSets(failures)));
    }
    Ok(plan.has_changes(&observed))
}

/// A plan from files alone.
async fn offline_plan(
    args: &PlanArgs,
    documents: Vec<SourceDocument>,
    console: &mut Console<'_>,
) -> Result<LivePlan, CommandError> {
    let mut inputs = inputs::read(documents, &args.room).map_err(CommandError::failed)?;
    inputs.plan.knows_sets = !inputs.distributions.is_empty();
    let failures = add_sets(&mut inputs, None, &args.local, console).await?;
    let operations = OfflineOperations::new(&inputs.customizations, inputs.webhooks);
    Ok(LivePlan {
        plan: plan::plan(&inputs.plan, &operations),
        observed: inputs.plan.observed,
        failures,
    })
}

#[cfg(test)]
mod tests;
