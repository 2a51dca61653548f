//! `fleetdex render`: the objects of a `Distribution`, as a member would get them. `fleetdex
//! sandbox`, which is hidden, starts helm and kustomize within limits.
//!
//! ```text
//!  files ──> given ──────────> local_rendering ──> output
//!  --chart, --folder ──> local ──┘    │
//!  --cluster ──> cluster_capabilities ┘
//! ```
//!
//! What fetches and renders is in the crate `fleetdex-rendering`; here are files, flags and output.

mod args;
mod cluster_capabilities;
mod credentials;
mod given;
mod local;
mod local_rendering;
mod output;

use std::{
    convert::Infallible, ffi::OsString, io, path::PathBuf, process::ExitCode, time::Duration,
};

use fleetdex_cli::{
    ControlPlaneArgs,
    console::{self, CommandError, Console},
    documents::DocumentReader,
};
use fleetdex_core::model::causes;
use fleetdex_crds::{cluster::Cluster, distribution::Distribution};
use fleetdex_rendering::{
    sandbox::{self, SandboxError},
    scopes::KindScopes,
    source::Capabilities,
};
use kube::Api;
use tokio::time::timeout;

use self::given::{GivenObjects, namespace_of};
pub use self::{
    args::{LocalSourceArgs, ProgramArgs, RenderArgs},
    cluster_capabilities::capabilities_of,
    local_rendering::{LocalRenderError, LocalRendering, LocalSource},
    output::RenderFormat,
};

/// How long the control plane may take to answer.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// The arguments of the hidden command that limits itself and becomes helm or kustomize.
#[derive(Clone, Debug, clap::Args)]
pub struct SandboxArgs {
    /// The folder that it can read and write
    scratch: PathBuf,
    /// The program
    program: PathBuf,
    /// Its arguments
    #[arg(last = true)]
    arguments: Vec<OsString>,
}

/// Becomes the program; returns only if that fails. This process has to have a single thread.
pub fn sandbox(args: &SandboxArgs) -> Result<Infallible, SandboxError> {
    sandbox::execute(&args.scratch, &args.program, &args.arguments)
}

/// Prints the objects.
pub async fn run(args: &RenderArgs) -> ExitCode {
    console::run(
        args,
        async |args: &RenderArgs, console: &mut Console<'_>| {
            render(args, &mut io::stdin().lock(), console).await?;
            Ok(true)
        },
    )
    .await
}

async fn render(
    args: &RenderArgs,
    standard_input: &mut dyn io::Read,
    console: &mut Console<'_>,
) -> Result<(), CommandError> {
    let mut reader = DocumentReader::new(standard_input);
    let documents = reader
        .objects(&args.filenames, args.recursive)
        .await
        .map_err(CommandError::failed)?;
    let given = GivenObjects::of(documents).map_err(CommandError::failed)?;
    let rendering = LocalRendering::new(&args.local).map_err(CommandError::failed)?;
    let capabilities = capabilities(args, &given).await?;
    let mut objects = Vec::new();
    for distribution in &given.distributions {
        if let Some(warning) = unapplied(distribution) {
            console.warn(&warning)?;
        }
        let set = LocalSource {
            namespace: namespace_of(distribution.metadata.namespace.as_deref()),
            name: distribution.metadata.name.as_deref().unwrap_or_default(),
            source: &distribution.spec.source,
            objects: &given.named,
            takes_archives: true,
        };
        let resolved = rendering.resolve(&set).await;
        let resolved = resolved.map_err(CommandError::failed)?;
        let rendered = rendering.render(&resolved.source, &capabilities).await;
        let mut set = rendered.map_err(CommandError::failed)?;
        for warning in &set.warnings {
            console.warn(warning)?;
        }
        let scopes = KindScopes::of(&set);
        set.fill_namespaces(&resolved.namespace, |kind| scopes.is_namespaced(kind));
        objects.extend(set.crds);
        objects.extend(set.objects);
        if args.show_hooks {
            objects.extend(set.hooks.into_iter().map(|hook| hook.object));
        }
    }
    output::write(&objects, args.format, console.out)?;
    Ok(())
}

/// What charts are rendered for.
async fn capabilities(
    args: &RenderArgs,
    given: &GivenObjects,
) -> Result<Capabilities, CommandError> {
    let Some(name) = &args.cluster else {
        let versions = args.api_versions.iter().cloned();
        return Ok(Capabilities::new(&args.kubernetes_version, versions));
    };
    let mut clusters = given.clusters.iter();
    let named = |cluster: &&Cluster| cluster.metadata.name.as_deref() == Some(name);
    let cluster = match clusters.find(named) {
        Some(given) => given.clone(),
        None => served_cluster(args, name).await?,
    };
    let found = capabilities_of(&cluster);
    found.ok_or_else(|| {
        CommandError::Usage(format!(
            "the status of Cluster {name} does not have its version of Kubernetes and its API \
             versions: use --kubernetes-version and --api-versions"
        ))
    })
}

/// A `Cluster` of the control plane.
async fn served_cluster(args: &RenderArgs, name: &str) -> Result<Cluster, CommandError> {
    let unread = |reason: String| {
        CommandError::Usage(format!(
            "cannot read Cluster {name}, which no file of --filename has, of the control plane: \
             {reason}"
        ))
    };
    let config = args.control_plane.config().await;
    let client = config.and_then(|config| ControlPlaneArgs::client(&config));
    let client = client.map_err(|error| unread(format!("{error:#}")))?;
    let clusters: Api<Cluster> = Api::all(client);
    match timeout(READ_TIMEOUT, clusters.get(name)).await {
        Ok(Ok(cluster)) => Ok(cluster),
        Ok(Err(error)) => Err(unread(causes(&error))),
        Err(_) => Err(unread(format!(
            "no answer within {} s",
            READ_TIMEOUT.as_secs()
        ))),
    }
}

/// What a `Distribution` asks for and what is printed does not have.
fn unapplied(distribution: &Distribution) -> Option<String> {
    let fields = [
        (distribution.spec.placement.is_some(), "placement"),
        (!distribution.spec.overrides.is_empty(), "overrides"),
    ];
    let fields: Vec<&str> = fields
        .into_iter()
        .filter_map(|(is_given, field)| is_given.then_some(field))
        .collect();
    let name = distribution.metadata.name.as_deref().unwrap_or_default();
    (!fields.is_empty()).then(|| {
        format!(
            "Distribution {name}: without {}: these are the objects as they are rendered, and not \
             those of one cluster, which fleetdex plan prints",
            fields.join(" and ")
        )
    })
}

#[cfg(test)]
mod tests;
