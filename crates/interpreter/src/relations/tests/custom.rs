use super::{check, found};

#[test]
fn routes_attach_to_gateways_and_lead_to_services() {
    for kind in ["HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute", "UDPRoute"] {
        let yaml = format!(
            "{{apiVersion: gateway.networking.k8s.io/v1alpha2, kind: {kind}, metadata: {{namespace: web, name: r}}, spec: {{parentRefs: [{{name: g, namespace: infra}}, {{name: h}}, {{group: '', kind: Service, name: mesh}}], rules: [{{backendRefs: [{{name: a, port: 80}}, {{name: b, namespace: other}}, {{group: example.io, kind: Bucket, name: c}}]}}]}}}}"
        );
        assert_eq!(
            found(&yaml),
            [
                "attachesTo gateway.networking.k8s.io/v1/Gateway/infra/g",
                "attachesTo gateway.networking.k8s.io/v1/Gateway/web/h",
                "attachesTo v1/Service/web/mesh",
                "routesTo v1/Service/web/a",
                "routesTo v1/Service/other/b",
                "routesTo example.io/v1/Bucket/web/c",
            ],
            "{kind}"
        );
    }
    let cases = r"
        {apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {namespace: web,
            name: r}, spec: {rules: [{filters: [{requestMirror: {backendRef: {name: m}}},
            {extensionRef: {group: example.io, kind: Limit, name: l}}, {externalAuth: {backendRef:
            {name: auth}}}], backendRefs: [{name: a, filters: [{requestMirror: {backendRef: {name:
            n1, namespace: other}}}, {extensionRef: {group: example.io, kind: Limit,
            name: k}}]}]}]}} | routesTo v1/Service/web/a, mirrorsTo v1/Service/web/m,
            mirrorsTo v1/Service/other/n1, calls v1/Service/web/auth, uses
            example.io/v1/Limit/web/l, uses example.io/v1/Limit/web/k
        {apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {namespace: web},
            spec: {parentRefs: {name: a}, rules: [{backendRefs: a}, 1]}} |
    ";
    check(cases);
}

#[test]
fn gateways_have_a_class_and_certificates() {
    let cases = r"
        {apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {namespace: infra,
            name: g}, spec: {gatewayClassName: envoy, listeners: [{tls: {certificateRefs: [{name:
            tls}, {name: other, namespace: certs}], frontendValidation: {caCertificateRefs: [{group:
            '', kind: ConfigMap, name: ca}]}}}, {}], infrastructure: {parametersRef: {group:
            example.io, kind: Proxy, name: p}}}} | hasClass
            gateway.networking.k8s.io/v1/GatewayClass//envoy, uses v1/Secret/infra/tls,
            uses v1/Secret/certs/other, uses v1/ConfigMap/infra/ca, uses example.io/v1/Proxy/infra/p
        {apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {namespace: infra,
            name: g}, spec: {tls: {backend: {clientCertificateRef: {name: a}},
            frontend: {default: {validation: {caCertificateRefs: [{name: b}]}}}},
            backendTLS: {clientCertificateRef: {name: c}}}}
            | uses v1/ConfigMap/infra/b, uses v1/Secret/infra/a, uses v1/Secret/infra/c
        {apiVersion: gateway.networking.x-k8s.io/v1alpha1, kind: XListenerSet,
            metadata: {namespace: web, name: l}, spec: {parentRef: {name: g,
            namespace: infra}, listeners: [{tls: {certificateRefs: [{name: tls}]}}]}}
            | attachesTo gateway.networking.k8s.io/v1/Gateway/infra/g, uses v1/Secret/web/tls
        {apiVersion: gateway.networking.k8s.io/v1, kind: GatewayClass, metadata: {name: envoy},
            spec: {parametersRef: {group: example.io, kind: Proxy, name: p, namespace: infra}}}
            | uses example.io/v1/Proxy/infra/p
        {apiVersion: gateway.networking.k8s.io/v1, kind: BackendTLSPolicy,
            metadata: {namespace: web, name: p}, spec: {targetRefs: [{group: '',
            kind: Service, name: s}], validation: {caCertificateRefs: [{group: '',
            kind: ConfigMap, name: ca}]}}} | uses v1/ConfigMap/web/ca, targets v1/Service/web/s
        {apiVersion: gateway.envoyproxy.io/v1alpha1, kind: SecurityPolicy,
            metadata: {namespace: web, name: p}, spec: {targetRef: {group:
            gateway.networking.k8s.io, kind: HTTPRoute, name: r}}}
            | targets gateway.networking.k8s.io/v1/HTTPRoute/web/r
    ";
    check(cases);
}

