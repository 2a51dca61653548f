//! The resources that a kube-apiserver 1.36 serves by default and that can be listed and watched.

use std::sync::LazyLock;

use crate::model::{Gvk, Resource, qualified};

/// A resource that every Kubernetes cluster serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuiltIn {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Version within the group.
    pub version: &'static str,
    /// Kind, in the singular and capitalised.
    pub kind: &'static str,
    /// The plural that stands in URLs.
    pub plural: &'static str,
    /// Short names, as kubectl accepts them.
    pub short_names: &'static [&'static str],
    /// Whether its objects have namespaces.
    pub namespaced: bool,
    /// Whether this is the group's preferred version.
    pub preferred: bool,
}

impl BuiltIn {
    /// Group, version and kind.
    pub fn gvk(&self) -> Gvk {
        Gvk::new(self.group, self.version, self.kind)
    }

    /// The resource, as a type of the model.
    pub fn resource(&self) -> Resource {
        Resource {
            gvk: self.gvk(),
            plural: self.plural.into(),
            namespaced: self.namespaced,
        }
    }

    /// The singular name: for every built-in kind the kind in lower case.
    pub fn singular(&self) -> String {
        self.kind.to_ascii_lowercase()
    }

    /// The name with its group, such as `deployments.apps`, which is unique.
    pub fn qualified_name(&self) -> String {
        qualified(self.plural, self.group)
    }
}

/// Every built-in resource: the core group first, then the groups in the apiserver's order, the
/// preferred version of each first.
pub fn all() -> &'static [BuiltIn] {
    static ALL: LazyLock<Vec<BuiltIn>> =
        LazyLock::new(|| TABLE.iter().flat_map(BuiltInVersion::resources).collect());
    &ALL
}

/// The built-in resource of a kind.
pub fn find(gvk: &Gvk) -> Option<&'static BuiltIn> {
    let same = |entry: &&BuiltIn| {
        entry.group == &*gvk.group && entry.version == &*gvk.version && entry.kind == &*gvk.kind
    };
    all().iter().find(same)
}

/// Whether a kind is built in, in any version.
pub fn is_built_in(gvk: &Gvk) -> bool {
    all()
        .iter()
        .any(|entry| entry.group == &*gvk.group && entry.kind == &*gvk.kind)
}

/// The built-in resource of a group and plural, in the group's preferred version.
pub fn find_plural(group: &str, plural: &str) -> Option<&'static BuiltIn> {
    all()
        .iter()
        .find(|entry| entry.group == group && entry.plural == plural)
}

/// One version of a group.
struct BuiltInVersion {
    group: &'static str,
    version: &'static str,
    preferred: bool,
    /// Kind, plural and short names.
    namespaced: &'static [KindRow],
    cluster_wide: &'static [KindRow],
}

type KindRow = (&'static str, &'static str, &'static [&'static str]);

impl BuiltInVersion {
    fn resources(&self) -> impl Iterator<Item = BuiltIn> {
        let entry = |(kind, plural, short_names): KindRow, namespaced| BuiltIn {
            group: self.group,
            version: self.version,
            kind,
            plural,
            short_names,
            namespaced,
            preferred: self.preferred,
        };
        let namespaced = self.namespaced.iter().map(move |row| entry(*row, true));
        let cluster_wide = self.cluster_wide.iter().map(move |row| entry(*row, false));
        namespaced.chain(cluster_wide)
    }
}

const fn preferred(
    group: &'static str,
    version: &'static str,
    namespaced: &'static [KindRow],
    cluster_wide: &'static [KindRow],
) -> BuiltInVersion {
    BuiltInVersion {
        group,
        version,
        preferred: true,
        namespaced,
        cluster_wide,
    }
}

