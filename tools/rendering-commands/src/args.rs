//! The arguments of `fleetdex render`.

use std::{env, io, path::PathBuf};

use fleetdex_cli::ControlPlaneArgs;
use fleetdex_rendering::programs::Programs;

use crate::output::RenderFormat;

/// Prints the objects of a `Distribution`, in the order in which they are applied.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
The files have the Distributions, and the ConfigMaps and Secrets that they name. helm and kustomize
render; they have no network, and read nothing but what is rendered. Charts and folders are fetched
from where the Distribution says, or taken from --chart and --folder.

For example:
  fleetdex render -f web.yaml
  fleetdex render -f web.yaml --kubernetes-version 1.34.0 --api-versions monitoring.coreos.com/v1
  fleetdex render -f web.yaml --cluster member1 --context control-plane
  fleetdex render -f web.yaml --chart ./charts/web --show-hooks -o json
  fleetdex render -f folder.yaml --folder ./deploy")]
pub struct RenderArgs {
    /// Files, folders or URLs with Distributions and what they name; - is standard input
    /// (repeatable, or separated by commas)
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

    /// The version of Kubernetes that charts are rendered for; without it, that of helm
    #[arg(
        long,
        value_name = "VERSION",
        default_value = "",
        hide_default_value = true
    )]
    pub kubernetes_version: String,

    /// API versions that charts are rendered for beside those that helm knows, such as
    /// monitoring.coreos.com/v1 (repeatable, or separated by commas)
    #[arg(long, value_name = "GROUP/VERSION", value_delimiter = ',')]
    pub api_versions: Vec<String>,

    /// Render for this cluster: its version of Kubernetes and its API versions, by its Cluster in
    /// the files, or else on the control plane
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with_all = ["kubernetes_version", "api_versions"]
    )]
    pub cluster: Option<String>,

    /// Print hooks as well, at the end, in the order of their weights
    #[arg(long)]
    pub show_hooks: bool,

    /// How objects are printed: yaml or json
    #[arg(
        short = 'o',
        long = "output",
        value_name = "FORMAT",
        default_value = "yaml"
    )]
    pub format: RenderFormat,

    /// Where charts and folders come from, and what renders them.
    #[command(flatten)]
    pub local: LocalSourceArgs,

    /// The control plane with the Cluster.
    #[command(flatten)]
    pub control_plane: ControlPlaneArgs,
}

/// Where charts and folders come from, and what renders them.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct LocalSourceArgs {
    /// A chart in place of that of the Distribution: a folder, or an archive as helm package writes
    /// it
    #[arg(long, value_name = "PATH", conflicts_with = "folder")]
    pub chart: Option<PathBuf>,

    /// A folder in place of that of the Distribution, or a gzipped tar of it
    #[arg(long, value_name = "PATH")]
    pub folder: Option<PathBuf>,

    /// The programs.
    #[command(flatten)]
    pub programs: ProgramArgs,

    /// Fetch from registries by http, and from repositories whose address has http
    #[arg(long)]
    pub plain_http: bool,
}

/// Where the programs are that render.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ProgramArgs {
    /// The program helm, which renders charts of Distributions, instead of that in PATH
    #[arg(long, value_name = "FILE", env = "FLEETDEX_HELM")]
    pub helm: Option<PathBuf>,

    /// The program kustomize, which renders folders of Distributions, instead of that in PATH
    #[arg(long, value_name = "FILE", env = "FLEETDEX_KUSTOMIZE")]
    pub kustomize: Option<PathBuf>,
}

impl ProgramArgs {
    /// The programs, which this one starts.
    pub fn find(&self) -> io::Result<Programs> {
        let fleetdex = env::current_exe()?;
        Ok(Programs::find(
            fleetdex,
            self.helm.clone(),
            self.kustomize.clone(),
        ))
    }
}