#[test]
fn autoscalers_of_other_projects_scale_their_targets() {
    let cases = r"
        {apiVersion: autoscaling.k8s.io/v1, kind: VerticalPodAutoscaler, metadata: {namespace: web,
            name: v}, spec: {targetRef: {apiVersion: apps/v1, kind: Deployment, name: d}}}
            | scales apps/v1/Deployment/web/d
        {apiVersion: keda.sh/v1alpha1, kind: ScaledObject, metadata: {namespace: web,
            name: s}, spec: {scaleTargetRef: {name: d}, triggers: [{authenticationRef: {name: t}},
            {authenticationRef: {kind: ClusterTriggerAuthentication, name: c}}, {}]}}
            | scales apps/v1/Deployment/web/d, uses keda.sh/v1alpha1/TriggerAuthentication/web/t,
            uses keda.sh/v1alpha1/ClusterTriggerAuthentication//c
        {apiVersion: keda.sh/v1alpha1, kind: ScaledObject, metadata: {namespace: web,
            name: s}, spec: {scaleTargetRef: {apiVersion: argoproj.io/v1alpha1, kind: Rollout,
            name: r}}} | scales argoproj.io/v1alpha1/Rollout/web/r
        {apiVersion: keda.sh/v1alpha1, kind: TriggerAuthentication, metadata: {namespace: web,
            name: t}, spec: {secretTargetRef: [{parameter: a, name: s, key: k}],
            configMapTargetRef: [{name: c}]}} | uses v1/Secret/web/s, uses v1/ConfigMap/web/c
    ";
    check(cases);
}

#[test]
fn snapshots_copy_claims() {
    let cases = r"
        {apiVersion: snapshot.storage.k8s.io/v1, kind: VolumeSnapshot, metadata: {namespace: web,
            name: s}, spec: {volumeSnapshotClassName: fast, source: {persistentVolumeClaimName: c}},
            status: {boundVolumeSnapshotContentName: x}} | copies v1/PersistentVolumeClaim/web/c,
            binds snapshot.storage.k8s.io/v1/VolumeSnapshotContent//x, hasClass
            snapshot.storage.k8s.io/v1/VolumeSnapshotClass//fast
        {apiVersion: snapshot.storage.k8s.io/v1, kind: VolumeSnapshotContent,
            metadata: {name: x}, spec: {volumeSnapshotClassName: fast, volumeSnapshotRef:
            {namespace: web, name: s}}} | binds snapshot.storage.k8s.io/v1/VolumeSnapshot/web/s,
            hasClass snapshot.storage.k8s.io/v1/VolumeSnapshotClass//fast
        {apiVersion: snapshot.storage.k8s.io/v1, kind: VolumeSnapshot, metadata: {namespace: web,
            name: s}, spec: {source: {volumeSnapshotContentName: x}}}
            | binds snapshot.storage.k8s.io/v1/VolumeSnapshotContent//x
    ";
    check(cases);
}

