//! The kinds of objects that rules are read from.

use std::{fmt, str::FromStr};

use fleetdex_crds::interpreter::{
    customization::ResourceInterpreterCustomization,
    exploring::ResourceExploringWebhookConfiguration,
    webhook::ResourceInterpreterWebhookConfiguration,
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::ApiResource;

/// A kind of objects that rules are read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RuleSource {
    /// `ResourceInterpreterCustomization`
    Customizations,
    /// `ResourceInterpreterWebhookConfiguration`
    InterpreterWebhooks,
    /// `ResourceExploringWebhookConfiguration`
    ExploringWebhooks,
    /// The `ConfigMap` with Argo CD's health scripts.
    ArgoHealth,
}

impl RuleSource {
    /// The kinds of `config.karmada.io`.
    pub(super) const CONFIGURATIONS: [Self; 3] = [
        Self::Customizations,
        Self::InterpreterWebhooks,
        Self::ExploringWebhooks,
    ];

    /// How it is read.
    pub(super) fn resource(self) -> ApiResource {
        match self {
            Self::Customizations => ApiResource::erase::<ResourceInterpreterCustomization>(&()),
            Self::InterpreterWebhooks => {
                ApiResource::erase::<ResourceInterpreterWebhookConfiguration>(&())
            }
            Self::ExploringWebhooks => {
                ApiResource::erase::<ResourceExploringWebhookConfiguration>(&())
            }
            Self::ArgoHealth => ApiResource::erase::<ConfigMap>(&()),
        }
    }

    /// Whether its objects may have a status.
    pub(super) fn may_have_status(self) -> bool {
        self != Self::ArgoHealth
    }
}

/// The name of a `ConfigMap`: `NAMESPACE/NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigMapName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl FromStr for ConfigMapName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('/') {
            Some((namespace, name)) if is_name(namespace, "-", 63) && is_name(name, "-.", 253) => {
                Ok(Self {
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                })
            }
            _ => Err("must be NAMESPACE/NAME of a ConfigMap, such as argocd/argocd-cm".to_owned()),
        }
    }
}

impl fmt::Display for ConfigMapName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.namespace, self.name)
    }
}

fn is_name(text: &str, separators: &str, max: usize) -> bool {
    let is_allowed =
        |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || separators.contains(c);
    !text.is_empty()
        && text.len() <= max
        && text.chars().all(is_allowed)
        && !text.starts_with(['-', '.'])
        && !text.ends_with(['-', '.'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_config_map_is_named_with_its_namespace() {
        let name: ConfigMapName = "argocd/argocd-cm.v2".parse().unwrap();
        assert_eq!(
            (name.namespace.as_str(), name.name.as_str()),
            ("argocd", "argocd-cm.v2")
        );
        for wrong in ["", "argocd-cm", "/a", "a/", "a/b/c", "a.b/c", "a/..", "A/b"] {
            assert!(wrong.parse::<ConfigMapName>().is_err(), "{wrong}");
        }
    }
}
