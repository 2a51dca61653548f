//! The flags of `fleetdex local`.

use std::path::PathBuf;

use clap::Args;
use fleetdex_server::http::serve::ServerArgs;

use super::{rules::RuleArgs, store::LocalStoreArgs};

/// `fleetdex local`
#[derive(Args, Clone, Debug)]
#[command(after_help = "In another terminal: fleetdex get pods -A -l app=web")]
pub struct LocalArgs {
    /// Kubeconfig file. Default: what kubectl reads, `KUBECONFIG`, then ~/.kube/config.
    #[arg(long, env = "FLEETDEX_KUBECONFIG")]
    pub kubeconfig: Option<PathBuf>,

    /// Only these contexts (repeatable, or separated by commas). Default: all of them.
    #[arg(
        long = "context",
        value_name = "CONTEXT",
        value_delimiter = ',',
        env = "FLEETDEX_CONTEXT"
    )]
    pub contexts: Vec<String>,

    /// Only these resources, by the names that kubectl accepts (repeatable, or separated by
    /// commas). Default: the common ones.
    #[arg(
        long = "resource",
        value_name = "RESOURCE",
        value_delimiter = ',',
        env = "FLEETDEX_RESOURCE"
    )]
    pub resources: Vec<String>,

    /// Where the objects are stored.
    #[command(flatten)]
    pub store: LocalStoreArgs,

    /// Who says what objects mean beside the built-in rules.
    #[command(flatten)]
    pub rules: RuleArgs,

    /// Open the web page in the browser.
    #[arg(long, env = "FLEETDEX_UI")]
    pub ui: bool,

    /// The query API.
    #[command(flatten)]
    pub server: ServerArgs,
}
