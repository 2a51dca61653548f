//! What a reference leaves open: the version of a group, the group of a kind, the scope of a kind.

use std::sync::LazyLock;

use ahash::AHashSet;
use fleetdex_core::model::split_api_version;

/// Groups with one version that is served everywhere, where it is not `v1`.
const VERSIONS: &[(&str, &str)] = &[
    ("argoproj.io", "v1alpha1"),
    ("extensions", "v1beta1"),
    ("gateway.networking.x-k8s.io", "v1alpha1"),
    ("generators.external-secrets.io", "v1alpha1"),
    ("helm.toolkit.fluxcd.io", "v2"),
    ("keda.sh", "v1alpha1"),
    ("traefik.io", "v1alpha1"),
];

/// Groups whose version is `v1` even if the object that refers to them is of a related group and
/// another version.
static STABLE: LazyLock<AHashSet<&str>> = LazyLock::new(|| {
    let groups = "apps autoscaling batch cert-manager.io gateway.networking.k8s.io \
         kustomize.toolkit.fluxcd.io networking.k8s.io policy rbac.authorization.k8s.io \
         resource.k8s.io snapshot.storage.k8s.io source.toolkit.fluxcd.io storage.k8s.io";
    groups.split_ascii_whitespace().collect()
});

/// The group of a kind that a reference names without one.
const GROUPS: &[(&str, &str)] = &[
    ("CronJob", "batch"),
    ("DaemonSet", "apps"),
    ("Deployment", "apps"),
    ("Job", "batch"),
    ("ReplicaSet", "apps"),
    ("StatefulSet", "apps"),
];

/// Cluster-scoped kinds that objects refer to.
const CLUSTER_SCOPED: &[(&str, &str)] = &[
    ("", "Namespace"),
    ("", "Node"),
    ("", "PersistentVolume"),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
    ("apiregistration.k8s.io", "APIService"),
    ("certificates.k8s.io", "CertificateSigningRequest"),
    ("cert-manager.io", "ClusterIssuer"),
    ("external-secrets.io", "ClusterSecretStore"),
    ("external-secrets.io", "ClusterExternalSecret"),
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"),
    ("gateway.networking.k8s.io", "GatewayClass"),
    ("generators.external-secrets.io", "ClusterGenerator"),
    ("keda.sh", "ClusterTriggerAuthentication"),
    ("networking.k8s.io", "IngressClass"),
    ("node.k8s.io", "RuntimeClass"),
    ("rbac.authorization.k8s.io", "ClusterRole"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
    ("resource.k8s.io", "DeviceClass"),
    ("scheduling.k8s.io", "PriorityClass"),
    ("snapshot.storage.k8s.io", "VolumeSnapshotClass"),
    ("snapshot.storage.k8s.io", "VolumeSnapshotContent"),
    ("storage.k8s.io", "CSIDriver"),
    ("storage.k8s.io", "CSINode"),
    ("storage.k8s.io", "StorageClass"),
    ("storage.k8s.io", "VolumeAttachment"),
    ("storage.k8s.io", "VolumeAttributesClass"),
];

/// The namespaced kinds of the core group, which gets no new ones. Without a namespace, a reference
/// to them is of no use.
static NAMESPACED: LazyLock<AHashSet<&str>> = LazyLock::new(|| {
    let kinds = "ConfigMap Endpoints Event LimitRange PersistentVolumeClaim Pod PodTemplate \
         ReplicationController ResourceQuota Secret Service ServiceAccount";
    kinds.split_ascii_whitespace().collect()
});

/// What subjects of role bindings may be without being objects.
const NO_OBJECTS: &[(&str, &str)] = &[
    ("rbac.authorization.k8s.io", "Group"),
    ("rbac.authorization.k8s.io", "User"),
];

/// The `apiVersion` of a group that is named without a version by an object of `referrer`, an
/// `apiVersion` too: the one that is served everywhere; in a related group (the same, one below, or
/// one beside it), the version of the referrer; in others, `v1`.
pub(super) fn api_version(group: &str, referrer: &str) -> String {
    let (own_group, own_version) = split_api_version(referrer);
    let version = VERSIONS
        .iter()
        .find(|known| known.0 == group)
        .map_or("v1", |known| known.1);
    let is_known = version != "v1" || STABLE.contains(group);
    match group {
        "" => "v1".to_owned(),
        _ if !is_known && are_related(group, own_group) => [group, "/", own_version].concat(),
        _ => [group, "/", version].concat(),
    }
}

/// The group of a kind whose reference names none.
pub(super) fn group_of(kind: &str, default: &'static str) -> &'static str {
    GROUPS
        .iter()
        .find(|known| known.0 == kind)
        .map_or(default, |known| known.1)
}

/// Whether a kind is known as cluster-scoped.
pub(super) fn is_cluster_scoped(api_version: &str, kind: &str) -> bool {
    static KINDS: LazyLock<AHashSet<(&str, &str)>> =
        LazyLock::new(|| CLUSTER_SCOPED.iter().copied().collect());
    KINDS.contains(&(split_api_version(api_version).0, kind))
}

/// Whether there can be an object of a kind in a namespace (empty: in none), as far as the kind is
/// known.
pub(super) fn has_objects(api_version: &str, kind: &str, namespace: &str) -> bool {
    let group = split_api_version(api_version).0;
    let is_namespaced = group.is_empty() && NAMESPACED.contains(kind);
    match (is_cluster_scoped(api_version, kind), is_namespaced) {
        (true, _) => namespace.is_empty(),
        (_, true) => !namespace.is_empty(),
        _ => !group.is_empty() && !NO_OBJECTS.contains(&(group, kind)),
    }
}

/// Whether groups have a domain in common, such as `cluster.x-k8s.io` and
/// `infrastructure.cluster.x-k8s.io`.
fn are_related(one: &str, other: &str) -> bool {
    let (parent, other_parent) = (parent(one), parent(other));
    one == other
        || parent == Some(other)
        || other_parent == Some(one)
        || (parent.is_some() && parent == other_parent)
}

/// The domain that a group is below; `None` for a group below a registered domain, such as
/// `example.io` or `k8s.io`.
fn parent(group: &str) -> Option<&str> {
    let (_, parent) = group.split_once('.')?;
    parent
        .split_once('.')
        .filter(|(_, rest)| rest.contains('.'))
        .map(|_| parent)
}
