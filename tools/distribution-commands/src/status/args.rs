//! The arguments of `fleetdex distribute status`.

use fleetdex_cli::{ControlPlaneArgs, output::OutputArgs};

/// Lists the objects that are distributed.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
The bindings are read from the control plane: you need the right to list resourcebindings there, and
clusterresourcebindings for objects without a namespace. With the name of an object its conditions
and the clusters that are not chosen are listed, too.

For example:
  fleetdex distribute status -A
  fleetdex distribute status deployments -n shop
  fleetdex distribute status deployment/web -n shop -o wide

Exit code: 0 if all chosen clusters have their objects as they shall be, 1 if one does not or if an
object is not placed, 2 if it is not known.")]
pub struct StatusArgs {
    /// The kind, as kubectl takes it, such as deployments or deploy.apps; or TYPE/NAME
    #[arg(value_name = "RESOURCE")]
    pub resource: Option<String>,

    /// The name of one object
    #[arg(value_name = "NAME")]
    pub name: Option<String>,

    /// Objects of this namespace [default: that of the context]
    #[arg(short, long, value_name = "NS")]
    pub namespace: Option<String>,

    /// Objects of all namespaces, and those without one; overrides --namespace
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,

    /// How to print it.
    #[command(flatten)]
    pub output: OutputArgs,

    /// The control plane with the bindings.
    #[command(flatten)]
    pub control_plane: ControlPlaneArgs,
}
