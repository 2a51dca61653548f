//! `fleetdex render`: the objects of a `Distribution`, as a member would get them, without a
//! control plane. `fleetdex sandbox`, which is hidden, starts helm and kustomize within limits.
//!
//! ```text
//!  files ──> given ──> resolver, renderer ──> output
//!  --chart, --folder ──> local ──┘
//! ```
//!
//! What fetches and renders is in the crate `fleetdex-rendering`; here are files, flags and output.

mod args;
mod credentials;
mod given;
mod local;
mod output;

use std::{
    convert::Infallible, env, ffi::OsString, io, path::PathBuf, process::ExitCode, sync::Arc,
};

use fleetdex_cli::{
    console::{self, CommandError, Console},
    documents::DocumentReader,
};
use fleetdex_crds::distribution::Distribution;
use fleetdex_rendering::{
    fetch::{FetchSettings, HostPolicy},
    programs::Programs,
    renderer::{RenderLimits, Renderer},
    resolve::{ResolvedSource, SourceResolver},
    sandbox::{self, SandboxError},
    scopes::KindScopes,
    source::Capabilities,
};
use k8s_openapi::api::core::v1::Secret;

pub use self::{args::RenderArgs, output::RenderFormat};
use self::{
    credentials::SecretCredentials,
    given::{GivenObjects, namespace_of},
    local::LocalArchives,
};

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
    let local = LocalArchives::read(args.chart.as_deref(), args.folder.as_deref())
        .map_err(CommandError::failed)?;
    let fleetdex = env::current_exe()?;
    let programs = Programs::find(fleetdex, args.helm.clone(), args.kustomize.clone());
    let renderer = Renderer::new(programs, RenderLimits::default());
    let capabilities =
        Capabilities::new(&args.kubernetes_version, args.api_versions.iter().cloned());
    let mut objects = Vec::new();
    for distribution in &given.distributions {
        if let Some(warning) = unapplied(distribution) {
            console.warn(&warning)?;
        }
        let resolved = resolved(args, &given, &local, distribution).await?;
        let rendered = renderer.render(&resolved.source, &capabilities).await;
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

/// What is rendered of a `Distribution`.
async fn resolved(
    args: &RenderArgs,
    given: &GivenObjects,
    local: &LocalArchives,
    distribution: &Distribution,
) -> Result<ResolvedSource, CommandError> {
    let name = distribution.metadata.name.as_deref().unwrap_or_default();
    let namespace = namespace_of(distribution.metadata.namespace.as_deref());
    let source = &distribution.spec.source;
    let hosts = |secret: Option<&Secret>| -> Arc<dyn HostPolicy> {
        Arc::new(SecretCredentials {
            namespace: namespace.to_owned(),
            secret: secret.cloned(),
        })
    };
    let resolver = SourceResolver {
        objects: &given.named,
        archive: local.of(source, name).map_err(CommandError::failed)?,
        settings: FetchSettings {
            permits_plain_http: args.plain_http,
            ..FetchSettings::default()
        },
        hosts: &hosts,
    };
    let resolved = resolver.resolve(source, namespace, name).await;
    resolved.map_err(CommandError::failed)
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
             those of one cluster",
            fields.join(" and ")
        )
    })
}

#[cfg(test)]
mod tests;
