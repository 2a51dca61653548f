//! What the chart renders from its values, without a control plane.

#![allow(clippy::unwrap_used, reason = "a test")]

use e2e::test_result::{Tested, assert_contains};
use std::{fs, path::Path};

use super::tool::{Helm, NAMESPACE, chart};

/// Values that turn every option on.
pub const EVERYTHING: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/security/charts/everything.yaml"
);

/// The chart's manifests with these values.
async fn render(values: &[&str]) -> String {
    let chart = chart();
    let mut arguments = vec!["template", "fleetdex", &chart, "-n", NAMESPACE];
    for value in values {
        arguments.extend(["--set", value]);
    }
    Helm::offline().run(&arguments).await
}

/// The documents of one kind.
fn of_kind<'m>(manifests: &'m str, kind: &str) -> Vec<&'m str> {
    let line = format!("\nkind: {kind}\n");
    manifests
        .split("\n---\n")
        .filter(|manifest| manifest.contains(&line))
        .collect()
}

/// Neither helm finds fault with the chart, with and without its options.
#[tokio::test]
async fn the_chart_renders_with_no_option_and_with_every_option() {
    let chart = chart();
    for helm in [Helm::offline(), Helm::offline().before()] {
        for values in [&[][..], &["-f", EVERYTHING]] {
            let lint = [&["lint", "--strict", &chart], values].concat();
            let printed = helm.run(&lint).await;
            assert!(printed.contains("0 chart(s) failed"), "{printed}");
            let template = [&["template", "fleetdex", &chart, "-n", NAMESPACE], values].concat();
            helm.run(&template).await;
        }
    }
    let plain = render(&[]).await;
    let everything = Helm::offline()
        .run(&["template", "fleetdex", &chart, "-f", EVERYTHING])
        .await;
    for kind in [
        "PodDisruptionBudget",
        "NetworkPolicy",
        "ServiceMonitor",
        "Certificate",
    ] {
        assert_eq!(of_kind(&plain, kind), [""; 0], "{kind}");
        assert_eq!(of_kind(&everything, kind).len(), 1, "{kind}");
    }
    let deployment = of_kind(&everything, "Deployment")[0];
    assert_contains(&deployment, "topologySpreadConstraints:");
    assert_contains(&deployment, "FLEETDEX_LEAVE_CA_BUNDLE");
    let api_service = of_kind(&everything, "APIService")[0];
    assert_contains(
        &api_service,
        "cert-manager.io/inject-ca-from: default/fleetdex-tls",
    );
    // cert-manager's Secret is the only one.
    assert!(!everything.contains("fleetdex-serving"), "{everything}");
}

/// The hook applies the CRDs of distribution, and has rights on them, where it is enabled only.
#[tokio::test]
async fn the_crds_of_distribution_are_applied_where_it_is_enabled() {
    let enabled = "distribute.enabled=true";
    let (plain, distributing) = (render(&[]).await, render(&[enabled]).await);
    assert!(!plain.contains("--distribute"), "{plain}");
    // The rest of the file system is read-only, and renderers have their files somewhere.
    let scratch = "- name: scratch\n              mountPath: /tmp\n";
    assert!(!plain.contains("scratch"), "{plain}");
    assert_contains(&distributing, scratch);
    assert_contains(
        &distributing,
        "args: [crd, apply, --keep-newer, --distribute]",
    );
    for file in fleetdex_cli::crd::of_distribution() {
        let name = file.crd.metadata.name.unwrap();
        let line = format!("\n      - {name}\n");
        assert!(!plain.contains(&line), "{plain}");
        assert_contains(&distributing, &line);
    }
    assert_contains(&distributing, "\n      - v1alpha2.work.karmada.io\n");
}

