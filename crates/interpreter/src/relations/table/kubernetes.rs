//! The edges of the kinds of Kubernetes. Source:
//! <https://kubernetes.io/docs/reference/kubernetes-api/>.

use super::edge::{Edge, EdgePlace, KindEdges, kind_edges};

const RBAC: &str = "rbac.authorization.k8s.io";
const STORAGE: &str = "storage.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";

/// The edges, in the order of the references.
pub(super) const RULES: &[KindEdges] = kind_edges! {
    "" => ["Pod"] {
        ("spec.nodeName", "runsOn", "", "Node")
        ("status.resourceClaimStatuses[].resourceClaimName",
            "uses", "resource.k8s.io", "ResourceClaim")
    }
    "" => ["ServiceAccount"] {
        ("secrets[].name", "uses", "", "Secret")
        ("imagePullSecrets[].name", "uses", "", "Secret")
    }
    "" => ["Secret"] {
        (Annotation("kubernetes.io/service-account.name"), "belongsTo", "", "ServiceAccount")
    }
    "" => ["PersistentVolumeClaim"] {
        ("spec.volumeName", "binds", "", "PersistentVolume")
        ("spec.storageClassName", "hasClass", STORAGE, "StorageClass")
        ("spec.volumeAttributesClassName", "hasClass", STORAGE, "VolumeAttributesClass")
        ("spec.dataSourceRef", "copies", "", "")
        ("spec.dataSource", "copies", "", "")
    }
    "" => ["PersistentVolume"] {
        ("spec.claimRef", "binds", "", "PersistentVolumeClaim")
        ("spec.storageClassName", "hasClass", STORAGE, "StorageClass")
        ("spec.volumeAttributesClassName", "hasClass", STORAGE, "VolumeAttributesClass")
        ("spec.csi.controllerPublishSecretRef", "uses", "", "Secret")
        ("spec.csi.nodeStageSecretRef", "uses", "", "Secret")
        ("spec.csi.nodePublishSecretRef", "uses", "", "Secret")
        ("spec.csi.controllerExpandSecretRef", "uses", "", "Secret")
        ("spec.csi.nodeExpandSecretRef", "uses", "", "Secret")
        ("spec.cephfs.secretRef", "uses", "", "Secret")
        ("spec.cinder.secretRef", "uses", "", "Secret")
        ("spec.flexVolume.secretRef", "uses", "", "Secret")
        ("spec.iscsi.secretRef", "uses", "", "Secret")
        ("spec.rbd.secretRef", "uses", "", "Secret")
        ("spec.scaleIO.secretRef", "uses", "", "Secret")
        ("spec.storageos.secretRef", "uses", "", "Secret")
    }
    "" => ["Endpoints"] {
        (Name, "belongsTo", "", "Service")
        ("subsets[].addresses[].targetRef", "routesTo", given)
        ("subsets[].notReadyAddresses[].targetRef", "routesTo", given)
        ("subsets[].addresses[].nodeName", "runsOn", "", "Node")
        ("subsets[].notReadyAddresses[].nodeName", "runsOn", "", "Node")
    }
    "discovery.k8s.io" => ["EndpointSlice"] {
        (Label("kubernetes.io/service-name"), "belongsTo", "", "Service")
        ("endpoints[].targetRef", "routesTo", given)
        ("endpoints[].nodeName", "runsOn", "", "Node")
    }
    "" => ["Event"] {
        ("involvedObject", "concerns", given)
        ("related", "concerns", given)
    }
    "events.k8s.io" => ["Event"] {
        ("regarding", "concerns", given)
        ("related", "concerns", given)
    }
    "apps" => ["StatefulSet"] {
        ("spec.serviceName", "uses", "", "Service")
        ("spec.volumeClaimTemplates[].spec.storageClassName", "hasClass", STORAGE, "StorageClass")
    }
    "autoscaling" => ["HorizontalPodAutoscaler"] {
        ("spec.scaleTargetRef", "scales", "", "")
        ("spec.metrics[].object.describedObject", "uses", "", "")
        ("spec.metrics[].object.target", "uses", "", "")
    }
    "networking.k8s.io", "extensions" => ["Ingress"] {
        ("spec.defaultBackend.service", "routesTo", "", "Service")
        ("spec.defaultBackend.resource", "routesTo", "", "")
        ("spec.rules[].http.paths[].backend.service", "routesTo", "", "Service")
        ("spec.rules[].http.paths[].backend.resource", "routesTo", "", "")
        ("spec.backend.serviceName", "routesTo", "", "Service")
        ("spec.rules[].http.paths[].backend.serviceName", "routesTo", "", "Service")
        ("spec.tls[].secretName", "uses", "", "Secret")
        ("spec.ingressClassName", "hasClass", "networking.k8s.io", "IngressClass")
    }
    "networking.k8s.io" => ["IngressClass"] {
        ("spec.parameters", "uses", "", "")
    }
    RBAC => ["RoleBinding", "ClusterRoleBinding"] {
        ("roleRef", "grants", RBAC, "")
        ("subjects[]", "grantsTo", "", "")
    }
    ADMISSION => ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"] {
        ("webhooks[].clientConfig.service", "calls", "", "Service")
    }
    ADMISSION => ["ValidatingAdmissionPolicyBinding"] {
        ("spec.policyName", "binds", ADMISSION, "ValidatingAdmissionPolicy")
    }
    ADMISSION => ["MutatingAdmissionPolicyBinding"] {
        ("spec.policyName", "binds", ADMISSION, "MutatingAdmissionPolicy")
    }
    "apiregistration.k8s.io" => ["APIService"] {
        ("spec.service", "calls", "", "Service")
    }
    "apiextensions.k8s.io" => ["CustomResourceDefinition"] {
        ("spec.conversion.webhook.clientConfig.service", "calls", "", "Service")
        ("spec.conversion.webhookClientConfig.service", "calls", "", "Service")
    }
    STORAGE => ["VolumeAttachment"] {
        ("spec.source.persistentVolumeName", "attaches", "", "PersistentVolume")
        ("spec.nodeName", "attachesTo", "", "Node")
    }
    STORAGE => ["CSINode"] {
        (Name, "belongsTo", "", "Node")
        ("spec.drivers[].name", "uses", STORAGE, "CSIDriver")
    }
    STORAGE => ["CSIStorageCapacity"] {
        ("storageClassName", "hasClass", STORAGE, "StorageClass")
    }
    "flowcontrol.apiserver.k8s.io" => ["FlowSchema"] {
        ("spec.priorityLevelConfiguration.name",
            "uses", "flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration")
    }
};
