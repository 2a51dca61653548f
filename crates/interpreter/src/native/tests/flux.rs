//! Objects of Flux. Karmada's rules are for one version of each kind (`HelmRelease`: v2beta1).

use serde_json::{Value, json};

use super::{aggregated, aggregated_status, dependencies_of, object, status_of};
use crate::{
    Request, Response,
    native::interpret,
    request::AggregatedStatusItem,
    test_rows::{rows, typed},
};

/// An object, written as YAML.
fn parsed(yaml: &str) -> Value {
    serde_saphyr::from_str(yaml).unwrap()
}

#[test]
fn what_is_rendered_needs_sources_values_and_accounts() {
    let cases = r"
        {apiVersion: helm.toolkit.fluxcd.io/v2, kind: HelmRelease, metadata: {name: web,
            namespace: shop}, spec: {chart: {spec: {chart: podinfo, sourceRef:
            {kind: HelmRepository, name: podinfo}}}, values: {ingress: {tls: [{secretName: tls}]},
            imagePullSecrets: [{name: pull}], serviceAccountName: robot}}}
            | source.toolkit.fluxcd.io/v1/HelmRepository/shop/podinfo
        {apiVersion: helm.toolkit.fluxcd.io/v2, kind: HelmRelease, metadata: {name: web,
            namespace: shop}, spec: {chartRef: {kind: OCIRepository, name: podinfo,
            namespace: charts}, dependsOn: [{name: redis}, {name: db, namespace: data}],
            valuesFrom: [{kind: ConfigMap, name: common}, {kind: Secret, name: web,
            valuesKey: a, targetPath: b}, {kind: Secret, name: more, optional: true}],
            kubeConfig: {secretRef: {name: other-cluster}}, serviceAccountName: deployer}}
            | source.toolkit.fluxcd.io/v1/OCIRepository/charts/podinfo,
            helm.toolkit.fluxcd.io/v2/HelmRelease/shop/redis,
            helm.toolkit.fluxcd.io/v2/HelmRelease/data/db, v1/ConfigMap/shop/common,
            v1/Secret/shop/web, v1/Secret/shop/more, v1/Secret/shop/other-cluster,
            v1/ServiceAccount/shop/deployer
        {apiVersion: helm.toolkit.fluxcd.io/v2beta2, kind: HelmRelease, metadata: {name: web,
            namespace: shop}, spec: {chart: {spec: {sourceRef: {kind: GitRepository, name: web,
            namespace: git, apiVersion: source.toolkit.fluxcd.io/v1beta2},
            verify: {provider: cosign, secretRef: {name: keys}}}}, dependsOn: [{name: redis}],
            serviceAccountName: default}}
            | source.toolkit.fluxcd.io/v1beta2/GitRepository/git/web,
            helm.toolkit.fluxcd.io/v2beta2/HelmRelease/shop/redis, v1/Secret/git/keys
        {apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, metadata: {name: web,
            namespace: shop}, spec: {sourceRef: {kind: Bucket, name: web}, dependsOn:
            [{name: base}], decryption: {provider: sops, secretRef: {name: sops}},
            postBuild: {substitute: {secretName: no}, substituteFrom: [{kind: ConfigMap,
            name: vars}, {kind: Secret, name: vars, optional: true}]}, kubeConfig: {configMapRef:
            {name: other-cluster}}, serviceAccountName: deployer}}
            | source.toolkit.fluxcd.io/v1/Bucket/shop/web,
            kustomize.toolkit.fluxcd.io/v1/Kustomization/shop/base, v1/ConfigMap/shop/vars,
            v1/Secret/shop/vars, v1/Secret/shop/sops, v1/ConfigMap/shop/other-cluster,
            v1/ServiceAccount/shop/deployer
    ";
    check_dependencies(cases);
}

