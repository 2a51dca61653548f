//! The flags of `fleetdex search`.

use fleetdex_core::model::{ClusterName, Namespace};
use fleetdex_search::{Condition, QUALIFIERS, Qualifier};

use super::{completion, query};
use crate::{
    api::ClientConfig,
    output::{Layout, OutputArgs},
    query_args::ArgsError,
    scope_args::ScopeArgs,
};

/// Searches objects of all kinds, in all namespaces by default.
#[derive(Clone, Debug, clap::Args)]
#[command(
    mut_arg("namespace", |arg| arg.help("Only objects in this namespace, as ns:NS")),
    mut_arg("clusters", |arg| {
        arg.help(
            "Only objects of these clusters (repeatable, or separated by commas), as cluster:CLUSTER",
        )
    }),
    after_help = qualifiers()
)]
pub struct SearchArgs {
    /// Terms that must all hold, such as kind:Pod health:Degraded checkout; none: all objects
    #[arg(value_name = "QUERY", add = completion::query())]
    pub query: Vec<String>,

    /// Where the objects are.
    #[command(flatten)]
    pub scope: ScopeArgs,

    /// Maximum number of objects
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub limit: usize,

    /// All objects; overrides --limit
    #[arg(long)]
    pub all: bool,

    /// Also count all matching objects by kind, cluster, namespace and health
    #[arg(long)]
    pub facets: bool,

    /// After the objects, print every change until stopped
    #[arg(short, long)]
    pub watch: bool,

    /// How to print it.
    #[command(flatten)]
    pub output: OutputArgs,

    /// The server.
    #[command(flatten)]
    pub server: ClientConfig,
}

impl SearchArgs {
    /// How the objects are printed.
    pub(super) fn layout(&self) -> Layout {
        Layout {
            is_bare: self.watch,
            ..self.output.layout()
        }
    }

    /// The terms that flags stand for.
    pub(super) fn terms(&self) -> Result<Vec<Condition>, ArgsError> {
        let mut terms = Vec::new();
        if let Some(namespace) = self.scope.namespace() {
            let namespace: Namespace = namespace.parse()?;
            terms.push(Condition::Namespace(vec![namespace]));
        }
        let clusters = self.scope.clusters.iter().map(|name| name.parse());
        let clusters = clusters.collect::<Result<Vec<ClusterName>, _>>()?;
        if !clusters.is_empty() {
            terms.push(Condition::Cluster(clusters));
        }
        terms.extend(query::of_labels(&self.scope.selector)?);
        Ok(terms)
    }
}

/// The qualifiers, for the help.
fn qualifiers() -> String {
    let line =
        |qualifier: &Qualifier| format!("  {:<32} {}", qualifier.example, qualifier.description);
    let lines: Vec<String> = QUALIFIERS.iter().map(line).collect();
    format!(
        "Terms:\n{}\n  {:<32} objects with this word in their name, namespace, labels, images and so on\n\
         \n\
         Write NOT before a term to negate it, and a text with blanks in double quotes. A query with < or > has to be quoted for the shell.",
        lines.join("\n"),
        "checkout"
    )
}
