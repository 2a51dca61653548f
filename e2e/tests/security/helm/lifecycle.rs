//! Releases over time: installed, upgraded from an earlier chart, rolled back, uninstalled, beside
//! another one.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;

use e2e::{
    fleet::{ApiServer, Fleet, OpenSearchKind, Options},
    objects::Objects,
    test_result::{Tested, assert_contains},
};
use serde_json::{Value, json};

use super::{
    rendering::EVERYTHING,
    tool::{
        Helm, NAMESPACE, Release, chart, crd, each_crd_is, earlier_chart, on_release, until_served,
    },
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
    let options = Options::of(0, OpenSearchKind::None);
    Fleet::start(options).await.unwrap()
}

/// The resource versions of all objects of a release, by kind, namespace and name.
async fn objects_of(server: &ApiServer, release: &Release<'_>) -> Tested<BTreeMap<String, String>> {
    let label = format!("app.kubernetes.io/instance={}", release.name);
    let kubectl = server.kubectl()?;
    let list = kubectl.json(&["get", KINDS, "-A", "-l", &label]).await?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let items = list["items"].as_array().unwrap().iter();
    Ok(items
        .map(|item| {
            let metadata = &item["metadata"];
            let name = [&item["kind"], &metadata["namespace"], &metadata["name"]];
            (name.map(text).join("/"), text(&metadata["resourceVersion"]))
        })
        .collect())
}

fn names(objects: &BTreeMap<String, String>) -> String {
    let names: Vec<&str> = objects.keys().map(String::as_str).collect();
    names.join("\n")
}

#[tokio::test]
async fn a_release_is_upgraded_rolled_back_and_removed_beside_another_one() -> Tested {
    let fleet = control_plane().await;
    let server = fleet.control_plane();
    let (hub, helm) = (Objects::of(server)?, Helm::of(server));
    let (chart, earlier) = (chart(), earlier_chart());

    // The earlier chart's CRDs are those of its folder crds/.
    let install = on_release("install", &RELEASE, &earlier, &["--create-namespace"]);
    helm.run(&install).await;
    until_served(&hub).await?;
    let before = objects_of(server, &RELEASE).await?;
    let authority = json!({ "data": { "ca.crt": "YQ==" } });
    let serving = format!("api/v1/namespaces/{NAMESPACE}/secrets/fleetdex-serving");
    hub.merge(&serving, &authority).await?;
    let registry = json!({ "apiVersion": "search.karmada.io/v1alpha1", "kind": "ResourceRegistry", "metadata": { "name": "kept" },
        "spec": { "resourceSelectors": [{ "apiVersion": "v1", "kind": "Pod" }] } });
    let registry_path = "apis/search.karmada.io/v1alpha1/resourceregistries/kept";
    hub.apply(registry_path, &registry).await?;

    let upgrade = on_release("upgrade", &RELEASE, &chart, &["--set", "replicas=2"]);
    let (notes, printed) = helm.run_with_job(&RELEASE, &upgrade).await;
    each_crd_is(&printed, "updated").unwrap();
    assert_contains(&notes, "helm test fleetdex --namespace fleetdex-system");
    let upgraded = objects_of(server, &RELEASE).await?;
    assert!(
        upgraded.contains_key("PodDisruptionBudget/fleetdex-system/fleetdex"),
        "{}",
        names(&upgraded)
    );
    // Nothing is left of the hook, and none of its rights.
    assert!(!names(&upgraded).contains("-crds"), "{}", names(&upgraded));
    let kept = hub.get(&serving).await?;
    assert_eq!(
        kept["data"]["ca.crt"], "YQ==",
        "an upgrade replaced the authority"
    );
    assert!(hub.find(registry_path).await?.is_some());

    // One replica again: the API server would refuse what it filled in for several.
    let one = on_release("upgrade", &RELEASE, &chart, &["--set", "replicas=1"]);
    helm.run_with_job(&RELEASE, &one).await;
    // The last one brings the earlier objects back, and leaves the CRDs of the later chart.
    for revision in ["2", "3", "1"] {
        let rollback = ["rollback", RELEASE.name, revision, "-n", NAMESPACE];
        helm.run(&rollback).await;
    }
    let rolled_back = objects_of(server, &RELEASE).await?;
    assert_eq!(names(&rolled_back), names(&before));
    let registries = crd(&hub, REGISTRIES).await.unwrap();
    assert!(registries["metadata"]["annotations"]["fleetdex.io/version"].is_string());

    let (_, printed) = helm.run_with_job(&RELEASE, &upgrade[..5]).await;
    each_crd_is(&printed, "unchanged").unwrap();
    another_release(server, &helm, &chart).await?;

    helm.run(&["uninstall", RELEASE.name, "-n", NAMESPACE])
        .await;
    let left = objects_of(server, &RELEASE).await?;
    assert_eq!(names(&left), "");
    // The objects of users, and so the CRDs, are not the release's.
    assert!(crd(&hub, REGISTRIES).await.is_some());
    assert!(hub.find(registry_path).await?.is_some());
    let namespace = hub.find(&format!("api/v1/namespaces/{NAMESPACE}")).await;
    assert!(namespace.unwrap().is_some());

    helm_3(server, &chart).await?;
    server_accepts_everything(server).await
}

