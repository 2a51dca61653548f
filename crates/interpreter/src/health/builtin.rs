//! Health of the kinds that have a rule of their own.
//!
//! The rules are those of Argo CD, with corrections from kstatus, Karmada and the Kubernetes API. A
//! rule is chosen by group and kind, whatever the version; only `HorizontalPodAutoscaler` differs
//! between versions. Sources:
//! <https://github.com/argoproj/argo-cd/tree/master/gitops-engine/pkg/health> and
//! `resource_customizations` there.

use super::Assessment;
use crate::value::{Tree, group, text};

mod api;
mod argo_cd;
mod availability;
mod batch;
mod cluster_api;
mod condition;
mod flux;
mod gateway;
mod karmada;
mod network;
mod node;
mod pod;
mod storage;
mod workload;

pub use karmada::karmada_healthy;

/// The health of an object whose kind has a rule; `None` for other kinds, and where the rule leaves
/// the answer to the generic one. A pending deletion is not its concern, except of a namespace.
pub fn assess(object: Tree<'_>) -> Option<Assessment> {
    let group = group(object);
    let kind = text(object, &["kind"]);
    match group {
        "" => core_rule(kind).map(|rule| rule(object)),
        "cluster.x-k8s.io" => cluster_api::assess(kind, object),
        "argoproj.io" if kind == "Application" => argo_cd::application(object),
        "source.toolkit.fluxcd.io" if kind == "HelmRepository" => flux::helm_repository(object),
        _ => rule(group, kind)
            .map(|rule| rule(object))
            .or_else(|| gateway::assess(group, kind, object)),
    }
}

type Rule = fn(Tree<'_>) -> Assessment;

fn core_rule(kind: &str) -> Option<Rule> {
    Some(match kind {
        "Namespace" => api::namespace,
        "Node" => node::node,
        "PersistentVolume" => storage::persistent_volume,
        "PersistentVolumeClaim" => storage::persistent_volume_claim,
        "Pod" => pod::pod,
        "ReplicationController" => workload::replica_set,
        "Service" => network::service,
        _ => return None,
    })
}

fn rule(group: &str, kind: &str) -> Option<Rule> {
    Some(match (group, kind) {
        ("apps" | "extensions", "DaemonSet") => workload::daemon_set,
        ("apps" | "extensions", "Deployment") => workload::deployment,
        ("apps" | "extensions", "ReplicaSet") => workload::replica_set,
        ("apps", "StatefulSet") => workload::stateful_set,
        ("batch", "CronJob") => batch::cron_job,
        ("batch", "Job") => batch::job,
        ("argoproj.io", "Workflow") => batch::workflow,
        ("extensions" | "networking.k8s.io", "Ingress") => network::ingress,
        ("autoscaling", "HorizontalPodAutoscaler") => availability::horizontal_pod_autoscaler,
        ("policy", "PodDisruptionBudget") => availability::pod_disruption_budget,
        ("apiextensions.k8s.io", "CustomResourceDefinition") => api::custom_resource_definition,
        ("apiregistration.k8s.io", "APIService") => api::api_service,
        ("certificates.k8s.io", "CertificateSigningRequest") => api::certificate_signing_request,
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
