//! `fleetdex distribute role`: what the credentials of members have to permit, by the kinds of the
//! policies and of the sets.

use std::{collections::BTreeSet, time::Duration};

use fleetdex_cli::{
    ControlPlaneArgs,
    console::{CommandError, Console},
};
use fleetdex_clusters::{discovery::Discovery, fetch::DiscoveryCache};
use fleetdex_core::{
    model::{Gvk, Resource},
    yaml,
};
use fleetdex_crds::policy::{PropagationSpec, cluster_propagation_policies, propagation_policies};
use fleetdex_distribution::placing::needs_room;
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use kube::{
    Api, Client,
    api::ListParams,
    core::{ApiResource, DynamicObject},
};

use crate::distributed_sets::{DistributedSets, sets};

/// How long the control plane may take to answer.
const TIMEOUT: Duration = Duration::from_secs(30);
/// What workloads need, where a policy propagates that too.
const NEEDED: [(&str, &str); 4] = [
    ("", "configmaps"),
    ("", "persistentvolumeclaims"),
    ("", "secrets"),
    ("", "serviceaccounts"),
];
/// The groups of what Flux renders in members, and the group of their sources.
const FLUX: [&str; 2] = ["helm.toolkit.fluxcd.io", "kustomize.toolkit.fluxcd.io"];
const FLUX_SOURCE: &str = "source.toolkit.fluxcd.io";
const RBAC: &str = "rbac.authorization.k8s.io";

/// Prints the `ClusterRole`.
#[derive(Clone, Debug, clap::Args)]
pub struct RoleArgs {
    /// The control plane with the policies.
    #[command(flatten)]
    pub control_plane: ControlPlaneArgs,

    /// Name of the role
    #[arg(long, default_value = "fleetdex-distribution")]
    pub name: String,
}

/// Why there is no role.
#[derive(Debug, thiserror::Error)]
enum RoleError {
    #[error("cannot read the policies of the control plane: {0:#}")]
    Unread(anyhow::Error),
    #[error(
        "the control plane has no propagation policies and no Distributions with bindings yet: \
         apply them first, as the role is for their kinds"
    )]
    NoKinds,
}

/// Prints the role.
pub async fn run(role: &RoleArgs, console: &mut Console<'_>) -> Result<bool, CommandError> {
    let read = tokio::time::timeout(TIMEOUT, read(&role.control_plane)).await;
    let read = read.unwrap_or_else(|_| Err(anyhow::anyhow!("no answer within {TIMEOUT:?}")));
    let (policies, sets, served) =
        read.map_err(|error| CommandError::failed(RoleError::Unread(error)))?;
    for set in &sets.unknown {
        console.warn(&format!(
            "{set} has no binding yet, so its kinds are not known and left out: run this again \
             when it has been rendered"
        ))?;
    }
    if policies.is_empty() && sets.unknown.len() == sets.specs.len() {
        return Err(CommandError::failed(RoleError::NoKinds));
    }
    let (rules, unknown) = rules(&policies, &sets, &served);
    for kind in unknown {
        console.warn(&format!(
            "the control plane does not serve {kind}, which a policy or a Distribution has; its \
             rights are left out"
        ))?;
    }
    let mut cluster_role = ClusterRole {
        rules: Some(rules),
        ..ClusterRole::default()
    };
    cluster_role.metadata.name = Some(role.name.clone());
    let mut value = serde_json::to_value(&cluster_role).map_err(CommandError::failed)?;
    let typed = serde_json::json!({"apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole"});
    if let (Some(typed), Some(members)) = (typed.as_object(), value.as_object()) {
        let mut ordered = typed.clone();
        ordered.extend(members.clone());
        value = ordered.into();
    }
    let text = yaml::to_string(&value).map_err(CommandError::failed)?;
    write!(console.out, "{text}")?;
    Ok(true)
}

/// The policies and the sets of the control plane, and what it serves.
async fn read(
    args: &ControlPlaneArgs,
) -> anyhow::Result<(Vec<PropagationSpec>, DistributedSets, Discovery)> {
    let client = ControlPlaneArgs::client(&args.config().await?)?;
    let policies = policies(&client).await?;
    let sets = sets(&client).await?;
    let served = DiscoveryCache::default().refresh(&client, TIMEOUT).await?;
    Ok((policies, sets, Discovery::clone(&served)))
}