#[test]
fn certificates_and_external_secrets_produce_secrets() {
    let cases = r"
        {apiVersion: cert-manager.io/v1, kind: Certificate, metadata: {namespace: web,
            name: c}, spec: {secretName: tls, issuerRef: {kind: ClusterIssuer, name: le},
            keystores: {jks: {passwordSecretRef: {name: pass, key: p}}}}} | produces
            v1/Secret/web/tls, issuedBy cert-manager.io/v1/ClusterIssuer//le,
            uses v1/Secret/web/pass
        {apiVersion: cert-manager.io/v1, kind: CertificateRequest, metadata: {namespace: web,
            name: c}, spec: {issuerRef: {name: own}}} | issuedBy cert-manager.io/v1/Issuer/web/own
        {apiVersion: acme.cert-manager.io/v1, kind: Order, metadata: {namespace: web,
            name: o}, spec: {issuerRef: {group: pca.example.io, kind: PrivateIssuer, name: p}}}
            | issuedBy pca.example.io/v1/PrivateIssuer/web/p
        {apiVersion: cert-manager.io/v1, kind: ClusterIssuer, metadata: {name: le},
            spec: {acme: {privateKeySecretRef: {name: key}}}} |
        {apiVersion: external-secrets.io/v1beta1, kind: ExternalSecret, metadata: {namespace: web,
            name: db}, spec: {secretStoreRef: {name: vault}, data: [{sourceRef: {storeRef: {kind:
            ClusterSecretStore, name: aws}}}], dataFrom: [{sourceRef: {generatorRef: {apiVersion:
            generators.external-secrets.io/v1alpha1, kind: Password, name: p}}},
            {sourceRef: {storeRef: {name: gcp}}}]}} | produces v1/Secret/web/db,
            uses external-secrets.io/v1beta1/SecretStore/web/vault, uses
            external-secrets.io/v1beta1/ClusterSecretStore//aws, uses
            external-secrets.io/v1beta1/SecretStore/web/gcp, uses
            generators.external-secrets.io/v1alpha1/Password/web/p
        {apiVersion: external-secrets.io/v1, kind: ExternalSecret, metadata: {namespace: web,
            name: db}, spec: {target: {name: other}}} | produces v1/Secret/web/other
        {apiVersion: external-secrets.io/v1alpha1, kind: PushSecret, metadata: {namespace: web,
            name: p}, spec: {secretStoreRefs: [{name: vault}], selector: {secret: {name: s}}}}
            | uses external-secrets.io/v1alpha1/SecretStore/web/vault, uses v1/Secret/web/s
    ";
    check(cases);
}

#[test]
fn cluster_api_refers_to_infrastructure_bootstrap_and_cluster() {
    let cases = r"
        {apiVersion: cluster.x-k8s.io/v1beta1, kind: Cluster, metadata: {namespace: c,
            name: a}, spec: {infrastructureRef: {apiVersion:
            infrastructure.cluster.x-k8s.io/v1beta2, kind: AWSCluster, name: a},
            controlPlaneRef: {apiVersion: controlplane.cluster.x-k8s.io/v1beta1,
            kind: KubeadmControlPlane, namespace: c, name: cp}}} | uses
            controlplane.cluster.x-k8s.io/v1beta1/KubeadmControlPlane/c/cp,
            uses infrastructure.cluster.x-k8s.io/v1beta2/AWSCluster/c/a
        {apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, metadata: {namespace: c,
            name: a}, spec: {topology: {classRef: {name: k}}, infrastructureRef: {apiGroup:
            infrastructure.cluster.x-k8s.io, kind: DockerCluster, name: a}}}
            | hasClass cluster.x-k8s.io/v1beta2/ClusterClass/c/k, uses
            infrastructure.cluster.x-k8s.io/v1beta2/DockerCluster/c/a
        {apiVersion: cluster.x-k8s.io/v1beta1, kind: Cluster, metadata: {namespace: c,
            name: a}, spec: {topology: {class: k}}}
            | hasClass cluster.x-k8s.io/v1beta1/ClusterClass/c/k
        {apiVersion: cluster.x-k8s.io/v1beta1, kind: Machine, metadata: {namespace: c,
            name: m, labels: {cluster.x-k8s.io/cluster-name: a}}, spec: {clusterName: a,
            infrastructureRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: M,
            name: i}, bootstrap: {dataSecretName: d, configRef: {apiVersion:
            bootstrap.cluster.x-k8s.io/v1beta1, kind: KubeadmConfig, name: k}}}}
            | belongsTo cluster.x-k8s.io/v1beta1/Cluster/c/a, uses
            infrastructure.cluster.x-k8s.io/v1beta1/M/c/i, uses
            bootstrap.cluster.x-k8s.io/v1beta1/KubeadmConfig/c/k, uses v1/Secret/c/d
        {apiVersion: cluster.x-k8s.io/v1beta1, kind: MachineDeployment, metadata: {namespace: c,
            name: d}, spec: {clusterName: a, template: {spec: {infrastructureRef: {apiVersion:
            infrastructure.cluster.x-k8s.io/v1beta1, kind: T, name: t}, bootstrap: {configRef:
            {apiVersion: bootstrap.cluster.x-k8s.io/v1beta1, kind: KubeadmConfigTemplate,
            name: b}}}}}} | belongsTo cluster.x-k8s.io/v1beta1/Cluster/c/a,
            uses infrastructure.cluster.x-k8s.io/v1beta1/T/c/t, uses
            bootstrap.cluster.x-k8s.io/v1beta1/KubeadmConfigTemplate/c/b
        {apiVersion: controlplane.cluster.x-k8s.io/v1beta2, kind: KubeadmControlPlane,
            metadata: {namespace: c, name: cp, labels: {cluster.x-k8s.io/cluster-name: a}},
            spec: {machineTemplate: {infrastructureRef: {kind: T, name: t},
            spec: {infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: T,
            name: u}}}}} | uses infrastructure.cluster.x-k8s.io/v1beta2/T/c/t,
            uses infrastructure.cluster.x-k8s.io/v1beta2/T/c/u, belongsTo
            cluster.x-k8s.io/v1beta2/Cluster/c/a
        {apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: DockerMachine,
            metadata: {namespace: c, name: m, labels: {cluster.x-k8s.io/cluster-name: a}}}
            | belongsTo cluster.x-k8s.io/v1beta1/Cluster/c/a
        {apiVersion: bootstrap.cluster.x-k8s.io/v1beta1, kind: KubeadmConfig,
            metadata: {namespace: c, name: m, labels: {cluster.x-k8s.io/cluster-name: a}}}
            | belongsTo cluster.x-k8s.io/v1beta1/Cluster/c/a
        {apiVersion: cluster.x-k8s.io/v1beta1, kind: Cluster, metadata: {namespace: c,
            name: a}, spec: {infrastructureRef: text, controlPlaneRef: {name: a}, topology: 1}} |
    ";
    check(cases);
}

