use super::{check, found};
use crate::test_rows::rows;

#[test]
fn pods_run_on_nodes_and_claim_ephemeral_volumes() {
    let cases = r"
        {apiVersion: v1, kind: Pod, metadata: {namespace: web, name: p}, spec: {nodeName: n1,
            priorityClassName: high, runtimeClassName: gvisor, volumes: [{name: v,
            ephemeral: {volumeClaimTemplate: {}}}, {name: w, emptyDir: {}}, {name: x,
            ephemeral: 1}, {ephemeral: {}}]}} | runsOn v1/Node//n1, hasClass
            scheduling.k8s.io/v1/PriorityClass//high, hasClass node.k8s.io/v1/RuntimeClass//gvisor,
            mounts v1/PersistentVolumeClaim/web/p-v
        {apiVersion: v1, kind: Pod, metadata: {namespace: web, name: p}, spec: {resourceClaims:
            [{name: a, resourceClaimName: gpu}, {name: b, resourceClaimTemplateName: gpus}]},
            status: {resourceClaimStatuses: [{name: b, resourceClaimName: p-b}]}}
            | uses resource.k8s.io/v1/ResourceClaim/web/p-b, uses
            resource.k8s.io/v1/ResourceClaim/web/gpu, uses
            resource.k8s.io/v1/ResourceClaimTemplate/web/gpus
        {apiVersion: v1, kind: Pod, metadata: {namespace: web}, spec: {nodeName: [n], volumes: x}} |
    ";
    check(cases);
}

#[test]
fn templates_have_classes_but_no_node() {
    let cases = r"
        {apiVersion: apps/v1, kind: Deployment, metadata: {namespace: web, name: d},
            spec: {template: {spec: {priorityClassName: high, volumes: [{name: v,
            ephemeral: {}}]}}}} | hasClass scheduling.k8s.io/v1/PriorityClass//high
    ";
    check(cases);
}

#[test]
fn service_accounts_use_secrets() {
    let cases = r"
        {apiVersion: v1, kind: ServiceAccount, metadata: {namespace: web, name: a},
            secrets: [{name: token}, 3], imagePullSecrets: [{name: pull}, {}]}
            | uses v1/Secret/web/token, uses v1/Secret/web/pull
        {apiVersion: v1, kind: Secret, metadata: {namespace: web, name: token,
            annotations: {kubernetes.io/service-account.name: a}}}
            | belongsTo v1/ServiceAccount/web/a
        {apiVersion: v1, kind: Secret, metadata: {namespace: web, name: s, annotations: 1}} |
    ";
    check(cases);
}

#[test]
fn claims_and_volumes_bind_each_other() {
    let cases = r"
        {apiVersion: v1, kind: PersistentVolumeClaim, metadata: {namespace: web, name: c},
            spec: {volumeName: pv1, storageClassName: fast, volumeAttributesClassName: gold,
            dataSource: {apiGroup: snapshot.storage.k8s.io, kind: VolumeSnapshot,
            name: s}, dataSourceRef: {kind: PersistentVolumeClaim, namespace: other, name: o}}}
            | binds v1/PersistentVolume//pv1, hasClass storage.k8s.io/v1/StorageClass//fast,
            hasClass storage.k8s.io/v1/VolumeAttributesClass//gold, copies
            v1/PersistentVolumeClaim/other/o, copies snapshot.storage.k8s.io/v1/VolumeSnapshot/web/s
        {apiVersion: v1, kind: PersistentVolumeClaim, metadata: {namespace: web, name: c},
            spec: {storageClassName: '', dataSource: {apiGroup: null, kind: PersistentVolumeClaim,
            name: o}}} | copies v1/PersistentVolumeClaim/web/o
        {apiVersion: v1, kind: PersistentVolume, metadata: {name: pv1}, spec: {storageClassName:
            fast, claimRef: {apiVersion: v1, kind: PersistentVolumeClaim, namespace: web,
            name: c}, csi: {nodeStageSecretRef: {namespace: csi, name: stage},
            controllerExpandSecretRef: {name: lost}}}} | binds v1/PersistentVolumeClaim/web/c,
            hasClass storage.k8s.io/v1/StorageClass//fast, uses v1/Secret/csi/stage
        {apiVersion: v1, kind: PersistentVolume, metadata: {name: pv1}, spec: {claimRef: web/c}} |
        {apiVersion: storage.k8s.io/v1, kind: VolumeAttachment, metadata: {name: a},
            spec: {nodeName: n1, source: {persistentVolumeName: pv1}}}
            | attaches v1/PersistentVolume//pv1, attachesTo v1/Node//n1
        {apiVersion: storage.k8s.io/v1, kind: CSINode, metadata: {name: n1},
            spec: {drivers: [{name: ebs.csi.aws.com}]}}
            | belongsTo v1/Node//n1, uses storage.k8s.io/v1/CSIDriver//ebs.csi.aws.com
        {apiVersion: storage.k8s.io/v1, kind: CSIStorageCapacity, metadata: {namespace: csi,
            name: n1}, storageClassName: fast} | hasClass storage.k8s.io/v1/StorageClass//fast
    ";
    check(cases);
}

