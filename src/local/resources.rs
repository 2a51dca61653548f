//! The resources that are read of each context, by the names that kubectl accepts.

use std::collections::BTreeSet;

use fleetdex_cli::resources::{DiscoveredResource, resolve};
use fleetdex_clusters::discovery::{Discovery, ServedResource};
use fleetdex_core::kinds;
use fleetdex_crds::registry::ResourceSelector;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource;

/// The resources that are read by default: those of `kubectl get all`, and those that are mostly
/// queried with them. Secrets and Events are left out: Secrets are confidential, and Events are
/// many and soon gone.
pub const DEFAULT: [&str; 20] = [
    "pods",
    "replicationcontrollers",
    "services",
    "daemonsets.apps",
    "deployments.apps",
    "replicasets.apps",
    "statefulsets.apps",
    "horizontalpodautoscalers.autoscaling",
    "cronjobs.batch",
    "jobs.batch",
    "configmaps",
    "endpointslices.discovery.k8s.io",
    "ingresses.networking.k8s.io",
    "namespaces",
    "networkpolicies.networking.k8s.io",
    "nodes",
    "persistentvolumeclaims",
    "persistentvolumes",
    "poddisruptionbudgets.policy",
    "serviceaccounts",
];

/// Resolves names to resources: built-in ones first, then those that the contexts serve.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SelectedResources {
    /// Resource selectors for a registry.
    pub selectors: Vec<ResourceSelector>,
    /// Names that no resource has, as far as is known.
    pub unknown: BTreeSet<String>,
}

/// Resolves resource names: built-in kinds first, then those that the contexts serve.
pub fn select<'d>(
    names: &[String],
    discoveries: impl Iterator<Item = &'d Discovery>,
) -> SelectedResources {
    let discovered = discovered(discoveries);
    let mut selected = SelectedResources::default();
    let mut known = BTreeSet::new();
    for name in names {
        let built_in = kinds::resolve(name).ok().map(kinds::BuiltIn::gvk);
        let kind = built_in
            .map(|gvk| (gvk.api_version(), gvk.kind.to_string()))
            .or_else(|| {
                let DiscoveredResource {
                    group,
                    version,
                    api,
                } = resolve(name, &discovered)?;
                let api_version = if group.is_empty() {
                    version.clone()
                } else {
                    format!("{group}/{version}")
                };
                Some((api_version, api.kind.clone()))
            });
        match kind {
            Some(kind) => {
                known.insert(kind);
            }
            None => {
                selected.unknown.insert(name.clone());
            }
        }
    }
    let selector = |(api_version, kind)| ResourceSelector {
        api_version,
        kind,
        ..ResourceSelector::default()
    };
    selected.selectors = known.into_iter().map(selector).collect();
    selected
}

/// Returns the resources that any context serves, the preferred version of each group first.
fn discovered<'d>(discoveries: impl Iterator<Item = &'d Discovery>) -> Vec<DiscoveredResource> {
    let served = discoveries
        .flat_map(|discovery| &discovery.served)
        .filter(|served| served.list_and_watch);
    let (preferred, others): (Vec<&ServedResource>, Vec<&ServedResource>) =
        served.partition(|served| served.preferred);
    preferred
        .into_iter()
        .chain(others)
        .map(as_discovered)
        .collect()
}

fn as_discovered(served: &ServedResource) -> DiscoveredResource {
    let resource = &served.resource;
    DiscoveredResource {
        group: resource.gvk.group.to_string(),
        version: resource.gvk.version.to_string(),
        api: APIResource {
            name: resource.plural.to_string(),
            singular_name: served.singular.to_string(),
            kind: resource.gvk.kind.to_string(),
            short_names: Some(served.short_names.iter().map(ToString::to_string).collect()),
            namespaced: resource.namespaced,
            ..APIResource::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use fleetdex_core::model::{Gvk, Resource};

    use super::*;

    fn discovery() -> Discovery {
        let served = |version: &str, preferred: bool| ServedResource {
            resource: Resource {
                gvk: Gvk::new("cert-manager.io", version, "Certificate"),
                plural: "certificates".into(),
                namespaced: true,
            },
            singular: "certificate".into(),
            short_names: vec!["cert".into()],
            list_and_watch: true,
            preferred,
            capabilities: std::sync::Arc::default(),
        };
        Discovery {
            served: vec![served("v1alpha2", false), served("v1", true)],
            ..Discovery::default()
        }
    }

    fn selected(names: &[&str], discoveries: &[Discovery]) -> Vec<String> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let selected = select(&names, discoveries.iter());
        let selectors = selected
            .selectors
            .iter()
            .map(|selector| format!("{}/{}", selector.api_version, selector.kind));
        selectors
            .chain(selected.unknown.iter().map(|name| format!("{name}?")))
            .collect()
    }

    #[test]
    fn names_resolve_as_with_kubectl() {
        assert_eq!(
            selected(&["po", "deploy", "ingress", "pods"], &[]),
            [
                "apps/v1/Deployment",
                "networking.k8s.io/v1/Ingress",
                "v1/Pod"
            ]
        );
        assert_eq!(selected(&["cert", "pods"], &[]), ["v1/Pod", "cert?"]);
        assert_eq!(
            selected(&["cert", "certificates.cert-manager.io"], &[discovery()]),
            ["cert-manager.io/v1/Certificate"]
        );
        assert_eq!(
            selected(&["certificates.v1alpha2.cert-manager.io"], &[discovery()]),
            ["cert-manager.io/v1alpha2/Certificate"]
        );
    }

    #[test]
    fn every_default_is_a_built_in_resource() {
        let selected = selected(&DEFAULT, &[]);
        assert_eq!(selected.len(), DEFAULT.len());
        assert!(
            selected.iter().all(|name| !name.ends_with('?')),
            "{selected:?}"
        );
    }
}
