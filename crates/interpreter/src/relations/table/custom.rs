//! The edges of kinds that are in wide use and none of Kubernetes itself. Sources: the projects'
//! API references.

use super::edge::{Edge, EdgePlace, KindEdges};

const CERT_MANAGER: &str = "cert-manager.io";
const CLUSTER_API: &str = "cluster.x-k8s.io";
const EXTERNAL_SECRETS: &str = "external-secrets.io";
const FLUX_SOURCE: &str = "source.toolkit.fluxcd.io";
const KEDA: &str = "keda.sh";
const SNAPSHOT: &str = "snapshot.storage.k8s.io";

/// The edges, in the order of the references. Those of single kinds precede those of all.
pub(super) const RULES: &[KindEdges] = &[
    // Autoscalers: <https://keda.sh/docs/latest/reference/scaledobject-spec/>.
    KindEdges {
        group: KEDA,
        kinds: &["ScaledObject"],
        edges: &[Edge::path(
            "spec.scaleTargetRef",
            "scales",
            "apps",
            "Deployment",
        )],
    },
    KindEdges {
        group: KEDA,
        kinds: &["ScaledObject", "ScaledJob"],
        edges: &[Edge::path(
            "spec.triggers[].authenticationRef",
            "uses",
            KEDA,
            "TriggerAuthentication",
        )],
    },
    KindEdges {
        group: KEDA,
        kinds: &["TriggerAuthentication"],
        edges: &[
            Edge::path("spec.secretTargetRef[]", "uses", "", "Secret"),
            Edge::path("spec.configMapTargetRef[]", "uses", "", "ConfigMap"),
        ],
    },
    KindEdges {
        group: "autoscaling.k8s.io",
        kinds: &["VerticalPodAutoscaler"],
        edges: &[Edge::path("spec.targetRef", "scales", "", "")],
    },
    // Volume snapshots: <https://kubernetes.io/docs/concepts/storage/volume-snapshots/>.
    KindEdges {
        group: SNAPSHOT,
        kinds: &["VolumeSnapshot"],
        edges: &[
            Edge::path(
                "spec.source.persistentVolumeClaimName",
                "copies",
                "",
                "PersistentVolumeClaim",
            ),
            Edge::path(
                "spec.source.volumeSnapshotContentName",
                "binds",
                SNAPSHOT,
                "VolumeSnapshotContent",
            ),
            Edge::path(
                "status.boundVolumeSnapshotContentName",
                "binds",
                SNAPSHOT,
                "VolumeSnapshotContent",
            ),
            Edge::path(
                "spec.volumeSnapshotClassName",
                "hasClass",
                SNAPSHOT,
                "VolumeSnapshotClass",
            ),
        ],
    },
    KindEdges {
        group: SNAPSHOT,
        kinds: &["VolumeSnapshotContent"],
        edges: &[
            Edge::path(
                "spec.volumeSnapshotRef",
                "binds",
                SNAPSHOT,
                "VolumeSnapshot",
            ),
            Edge::path(
                "spec.volumeSnapshotClassName",
                "hasClass",
                SNAPSHOT,
                "VolumeSnapshotClass",
            ),
        ],
    },
    // cert-manager: <https://cert-manager.io/docs/reference/api-docs/>.
    KindEdges {
        group: CERT_MANAGER,
        kinds: &["Certificate"],
        edges: &[Edge::path("spec.secretName", "produces", "", "Secret")],
    },
    KindEdges {
        group: CERT_MANAGER,
        kinds: &["Certificate", "CertificateRequest"],
        edges: &[Edge::path(
            "spec.issuerRef",
            "issuedBy",
            CERT_MANAGER,
            "Issuer",
        )],
    },
    KindEdges {
        group: "acme.cert-manager.io",
        kinds: &["Order", "Challenge"],
        edges: &[Edge::path(
            "spec.issuerRef",
            "issuedBy",
            CERT_MANAGER,
            "Issuer",
        )],
    },
    // External Secrets: <https://external-secrets.io/latest/api/spec/>.
    KindEdges {
        group: EXTERNAL_SECRETS,
        kinds: &["ExternalSecret"],
        edges: &[
            Edge::new(
                EdgePlace::PathOrName("spec.target.name"),
                "produces",
                "",
                "Secret",
            ),
            Edge::path(
                "spec.secretStoreRef",
                "uses",
                EXTERNAL_SECRETS,
                "SecretStore",
            ),
            Edge::path(
                "spec.data[].sourceRef.storeRef",
                "uses",
                EXTERNAL_SECRETS,
                "SecretStore",
            ),
            Edge::path(
                "spec.dataFrom[].sourceRef.storeRef",
                "uses",
                EXTERNAL_SECRETS,
                "SecretStore",
            ),
            Edge::path(
                "spec.dataFrom[].sourceRef.generatorRef",
                "uses",
                "generators.external-secrets.io",
                "",
            ),
        ],
    },
    KindEdges {
        group: EXTERNAL_SECRETS,
        kinds: &["PushSecret"],
        edges: &[
            Edge::path(
                "spec.secretStoreRefs[]",
                "uses",
                EXTERNAL_SECRETS,
                "SecretStore",
            ),
            Edge::path("spec.selector.secret", "uses", "", "Secret"),
        ],
    },
    // Cluster API: <https://cluster-api.sigs.k8s.io/developer/providers/contracts/overview>.
    KindEdges {
        group: CLUSTER_API,
        kinds: &["Cluster"],
        edges: &[
            Edge::path(
                "spec.controlPlaneRef",
                "uses",
                "controlplane.cluster.x-k8s.io",
                "",
            ),
            Edge::path(
                "spec.topology.classRef",
                "hasClass",
                CLUSTER_API,
                "ClusterClass",
            ),
            Edge::path(
                "spec.topology.class",
                "hasClass",
                CLUSTER_API,
                "ClusterClass",
            ),
        ],
    },
    KindEdges {
        group: CLUSTER_API,
        kinds: &[],
        edges: &[
            Edge::path("spec.clusterName", "belongsTo", CLUSTER_API, "Cluster"),
            Edge::path(
                "spec.infrastructureRef",
                "uses",
                "infrastructure.cluster.x-k8s.io",
                "",
            ),
            Edge::path(
                "spec.bootstrap.configRef",
                "uses",
                "bootstrap.cluster.x-k8s.io",
                "",
            ),
            Edge::path("spec.bootstrap.dataSecretName", "uses", "", "Secret"),
            Edge::path(
                "spec.template.spec.infrastructureRef",
                "uses",
                "infrastructure.cluster.x-k8s.io",
                "",
            ),
            Edge::path(
                "spec.template.spec.bootstrap.configRef",
                "uses",
                "bootstrap.cluster.x-k8s.io",
                "",
            ),
        ],
    },
    KindEdges {
        group: "controlplane.cluster.x-k8s.io",
        kinds: &[],
        edges: &[
            Edge::path(
                "spec.machineTemplate.infrastructureRef",
                "uses",
                "infrastructure.cluster.x-k8s.io",
                "",
            ),
            Edge::path(
                "spec.machineTemplate.spec.infrastructureRef",
                "uses",
                "infrastructure.cluster.x-k8s.io",
                "",
            ),
        ],
    },
    CLUSTER_LABEL,
    KindEdges {
        group: "bootstrap.cluster.x-k8s.io",
        ..CLUSTER_LABEL
    },
    KindEdges {
        group: "infrastructure.cluster.x-k8s.io",
        ..CLUSTER_LABEL
    },
    // Argo CD and Rollouts:
    // <https://argo-cd.readthedocs.io/en/stable/operator-manual/declarative-setup/>.
    KindEdges {
        group: "argoproj.io",
        kinds: &["Application"],
        edges: &[Edge::path(
            "spec.project",
            "belongsTo",
            "argoproj.io",
            "AppProject",
        )],
    },
    KindEdges {
        group: "argoproj.io",
        kinds: &["Rollout"],
        edges: &[
            Edge::path("spec.workloadRef", "uses", "apps", "Deployment"),
            Edge::path(
                "spec.strategy.blueGreen.activeService",
                "uses",
                "",
                "Service",
            ),
            Edge::path(
                "spec.strategy.blueGreen.previewService",
                "uses",
                "",
                "Service",
            ),
            Edge::path("spec.strategy.canary.stableService", "uses", "", "Service"),
            Edge::path("spec.strategy.canary.canaryService", "uses", "", "Service"),
        ],
    },
    // Flux: <https://fluxcd.io/flux/components/>.
    KindEdges {
        group: "kustomize.toolkit.fluxcd.io",
        kinds: &["Kustomization"],
        edges: &[
            Edge::path("spec.sourceRef", "syncsFrom", FLUX_SOURCE, ""),
            Edge::path(
                "spec.dependsOn[]",
                "dependsOn",
                "kustomize.toolkit.fluxcd.io",
                "Kustomization",
            ),
            Edge::path("spec.postBuild.substituteFrom[]", "uses", "", ""),
        ],
    },
    KindEdges {
        group: "helm.toolkit.fluxcd.io",
        kinds: &["HelmRelease"],
        edges: &[
            Edge::path("spec.chart.spec.sourceRef", "syncsFrom", FLUX_SOURCE, ""),
            Edge::path("spec.chartRef", "syncsFrom", FLUX_SOURCE, ""),
            Edge::path(
                "spec.dependsOn[]",
                "dependsOn",
                "helm.toolkit.fluxcd.io",
                "HelmRelease",
            ),
            Edge::path("spec.valuesFrom[]", "uses", "", ""),
        ],
    },
    KindEdges {
        group: FLUX_SOURCE,
        kinds: &["HelmChart"],
        edges: &[Edge::path("spec.sourceRef", "syncsFrom", FLUX_SOURCE, "")],
    },
    KindEdges {
        group: "image.toolkit.fluxcd.io",
        kinds: &["ImagePolicy", "ImageUpdateAutomation"],
        edges: &[
            Edge::path("spec.sourceRef", "syncsFrom", FLUX_SOURCE, ""),
            Edge::path(
                "spec.imageRepositoryRef",
                "uses",
                "image.toolkit.fluxcd.io",
                "ImageRepository",
            ),
        ],
    },
    // What a custom kind has in common with the kinds above; policies attach with `targetRefs`:
    // <https://gateway-api.sigs.k8s.io/geps/gep-713/>.
    KindEdges {
        group: "*",
        kinds: &[],
        edges: &[
            Edge::path("spec.targetRefs[]", "targets", "", ""),
            Edge::path("spec.targetRef", "targets", "", ""),
            Edge::path("spec.scaleTargetRef", "scales", "", ""),
        ],
    },
];

/// Templates and configurations belong to the cluster that a label names.
const CLUSTER_LABEL: KindEdges = KindEdges {
    group: "controlplane.cluster.x-k8s.io",
    kinds: &[],
    edges: &[Edge::new(
        EdgePlace::Label("cluster.x-k8s.io/cluster-name"),
        "belongsTo",
        CLUSTER_API,
        "Cluster",
    )],
};
