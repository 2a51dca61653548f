//! Reads whole objects of the fleet from the query API, for commands of other crates.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use fleetdex_core::model::Gvk;
use fleetdex_query_api::token_file::TOKEN_FILE_VARIABLE;
use serde_json::Value;

use super::{
    api::{Api, ClientConfig, ClientError, ListShape},
    control_plane_args::ControlPlaneArgs,
    resources::DiscoveredResource,
};

/// Objects of a page.
const PAGE: usize = 500;

/// The server, for a command that reads a control plane as well.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "Server")]
pub struct FleetServerArgs {
    /// URL of the server [default: that of the token file, or the apiserver of the control plane]
    #[arg(long, value_name = "URL", env = "FLEETDEX_SERVER")]
    pub server: Option<String>,

    /// File with the token of the server
    #[arg(long, value_name = "FILE", env = TOKEN_FILE_VARIABLE)]
    pub token_file: Option<PathBuf>,
}

impl FleetServerArgs {
    /// Whether a flag or a variable names a server.
    pub fn is_named(&self) -> bool {
        self.server.is_some() || self.token_file.is_some()
    }

    /// The server beside a control plane.
    fn beside(&self, control_plane: &ControlPlaneArgs) -> ClientConfig {
        ClientConfig::beside(
            self.server.clone(),
            self.token_file.clone(),
            control_plane.kubeconfig.clone(),
            control_plane.context.clone(),
        )
    }
}

/// Reads objects of all members, kind by kind.
pub struct FleetReader {
    api: Api,
    resources: Vec<DiscoveredResource>,
}

impl FleetReader {
    /// Asks the server which kinds registries select.
    pub async fn connect(
        server: &FleetServerArgs,
        control_plane: &ControlPlaneArgs,
    ) -> Result<Self, ClientError> {
        let api = Api::new(&server.beside(control_plane)).await?;
        let resources = api.resources().await?;
        Ok(Self { api, resources })
    }

    /// Whether a registry selects a kind.
    pub fn serves(&self, kind: &Gvk) -> bool {
        self.resource(kind).is_some()
    }

    fn resource(&self, kind: &Gvk) -> Option<&DiscoveredResource> {
        self.resources.iter().find(|one| {
            *one.group == *kind.group
                && *one.version == *kind.version
                && *one.api.kind == *kind.kind
        })
    }

    /// Calls `take` with each object of a kind, page by page; with none of a kind that no registry
    /// selects. Returns the warnings of the server.
    pub async fn read(
        &self,
        kind: &Gvk,
        mut take: impl FnMut(Value),
    ) -> Result<BTreeSet<String>, ClientError> {
        let mut warnings = BTreeSet::new();
        let Some(resource) = self.resource(kind) else {
            return Ok(warnings);
        };
        let path = resource.path(None);
        let mut parameters = BTreeMap::from([("limit", PAGE.to_string())]);
        loop {
            let listed = self.api.list(&path, &parameters, ListShape::Objects);
            let mut page = listed.await?;
            warnings.extend(std::mem::take(&mut page.warnings));
            let next = page.take_next();
            for item in page.items {
                take(parsed(&path, item.object.get())?);
            }
            match next {
                Some(token) => parameters.insert("continue", token),
                None => return Ok(warnings),
            };
        }
    }
}

fn parsed(path: &str, object: &str) -> Result<Value, ClientError> {
    serde_json::from_str(object).map_err(|error| ClientError::Malformed {
        path: path.to_owned(),
        code: 200,
        reason: error.to_string(),
    })
}