/// What the propagation policies of a control plane say.
pub async fn policies(client: &Client) -> anyhow::Result<Vec<PropagationSpec>> {
    let mut policies = Vec::new();
    for resource in [propagation_policies(), cluster_propagation_policies()] {
        policies.extend(list(client, &resource).await?);
    }
    Ok(policies)
}

async fn list(client: &Client, resource: &ApiResource) -> anyhow::Result<Vec<PropagationSpec>> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), resource);
    let objects = api.list(&ListParams::default()).await?;
    let specs = objects.items.into_iter().filter_map(|object| {
        let spec = object.data.get("spec")?.clone();
        serde_json::from_value(spec).ok()
    });
    Ok(specs.collect())
}

/// The rights for the kinds of policies and sets, and the kinds that a cluster does not serve.
pub fn rules(
    policies: &[PropagationSpec],
    sets: &DistributedSets,
    served: &Discovery,
) -> (Vec<PolicyRule>, Vec<String>) {
    let (mut written, unknown) = written(policies, sets, served);
    let policies = || policies.iter().chain(&sets.policies);
    if policies().any(|spec| spec.propagate_deps) {
        let needed = NEEDED.map(|(group, plural)| (group.to_owned(), plural.to_owned()));
        written.extend(needed);
        if written
            .iter()
            .any(|(group, _)| FLUX.contains(&group.as_str()))
        {
            let sources = served.served.iter().map(|one| &one.resource);
            let sources = sources.filter(|resource| *resource.gvk.group == *FLUX_SOURCE);
            written.extend(
                sources.map(|resource| (FLUX_SOURCE.to_owned(), resource.plural.to_string())),
            );
        }
    }
    let rule = |groups: &[&str], resources: Vec<String>, verbs: &[&str]| PolicyRule {
        api_groups: Some(groups.iter().map(|&group| group.to_owned()).collect()),
        resources: Some(resources),
        verbs: verbs.iter().map(|&verb| verb.to_owned()).collect(),
        ..PolicyRule::default()
    };
    let mut rules = vec![rule(
        &[""],
        vec!["namespaces".to_owned()],
        &["get", "list", "watch", "create", "patch"],
    )];
    if policies().any(|spec| needs_room(&spec.placement)) {
        let read = vec!["nodes".to_owned(), "pods".to_owned()];
        rules.push(rule(&[""], read, &["list", "watch"]));
    }
    let groups: BTreeSet<&String> = written.iter().map(|(group, _)| group).collect();
    for group in groups {
        let resources = written.iter().filter(|(of, _)| of == group);
        let resources: Vec<String> = resources.map(|(_, plural)| plural.clone()).collect();
        let mut verbs = vec!["get", "list", "watch", "create", "patch", "delete"];
        if group == RBAC {
            // Without these Kubernetes lets nothing grant more than it has itself.
            verbs.extend(["escalate", "bind"]);
        }
        rules.push(rule(&[group], resources, &verbs));
    }
    (rules, unknown)
}

/// Groups and plurals of what is written, and the kinds whose plurals are not known.
fn written(
    policies: &[PropagationSpec],
    sets: &DistributedSets,
    served: &Discovery,
) -> (BTreeSet<(String, String)>, Vec<String>) {
    let mut written = BTreeSet::new();
    let mut unknown = BTreeSet::new();
    let policies = policies.iter().chain(&sets.policies);
    for selector in policies.flat_map(|spec| &spec.resource_selectors) {
        let gvk = Gvk::from_api_version(&selector.api_version, &selector.kind);
        if let Some(resource) = resource(served, &gvk) {
            let group = resource.gvk.group.to_string();
            written.insert((group, resource.plural.to_string()));
            continue;
        }
        // A kind that a set defines: a binding has the plurals of definitions, and not their kinds.
        let defined = sets
            .defined
            .iter()
            .filter(|(group, _)| **group == *gvk.group);
        let mut defined = defined.cloned().peekable();
        if defined.peek().is_none() {
            unknown.insert(format!("{} of {}", selector.kind, selector.api_version));
        }
        written.extend(defined);
    }
    (written, unknown.into_iter().collect())
}

