//! The arguments of `fleetdex plan`.

use fleetdex_cli::{ControlPlaneArgs, FleetServerArgs};
use fleetdex_rendering_commands::LocalSourceArgs;

use crate::{given_room::GivenRoom, output::PlanFormat};

/// Shows which objects would go to which clusters.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Policies, Clusters and objects are those of the control plane; objects of --filename take the place
of those with the same names, as if they were applied. What members have is asked of Fleetdex's
server.

Distributions are rendered here, by helm and kustomize, for the clusters that they select.

With --offline the files have everything: Clusters, PropagationPolicies and OverridePolicies,
ResourceInterpreterCustomizations, ResourceBindings (where objects are now), WorkloadRebalancers,
Distributions with the ConfigMaps and Secrets that they name, and the objects to distribute. An
object with the annotation
resource.karmada.io/cached-from-cluster is what that cluster has: Nodes and Pods say how much room
there is, others what would be overwritten.

For example:
  fleetdex plan --context control-plane
  fleetdex plan --context control-plane -f policies/ -o diff
  fleetdex plan --offline -f clusters.yaml -f policies/ -f nginx.yaml
  fleetdex plan --offline -f clusters.yaml -f web.yaml --chart ./charts/web -o diff
  fleetdex plan --offline -f all.yaml --room member1=18,member2=12 -o json

Exit code: 0 if nothing would be written or deleted, 1 if something would, 2 if there is no plan, or
none of a Distribution.")]
pub struct PlanArgs {
    /// Plan from files alone, without a control plane
    #[arg(long)]
    pub offline: bool,

    /// Files, folders or URLs with objects; - is standard input (repeatable, or separated by
    /// commas)
    #[arg(
        short = 'f',
        long = "filename",
        value_name = "FILE",
        value_delimiter = ',',
        required_if_eq("offline", "true")
    )]
    pub filenames: Vec<String>,

    /// Read the folders of --filename with all folders below
    #[arg(short = 'R', long)]
    pub recursive: bool,

    /// For how many replicas more a cluster has room, instead of what its Nodes, its Pods and its
    /// resourceSummary say (repeatable, or separated by commas)
    #[arg(long, value_name = "CLUSTER=REPLICAS", value_delimiter = ',')]
    pub room: Vec<GivenRoom>,

    /// How the plan is printed: table, json, yaml, or diff: what would change in members
    #[arg(
        short = 'o',
        long = "output",
        value_name = "FORMAT",
        default_value = "table"
    )]
    pub format: PlanFormat,

    /// Where charts and folders of the Distributions of files come from, and what renders all.
    #[command(flatten)]
    pub local: LocalSourceArgs,

    /// The control plane.
    #[command(flatten)]
    pub control_plane: ControlPlaneArgs,

    /// The server that knows what members have.
    #[command(flatten)]
    pub server: FleetServerArgs,
}
