//! The edges of kinds that are in wide use and none of Kubernetes itself. Sources: the projects'
//! API references.

use super::edge::{Edge, EdgePlace, KindEdges, kind_edges};

const BOOTSTRAP: &str = "bootstrap.cluster.x-k8s.io";
const CERT_MANAGER: &str = "cert-manager.io";
const CLUSTER_API: &str = "cluster.x-k8s.io";
const CONTROL_PLANE: &str = "controlplane.cluster.x-k8s.io";
const EXTERNAL_SECRETS: &str = "external-secrets.io";
const FLUX_HELM: &str = "helm.toolkit.fluxcd.io";
const FLUX_KUSTOMIZE: &str = "kustomize.toolkit.fluxcd.io";
const FLUX_SOURCE: &str = "source.toolkit.fluxcd.io";
const GATEWAY: &str = "gateway.networking.k8s.io";
const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";
const KEDA: &str = "keda.sh";
const SNAPSHOT: &str = "snapshot.storage.k8s.io";

/// The edges, in the order of the references. Those of single kinds precede those of all.
pub(super) const RULES: &[KindEdges] = kind_edges! {
    // Gateway API: <https://gateway-api.sigs.k8s.io/reference/spec/>.
    GATEWAY => ["HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute", "UDPRoute"] {
        ("spec.parentRefs[]", "attachesTo", GATEWAY, "Gateway")
        ("spec.rules[].backendRefs[]", "routesTo", "", "Service")
        ("spec.rules[].filters[].requestMirror.backendRef", "mirrorsTo", "", "Service")
        ("spec.rules[].backendRefs[].filters[].requestMirror.backendRef",
            "mirrorsTo", "", "Service")
        ("spec.rules[].filters[].externalAuth.backendRef", "calls", "", "Service")
        ("spec.rules[].filters[].extensionRef", "uses", "", "")
        ("spec.rules[].backendRefs[].filters[].extensionRef", "uses", "", "")
    }
    GATEWAY => ["Gateway"] {
        ("spec.gatewayClassName", "hasClass", GATEWAY, "GatewayClass")
        ("spec.listeners[].tls.certificateRefs[]", "uses", "", "Secret")
        ("spec.listeners[].tls.frontendValidation.caCertificateRefs[]", "uses", "", "ConfigMap")
        ("spec.tls.frontend.default.validation.caCertificateRefs[]", "uses", "", "ConfigMap")
        ("spec.tls.backend.clientCertificateRef", "uses", "", "Secret")
        ("spec.backendTLS.clientCertificateRef", "uses", "", "Secret")
        ("spec.infrastructure.parametersRef", "uses", "", "")
    }
    "*" => ["ListenerSet", "XListenerSet"] {
        ("spec.parentRef", "attachesTo", GATEWAY, "Gateway")
        ("spec.listeners[].tls.certificateRefs[]", "uses", "", "Secret")
    }
    GATEWAY => ["GatewayClass"] {
        ("spec.parametersRef", "uses", "", "")
    }
    GATEWAY => ["BackendTLSPolicy"] {
        ("spec.validation.caCertificateRefs[]", "uses", "", "ConfigMap")
    }
    // Autoscalers: <https://keda.sh/docs/latest/reference/scaledobject-spec/>.
    KEDA => ["ScaledObject"] {
        ("spec.scaleTargetRef", "scales", "apps", "Deployment")
    }
    KEDA => ["ScaledObject", "ScaledJob"] {
        ("spec.triggers[].authenticationRef", "uses", KEDA, "TriggerAuthentication")
    }
    KEDA => ["TriggerAuthentication"] {
        ("spec.secretTargetRef[]", "uses", "", "Secret")
        ("spec.configMapTargetRef[]", "uses", "", "ConfigMap")
    }
    "autoscaling.k8s.io" => ["VerticalPodAutoscaler"] {
        ("spec.targetRef", "scales", "", "")
    }
    // Volume snapshots: <https://kubernetes.io/docs/concepts/storage/volume-snapshots/>.
    SNAPSHOT => ["VolumeSnapshot"] {
        ("spec.source.persistentVolumeClaimName", "copies", "", "PersistentVolumeClaim")
        ("spec.source.volumeSnapshotContentName", "binds", SNAPSHOT, "VolumeSnapshotContent")
        ("status.boundVolumeSnapshotContentName", "binds", SNAPSHOT, "VolumeSnapshotContent")
        ("spec.volumeSnapshotClassName", "hasClass", SNAPSHOT, "VolumeSnapshotClass")
    }
    SNAPSHOT => ["VolumeSnapshotContent"] {
        ("spec.volumeSnapshotRef", "binds", SNAPSHOT, "VolumeSnapshot")
        ("spec.volumeSnapshotClassName", "hasClass", SNAPSHOT, "VolumeSnapshotClass")
    }
    // cert-manager: <https://cert-manager.io/docs/reference/api-docs/>.
    CERT_MANAGER => ["Certificate"] {
        ("spec.secretName", "produces", "", "Secret")
    }
    CERT_MANAGER => ["Certificate", "CertificateRequest"] {
        ("spec.issuerRef", "issuedBy", CERT_MANAGER, "Issuer")
    }
    "acme.cert-manager.io" => ["Order", "Challenge"] {
        ("spec.issuerRef", "issuedBy", CERT_MANAGER, "Issuer")
    }
    // External Secrets: <https://external-secrets.io/latest/api/spec/>.
    EXTERNAL_SECRETS => ["ExternalSecret"] {
        (PathOrName("spec.target.name"), "produces", "", "Secret")
        ("spec.secretStoreRef", "uses", EXTERNAL_SECRETS, "SecretStore")
        ("spec.data[].sourceRef.storeRef", "uses", EXTERNAL_SECRETS, "SecretStore")
        ("spec.dataFrom[].sourceRef.storeRef", "uses", EXTERNAL_SECRETS, "SecretStore")
        ("spec.dataFrom[].sourceRef.generatorRef", "uses", "generators.external-secrets.io", "")
    }
    EXTERNAL_SECRETS => ["PushSecret"] {
        ("spec.secretStoreRefs[]", "uses", EXTERNAL_SECRETS, "SecretStore")
        ("spec.selector.secret", "uses", "", "Secret")
    }
    // Cluster API: <https://cluster-api.sigs.k8s.io/developer/providers/contracts/overview>.
    CLUSTER_API => ["Cluster"] {
        ("spec.controlPlaneRef", "uses", CONTROL_PLANE, "")
        ("spec.topology.classRef", "hasClass", CLUSTER_API, "ClusterClass")
        ("spec.topology.class", "hasClass", CLUSTER_API, "ClusterClass")
    }
    CLUSTER_API => [] {
        ("spec.clusterName", "belongsTo", CLUSTER_API, "Cluster")
        ("spec.infrastructureRef", "uses", INFRASTRUCTURE, "")
        ("spec.bootstrap.configRef", "uses", BOOTSTRAP, "")
        ("spec.bootstrap.dataSecretName", "uses", "", "Secret")
        ("spec.template.spec.infrastructureRef", "uses", INFRASTRUCTURE, "")
        ("spec.template.spec.bootstrap.configRef", "uses", BOOTSTRAP, "")
    }
    CONTROL_PLANE => [] {
        ("spec.machineTemplate.infrastructureRef", "uses", INFRASTRUCTURE, "")
        ("spec.machineTemplate.spec.infrastructureRef", "uses", INFRASTRUCTURE, "")
    }
    // Templates and configurations belong to the cluster that a label names.
    CONTROL_PLANE, BOOTSTRAP, INFRASTRUCTURE => [] {
        (Label("cluster.x-k8s.io/cluster-name"), "belongsTo", CLUSTER_API, "Cluster")
    }
    // Argo CD and Rollouts:
    // <https://argo-cd.readthedocs.io/en/stable/operator-manual/declarative-setup/>.
    "argoproj.io" => ["Application"] {
        ("spec.project", "belongsTo", "argoproj.io", "AppProject")
    }
    "argoproj.io" => ["Rollout"] {
        ("spec.workloadRef", "uses", "apps", "Deployment")
        ("spec.strategy.blueGreen.activeService", "uses", "", "Service")
        ("spec.strategy.blueGreen.previewService", "uses", "", "Service")
        ("spec.strategy.canary.stableService", "uses", "", "Service")
        ("spec.strategy.canary.canaryService", "uses", "", "Service")
    }
    // Flux: <https://fluxcd.io/flux/components/>. `InterpretDependency` reads these edges and no
    // conventions, so that every member is here that names an object.
    FLUX_KUSTOMIZE => ["Kustomization"] {
        ("spec.sourceRef", "syncsFrom", FLUX_SOURCE, "")
        ("spec.dependsOn[]", "dependsOn", FLUX_KUSTOMIZE, "Kustomization")
        ("spec.postBuild.substituteFrom[]", "uses", "", "")
        ("spec.decryption.secretRef", "uses", "", "Secret")
        ("spec.decryption.serviceAccountName", "runsAs", "", "ServiceAccount")
    }
    FLUX_HELM => ["HelmRelease"] {
        ("spec.chart.spec.sourceRef", "syncsFrom", FLUX_SOURCE, "")
        ("spec.chartRef", "syncsFrom", FLUX_SOURCE, "")
        ("spec.dependsOn[]", "dependsOn", FLUX_HELM, "HelmRelease")
        ("spec.valuesFrom[]", "uses", "", "")
        // Of the HelmChart, which is made beside its source.
        ("spec.chart.spec.verify.secretRef", "uses", "", "Secret",
            in &["spec", "chart", "spec", "sourceRef", "namespace"])
    }
    FLUX_HELM, FLUX_KUSTOMIZE => [] {
        ("spec.kubeConfig.secretRef", "uses", "", "Secret")
        ("spec.kubeConfig.configMapRef", "uses", "", "ConfigMap")
    }
    FLUX_SOURCE => ["HelmChart"] {
        ("spec.sourceRef", "syncsFrom", FLUX_SOURCE, "")
    }
    FLUX_SOURCE => [] {
        ("spec.include[].repository", "syncsFrom", FLUX_SOURCE, "GitRepository")
        ("spec.secretRef", "uses", "", "Secret")
        ("spec.certSecretRef", "uses", "", "Secret")
        ("spec.proxySecretRef", "uses", "", "Secret")
        ("spec.verify.secretRef", "uses", "", "Secret")
        ("spec.sts.secretRef", "uses", "", "Secret")
        ("spec.sts.certSecretRef", "uses", "", "Secret")
    }
    FLUX_HELM, FLUX_KUSTOMIZE, FLUX_SOURCE => [] {
        ("spec.serviceAccountName", "runsAs", "", "ServiceAccount")
    }
    "image.toolkit.fluxcd.io" => ["ImagePolicy", "ImageUpdateAutomation"] {
        ("spec.sourceRef", "syncsFrom", FLUX_SOURCE, "")
        ("spec.imageRepositoryRef", "uses", "image.toolkit.fluxcd.io", "ImageRepository")
    }
    // What a custom kind has in common with the kinds above; policies attach with `targetRefs`:
    // <https://gateway-api.sigs.k8s.io/geps/gep-713/>.
    "*" => [] {
        ("spec.targetRefs[]", "targets", "", "")
        ("spec.targetRef", "targets", "", "")
        ("spec.scaleTargetRef", "scales", "", "")
    }
};