#[tokio::test]
async fn alert_rules_are_those_of_the_file_and_cannot_be_missing() -> Tested {
    const RULES: &str = "# A comment.\ngroups:\n- name: test\n  rules:\n  - alert: Down\n    expr: up == 0\n    annotations:\n      summary: \"{{ $labels.cluster }} is down\"\n";
    let copy = tempfile::tempdir().unwrap();
    copy_folder(Path::new(&chart()), copy.path())?;
    let chart = copy.path().display().to_string();
    let file = copy.path().join("files/alerts.yaml");
    fs::create_dir_all(file.parent().unwrap())?;
    fs::write(&file, RULES)?;
    let value = "metrics.prometheusRule.enabled=true";
    let template = ["template", "fleetdex", &chart, "--set", value];
    let rendered = Helm::offline().run(&template).await;
    let rendered = of_kind(&rendered, "PrometheusRule")[0];
    // Templates of Prometheus are none of helm.
    assert_contains(&rendered, "alert: Down");
    assert_contains(&rendered, "{{ $labels.cluster }} is down");
    fs::remove_file(&file)?;
    Helm::offline()
        .refuses(&template, &["has no alert rules in files/alerts.yaml"])
        .await;
    Ok(())
}

fn copy_folder(from: &Path, to: &Path) -> Tested {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
    Ok(())
}

#[tokio::test]
async fn typing_errors_are_refused_with_the_name_of_the_value() {
    let chart = chart();
    for (value, named) in [
        ("replica=3", "replica"),
        ("replicas=three", "replicas"),
        ("replicas=0", "replicas"),
        ("log.level=verbos", "level"),
        ("log.level=info\\,fleetdex=verbos", "level"),
        ("fullnameOverride=Fleet_Index", "fullnameOverride"),
        ("image.tagg=1", "tagg"),
        ("image.pullPolicy=always", "pullPolicy"),
        ("crds.aply=true", "aply"),
        ("distribute.enable=true", "enable"),
        ("secrets[0].name=x", "secrets/0"),
        ("secretHosts.mode=on", "mode"),
        ("clusters.sources={karmda}", "sources/0"),
        ("api.enable=true", "enable"),
        ("api.enabled=yes", "enabled"),
        ("api.certManager.issuer=x", "issuer"),
        ("api.certManager.enabled=true", "issuerRef/name"),
        ("api.certManager.duration=90d", "duration"),
        ("metrics.serviceMonitor.intervall=30s", "intervall"),
        (
            "networkPolicy.egress.openSearchPorts={http}",
            "openSearchPorts/0",
        ),
        ("log.format=yaml", "format"),
        ("log.lvl=debug", "lvl"),
        ("env[0].key=A", "env/0"),
        ("serviceAccount.annotation.a=b", "annotation"),
        ("service.port=80800", "port"),
        ("resources.limit.memory=1Gi", "limit"),
        ("resources.limits.memory=1GB", "memory"),
        ("podDisruptionBudget.maxUnavailable=0", "maxUnavailable"),
        (
            "topologySpread.whenUnsatisfiable=Never",
            "whenUnsatisfiable",
        ),
        ("tolerations[0].efect=NoSchedule", "tolerations/0"),
        ("affinity.nodeAfinity.a=b", "nodeAfinity"),
    ] {
        let template = ["template", "fleetdex", &chart, "--set", value];
        Helm::offline().refuses(&template, &["schema", named]).await;
    }
    let values = "api.tlsSecret=x,api.certManager.enabled=true,api.certManager.issuerRef.name=y";
    let template = ["template", "fleetdex", &chart, "--set", values];
    Helm::offline()
        .refuses(&template, &["set one of them"])
        .await;
}

/// A parent chart passes its global values to every chart, so they are refused only where they were
/// meant for this one.
#[tokio::test]
async fn global_values_are_refused_where_they_have_no_effect() -> Tested {
    let chart = chart();
    let value = "global.image.tag=1";
    let template = ["template", "fleetdex", &chart, "--set", value];
    Helm::offline()
        .refuses(
            &template,
            &["global.image: this chart uses no global values"],
        )
        .await;
    let parent = tempfile::tempdir().unwrap();
    let manifest = "apiVersion: v2\nname: parent\nversion: 1.0.0\n";
    fs::write(parent.path().join("Chart.yaml"), manifest)?;
    copy_folder(Path::new(&chart), &parent.path().join("charts/fleetdex"))?;
    let parent = parent.path().display().to_string();
    let template = ["template", "all", &parent, "--set", "global.image.tag=1"];
    let rendered = Helm::offline().run(&template).await;
    assert_eq!(of_kind(&rendered, "Deployment").len(), 1);
    Ok(())
}

