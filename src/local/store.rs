//! Where `fleetdex local` keeps the objects: in memory, or in an OpenSearch.

use std::{fs, path::PathBuf};

use anyhow::Context as _;
use fleetdex_crds::registry::{BackendStore, OpenSearch};
use fleetdex_operator::store_settings::CredentialSource;

/// The OpenSearch.
#[derive(clap::Args, Clone, Debug)]
pub struct LocalStoreArgs {
    /// Store the objects in this OpenSearch instead of in memory.
    #[arg(long, value_name = "URL", env = "FLEETDEX_OPENSEARCH")]
    pub opensearch: Option<String>,

    /// User of that OpenSearch.
    #[arg(
        long,
        value_name = "NAME",
        requires_all = ["opensearch", "opensearch_password_file"],
        env = "FLEETDEX_OPENSEARCH_USER"
    )]
    pub opensearch_user: Option<String>,

    /// File with the password of that user; a line break at its end is not part of it.
    #[arg(
        long,
        value_name = "FILE",
        requires = "opensearch_user",
        env = "FLEETDEX_OPENSEARCH_PASSWORD_FILE"
    )]
    pub opensearch_password_file: Option<PathBuf>,

    /// PEM file of the authorities of that OpenSearch. Default: those of the system.
    #[arg(
        long,
        value_name = "FILE",
        requires = "opensearch",
        env = "FLEETDEX_OPENSEARCH_CA_FILE"
    )]
    pub opensearch_ca_file: Option<PathBuf>,

    /// Prefix of its indices.
    #[arg(
        long,
        value_name = "PREFIX",
        default_value = "fleetdex_local",
        requires = "opensearch",
        env = "FLEETDEX_INDEX_PREFIX"
    )]
    pub index_prefix: String,
}

impl LocalStoreArgs {
    /// The store of the only registry; `None`: in memory.
    pub fn backend(&self) -> anyhow::Result<Option<BackendStore>> {
        let Some(address) = self.opensearch.clone() else {
            return Ok(None);
        };
        let read = |path: &PathBuf| {
            fs::read_to_string(path)
                .with_context(|| format!("cannot read the CA file {}", path.display()))
        };
        let open_search = OpenSearch {
            addresses: vec![address],
            ca_bundle: self.opensearch_ca_file.as_ref().map(read).transpose()?,
            index_prefix: Some(self.index_prefix.clone()),
            number_of_replicas: Some(0),
            ..OpenSearch::default()
        };
        Ok(Some(BackendStore {
            open_search: Some(open_search),
        }))
    }

    /// The credentials for it.
    pub fn credentials(&self) -> anyhow::Result<CredentialSource> {
        let (Some(user), Some(path)) = (&self.opensearch_user, &self.opensearch_password_file)
        else {
            return Ok(CredentialSource::None);
        };
        let password = fs::read_to_string(path)
            .with_context(|| format!("cannot read the password file {}", path.display()))?;
        let password = password.trim_end_matches(['\n', '\r']).to_owned();
        Ok(CredentialSource::BasicAuth(user.clone(), password))
    }
}