#[test]
fn every_driver_secret_of_a_volume_is_a_reference() {
    for member in [
        "csi: {controllerPublishSecretRef",
        "csi: {nodeStageSecretRef",
        "csi: {nodePublishSecretRef",
        "csi: {controllerExpandSecretRef",
        "csi: {nodeExpandSecretRef",
        "cephfs: {secretRef",
        "cinder: {secretRef",
        "flexVolume: {secretRef",
        "iscsi: {secretRef",
        "rbd: {secretRef",
        "scaleIO: {secretRef",
        "storageos: {secretRef",
    ] {
        let yaml = format!(
            "{{apiVersion: v1, kind: PersistentVolume, spec: {{{member}: {{namespace: a, name: b}}}}}}}}"
        );
        assert_eq!(found(&yaml), ["uses v1/Secret/a/b"], "{member}");
    }
}

#[test]
fn endpoints_route_to_pods_on_nodes() {
    let cases = r"
        {apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {namespace: web,
            name: s-1, labels: {kubernetes.io/service-name: s}}, endpoints: [{nodeName: n1,
            targetRef: {kind: Pod, namespace: web, name: p}}, {nodeName: n1,
            targetRef: {kind: Node, name: m}}, {targetRef: {kind: Pod, name: lost}}, 1]}
            | belongsTo v1/Service/web/s, routesTo v1/Pod/web/p, routesTo v1/Node//m,
            runsOn v1/Node//n1
        {apiVersion: v1, kind: Endpoints, metadata: {namespace: web, name: s},
            subsets: [{addresses: [{nodeName: n1, targetRef: {kind: Pod, namespace: web,
            name: p}}], notReadyAddresses: [{nodeName: m, targetRef: {kind: Pod,
            namespace: web, name: q}}]}]} | belongsTo v1/Service/web/s, routesTo v1/Pod/web/p,
            routesTo v1/Pod/web/q, runsOn v1/Node//n1, runsOn v1/Node//m
        {apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, endpoints: {}} |
    ";
    check(cases);
}

#[test]
fn events_concern_objects_of_any_kind() {
    let cases = r"
        {apiVersion: v1, kind: Event, metadata: {namespace: web, name: e},
            involvedObject: {apiVersion: apps/v1, kind: Deployment, namespace: web,
            name: d}, related: {kind: Pod, namespace: web, name: p}}
            | concerns apps/v1/Deployment/web/d, concerns v1/Pod/web/p
        {apiVersion: events.k8s.io/v1, kind: Event, metadata: {namespace: default,
            name: e}, regarding: {kind: Node, name: n1}} | concerns v1/Node//n1
        {apiVersion: v1, kind: Event, metadata: {namespace: default, name: e},
            involvedObject: {apiVersion: example.io/v1, kind: Fleet, name: f}}
            | concerns example.io/v1/Fleet//f
        {apiVersion: v1, kind: Event, metadata: {namespace: web, name: e}, involvedObject: {}} |
    ";
    check(cases);
}

#[test]
fn stateful_sets_use_a_service_and_storage_classes() {
    let cases = r"
        {apiVersion: apps/v1, kind: StatefulSet, metadata: {namespace: web, name: s},
            spec: {serviceName: db, volumeClaimTemplates: [{metadata: {name: data},
            spec: {storageClassName: fast}}]}}
            | uses v1/Service/web/db, hasClass storage.k8s.io/v1/StorageClass//fast
        {apiVersion: apps/v1, kind: StatefulSet, metadata: {namespace: web, name: s},
            spec: {serviceName: ''}} |
    ";
    check(cases);
}

#[test]
fn autoscalers_scale_their_targets() {
    let cases = r"
        {apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {namespace: web,
            name: a}, spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment,
            name: d}, metrics: [{type: Object, object: {describedObject: {apiVersion:
            networking.k8s.io/v1, kind: Ingress, name: i}}}, {type: Resource}]}}
            | scales apps/v1/Deployment/web/d, uses networking.k8s.io/v1/Ingress/web/i
        {apiVersion: autoscaling/v1, kind: HorizontalPodAutoscaler, metadata: {namespace: web,
            name: a}, spec: {scaleTargetRef: {kind: StatefulSet, name: d}}}
            | scales apps/v1/StatefulSet/web/d
        {apiVersion: autoscaling/v1, kind: HorizontalPodAutoscaler, metadata: {namespace: web,
            name: a}, spec: {scaleTargetRef: {kind: Unheard, name: d}}} |
    ";
    check(cases);
}