#[test]
fn argo_and_flux_refer_to_projects_services_and_sources() {
    let cases = r"
        {apiVersion: argoproj.io/v1alpha1, kind: Application, metadata: {namespace: argocd,
            name: a}, spec: {project: team}} | belongsTo argoproj.io/v1alpha1/AppProject/argocd/team
        {apiVersion: argoproj.io/v1alpha1, kind: Rollout, metadata: {namespace: web, name: r},
            spec: {workloadRef: {apiVersion: apps/v1, kind: Deployment, name: d},
            strategy: {blueGreen: {activeService: a, previewService: b}, canary: {stableService: c,
            canaryService: e}}}} | uses apps/v1/Deployment/web/d, uses v1/Service/web/a,
            uses v1/Service/web/b, uses v1/Service/web/c, uses v1/Service/web/e
        {apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, metadata: {namespace:
            flux, name: k}, spec: {sourceRef: {kind: GitRepository, name: g,
            namespace: other}, dependsOn: [{name: base}], postBuild: {substituteFrom: [{kind:
            ConfigMap, name: c}, {kind: Secret, name: s}]}, decryption: {secretRef: {name: sops}},
            kubeConfig: {secretRef: {name: kc}}, serviceAccountName: deployer}}
            | syncsFrom source.toolkit.fluxcd.io/v1/GitRepository/other/g,
            dependsOn kustomize.toolkit.fluxcd.io/v1/Kustomization/flux/base,
            uses v1/ConfigMap/flux/c, uses v1/Secret/flux/s, uses v1/Secret/flux/sops,
            uses v1/Secret/flux/kc, runsAs v1/ServiceAccount/flux/deployer
        {apiVersion: helm.toolkit.fluxcd.io/v2, kind: HelmRelease, metadata: {namespace: flux,
            name: h}, spec: {chart: {spec: {sourceRef: {kind: HelmRepository, name: r}}},
            chartRef: {kind: OCIRepository, name: o}, dependsOn: [{name: base,
            namespace: other}], valuesFrom: [{kind: Secret, name: s}]}} | syncsFrom
            source.toolkit.fluxcd.io/v1/HelmRepository/flux/r, syncsFrom
            source.toolkit.fluxcd.io/v1/OCIRepository/flux/o, dependsOn
            helm.toolkit.fluxcd.io/v2/HelmRelease/other/base, uses v1/Secret/flux/s
        {apiVersion: source.toolkit.fluxcd.io/v1, kind: HelmChart, metadata: {namespace: flux,
            name: h}, spec: {sourceRef: {kind: HelmRepository, name: r}}}
            | syncsFrom source.toolkit.fluxcd.io/v1/HelmRepository/flux/r
        {apiVersion: source.toolkit.fluxcd.io/v1, kind: GitRepository, metadata: {namespace: flux,
            name: g}, spec: {secretRef: {name: s}}} | uses v1/Secret/flux/s
        {apiVersion: image.toolkit.fluxcd.io/v1beta2, kind: ImagePolicy, metadata: {namespace: flux,
            name: p}, spec: {imageRepositoryRef: {name: r}}}
            | uses image.toolkit.fluxcd.io/v1beta2/ImageRepository/flux/r
        {apiVersion: image.toolkit.fluxcd.io/v1beta2, kind: ImageUpdateAutomation,
            metadata: {namespace: flux, name: u}, spec: {sourceRef: {kind: GitRepository, name: g}}}
            | syncsFrom source.toolkit.fluxcd.io/v1/GitRepository/flux/g
    ";
    check(cases);
}