// Left out: resources that cannot be watched (componentstatuses), that can only be created
// (reviews, bindings), and the alpha and beta versions, all of which are off by default in 1.36. A
// test compares this table with the discovery of a real apiserver.
#[rustfmt::skip]
const TABLE: &[BuiltInVersion] = &[
    preferred("", "v1", &[
        ("ConfigMap", "configmaps", &["cm"]),
        ("Endpoints", "endpoints", &["ep"]),
        ("Event", "events", &["ev"]),
        ("LimitRange", "limitranges", &["limits"]),
        ("PersistentVolumeClaim", "persistentvolumeclaims", &["pvc"]),
        ("Pod", "pods", &["po"]),
        ("PodTemplate", "podtemplates", &[]),
        ("ReplicationController", "replicationcontrollers", &["rc"]),
        ("ResourceQuota", "resourcequotas", &["quota"]),
        ("Secret", "secrets", &[]),
        ("ServiceAccount", "serviceaccounts", &["sa"]),
        ("Service", "services", &["svc"]),
    ], &[
        ("Namespace", "namespaces", &["ns"]),
        ("Node", "nodes", &["no"]),
        ("PersistentVolume", "persistentvolumes", &["pv"]),
    ]),
    preferred("apiregistration.k8s.io", "v1", &[], &[
        ("APIService", "apiservices", &[]),
    ]),
    preferred("apps", "v1", &[
        ("ControllerRevision", "controllerrevisions", &[]),
        ("DaemonSet", "daemonsets", &["ds"]),
        ("Deployment", "deployments", &["deploy"]),
        ("ReplicaSet", "replicasets", &["rs"]),
        ("StatefulSet", "statefulsets", &["sts"]),
    ], &[]),
    preferred("events.k8s.io", "v1", &[
        ("Event", "events", &["ev"]),
    ], &[]),
    preferred("autoscaling", "v2", &[
        ("HorizontalPodAutoscaler", "horizontalpodautoscalers", &["hpa"]),
    ], &[]),
    BuiltInVersion { preferred: false, ..preferred("autoscaling", "v1", &[
        ("HorizontalPodAutoscaler", "horizontalpodautoscalers", &["hpa"]),
    ], &[]) },
    preferred("batch", "v1", &[
        ("CronJob", "cronjobs", &["cj"]),
        ("Job", "jobs", &[]),
    ], &[]),
    preferred("certificates.k8s.io", "v1", &[], &[
        ("CertificateSigningRequest", "certificatesigningrequests", &["csr"]),
    ]),
    preferred("networking.k8s.io", "v1", &[
        ("Ingress", "ingresses", &["ing"]),
        ("NetworkPolicy", "networkpolicies", &["netpol"]),
    ], &[
        ("IngressClass", "ingressclasses", &[]),
        ("IPAddress", "ipaddresses", &["ip"]),
        ("ServiceCIDR", "servicecidrs", &[]),
    ]),
    preferred("policy", "v1", &[
        ("PodDisruptionBudget", "poddisruptionbudgets", &["pdb"]),
    ], &[]),
    preferred("rbac.authorization.k8s.io", "v1", &[
        ("RoleBinding", "rolebindings", &[]),
        ("Role", "roles", &[]),
    ], &[
        ("ClusterRoleBinding", "clusterrolebindings", &[]),
        ("ClusterRole", "clusterroles", &[]),
    ]),
    preferred("storage.k8s.io", "v1", &[
        ("CSIStorageCapacity", "csistoragecapacities", &[]),
    ], &[
        ("CSIDriver", "csidrivers", &[]),
        ("CSINode", "csinodes", &[]),
        ("StorageClass", "storageclasses", &["sc"]),
        ("VolumeAttachment", "volumeattachments", &[]),
        ("VolumeAttributesClass", "volumeattributesclasses", &["vac"]),
    ]),
    preferred("admissionregistration.k8s.io", "v1", &[], &[
        ("MutatingAdmissionPolicy", "mutatingadmissionpolicies", &[]),
        ("MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings", &[]),
        ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations", &[]),
        ("ValidatingAdmissionPolicy", "validatingadmissionpolicies", &[]),
        ("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", &[]),
        ("ValidatingWebhookConfiguration", "validatingwebhookconfigurations", &[]),
    ]),
    preferred("apiextensions.k8s.io", "v1", &[], &[
        ("CustomResourceDefinition", "customresourcedefinitions", &["crd", "crds"]),
    ]),
    preferred("scheduling.k8s.io", "v1", &[], &[
        ("PriorityClass", "priorityclasses", &["pc"]),
    ]),
    preferred("coordination.k8s.io", "v1", &[
        ("Lease", "leases", &[]),
    ], &[]),
    preferred("node.k8s.io", "v1", &[], &[
        ("RuntimeClass", "runtimeclasses", &[]),
    ]),
    preferred("discovery.k8s.io", "v1", &[
        ("EndpointSlice", "endpointslices", &[]),
    ], &[]),
    preferred("resource.k8s.io", "v1", &[
        ("ResourceClaim", "resourceclaims", &[]),
        ("ResourceClaimTemplate", "resourceclaimtemplates", &[]),
    ], &[
        ("DeviceClass", "deviceclasses", &[]),
        ("ResourceSlice", "resourceslices", &[]),
    ]),
    preferred("flowcontrol.apiserver.k8s.io", "v1", &[], &[
        ("FlowSchema", "flowschemas", &[]),
        ("PriorityLevelConfiguration", "prioritylevelconfigurations", &[]),
    ]),
];
