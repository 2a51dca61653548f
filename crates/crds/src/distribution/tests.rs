use serde_json::{Value, json};

use super::*;

fn schema() -> Value {
    let crd = serde_json::to_value(crd()).unwrap();
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"].clone()
}

#[test]
fn a_distribution_survives_reading_and_writing() {
    let object = json!({
        "apiVersion": "distribute.fleetdex.io/v1alpha1",
        "kind": "Distribution",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "source": {"helm": {
                "chart": "web", "repository": "https://charts.example.com", "version": "^1.2",
                "secretRef": {"name": "registry"}, "releaseName": "web", "namespace": "shop",
                "valuesFrom": [
                    {"kind": "Secret", "name": "db", "valuesKey": "password",
                     "targetPath": "db.password", "literal": true, "optional": true},
                ],
                "values": {"replicas": 2, "ingress": null},
            }},
            "placement": {"clusterAffinity": {"clusterNames": ["member1"]}},
            "overrides": [{"overriders": {"plaintext": [
                {"path": "/spec/replicas", "operator": "replace", "value": 1},
            ]}}],
            "serviceAccountName": "deployer",
            "rollout": {"paused": true, "waves": [
                {"clusterAffinity": {"clusterNames": ["member1"]}, "healthyFor": "5m",
                 "deadline": "1h"},
                {"percent": 50, "pause": true, "maxUnhealthy": 1},
            ]},
            "prune": false, "suspend": true, "interval": "10m",
        },
    });
    let read: Distribution = serde_json::from_value(object.clone()).unwrap();
    assert_eq!(serde_json::to_value(read).unwrap(), object);
}

#[test]
fn folders_and_manifests_survive_reading_and_writing() {
    for source in [
        json!({"kustomize": {
            "oci": "oci://registry.example.com/web:1", "path": "overlays/prod", "namespace": "shop",
            "images": [{"name": "nginx", "newTag": "1.29"}],
            "patches": [{"patch": "[]", "target": {"kind": "Deployment", "name": "web.*"}}],
        }}),
        json!({"kustomize": {"configMapRef": {"name": "web", "key": "folder.tgz"}}}),
        json!({"manifests": {"inline": "kind: Secret"}}),
        json!({"manifests": {"configMapRef": {"name": "web", "key": "all.yaml"}}}),
    ] {
        let read: DistributionSource = serde_json::from_value(source.clone()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), source);
    }
}

#[test]
fn the_kind_has_a_namespace_and_rules() {
    let crd = serde_json::to_value(crd()).unwrap();
    assert_eq!(
        crd["metadata"]["name"],
        "distributions.distribute.fleetdex.io"
    );
    assert_eq!(crd["spec"]["scope"], "Namespaced");
    let spec = schema();
    assert_eq!(spec["required"], json!(["source"]));
    let source = &spec["properties"]["source"];
    for (path, count) in [
        (source, 1),
        (&source["properties"]["helm"], 2),
        (&source["properties"]["kustomize"], 1),
        (&source["properties"]["manifests"], 1),
        (&spec["properties"]["rollout"]["properties"]["waves"], 1),
        (
            &spec["properties"]["rollout"]["properties"]["waves"]["items"],
            2,
        ),
        (&spec["properties"]["placement"], 2),
    ] {
        let rules = path["x-kubernetes-validations"].as_array().unwrap();
        assert_eq!(rules.len(), count, "{rules:?}");
    }
    assert!(!crd.to_string().contains("nullable"));
}