#[test]
fn ingresses_route_to_services_of_their_namespace() {
    let cases = r"
        {apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {namespace: web, name: i},
            spec: {ingressClassName: nginx, tls: [{secretName: tls}, {hosts: [a]}],
            defaultBackend: {service: {name: default, port: {number: 80}}},
            rules: [{http: {paths: [{backend: {service: {name: a}}}, {backend: {resource: {apiGroup:
            example.io, kind: Bucket, name: b}}}]}}, {host: x}]}} | routesTo v1/Service/web/default,
            routesTo v1/Service/web/a, routesTo example.io/v1/Bucket/web/b,
            uses v1/Secret/web/tls, hasClass networking.k8s.io/v1/IngressClass//nginx
        {apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {namespace: web, name: i},
            spec: {defaultBackend: {resource: {apiGroup: example.io, kind: Bucket, name: b}}}}
            | routesTo example.io/v1/Bucket/web/b
        {apiVersion: extensions/v1beta1, kind: Ingress, metadata: {namespace: web, name: i},
            spec: {backend: {serviceName: a, servicePort: 80}, rules: [{http: {paths: [{backend:
            {serviceName: b}}]}}]}} | routesTo v1/Service/web/a, routesTo v1/Service/web/b
        {apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {namespace: web, name: i},
            spec: {rules: {http: 1}, tls: tls, defaultBackend: {service: {name: 7}}}} |
        {apiVersion: networking.k8s.io/v1, kind: IngressClass, metadata: {name: nginx},
            spec: {parameters: {apiGroup: example.io, kind: Parameters, name: p}}}
            | uses example.io/v1/Parameters//p
        {apiVersion: networking.k8s.io/v1, kind: IngressClass, metadata: {name: nginx},
            spec: {parameters: {kind: ConfigMap, name: p, namespace: ingress, scope: Namespace}}}
            | uses v1/ConfigMap/ingress/p
    ";
    check(cases);
}

#[test]
fn bindings_grant_roles_to_service_accounts() {
    let cases = r"
        {apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {namespace: web,
            name: b}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role,
            name: 'system:reader'}, subjects: [{kind: ServiceAccount, namespace: ops,
            name: a}, {apiGroup: rbac.authorization.k8s.io, kind: User, name: u},
            {kind: Group, name: g}]} | grants rbac.authorization.k8s.io/v1/Role/web/system:reader,
            grantsTo v1/ServiceAccount/ops/a
        {apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {namespace: web,
            name: b}, roleRef: {kind: ClusterRole, name: view}}
            | grants rbac.authorization.k8s.io/v1/ClusterRole//view
        {apiVersion: rbac.authorization.k8s.io/v1beta1, kind: ClusterRoleBinding,
            metadata: {name: b}, roleRef: {apiGroup: rbac.authorization.k8s.io,
            kind: ClusterRole, name: view}, subjects: [{kind: ServiceAccount, name: lost},
            {kind: ServiceAccount, namespace: ops, name: a}]} | grants
            rbac.authorization.k8s.io/v1/ClusterRole//view, grantsTo v1/ServiceAccount/ops/a
        {apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {namespace: web},
            roleRef: view, subjects: {}} |
    ";
    check(cases);
}

#[test]
fn extensions_of_the_api_server_call_services() {
    let cases = r"
        admissionregistration.k8s.io/v1 | MutatingWebhookConfiguration | webhooks: [{clientConfig:
            {service: {namespace: ops, name: hook, path: /x}}}, {clientConfig: {url: x}}]
        admissionregistration.k8s.io/v1 | ValidatingWebhookConfiguration
            | webhooks: [{clientConfig: {service: {namespace: ops, name: hook}}}]
        apiregistration.k8s.io/v1 | APIService | spec: {service: {namespace: ops, name: hook}}
        apiextensions.k8s.io/v1 | CustomResourceDefinition | spec: {conversion: {strategy: Webhook,
            webhook: {clientConfig: {service: {namespace: ops, name: hook}}}}}
        apiextensions.k8s.io/v1beta1 | CustomResourceDefinition
            | spec: {conversion: {webhookClientConfig: {service: {namespace: ops, name: hook}}}}
    ";
    for [api_version, kind, content] in rows(cases) {
        let yaml = format!(
            "{{apiVersion: {api_version}, kind: {kind}, metadata: {{name: a}}, {content}}}"
        );
        assert_eq!(found(&yaml), ["calls v1/Service/ops/hook"], "{kind}");
    }
    let others = r"
        {apiVersion: apiregistration.k8s.io/v1, kind: APIService, spec: {service: null}} |
        {apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration,
            webhooks: {}} |
        {apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding,
            spec: {policyName: p}}
            | binds admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy//p
        {apiVersion: admissionregistration.k8s.io/v1, kind: MutatingAdmissionPolicyBinding,
            spec: {policyName: p}}
            | binds admissionregistration.k8s.io/v1/MutatingAdmissionPolicy//p
        {apiVersion: flowcontrol.apiserver.k8s.io/v1, kind: FlowSchema, spec:
            {priorityLevelConfiguration: {name: p}}}
            | uses flowcontrol.apiserver.k8s.io/v1/PriorityLevelConfiguration//p
    ";
    check(others);
}

#[test]
fn kinds_without_edges_refer_to_nothing() {
    let cases = r"
        {apiVersion: v1, kind: ConfigMap, metadata: {namespace: web, name: c},
            data: {secretName: a}} |
        {apiVersion: certificates.k8s.io/v1, kind: CertificateSigningRequest,
            spec: {secretName: a, signerName: b}} |
        {apiVersion: apps/v1, kind: Pod, spec: {nodeName: n1}} |
        {} |
        [] |
        null |
    ";
    check(cases);
}
