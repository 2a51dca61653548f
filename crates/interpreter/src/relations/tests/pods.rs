use super::{check, found};
use crate::test_rows::rows;

const POD_SPEC: &str = "{serviceAccountName: runner, imagePullSecrets: [{name: pull}], containers: [{name: a, image: a, env: [{valueFrom: {secretKeyRef: {name: db}}}, {valueFrom: {configMapKeyRef: {name: settings}}}], envFrom: [{secretRef: {name: env}}]}], volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]}";

fn expected() -> Vec<String> {
    [
        "mounts v1/PersistentVolumeClaim/web/data",
        "runsAs v1/ServiceAccount/web/runner",
        "uses v1/ConfigMap/web/settings",
        "uses v1/Secret/web/db",
        "uses v1/Secret/web/env",
        "uses v1/Secret/web/pull",
    ]
    .map(str::to_owned)
    .to_vec()
}

#[test]
fn the_pods_of_every_workload_use_what_their_template_names() {
    let cases = r"
        v1 | Pod | spec: SPEC
        v1 | PodTemplate | template: {spec: SPEC}
        v1 | ReplicationController | spec: {template: {spec: SPEC}}
        apps/v1 | Deployment | spec: {template: {spec: SPEC}}
        apps/v1 | DaemonSet | spec: {template: {spec: SPEC}}
        batch/v1 | Job | spec: {template: {spec: SPEC}}
        batch/v1 | CronJob | spec: {jobTemplate: {spec: {template: {spec: SPEC}}}}
        example.io/v1 | Training | spec: {workers: [{template: {spec: SPEC}}]}
        example.io/v1 | Server | spec: {podSpec: SPEC}
    ";
    for [api_version, kind, content] in rows(cases) {
        let content = content.replace("SPEC", POD_SPEC);
        let yaml = format!(
            "{{apiVersion: {api_version}, kind: {kind}, metadata: {{namespace: web, name: a}}, {content}}}"
        );
        let mut references = found(&yaml);
        references.sort();
        assert_eq!(references, expected(), "{kind}");
    }
}

#[test]
fn a_stateful_set_does_not_refer_to_the_claims_that_it_makes() {
    let cases = r"
        {apiVersion: apps/v1, kind: StatefulSet, metadata: {namespace: web, name: a},
            spec: {template: {spec: {volumes: [{name: a, persistentVolumeClaim: {claimName: data}},
            {name: b, persistentVolumeClaim: {claimName: shared}}]}}, volumeClaimTemplates:
            [{metadata: {name: data}}]}} | mounts v1/PersistentVolumeClaim/web/shared
    ";
    check(cases);
}