/// A second release without the API, of which there is one, comes and goes without a change of the
/// first.
async fn another_release(server: &ApiServer, helm: &Helm<'_>, chart: &str) -> Tested {
    let first = objects_of(server, &RELEASE).await?;
    let install = on_release("install", &OTHER, chart, &["--create-namespace"]);
    helm.refuses(&install, &["v1alpha1.search.fleetdex.io"])
        .await;
    let without_api = [&install[..], &["--set", "api.enabled=false"]].concat();
    helm.run_with_job(&OTHER, &without_api).await;
    let values = ["--reuse-values", "--set", "log.level=debug"];
    let upgrade = on_release("upgrade", &OTHER, chart, &values);
    helm.run_with_job(&OTHER, &upgrade).await;
    assert!(!objects_of(server, &OTHER).await?.is_empty());
    assert_eq!(objects_of(server, &RELEASE).await?, first);
    helm.run(&["uninstall", OTHER.name, "-n", OTHER.namespace])
        .await;
    assert_eq!(names(&objects_of(server, &OTHER).await?), "");
    assert_eq!(objects_of(server, &RELEASE).await?, first);
    Ok(())
}

/// The same chart with the helm before.
async fn helm_3(server: &ApiServer, chart: &str) -> Tested {
    let helm = Helm::of(server).before();
    let install = ["install", RELEASE.name, chart, "-n", NAMESPACE];
    let (notes, printed) = helm.run_with_job(&RELEASE, &install).await;
    each_crd_is(&printed, "unchanged").unwrap();
    assert!(notes.contains("kubectl get resourceregistries"), "{notes}");
    helm.run(&["uninstall", RELEASE.name, "-n", NAMESPACE])
        .await;
    assert_eq!(names(&objects_of(server, &RELEASE).await?), "");
    Ok(())
}

/// The API server finds no unknown field and no invalid value in what every option renders, but for
/// the kinds of CRDs that it does not have.
async fn server_accepts_everything(server: &ApiServer) -> Tested {
    let hub = Objects::of(server)?;
    for namespace in ["a", "argocd", "b", "one", "two"] {
        hub.create_namespace(namespace).await?;
    }
    let chart = chart();
    let template = on_release("template", &RELEASE, &chart, &["-f", EVERYTHING]);
    let rendered = Helm::offline().run(&template).await;
    let known: Vec<&str> = rendered
        .split("\n---\n")
        .filter(|manifest| {
            !manifest.contains("cert-manager.io/v1\n")
                && !manifest.contains("monitoring.coreos.com/")
        })
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("everything.yaml");
    std::fs::write(&file, known.join("\n---\n"))?;
    let file = file.display().to_string();
    let kubectl = server.kubectl()?;
    let create = ["create", "--dry-run=server", "--validate=strict", "-f"];
    kubectl.run(&[&create[..], &[&file]].concat()).await?;
    Ok(())
}
