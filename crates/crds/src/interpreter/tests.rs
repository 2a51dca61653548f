use serde_json::{Value, json};

use super::*;
use customization::ResourceInterpreterCustomization;
use exploring::{ExploringWebhooks, ResourceExploringWebhookConfiguration};
use webhook::{InterpreterWebhooks, ResourceInterpreterWebhookConfiguration};

fn schema(crd: &CustomResourceDefinition) -> Value {
    let crd = serde_json::to_value(crd).unwrap();
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

/// Every field of the released webhook configuration.
fn released() -> Value {
    json!({"webhooks": [{
        "name": "workloads.example.com",
        "rules": [{
            "operations": ["InterpretReplica", "InterpretHealth"],
            "apiGroups": ["workload.example.io"],
            "apiVersions": ["v1alpha1"],
            "kinds": ["Workload"],
        }],
        "clientConfig": {
            "url": "https://example.com:443/interpret",
            "service": {"namespace": "karmada-system", "name": "webhook", "path": "/interpret", "port": 443},
            "caBundle": "LS0t",
        },
        "interpreterContextVersions": ["v1alpha1"],
        "timeoutSeconds": 3,
    }]})
}

/// Every field of the proposed webhook configuration.
fn proposed() -> Value {
    json!({"webhooks": [{
        "name": "foo.example.com",
        "rules": [{
            "operations": ["ExploreRetaining", "ExploreHealthy"],
            "apiGroups": ["foo.example.com"],
            "apiVersions": ["*"],
            "resources": ["foos"],
            "scope": "Namespaced",
        }],
        "clientConfig": {"url": "https://xxx:443/explore-foo", "caBundle": "LS0t"},
        "failurePolicy": "Fail",
        "exploreReviewVersions": ["v1alpha1"],
        "timeoutSeconds": 3,
    }]})
}

/// Every field of a customization.
fn customized() -> Value {
    let rule = json!({"luaScript": "function f() end"});
    json!({
        "apiVersion": "config.karmada.io/v1alpha1",
        "kind": "ResourceInterpreterCustomization",
        "metadata": {"name": "a"},
        "spec": {
            "target": {"apiVersion": "apps/v1", "kind": "Deployment"},
            "customizations": {
                "retention": rule,
                "replicaResource": rule,
                "componentResource": rule,
                "replicaRevision": rule,
                "statusReflection": rule,
                "statusAggregation": rule,
                "healthInterpretation": rule,
                "dependencyInterpretation": rule,
            },
        },
    })
}

/// The paths that a schema does not know, as strict field validation sees them.
fn unknown_fields(schema: &Value, object: &Value, path: &str) -> Vec<String> {
    match object {
        Value::Object(members) => members
            .iter()
            .flat_map(|(name, member)| {
                let below = format!("{path}.{name}");
                match &schema["properties"][name] {
                    Value::Null => vec![below],
                    known => unknown_fields(known, member, &below),
                }
            })
            .collect(),
        Value::Array(items) => items
            .iter()
            .flat_map(|item| unknown_fields(&schema["items"], item, path))
            .collect(),
        _ => Vec::new(),
    }
}

#[test]
fn every_upstream_field_is_in_the_schema() {
    let none: [String; 0] = [];
    assert_eq!(
        unknown_fields(
            &schema(&ResourceInterpreterWebhookConfiguration::crd()),
            &released(),
            ""
        ),
        none
    );
    assert_eq!(
        unknown_fields(
            &schema(&ResourceExploringWebhookConfiguration::crd()),
            &proposed(),
            ""
        ),
        none
    );
    let customization = schema(&ResourceInterpreterCustomization::crd());
    let spec = &customization["properties"]["spec"];
    assert_eq!(unknown_fields(spec, &customized()["spec"], ""), none);
    assert_eq!(
        unknown_fields(spec, &json!({"target": {"name": "x"}}), ""),
        [".target.name"]
    );
}

#[test]
fn objects_survive_reading_and_writing() {
    let read: InterpreterWebhooks = serde_json::from_value(released()).unwrap();
    assert_eq!(serde_json::to_value(read).unwrap(), released());
    let read: ExploringWebhooks = serde_json::from_value(proposed()).unwrap();
    assert_eq!(serde_json::to_value(read).unwrap(), proposed());
    let read: ResourceInterpreterCustomization = serde_json::from_value(customized()).unwrap();
    assert_eq!(serde_json::to_value(read).unwrap(), customized());
}

#[test]
fn webhooks_stand_beside_the_metadata() {
    for crd in [
        ResourceInterpreterWebhookConfiguration::crd(),
        ResourceExploringWebhookConfiguration::crd(),
    ] {
        let schema = schema(&crd);
        assert_eq!(schema["required"], json!(["webhooks"]));
        assert_eq!(schema["properties"].get("spec"), None);
        assert!(schema["properties"]["status"]["properties"]["conditions"].is_object());
    }
}

#[test]
fn the_kinds_are_cluster_scoped_with_a_status() {
    for crd in crds() {
        let crd = serde_json::to_value(&crd).unwrap();
        assert_eq!(crd["spec"]["group"], GROUP);
        assert_eq!(crd["spec"]["scope"], "Cluster");
        assert_eq!(crd["spec"]["names"]["categories"], json!(["karmada-io"]));
        assert_eq!(crd["spec"]["versions"][0]["name"], "v1alpha1");
        assert_eq!(
            crd["spec"]["versions"][0]["subresources"],
            json!({"status": {}})
        );
    }
    let customization = serde_json::to_value(ResourceInterpreterCustomization::crd()).unwrap();
    assert_eq!(customization["spec"]["names"]["shortNames"], json!(["ric"]));
}

#[test]
fn only_the_proposal_has_defaults() {
    assert!(
        !schema(&ResourceInterpreterWebhookConfiguration::crd())
            .to_string()
            .contains("\"default\"")
    );
    let proposal = schema(&ResourceExploringWebhookConfiguration::crd());
    let webhook = &proposal["properties"]["webhooks"]["items"]["properties"];
    assert_eq!(webhook["timeoutSeconds"]["default"], 10);
    assert_eq!(webhook["failurePolicy"]["default"], "Fail");
}
