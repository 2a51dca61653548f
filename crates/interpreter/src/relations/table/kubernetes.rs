//! The edges of the kinds of Kubernetes. Source:
//! <https://kubernetes.io/docs/reference/kubernetes-api/>.

use super::edge::{Edge, EdgePlace, KindEdges};

const RBAC: &str = "rbac.authorization.k8s.io";
const STORAGE: &str = "storage.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";

/// The edges, in the order of the references.
pub(super) const RULES: &[KindEdges] = &[
    KindEdges {
        group: "",
        kinds: &["Pod"],
        edges: &[
            Edge::path("spec.nodeName", "runsOn", "", "Node"),
            Edge::path(
                "status.resourceClaimStatuses[].resourceClaimName",
                "uses",
                "resource.k8s.io",
                "ResourceClaim",
            ),
        ],
    },
    KindEdges {
        group: "",
        kinds: &["ServiceAccount"],
        edges: &[
            Edge::path("secrets[].name", "uses", "", "Secret"),
            Edge::path("imagePullSecrets[].name", "uses", "", "Secret"),
        ],
    },
    KindEdges {
        group: "",
        kinds: &["Secret"],
        edges: &[Edge::new(
            EdgePlace::Annotation("kubernetes.io/service-account.name"),
            "belongsTo",
            "",
            "ServiceAccount",
        )],
    },
    KindEdges {
        group: "",
        kinds: &["PersistentVolumeClaim"],
        edges: &[
            Edge::path("spec.volumeName", "binds", "", "PersistentVolume"),
            Edge::path("spec.storageClassName", "hasClass", STORAGE, "StorageClass"),
            Edge::path(
                "spec.volumeAttributesClassName",
                "hasClass",
                STORAGE,
                "VolumeAttributesClass",
            ),
            Edge::path("spec.dataSourceRef", "copies", "", ""),
            Edge::path("spec.dataSource", "copies", "", ""),
        ],
    },
    KindEdges {
        group: "",
        kinds: &["PersistentVolume"],
        edges: &[
            Edge::path("spec.claimRef", "binds", "", "PersistentVolumeClaim"),
            Edge::path("spec.storageClassName", "hasClass", STORAGE, "StorageClass"),
            Edge::path(
                "spec.volumeAttributesClassName",
                "hasClass",
                STORAGE,
                "VolumeAttributesClass",
            ),
            Edge::path("spec.csi.controllerPublishSecretRef", "uses", "", "Secret"),
            Edge::path("spec.csi.nodeStageSecretRef", "uses", "", "Secret"),
            Edge::path("spec.csi.nodePublishSecretRef", "uses", "", "Secret"),
            Edge::path("spec.csi.controllerExpandSecretRef", "uses", "", "Secret"),
            Edge::path("spec.csi.nodeExpandSecretRef", "uses", "", "Secret"),
            Edge::path("spec.cephfs.secretRef", "uses", "", "Secret"),
            Edge::path("spec.cinder.secretRef", "uses", "", "Secret"),
            Edge::path("spec.flexVolume.secretRef", "uses", "", "Secret"),
            Edge::path("spec.iscsi.secretRef", "uses", "", "Secret"),
            Edge::path("spec.rbd.secretRef", "uses", "", "Secret"),
            Edge::path("spec.scaleIO.secretRef", "uses", "", "Secret"),
            Edge::path("spec.storageos.secretRef", "uses", "", "Secret"),
        ],
    },
    KindEdges {
        group: "",
        kinds: &["Endpoints"],
        edges: &[
            Edge::new(EdgePlace::Name, "belongsTo", "", "Service"),
            Edge::path("subsets[].addresses[].targetRef", "routesTo", "", "").given(),
            Edge::path(
                "subsets[].notReadyAddresses[].targetRef",
                "routesTo",
                "",
                "",
            )
            .given(),
            Edge::path("subsets[].addresses[].nodeName", "runsOn", "", "Node"),
            Edge::path(
                "subsets[].notReadyAddresses[].nodeName",
                "runsOn",
                "",
                "Node",
            ),
        ],
    },
    KindEdges {
        group: "discovery.k8s.io",
        kinds: &["EndpointSlice"],
        edges: &[
            Edge::new(
                EdgePlace::Label("kubernetes.io/service-name"),
                "belongsTo",
                "",
                "Service",
            ),
            Edge::path("endpoints[].targetRef", "routesTo", "", "").given(),
            Edge::path("endpoints[].nodeName", "runsOn", "", "Node"),
        ],
    },
    KindEdges {
        group: "",
        kinds: &["Event"],
        edges: &[
            Edge::path("involvedObject", "concerns", "", "").given(),
            Edge::path("related", "concerns", "", "").given(),
        ],
    },
    KindEdges {
        group: "events.k8s.io",
        kinds: &["Event"],
        edges: &[
            Edge::path("regarding", "concerns", "", "").given(),
            Edge::path("related", "concerns", "", "").given(),
        ],
    },
    KindEdges {
        group: "apps",
        kinds: &["StatefulSet"],
        edges: &[
            Edge::path("spec.serviceName", "uses", "", "Service"),
            Edge::path(
                "spec.volumeClaimTemplates[].spec.storageClassName",
                "hasClass",
                STORAGE,
                "StorageClass",
            ),
        ],
    },
    KindEdges {
        group: "autoscaling",
        kinds: &["HorizontalPodAutoscaler"],
        edges: &[
            Edge::path("spec.scaleTargetRef", "scales", "", ""),
            Edge::path("spec.metrics[].object.describedObject", "uses", "", ""),
            Edge::path("spec.metrics[].object.target", "uses", "", ""),
        ],
    },
    INGRESS,
    KindEdges {
        group: "extensions",
        ..INGRESS
    },
    KindEdges {
        group: "networking.k8s.io",
        kinds: &["IngressClass"],
        edges: &[Edge::path("spec.parameters", "uses", "", "")],
    },
    KindEdges {
        group: RBAC,
        kinds: &["RoleBinding", "ClusterRoleBinding"],
        edges: &[
            Edge::path("roleRef", "grants", RBAC, ""),
            Edge::path("subjects[]", "grantsTo", "", ""),
        ],
    },
    KindEdges {
        group: ADMISSION,
        kinds: &[
            "MutatingWebhookConfiguration",
            "ValidatingWebhookConfiguration",
        ],
        edges: &[Edge::path(
            "webhooks[].clientConfig.service",
            "calls",
            "",
            "Service",
        )],
    },
    KindEdges {
        group: ADMISSION,
        kinds: &["ValidatingAdmissionPolicyBinding"],
        edges: &[Edge::path(
            "spec.policyName",
            "binds",
            ADMISSION,
            "ValidatingAdmissionPolicy",
        )],
    },
    KindEdges {
        group: ADMISSION,
        kinds: &["MutatingAdmissionPolicyBinding"],
        edges: &[Edge::path(
            "spec.policyName",
            "binds",
            ADMISSION,
            "MutatingAdmissionPolicy",
        )],
    },
    KindEdges {
        group: "apiregistration.k8s.io",
        kinds: &["APIService"],
        edges: &[Edge::path("spec.service", "calls", "", "Service")],
    },
    KindEdges {
        group: "apiextensions.k8s.io",
        kinds: &["CustomResourceDefinition"],
        edges: &[
            Edge::path(
                "spec.conversion.webhook.clientConfig.service",
                "calls",
                "",
                "Service",
            ),
            Edge::path(
                "spec.conversion.webhookClientConfig.service",
                "calls",
                "",
                "Service",
            ),
        ],
    },
    KindEdges {
        group: STORAGE,
        kinds: &["VolumeAttachment"],
        edges: &[
            Edge::path(
                "spec.source.persistentVolumeName",
                "attaches",
                "",
                "PersistentVolume",
            ),
            Edge::path("spec.nodeName", "attachesTo", "", "Node"),
        ],
    },
    KindEdges {
        group: STORAGE,
        kinds: &["CSINode"],
        edges: &[
            Edge::new(EdgePlace::Name, "belongsTo", "", "Node"),
            Edge::path("spec.drivers[].name", "uses", STORAGE, "CSIDriver"),
        ],
    },
    KindEdges {
        group: STORAGE,
        kinds: &["CSIStorageCapacity"],
        edges: &[Edge::path(
            "storageClassName",
            "hasClass",
            STORAGE,
            "StorageClass",
        )],
    },
    KindEdges {
        group: "flowcontrol.apiserver.k8s.io",
        kinds: &["FlowSchema"],
        edges: &[Edge::path(
            "spec.priorityLevelConfiguration.name",
            "uses",
            "flowcontrol.apiserver.k8s.io",
            "PriorityLevelConfiguration",
        )],
    },
];

const INGRESS: KindEdges = KindEdges {
    group: "networking.k8s.io",
    kinds: &["Ingress"],
    edges: &[
        Edge::path("spec.defaultBackend.service", "routesTo", "", "Service"),
        Edge::path("spec.defaultBackend.resource", "routesTo", "", ""),
        Edge::path(
            "spec.rules[].http.paths[].backend.service",
            "routesTo",
            "",
            "Service",
        ),
        Edge::path(
            "spec.rules[].http.paths[].backend.resource",
            "routesTo",
            "",
            "",
        ),
        Edge::path("spec.backend.serviceName", "routesTo", "", "Service"),
        Edge::path(
            "spec.rules[].http.paths[].backend.serviceName",
            "routesTo",
            "",
            "Service",
        ),
        Edge::path("spec.tls[].secretName", "uses", "", "Secret"),
        Edge::path(
            "spec.ingressClassName",
            "hasClass",
            "networking.k8s.io",
            "IngressClass",
        ),
    ],
};