#[test]
fn sources_need_credentials_and_what_they_include() {
    let cases = r"
        {apiVersion: source.toolkit.fluxcd.io/v1, kind: HelmRepository, metadata: {name: r,
            namespace: shop}, spec: {secretRef: {name: login}, certSecretRef: {name: ca}}}
            | v1/Secret/shop/login, v1/Secret/shop/ca
        {apiVersion: source.toolkit.fluxcd.io/v1beta2, kind: OCIRepository, metadata: {name: r,
            namespace: shop}, spec: {secretRef: {name: login}, certSecretRef: {name: ca},
            proxySecretRef: {name: proxy}, verify: {provider: cosign, secretRef: {name: keys}},
            serviceAccountName: puller}} | v1/Secret/shop/login, v1/Secret/shop/ca,
            v1/Secret/shop/proxy, v1/Secret/shop/keys, v1/ServiceAccount/shop/puller
        {apiVersion: source.toolkit.fluxcd.io/v1, kind: GitRepository, metadata: {name: r,
            namespace: shop}, spec: {secretRef: {name: key}, verify: {mode: HEAD, secretRef:
            {name: keys}}, include: [{repository: {name: base}, toPath: base}]}}
            | source.toolkit.fluxcd.io/v1/GitRepository/shop/base, v1/Secret/shop/key,
            v1/Secret/shop/keys
        {apiVersion: source.toolkit.fluxcd.io/v1, kind: Bucket, metadata: {name: r,
            namespace: shop}, spec: {secretRef: {name: s3}, sts: {secretRef: {name: ldap},
            certSecretRef: {name: ca}}}} | v1/Secret/shop/s3, v1/Secret/shop/ldap, v1/Secret/shop/ca
        {apiVersion: source.toolkit.fluxcd.io/v1, kind: HelmChart, metadata: {name: c,
            namespace: shop}, spec: {sourceRef: {kind: HelmRepository, name: r}, verify:
            {secretRef: {name: keys}}}} | source.toolkit.fluxcd.io/v1/HelmRepository/shop/r,
            v1/Secret/shop/keys
        {apiVersion: source.toolkit.fluxcd.io/v1, kind: HelmRepository, metadata: {name: r,
            namespace: shop}, spec: {secretRef: {name: ''}, certSecretRef: {}, verify: 1}} |
    ";
    check_dependencies(cases);
}

/// A case is an object, and what it needs.
fn check_dependencies(cases: &str) {
    for [yaml, expected] in rows(cases) {
        let needed = dependencies_of(&parsed(yaml)).unwrap();
        let needed: Vec<String> = needed
            .iter()
            .map(|one| [&*one.api_version, &one.kind, &one.namespace, &one.name].join("/"))
            .collect();
        assert_eq!(needed.join(", "), expected, "{yaml}");
    }
}

#[test]
fn a_status_is_reported_without_what_grows() {
    let cases = r#"
        helm.toolkit.fluxcd.io/v2 | HelmRelease | {"conditions": [{"type": "Ready"}],
            "failures": 2, "upgradeFailures": 1, "helmChart": "shop/shop-web", "history":
            [{"version": 1}], "inventory": {"entries": [{"id": "x"}]},
            "lastAttemptedConfigDigest": "sha256:a", "lastAttemptedGeneration": 3,
            "lastAttemptedReleaseAction": "upgrade", "lastAttemptedRevision": "6.5.3",
            "observedGeneration": 3, "storageNamespace": "shop"} | {"conditions":
            [{"type": "Ready"}], "failures": 2, "upgradeFailures": 1, "helmChart":
            "shop/shop-web", "lastAttemptedConfigDigest": "sha256:a",
            "lastAttemptedReleaseAction": "upgrade", "lastAttemptedRevision": "6.5.3",
            "observedGeneration": 3}
        helm.toolkit.fluxcd.io/v2beta1 | HelmRelease | {"lastAppliedRevision": "6.5.3",
            "lastAttemptedValuesChecksum": "a", "lastReleaseRevision": 1} |
            {"lastAppliedRevision": "6.5.3", "lastAttemptedValuesChecksum": "a"}
        kustomize.toolkit.fluxcd.io/v1 | Kustomization | {"inventory": {"entries": []},
            "lastAppliedRevision": "main@sha1:a", "lastAttemptedRevision": "main@sha1:b",
            "observedGeneration": -1} | {"lastAppliedRevision": "main@sha1:a",
            "lastAttemptedRevision": "main@sha1:b", "observedGeneration": -1}
        source.toolkit.fluxcd.io/v1 | OCIRepository | {"artifact": {"revision": "6@sha256:a",
            "metadata": {"org.opencontainers.image.created": "x"}, "size": 1}, "url": "http://x"}
            | {"artifact": {"revision": "6@sha256:a", "size": 1}}
        source.toolkit.fluxcd.io/v1 | HelmChart | {"observedChartName": "podinfo",
            "observedSourceArtifactRevision": "sha256:a", "observedValuesFiles": ["a"],
            "artifact": "odd", "conditions": {}} | {"observedChartName": "podinfo",
            "observedSourceArtifactRevision": "sha256:a"}
        source.toolkit.fluxcd.io/v1 | HelmRepository | {} | {}
    "#;
    for (api_version, kind, status, mut expected) in typed::<(&str, &str, Value, Value)>(cases) {
        let mut object = object(api_version, kind, json!({ "status": status }));
        object["metadata"]["generation"] = 4.into();
        object["metadata"]["annotations"] = json!({"resourcetemplate.karmada.io/generation": "7"});
        expected["generation"] = 4.into();
        expected["resourceTemplateGeneration"] = 7.into();
        assert_eq!(status_of(&object), Ok(expected), "{kind}");
    }
}

