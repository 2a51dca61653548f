//! What is read of each context: resources by the names that kubectl knows them by.

use std::collections::BTreeSet;

use fleetdex_api::registry::ResourceSelector;
use fleetdex_cli::get::resolve::{Held, resolve};
use fleetdex_clusters::discovery::{Discovery, Served};
use fleetdex_core::kinds;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource;

/// What is read unless somebody says otherwise: what `kubectl get all` shows, and what it is mostly asked together with. Secrets and Events
/// are not among them: the ones are nobody's business, the others are many and soon gone.
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

/// What some names come to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selected {
    /// Selectors of a registry.
    pub selectors: Vec<ResourceSelector>,
    /// Names that stand for nothing, as far as is known.
    pub unknown: BTreeSet<String>,
}

/// The resources that some names stand for: of Kubernetes itself, or else of what the contexts serve.
pub fn select<'d>(names: &[String], discoveries: impl Iterator<Item = &'d Discovery>) -> Selected {
    let held = held(discoveries);
    let mut selected = Selected::default();
    let mut known = BTreeSet::new();
    for name in names {
        let built_in = kinds::resolve(name).ok().map(kinds::BuiltIn::gvk);
        let kind = built_in
            .map(|gvk| (gvk.api_version(), gvk.kind.to_string()))
            .or_else(|| {
                let held = resolve(name, &held)?;
                let Held {
                    group,
                    version,
                    resource,
                } = held;
                let api_version = if group.is_empty() {
                    version.clone()
                } else {
                    format!("{group}/{version}")
                };
                Some((api_version, resource.kind.clone()))
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

/// What any context serves, the preferred version of a group first.
fn held<'d>(discoveries: impl Iterator<Item = &'d Discovery>) -> Vec<Held> {
    let served = discoveries
        .flat_map(|discovery| &discovery.served)
        .filter(|served| served.list_and_watch);
    let (preferred, others): (Vec<&Served>, Vec<&Served>) =
        served.partition(|served| served.preferred);
    preferred.into_iter().chain(others).map(as_held).collect()
}

fn as_held(served: &Served) -> Held {
    let resource = &served.resource;
    Held {
        group: resource.gvk.group.to_string(),
        version: resource.gvk.version.to_string(),
        resource: APIResource {
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
        let served = |version: &str, preferred: bool| Served {
            resource: Resource {
                gvk: Gvk::new("cert-manager.io", version, "Certificate"),
                plural: "certificates".into(),
                namespaced: true,
            },
            singular: "certificate".into(),
            short_names: vec!["cert".into()],
            list_and_watch: true,
            preferred,
            offers: std::sync::Arc::default(),
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
    fn resources_are_called_as_kubectl_calls_them() {
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
    fn every_default_is_a_resource_of_kubernetes() {
        let selected = selected(&DEFAULT, &[]);
        assert_eq!(selected.len(), DEFAULT.len());
        assert!(
            selected.iter().all(|name| !name.ends_with('?')),
            "{selected:?}"
        );
    }
}
