//! The kinds that have built-in rules.

use crate::value::{JsonView, at, group, text};

/// The groups of Flux whose objects say what a cluster fetches, renders and applies. Their kinds
/// have one form of status, in every version.
const FLUX_GROUPS: [&str; 3] = [
    "helm.toolkit.fluxcd.io",
    "kustomize.toolkit.fluxcd.io",
    "source.toolkit.fluxcd.io",
];

/// A kind with built-in rules. Those of Kubernetes are in the one version that the rules are
/// written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NativeKind {
    Pod,
    Service,
    ServiceAccount,
    Secret,
    PersistentVolume,
    PersistentVolumeClaim,
    Deployment,
    ReplicaSet,
    StatefulSet,
    DaemonSet,
    Job,
    CronJob,
    Ingress,
    PodDisruptionBudget,
    HorizontalPodAutoscaler,
    ServiceImport,
    /// A `HelmRelease`, a `Kustomization`, or a source.
    Flux,
}

impl NativeKind {
    /// The kind of an object; `None` for other kinds and versions.
    pub fn of<V: JsonView>(object: &V) -> Option<Self> {
        Some(
            match (text(object, &["apiVersion"]), text(object, &["kind"])) {
                ("v1", "Pod") => Self::Pod,
                ("v1", "Service") => Self::Service,
                ("v1", "ServiceAccount") => Self::ServiceAccount,
                ("v1", "Secret") => Self::Secret,
                ("v1", "PersistentVolume") => Self::PersistentVolume,
                ("v1", "PersistentVolumeClaim") => Self::PersistentVolumeClaim,
                ("apps/v1", "Deployment") => Self::Deployment,
                ("apps/v1", "ReplicaSet") => Self::ReplicaSet,
                ("apps/v1", "StatefulSet") => Self::StatefulSet,
                ("apps/v1", "DaemonSet") => Self::DaemonSet,
                ("batch/v1", "Job") => Self::Job,
                ("batch/v1", "CronJob") => Self::CronJob,
                ("networking.k8s.io/v1", "Ingress") => Self::Ingress,
                ("policy/v1", "PodDisruptionBudget") => Self::PodDisruptionBudget,
                ("autoscaling/v2", "HorizontalPodAutoscaler") => Self::HorizontalPodAutoscaler,
                ("multicluster.x-k8s.io/v1alpha1", "ServiceImport") => Self::ServiceImport,
                _ if FLUX_GROUPS.contains(&group(object)) => Self::Flux,
                _ => return None,
            },
        )
    }

    /// The pod template of an object of this kind, which is the object itself for a Pod; `None` for
    /// kinds without one.
    pub fn pod_template<V: JsonView>(self, object: &V) -> Option<&V> {
        match self {
            Self::Pod => Some(object),
            Self::Deployment
            | Self::ReplicaSet
            | Self::StatefulSet
            | Self::DaemonSet
            | Self::Job => Some(at(object, &["spec", "template"])),
            Self::CronJob => Some(at(object, &["spec", "jobTemplate", "spec", "template"])),
            _ => None,
        }
    }
}
