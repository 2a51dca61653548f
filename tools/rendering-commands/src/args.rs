//! The arguments of `fleetdex render`.

use std::path::PathBuf;

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

    /// A chart in place of that of the Distribution: a folder, or an archive as helm package writes
    /// it
    #[arg(long, value_name = "PATH", conflicts_with = "folder")]
    pub chart: Option<PathBuf>,

    /// A folder in place of that of the Distribution, or a gzipped tar of it
    #[arg(long, value_name = "PATH")]
    pub folder: Option<PathBuf>,

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

    /// The program helm, instead of that in PATH
    #[arg(long, value_name = "FILE")]
    pub helm: Option<PathBuf>,

    /// The program kustomize, instead of that in PATH
    #[arg(long, value_name = "FILE")]
    pub kustomize: Option<PathBuf>,

    /// Fetch from registries by http, and from repositories whose address has http
    #[arg(long)]
    pub plain_http: bool,
}
