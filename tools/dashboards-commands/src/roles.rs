//! `fleetdex dashboards roles`: prints roles of OpenSearch from the RBAC of the control plane.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

use fleetdex_cli::{
    ApiserverClient, ControlPlaneArgs, IndexArgs,
    console::{CommandError, Console},
};
use fleetdex_core::model::causes;
use fleetdex_dashboards::roles::{
    GLOBAL_TENANT, RbacObjects, RoleOptions, SecurityConfiguration, security_configuration,
};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::{Resource, api::ListParams};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::error::DashboardsError;

/// Objects in a page of a list, as kubectl has it.
const PAGE: u32 = 500;
/// A page of RBAC is small; the server has a minute for each request.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Prints roles and their mappings.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "The roles are for `fleetdex run --authorization control-plane`, and show nothing that RBAC of the control plane does not let list. \
Users and groups have to have the same names in OpenSearch (backend roles) as in Kubernetes.\n\n\
For example: fleetdex dashboards roles --groups alice=developers,web -o json"
)]
#[expect(clippy::doc_markdown, reason = "these are the texts of --help")]
pub struct RolesArgs {
    /// Groups of a user, which RBAC does not know (repeatable); the user's role then has their
    /// rights as well
    #[arg(long, value_name = "USER=GROUP,…", value_parser = user_with_groups)]
    pub groups: Vec<UserGroups>,

    /// Tenant whose dashboards the users may open: global, or a name
    #[arg(long, value_name = "NAME", default_value = "global")]
    pub tenant: String,

    /// yaml: the files roles.yml and roles_mapping.yml of securityadmin; json: bodies for the REST
    /// API of the security plugin
    #[arg(short, long, default_value = "yaml")]
    pub output: RolesFormat,

    /// The control plane.
    #[command(flatten)]
    pub control_plane: ControlPlaneArgs,

    /// The indices.
    #[command(flatten)]
    pub index: IndexArgs,
}

/// How roles are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum RolesFormat {
    /// Two YAML documents.
    #[default]
    Yaml,
    /// One JSON object.
    Json,
}

/// A user and all groups of that user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserGroups {
    user: String,
    groups: BTreeSet<String>,
}

fn user_with_groups(text: &str) -> Result<UserGroups, String> {
    let Some((user, groups)) = text.split_once('=').filter(|(user, _)| !user.is_empty()) else {
        return Err("it has to be USER=GROUP,GROUP".to_owned());
    };
    let groups = groups.split(',').filter(|group| !group.is_empty());
    Ok(UserGroups {
        user: user.to_owned(),
        groups: groups.map(str::to_owned).collect(),
    })
}

/// Reads RBAC and prints the roles.
pub(super) async fn print(
    args: &RolesArgs,
    console: &mut Console<'_>,
) -> Result<bool, CommandError> {
    let apiserver = args.control_plane.connect().await?;
    let rbac = RbacObjects {
        cluster_roles: list::<ClusterRole>(&apiserver, "clusterroles").await?,
        roles: list::<Role>(&apiserver, "roles").await?,
        cluster_role_bindings: list::<ClusterRoleBinding>(&apiserver, "clusterrolebindings")
            .await?,
        role_bindings: list::<RoleBinding>(&apiserver, "rolebindings").await?,
    };
    let configuration = security_configuration(&rbac, &args.options());
    for warning in &configuration.warnings {
        console.warn(warning)?;
    }
    if configuration.roles.is_empty() {
        console.warn("no role: no user or group of a binding may both query and list objects")?;
    }
    write!(console.out, "{}", args.output.text(&configuration)?)?;
    Ok(true)
}

impl RolesArgs {
    fn options(&self) -> RoleOptions {
        let tenant = match self.tenant.as_str() {
            "global" => GLOBAL_TENANT.to_owned(),
            name => name.to_owned(),
        };
        let mut groups_of_users: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for entry in &self.groups {
            let groups = groups_of_users.entry(entry.user.clone()).or_default();
            groups.extend(entry.groups.iter().cloned());
        }
        RoleOptions {
            prefix: self.index.index_prefix.clone(),
            tenant,
            groups_of_users,
        }
    }
}

impl RolesFormat {
    fn text(self, configuration: &SecurityConfiguration) -> Result<String, DashboardsError> {
        if self == Self::Json {
            return Ok(format!("{:#}\n", configuration.json()));
        }
        let mut text = String::new();
        for file in configuration.files() {
            let yaml = serde_saphyr::to_string(&file)
                .map_err(|error| DashboardsError::Yaml(error.to_string()))?;
            text.push_str("---\n");
            text.push_str(&yaml);
        }
        Ok(text)
    }
}

/// All objects of a kind, page by page.
async fn list<K>(
    apiserver: &ApiserverClient,
    resource: &'static str,
) -> Result<Vec<K>, DashboardsError>
where
    K: Resource<DynamicType = ()> + Clone + fmt::Debug + DeserializeOwned,
{
    let failed = |error: kube::Error| DashboardsError::Rbac {
        resource,
        server: apiserver.server.clone(),
        problem: match error {
            kube::Error::Api(status) => status.message,
            other => causes(&other),
        },
    };
    let api = kube::Api::<K>::all(apiserver.client.clone());
    let mut parameters = ListParams::default().limit(PAGE);
    let mut objects = Vec::new();
    loop {
        let page = timeout(TIMEOUT, api.list(&parameters)).await;
        let Ok(page) = page else {
            let server = apiserver.server.clone();
            return Err(DashboardsError::RbacTimeout { resource, server });
        };
        let page = page.map_err(failed)?;
        objects.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            None => return Ok(objects),
            Some(token) => parameters = parameters.continue_token(&token),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_belong_to_a_user() {
        let parsed = user_with_groups("alice=dev,ops,").unwrap();
        assert_eq!(parsed.user, "alice");
        assert_eq!(parsed.groups, ["dev", "ops"].map(str::to_owned).into());
        assert!(user_with_groups("alice").is_err());
        assert!(user_with_groups("=dev").is_err());
    }

    #[test]
    fn yaml_is_the_two_files_of_securityadmin() {
        let text = RolesFormat::Yaml
            .text(&SecurityConfiguration::default())
            .unwrap();
        assert_eq!(
            text,
            "---\n_meta:\n  type: roles\n  config_version: 2\n---\n_meta:\n  type: rolesmapping\n  config_version: 2\n"
        );
    }
}
