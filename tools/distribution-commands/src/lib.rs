//! `fleetdex plan`: which objects would go to which clusters, and why not to the others.
//!
//! What decides is in the crate `fleetdex-distribution`; here are files, flags and output.

mod inputs;
mod operations;
mod output;

use std::{io, process::ExitCode};

use fleetdex_cli::{
    console::{self, CommandError, Console},
    documents::DocumentReader,
};
use fleetdex_distribution::plan;

pub use self::output::PlanFormat;
use self::{inputs::GivenRoom, operations::OfflineOperations};

/// Shows which objects would go to which clusters.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
The files have objects of the control plane: Clusters, PropagationPolicies and OverridePolicies,
ResourceInterpreterCustomizations, ResourceBindings (where objects are now), WorkloadRebalancers,
and the objects to distribute. An object with the annotation
resource.karmada.io/cached-from-cluster is what that cluster has: Nodes and Pods say how much room
there is, others what would be overwritten.

For example:
  fleetdex plan --offline -f clusters.yaml -f policies/ -f nginx.yaml
  fleetdex plan --offline -f all.yaml --room member1=18,member2=12 -o json

Exit code: 0 if nothing would be written or deleted, 1 if something would, 2 if there is no plan.")]
pub struct PlanArgs {
    /// Plan from files alone, without a control plane
    #[arg(long, required = true)]
    pub offline: bool,

    /// Files, folders or URLs with objects; - is standard input (repeatable, or separated by
    /// commas)
    #[arg(
        short = 'f',
        long = "filename",
        value_name = "FILE",
        value_delimiter = ',',
        required = true
    )]
    pub filenames: Vec<String>,

    /// Read the folders of --filename with all folders below
    #[arg(short = 'R', long)]
    pub recursive: bool,

    /// For how many replicas more a cluster has room, instead of what its Nodes, its Pods and its
    /// resourceSummary say (repeatable, or separated by commas)
    #[arg(long, value_name = "CLUSTER=REPLICAS", value_delimiter = ',')]
    pub room: Vec<GivenRoom>,

    /// How the plan is printed: table, json or yaml
    #[arg(
        short = 'o',
        long = "output",
        value_name = "FORMAT",
        default_value = "table"
    )]
    pub format: PlanFormat,
}

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
    let inputs = inputs::read(documents, &args.room).map_err(CommandError::failed)?;
    let operations = OfflineOperations::new(&inputs.customizations, inputs.webhooks);
    let plan = plan::plan(&inputs.plan, &operations);
    output::write(&plan, args.format, console.out)?;
    Ok(plan.has_changes(&inputs.plan.observed))
}

#[cfg(test)]
mod tests;
