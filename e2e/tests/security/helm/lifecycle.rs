//! Releases over time: installed, upgraded from an earlier chart, rolled back, uninstalled, beside
//! another one.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;

use e2e::{
    fleet::{ApiServer, Fleet, OpenSearchKind, Options},
    objects::Objects,
};
use serde_json::{Value, json};

use super::{
    rendering::EVERYTHING,
    tool::{Helm, NAMESPACE, Release, chart, crd, each_crd_is, earlier_chart, until_served},
};

const RELEASE: Release<'_> = Release {
    name: "fleetdex",
    namespace: NAMESPACE,
};
const OTHER: Release<'_> = Release {
    name: "other",
    namespace: "other",
};
const REGISTRIES: &str = "resourceregistries.search.karmada.io";
/// Resources that a release has objects of.
const KINDS: &str = "serviceaccounts,secrets,services,configmaps,deployments,poddisruptionbudgets,networkpolicies,jobs,pods,\
                     roles,rolebindings,clusterroles,clusterrolebindings,apiservices";

async fn control_plane() -> Fleet {
    let options = Options {
        opensearch: OpenSearchKind::None,
        ..Options::default()
    };
    Fleet::start(options).await.unwrap()
}

/// The resource versions of all objects of a release, by kind, namespace and name.
async fn objects_of(server: &ApiServer, release: &Release<'_>) -> BTreeMap<String, String> {
    let label = format!("app.kubernetes.io/instance={}", release.name);
    let kubectl = server.kubectl().unwrap();
    let list = kubectl
        .json(&["get", KINDS, "-A", "-l", &label])
        .await
        .unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let items = list["items"].as_array().unwrap().iter();
    items
        .map(|item| {
            let metadata = &item["metadata"];
            let name = [&item["kind"], &metadata["namespace"], &metadata["name"]];
            (name.map(text).join("/"), text(&metadata["resourceVersion"]))
        })
        .collect()
}

fn names(objects: &BTreeMap<String, String>) -> String {
    let names: Vec<&str> = objects.keys().map(String::as_str).collect();
    names.join("\n")
}

#[tokio::test]
#[allow(clippy::too_many_lines, reason = "one scenario")]
async fn a_release_is_upgraded_rolled_back_and_removed_beside_another_one() {
    let fleet = control_plane().await;
    let server = fleet.control_plane();
    let (hub, helm) = (Objects::of(server).unwrap(), Helm::of(server));
    let (chart, earlier) = (chart(), earlier_chart());

    // The earlier chart's CRDs are those of its folder crds/.
    let install = [
        "install",
        RELEASE.name,
        &earlier,
        "-n",
        NAMESPACE,
        "--create-namespace",
    ];
    helm.run(&install).await;
    until_served(&hub).await;
    let before = objects_of(server, &RELEASE).await;
    let authority = json!({ "data": { "ca.crt": "YQ==" } });
    let serving = format!("api/v1/namespaces/{NAMESPACE}/secrets/fleetdex-serving");
    hub.merge(&serving, &authority).await.unwrap();
    let registry = json!({ "apiVersion": "search.karmada.io/v1alpha1", "kind": "ResourceRegistry", "metadata": { "name": "kept" },
        "spec": { "resourceSelectors": [{ "apiVersion": "v1", "kind": "Pod" }] } });
    let registry_path = "apis/search.karmada.io/v1alpha1/resourceregistries/kept";
    hub.apply(registry_path, &registry).await.unwrap();

    let upgrade = [
        "upgrade",
        RELEASE.name,
        &chart,
        "-n",
        NAMESPACE,
        "--set",
        "replicas=2",
    ];
    let (notes, printed) = helm.run_with_job(&RELEASE, &upgrade).await;
    each_crd_is(&printed, "updated").unwrap();
    assert!(
        notes.contains("helm test fleetdex --namespace fleetdex-system"),
        "{notes}"
    );
    let upgraded = objects_of(server, &RELEASE).await;
    assert!(
        upgraded.contains_key("PodDisruptionBudget/fleetdex-system/fleetdex"),
        "{}",
        names(&upgraded)
    );
    // Nothing is left of the hook, and none of its rights.
    assert!(!names(&upgraded).contains("-crds"), "{}", names(&upgraded));
    let kept = hub.get(&serving).await.unwrap();
    assert_eq!(
        kept["data"]["ca.crt"], "YQ==",
        "an upgrade replaced the authority"
    );
    assert!(hub.find(registry_path).await.unwrap().is_some());

    // One replica again: the API server would refuse what it filled in for several.
    let one = [
        "upgrade",
        RELEASE.name,
        &chart,
        "-n",
        NAMESPACE,
        "--set",
        "replicas=1",
    ];
    helm.run_with_job(&RELEASE, &one).await;
    helm.run(&["rollback", RELEASE.name, "2", "-n", NAMESPACE])
        .await;
    helm.run(&["rollback", RELEASE.name, "3", "-n", NAMESPACE])
        .await;

    // A rollback brings the earlier objects back, and leaves the CRDs of the later chart.
    helm.run(&["rollback", RELEASE.name, "1", "-n", NAMESPACE])
        .await;
    let rolled_back = objects_of(server, &RELEASE).await;
    assert_eq!(names(&rolled_back), names(&before));
    let registries = crd(&hub, REGISTRIES).await.unwrap();
    assert!(registries["metadata"]["annotations"]["fleetdex.io/version"].is_string());

    let (_, printed) = helm.run_with_job(&RELEASE, &upgrade[..5]).await;
    each_crd_is(&printed, "unchanged").unwrap();
    another_release(server, &helm, &chart).await;

    helm.run(&["uninstall", RELEASE.name, "-n", NAMESPACE])
        .await;
    let left = objects_of(server, &RELEASE).await;
    assert_eq!(names(&left), "");
    // The objects of users, and so the CRDs, are not the release's.
    assert!(crd(&hub, REGISTRIES).await.is_some());
    assert!(hub.find(registry_path).await.unwrap().is_some());
    let namespace = hub.find(&format!("api/v1/namespaces/{NAMESPACE}")).await;
    assert!(namespace.unwrap().is_some());

    helm_3(server, &chart).await;
    server_accepts_everything(server).await;
}