/// The names of all objects that are rendered.
fn object_names(manifests: &str) -> Vec<&str> {
    let names = manifests
        .split("\n---\n")
        .filter_map(|manifest| manifest.split_once("\nmetadata:\n  name: "));
    names
        .map(|(_, rest)| rest.lines().next().unwrap_or_default().trim_matches('"'))
        .collect()
}

#[tokio::test]
async fn names_of_objects_are_valid_and_can_be_chosen() {
    let (chart, long) = (chart(), "a".repeat(53));
    let template = ["template", &long, &chart, "-n", NAMESPACE, "-f", EVERYTHING];
    let rendered = Helm::offline().run(&template).await;
    let names = object_names(&rendered);
    assert!(names.len() > 20, "{names:?}");
    for name in names {
        // Names of roles and of their bindings may be longer, and have no pattern.
        let longest = if name.contains("-authentication-reader") {
            253
        } else {
            63
        };
        assert!(name.len() <= longest && !name.ends_with('-'), "{name}");
    }
    for (value, name) in [
        ("fullnameOverride=index", "index"),
        ("nameOverride=index", "fleetdex-index"),
    ] {
        let rendered = render(&[value]).await;
        assert!(
            of_kind(&rendered, "Deployment")[0].contains(&format!("\n  name: {name}\n")),
            "{rendered}"
        );
        assert!(!object_names(&rendered).contains(&"fleetdex"));
    }
}

#[tokio::test]
async fn rights_are_those_of_the_chosen_sources() {
    const KARMADA: &str = "- cluster.karmada.io\n    resources:\n    - clusters\n";
    const CLUSTER_API: &str = "- cluster.x-k8s.io\n";
    const LISTS_SECRETS: &str = "resources: [secrets]\n    # Kubernetes cannot";
    let default = render(&["api.enabled=false"]).await;
    assert!(
        default.contains(KARMADA)
            && !default.contains(CLUSTER_API)
            && !default.contains("resources: [secrets]"),
        "{default}"
    );

    let anywhere = render(&["api.enabled=false", "clusters.sources={cluster-api}"]).await;
    assert!(
        !anywhere.contains(KARMADA)
            && anywhere.contains(CLUSTER_API)
            && !anywhere.contains("resources: [secrets]"),
        "{anywhere}"
    );

    let bounded = render(&[
        "api.enabled=false",
        "clusters.sources={cluster-api}",
        "clusters.namespaces={one,two}",
        "clusters.watchFilter=ours",
    ])
    .await;
    let (cluster_wide, roles) = bounded.split_once("kind: ClusterRoleBinding").unwrap();
    assert!(
        !cluster_wide.contains(CLUSTER_API) && roles.matches(CLUSTER_API).count() == 2,
        "{bounded}"
    );
    assert!(
        roles.contains("namespace: one") && !roles.contains(LISTS_SECRETS),
        "{roles}"
    );
    assert_contains(
        &bounded,
        "name: FLEETDEX_CLUSTER_NAMESPACE\n              value: \"one,two\"",
    );

    let labelled = render(&["api.enabled=false", "clusters.sources={secrets}"]).await;
    let role = labelled
        .split("---")
        .find(|manifest| manifest.contains(LISTS_SECRETS))
        .unwrap();
    assert_contains(&role, "kind: Role\n");
    assert_contains(&role, &format!("namespace: {NAMESPACE}"));

    let file = render(&[
        "api.enabled=false",
        "clusters.sources={kubeconfig}",
        "clusters.kubeconfigSecret=fleet",
    ])
    .await;
    assert_contains(&file, "secretName: fleet");
    assert_contains(&file, "value: /etc/fleetdex/clusters/kubeconfig");
    assert!(!file.contains("resources: [secrets]"), "{file}");
}
