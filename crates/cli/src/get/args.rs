//! The flags of `fleetdex get`.

use crate::{
    QueryArgs,
    api::ClientConfig,
    console::CommandError,
    output::OutputArgs,
    pages::unlimited,
    resources::DiscoveredResource,
    targets::{ResourceTarget, targets},
};

/// Objects in one request; the default of kubectl.
const CHUNK_SIZE: usize = 500;

/// Lists objects of the fleet.
#[derive(Clone, Debug, clap::Args)]
#[command(
    mut_arg("limit", unlimited),
    after_help = "For kubectl's other output formats, sort orders and commands use kubectl with the context that `fleetdex kubeconfig` writes."
)]
pub struct GetArgs {
    /// What to list.
    #[command(flatten)]
    pub query: QueryArgs,

    /// Queries that one apiserver cannot answer.
    #[command(flatten)]
    pub fleet: FleetArgs,

    /// How to print it.
    #[command(flatten)]
    pub print: PrintArgs,

    /// The server.
    #[command(flatten)]
    pub server: ClientConfig,
}

/// Queries that one apiserver cannot answer.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct FleetArgs {
    /// Only objects that this object owns, directly or through others, such as deployment/web; its
    /// name selects the owner
    #[arg(long, value_name = "TYPE/NAME")]
    pub owner: Option<String>,

    /// Sort in the index by these fields, such as 'spec.nodeName,metadata.creationTimestamp desc'
    #[arg(long, value_name = "FIELDS")]
    pub order_by: Option<String>,
}

impl FleetArgs {
    /// The query parameters of a list.
    pub(super) fn parameters(
        &self,
        resources: &[DiscoveredResource],
    ) -> Result<Vec<(&'static str, String)>, CommandError> {
        let mut parameters: Vec<(&str, String)> = self
            .order_by
            .iter()
            .map(|order| ("orderBy", order.clone()))
            .collect();
        if let Some(owner) = &self.owner {
            let owners = targets(owner, &[], resources)?;
            let [ResourceTarget { resource, names }] = owners.as_slice() else {
                return Err(invalid_owner(owner));
            };
            let [name] = names.as_slice() else {
                return Err(invalid_owner(owner));
            };
            parameters.push(("ownerName", name.clone()));
            parameters.push(("ownerGR", resource.qualified_plural()));
            parameters.push(("ownerSeniority", "any".to_owned()));
        }
        Ok(parameters)
    }
}

fn invalid_owner(owner: &str) -> CommandError {
    CommandError::Usage(format!(
        "--owner {owner:?}: expected TYPE/NAME, such as deployment/web"
    ))
}

/// How objects are printed.
#[derive(Clone, Debug, clap::Args)]
pub struct PrintArgs {
    /// The format.
    #[command(flatten)]
    pub output: OutputArgs,

    /// After the list, print every change until stopped
    #[arg(short, long)]
    pub watch: bool,

    /// Objects in one request; 0: as many as the server returns
    #[arg(long, value_name = "N", default_value_t = CHUNK_SIZE)]
    pub chunk_size: usize,
}