#[test]
fn members_of_conventional_names_refer_to_objects_in_any_custom_kind() {
    let cases: &[(&str, &[&str])] = &[
        ("secretName: s", &["uses v1/Secret/web/s"]),
        (
            "deep: [{deeper: {secretName: s}}]",
            &["uses v1/Secret/web/s"],
        ),
        ("secretRef: {name: s}", &["uses v1/Secret/web/s"]),
        (
            "secretRef: {name: s, namespace: other}",
            &["uses v1/Secret/other/s"],
        ),
        ("secretKeyRef: {name: s, key: k}", &["uses v1/Secret/web/s"]),
        (
            "adminPasswordSecretRef: {name: s}",
            &["uses v1/Secret/web/s"],
        ),
        (
            "secretRef: {accessKeySecretRef: {name: s}}",
            &["uses v1/Secret/web/s"],
        ),
        (
            "imagePullSecrets: [{name: s}, t]",
            &["uses v1/Secret/web/s"],
        ),
        ("configMapRef: {name: c}", &["uses v1/ConfigMap/web/c"]),
        ("configMapKeyRef: {name: c}", &["uses v1/ConfigMap/web/c"]),
        (
            "persistentVolumeClaim: {claimName: c}",
            &["mounts v1/PersistentVolumeClaim/web/c"],
        ),
        ("serviceAccountName: a", &["runsAs v1/ServiceAccount/web/a"]),
        (
            "scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: d}",
            &["scales apps/v1/Deployment/web/d"],
        ),
        ("targetRef: {kind: Unheard, name: d}", &[]),
        ("serviceAccountName: default", &[]),
        ("secretName: {name: s}", &[]),
        ("secretName: 1", &[]),
        ("secretRef: s", &[]),
        ("secretRef: [{name: s}]", &[]),
        ("configMapName: {a: b}", &[]),
        ("secret: s", &[]),
        ("name: s", &[]),
    ];
    for (content, expected) in cases {
        let custom = format!(
            "{{apiVersion: example.io/v1, kind: A, metadata: {{namespace: web, name: a}}, spec: {{{content}}}}}"
        );
        assert_eq!(found(&custom), *expected, "{content}");
        let in_status = custom.replace("spec:", "status:");
        assert_eq!(found(&in_status), [""; 0], "{content}");
    }
}

#[test]
fn versions_that_references_leave_open_are_those_of_the_group() {
    for (group, version) in [
        ("apps", "v1"),
        ("example.io", "v7"),
        ("parts.example.io", "v1"),
        ("argoproj.io", "v1alpha1"),
        ("other.org", "v1"),
    ] {
        let yaml = format!(
            "{{apiVersion: example.io/v7, kind: A, metadata: {{namespace: web}}, spec: {{targetRef: {{group: {group}, kind: B, name: b}}}}}}"
        );
        assert_eq!(
            found(&yaml),
            [format!("targets {group}/{version}/B/web/b")],
            "{group}"
        );
    }
}
