//! `fleetdex crd`: prints the CRDs; `fleetdex crd apply`: applies them to a control plane.

mod apply;
mod decision;
mod definitions;
mod error;
mod managed_fields;

use std::io::Write;

pub use self::{
    apply::{CrdApplyArgs, install_registries},
    decision::is_of_fleetdex,
    definitions::{CrdFile, all, of_distribution, without_distribution},
    error::CrdError,
};
use super::console::{CommandError, Console};

/// The custom resource definitions.
#[derive(Clone, Debug, clap::Args)]
pub struct CrdArgs {
    /// With the CRDs of policies, bindings, rebalancers and sets, which distribution needs
    #[arg(long, global = true)]
    pub distribute: bool,

    /// What to do; without a command they are printed.
    #[command(subcommand)]
    pub command: Option<CrdCommand>,
}

/// What to do with the CRDs.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum CrdCommand {
    /// Apply them to a control plane, but none that is of a newer Fleetdex or of Karmada
    Apply(CrdApplyArgs),
}

/// The CRDs of an installation, with those of distribution or without them.
fn wanted(distribute: bool) -> Vec<CrdFile> {
    if distribute {
        all()
    } else {
        without_distribution()
    }
}

/// Prints CRDs as YAML documents.
pub fn print(files: &[CrdFile], out: &mut dyn Write) -> Result<(), CrdError> {
    for file in files {
        out.write_all(file.yaml()?.as_bytes())?;
    }
    Ok(())
}

/// Prints or applies the CRDs.
pub async fn crd(args: &CrdArgs, console: &mut Console<'_>) -> Result<bool, CommandError> {
    let files = wanted(args.distribute);
    match &args.command {
        None => {
            print(&files, console.out)?;
            Ok(true)
        }
        Some(CrdCommand::Apply(apply)) => apply::apply(apply, files, console).await,
    }
}
