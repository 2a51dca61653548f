//! `fleetdex kubeconfig`: a context with which kubectl, k9s and client libraries use the fleet as
//! one cluster.
//!
//! The context's server is the apiserver of a control plane, or a server on this machine, followed
//! by the path of the Kubernetes API over the fleet. A printed kubeconfig is complete and contains
//! the credentials. A merged context refers to the credentials in the file.

use fleetdex_clusters::source::read_kubeconfig;

use super::{
    api::{Api, ClientConfig},
    console::{CommandError, Console},
};

mod entries;
mod error;
mod file;
pub mod storage;

use self::{
    entries::{direct, through_apiserver},
    file::KubeconfigTarget,
};
pub use error::KubeconfigError;

/// Writes a context for kubectl.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "For example: fleetdex kubeconfig --merge && kubectl --context fleet get pods -A"
)]
pub struct KubeconfigArgs {
    /// Name of the context
    #[arg(long, value_name = "NAME", default_value = "fleet")]
    pub name: String,

    /// Add the context to the kubeconfig file of kubectl, or replace it there, instead of printing
    /// it
    #[arg(long)]
    pub merge: bool,

    /// Make it the current context; requires --merge
    #[arg(long, requires = "merge")]
    pub r#use: bool,

    /// The server.
    #[command(flatten)]
    pub server: ClientConfig,
}

/// Prints the kubeconfig, or merges it into a file.
pub async fn kubeconfig(
    args: &KubeconfigArgs,
    console: &mut Console<'_>,
) -> Result<bool, CommandError> {
    // An unreachable server or a missing APIService is reported here, with what to do, and not by
    // kubectl.
    Api::new(&args.server).await?.check().await?;
    let entries = match &args.server {
        ClientConfig::Direct { server, token_file } => direct(&args.name, server, token_file)?,
        ClientConfig::Apiserver {
            kubeconfig,
            context,
        } => {
            let source = read_kubeconfig(kubeconfig.as_deref())
                .await
                .map_err(super::ClientError::Kubeconfig)?;
            let path = kubeconfig.as_deref().map_or_else(
                || "your kubeconfig".to_owned(),
                |path| path.display().to_string(),
            );
            through_apiserver(&args.name, &source, context.as_deref(), &path)?
        }
    };
    if !args.merge {
        let document = entries.into_kubeconfig();
        let text = serde_saphyr::to_string(&document)
            .map_err(|error| KubeconfigError::Yaml(error.to_string()))?;
        write!(console.out, "{text}")?;
        return Ok(true);
    }
    let named = match &args.server {
        ClientConfig::Apiserver { kubeconfig, .. } => kubeconfig.as_deref(),
        ClientConfig::Direct { .. } => None,
    };
    let file = KubeconfigTarget::locate(named)?;
    let change = file.merge(&entries, args.r#use)?;
    writeln!(
        console.out,
        "Context {:?} {change} in {}.",
        args.name,
        file.path().display()
    )?;
    Ok(true)
}

#[cfg(test)]
mod tests;