fn resource<'d>(served: &'d Discovery, gvk: &Gvk) -> Option<&'d Resource> {
    let mut all = served.served.iter().map(|one| &one.resource);
    all.find(|resource| resource.gvk == *gvk)
}

#[cfg(test)]
mod tests {
    use fleetdex_clusters::discovery::ServedResource;
    use serde_json::json;

    use super::*;

    fn served(group: &str, kind: &str, plural: &str) -> ServedResource {
        ServedResource {
            resource: Resource {
                gvk: Gvk::new(group, "v1", kind),
                plural: plural.into(),
                namespaced: true,
            },
            singular: "".into(),
            short_names: Vec::new(),
            list_and_watch: true,
            preferred: true,
            capabilities: std::sync::Arc::default(),
        }
    }

    #[test]
    fn a_role_has_the_kinds_of_the_policies_and_no_others() {
        let discovery = Discovery {
            served: vec![
                served("apps", "Deployment", "deployments"),
                served("apps", "StatefulSet", "statefulsets"),
                served(RBAC, "ClusterRole", "clusterroles"),
                served(FLUX[0], "HelmRelease", "helmreleases"),
                served(FLUX_SOURCE, "HelmRepository", "helmrepositories"),
            ],
            ..Discovery::default()
        };
        let policy = |kinds: &[(&str, &str)], more: serde_json::Value| {
            let selectors = kinds
                .iter()
                .map(|(version, kind)| json!({"apiVersion": version, "kind": kind}));
            let mut spec = json!({"resourceSelectors": selectors.collect::<Vec<_>>()});
            spec.as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            serde_json::from_value::<PropagationSpec>(spec).unwrap()
        };
        let shown = |policies: &[PropagationSpec]| {
            let (rules, unknown) = rules(policies, &DistributedSets::default(), &discovery);
            let rules = rules.into_iter().map(|rule| {
                format!(
                    "{}/{}: {}",
                    rule.api_groups.unwrap().join(","),
                    rule.resources.unwrap().join(","),
                    rule.verbs.join(",")
                )
            });
            (rules.collect::<Vec<_>>(), unknown)
        };
        let write = "get,list,watch,create,patch,delete";
        let namespaces = "/namespaces: get,list,watch,create,patch".to_owned();
        let deployments = policy(&[("apps/v1", "Deployment")], json!({}));
        assert_eq!(
            shown(std::slice::from_ref(&deployments)),
            (
                vec![namespaces.clone(), format!("apps/deployments: {write}")],
                Vec::new()
            )
        );
        let roles = policy(
            &[
                (&format!("{RBAC}/v1"), "ClusterRole"),
                ("example/v1", "Shop"),
            ],
            json!({"propagateDeps": true, "placement": {"replicaScheduling": {
                "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated",
            }}}),
        );
        let needed = "/configmaps,persistentvolumeclaims,secrets,serviceaccounts";
        assert_eq!(
            shown(&[deployments, roles]),
            (
                vec![
                    namespaces,
                    "/nodes,pods: list,watch".to_owned(),
                    format!("{needed}: {write}"),
                    format!("apps/deployments: {write}"),
                    format!("{RBAC}/clusterroles: {write},escalate,bind"),
                ],
                vec!["Shop of example/v1".to_owned()]
            )
        );
        let sets = DistributedSets {
            policies: vec![policy(
                &[("apps/v1", "StatefulSet"), ("shops.example/v1", "Shop")],
                json!({}),
            )],
            defined: BTreeSet::from([("shops.example".to_owned(), "shops".to_owned())]),
            ..DistributedSets::default()
        };
        let (found, unknown) = rules(&[], &sets, &discovery);
        let resources = found
            .into_iter()
            .map(|rule| rule.resources.unwrap().join(","));
        let resources: Vec<String> = resources.collect();
        assert_eq!(resources, ["namespaces", "statefulsets", "shops"]);
        assert_eq!(unknown, [""; 0]);
        let sources = format!("{FLUX_SOURCE}/helmrepositories: {write}");
        for (propagates, has_sources) in [(true, true), (false, false)] {
            let releases = policy(
                &[("helm.toolkit.fluxcd.io/v1", "HelmRelease")],
                json!({"propagateDeps": propagates}),
            );
            let (found, _) = shown(&[releases]);
            assert_eq!(found.contains(&sources), has_sources, "{found:?}");
        }
    }
}