#[test]
fn long_messages_are_cut() {
    let conditions = json!([{"type": "Ready", "message": "ü".repeat(20_000)}]);
    let release = object(
        "helm.toolkit.fluxcd.io/v2",
        "HelmRelease",
        json!({"status": {"conditions": conditions}}),
    );
    let reported = status_of(&release).unwrap();
    assert_eq!(reported["conditions"][0]["message"], "ü".repeat(512));
}

/// A release of generation 5.
fn release() -> Value {
    let mut release = object(
        "helm.toolkit.fluxcd.io/v2",
        "HelmRelease",
        json!({"status": {"observedGeneration": -1}}),
    );
    release["metadata"]["generation"] = 5.into();
    release["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
    release
}

/// What a member reports that has observed its object, made of generation 5 of the template.
fn report(status: &str, reason: &str, message: &str, time: &str) -> Value {
    json!({
        "generation": 2,
        "observedGeneration": if status == "True" { 2 } else { 1 },
        "resourceTemplateGeneration": 5,
        "lastAttemptedRevision": "6.5.3",
        "conditions": [
            {"type": "Reconciling", "status": "True", "reason": "Progressing"},
            {"type": "Ready", "status": status, "reason": reason, "message": message,
                "observedGeneration": 2, "lastTransitionTime": time},
        ],
    })
}

#[test]
fn a_release_is_ready_when_it_is_in_all_members() {
    let first = report("True", "InstallSucceeded", "done", "2026-01-02T00:00:00Z");
    let second = report("True", "UpgradeSucceeded", "done", "2026-01-03T00:00:00Z");
    let condition = |reason: &str, message: &str, time: &str| {
        json!([{"type": "Ready", "status": "True", "reason": reason, "message": message,
            "observedGeneration": 5, "lastTransitionTime": time}])
    };
    let one = [first.clone()];
    let time = "2026-01-02T00:00:00Z";
    assert_eq!(
        aggregated_status(&release(), &one),
        json!({
            "observedGeneration": 5,
            "lastAttemptedRevision": "6.5.3",
            "conditions": condition("InstallSucceeded", "ready in 1 of 1 clusters", time),
        })
    );
    let both = aggregated_status(&release(), &[first, second]);
    let time = "2026-01-03T00:00:00Z";
    let expected = condition("Succeeded", "ready in 2 of 2 clusters", time);
    assert_eq!(both["conditions"], expected);
}

#[test]
fn the_worst_members_decide_and_the_message_names_them() {
    let time = "2026-01-02T00:00:00Z";
    let ready = report("True", "InstallSucceeded", "done", time);
    let failed = report("False", "InstallFailed", "timed out", time);
    let refused = report("False", "ArtifactFailed", "no such chart", time);
    let running = report("Unknown", "Progressing", "Running 'install' action", time);
    let mut outdated = ready.clone();
    outdated["resourceTemplateGeneration"] = 4.into();
    let mut changed = failed.clone();
    changed["generation"] = 3.into();
    let bare = json!({"generation": 1, "observedGeneration": -1});
    for (statuses, status, reason, message) in [
        (
            vec![&ready, &failed],
            "False",
            "InstallFailed",
            "ready in 1 of 2 clusters; m2: timed out",
        ),
        (
            vec![&running, &failed, &refused],
            "False",
            "ClustersNotReady",
            "ready in 0 of 3 clusters; m2: timed out; m3: no such chart; \
             m1: Running 'install' action",
        ),
        (
            vec![&ready, &running],
            "Unknown",
            "Progressing",
            "ready in 1 of 2 clusters; m2: Running 'install' action",
        ),
        (
            vec![&ready, &outdated, &changed, &bare, &Value::Null],
            "Unknown",
            "Progressing",
            "ready in 1 of 5 clusters; m2: the last change is not observed yet; \
             m3: the last change is not observed yet; m4: no condition Ready is reported; \
             m5: no status is reported",
        ),
    ] {
        let statuses: Vec<Value> = statuses.into_iter().cloned().collect();
        let found = aggregated_status(&release(), &statuses);
        let condition = &found["conditions"][0];
        assert_eq!(condition["status"], status, "{message}");
        assert_eq!(condition["reason"], reason, "{message}");
        assert_eq!(condition["message"], message);
        assert_eq!(found["observedGeneration"], -1, "{message}");
    }
}

#[test]
fn a_member_without_a_status_is_named_with_why_the_object_is_not_there() {
    let release = release();
    let time = "2026-01-02T00:00:00Z";
    let items = [
        AggregatedStatusItem {
            cluster_name: "m1".to_owned(),
            status: Some(report("True", "InstallSucceeded", "done", time)),
            ..AggregatedStatusItem::default()
        },
        AggregatedStatusItem {
            cluster_name: "m2".to_owned(),
            applied_message: "the cluster does not serve HelmRelease".to_owned(),
            ..AggregatedStatusItem::default()
        },
    ];
    let request = Request::AggregateStatus {
        object: &release,
        items: &items,
    };
    let Ok(Some(Response::AggregatedStatus(found))) = interpret(&request) else {
        panic!("not an aggregated status");
    };
    assert_eq!(
        found["status"]["conditions"][0]["message"],
        "ready in 1 of 2 clusters; m2: the cluster does not serve HelmRelease"
    );
}

#[test]
fn a_message_names_some_clusters_and_a_part_of_what_they_say() {
    let failed = report("False", "odd reason", &"x".repeat(1_000), "");
    let found = aggregated_status(&release(), &vec![failed; 25]);
    let condition = &found["conditions"][0];
    let message = condition["message"].as_str().unwrap();
    assert_eq!(message.matches("; m").count(), 20);
    assert!(message.ends_with("; and 5 more"), "{message}");
    assert!(message.len() < 32_768 / 4, "{}", message.len());
    assert_eq!(condition["reason"], "ClustersNotReady");
    assert_eq!(condition["lastTransitionTime"], "2026-01-01T00:00:00Z");
}

#[test]
fn revisions_and_counters_are_those_of_all_members() {
    let artifact = |revision: &str, time: &str| {
        json!({"artifact": {"digest": "sha256:a", "lastUpdateTime": time, "path": "p",
            "revision": revision, "url": "http://x"}})
    };
    let cases = r#"
        [{"lastAppliedRevision": "a", "lastAttemptedRevision": "b", "failures": 1},
            {"lastAppliedRevision": "a", "lastAttemptedRevision": "c", "failures": 2}]
            | {"lastAppliedRevision": "a", "failures": 3}
        [{"lastAppliedRevision": "a"}, {}] | {}
        [{"lastAppliedRevision": "a"}, null] | {}
        [{"lastAppliedRevision": ["a"]}, {"lastAppliedRevision": ["a"]}] | {}
    "#;
    for (statuses, mut expected) in typed::<(Vec<Value>, Value)>(cases) {
        expected["observedGeneration"] = (-1).into();
        assert_eq!(aggregated_status(&release(), &statuses), expected);
    }
    let (old, new) = (artifact("a", "2026-01-01"), artifact("a", "2026-01-02"));
    let other = artifact("b", "2026-01-03");
    let found = aggregated_status(&release(), &[new.clone(), old.clone()]);
    assert_eq!(found["artifact"], new["artifact"]);
    assert_eq!(
        aggregated_status(&release(), &[new, old, other])["artifact"],
        Value::Null
    );
}

#[test]
fn an_object_that_no_member_reports_of_stays_as_it_is() {
    for statuses in [vec![], vec![Value::Null], vec![json!("odd")]] {
        assert_eq!(aggregated(&release(), &statuses), release());
    }
}

#[test]
fn members_keep_what_they_set_without_a_rule() {
    // Server-side apply leaves fields that the template does not have: `spec.suspend`, finalizers,
    // and the annotation with which a reconciliation is requested. Karmada retains `spec.suspend`
    // of a member even if the template says otherwise.
    let release = release();
    let request = Request::Retain {
        desired: &release,
        observed: &release,
    };
    assert_eq!(interpret(&request), Ok(None));
}