/// A second release without the API, of which there is one, comes and goes without a change of the
/// first.
async fn another_release(server: &ApiServer, helm: &Helm<'_>, chart: &str) {
    let first = objects_of(server, &RELEASE).await;
    let install = [
        "install",
        OTHER.name,
        chart,
        "-n",
        OTHER.namespace,
        "--create-namespace",
    ];
    let printed = helm.output(&install).await;
    assert!(
        !printed.success && printed.text.contains("v1alpha1.search.fleetdex.io"),
        "{}",
        printed.text
    );
    let without_api = [&install[..], &["--set", "api.enabled=false"]].concat();
    helm.run_with_job(&OTHER, &without_api).await;
    let upgrade = [
        "upgrade",
        OTHER.name,
        chart,
        "-n",
        OTHER.namespace,
        "--reuse-values",
        "--set",
        "log.level=debug",
    ];
    helm.run_with_job(&OTHER, &upgrade).await;
    assert!(!objects_of(server, &OTHER).await.is_empty());
    assert_eq!(objects_of(server, &RELEASE).await, first);
    helm.run(&["uninstall", OTHER.name, "-n", OTHER.namespace])
        .await;
    assert_eq!(names(&objects_of(server, &OTHER).await), "");
    assert_eq!(objects_of(server, &RELEASE).await, first);
}

/// The same chart with the helm before.
async fn helm_3(server: &ApiServer, chart: &str) {
    let helm = Helm::of(server).before();
    let install = ["install", RELEASE.name, chart, "-n", NAMESPACE];
    let (notes, printed) = helm.run_with_job(&RELEASE, &install).await;
    each_crd_is(&printed, "unchanged").unwrap();
    assert!(notes.contains("kubectl get resourceregistries"), "{notes}");
    helm.run(&["uninstall", RELEASE.name, "-n", NAMESPACE])
        .await;
    assert_eq!(names(&objects_of(server, &RELEASE).await), "");
}

/// The API server finds no unknown field and no invalid value in what every option renders, but for
/// the kinds of CRDs that it does not have.
async fn server_accepts_everything(server: &ApiServer) {
    let hub = Objects::of(server).unwrap();
    for namespace in ["a", "argocd", "b", "one", "two"] {
        hub.create_namespace(namespace).await.unwrap();
    }
    let chart = chart();
    let rendered = Helm::offline()
        .run(&[
            "template",
            RELEASE.name,
            &chart,
            "-n",
            NAMESPACE,
            "-f",
            EVERYTHING,
        ])
        .await;
    let known: Vec<&str> = rendered
        .split("\n---\n")
        .filter(|manifest| {
            !manifest.contains("cert-manager.io/v1\n")
                && !manifest.contains("monitoring.coreos.com/")
        })
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("everything.yaml");
    std::fs::write(&file, known.join("\n---\n")).unwrap();
    let file = file.display().to_string();
    let kubectl = server.kubectl().unwrap();
    let create = [
        "create",
        "--dry-run=server",
        "--validate=strict",
        "-f",
        &file,
    ];
    kubectl.run(&create).await.unwrap();
}
