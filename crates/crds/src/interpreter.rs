//! The kinds of `config.karmada.io`: which scripts and webhooks interpret objects.
//!
//! The released kinds have every field of [Karmada's
//! types](https://github.com/karmada-io/karmada/tree/master/pkg/apis/config/v1alpha1), so that
//! their manifests apply unchanged, and a status of our own: upstream's CRDs have none. On a
//! control plane that has Karmada's CRDs these are used and never overwritten.
//!
//! These types are the CRDs. `fleetdex_interpreter` reads the objects.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

pub mod customization;
pub mod exploring;
mod rules;
pub mod status;
pub mod webhook;

/// The group of all three kinds.
pub const GROUP: &str = "config.karmada.io";

/// The CRDs of the three kinds.
pub fn crds() -> [CustomResourceDefinition; 3] {
    [
        customization::ResourceInterpreterCustomization::crd(),
        webhook::ResourceInterpreterWebhookConfiguration::crd(),
        exploring::ResourceExploringWebhookConfiguration::crd(),
    ]
}

#[cfg(test)]
mod tests;
