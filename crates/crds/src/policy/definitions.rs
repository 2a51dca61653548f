//! The CRDs of the four kinds of policies. The cluster-scoped kinds have the specs of those in a
//! namespace.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON, JSONSchemaProps,
};
use kube::{
    CustomResourceExt,
    core::{ApiResource, NotUsed, Object},
};
use serde_json::json;

use super::{OverridePolicy, OverrideSpec, PropagationPolicy, PropagationSpec};
use crate::schema::{ClusterScoped, cluster_scoped, each_schema, without_null};

/// A `PropagationPolicy` or a `ClusterPropagationPolicy`.
pub type PropagationObject = Object<PropagationSpec, NotUsed>;
/// An `OverridePolicy` or a `ClusterOverridePolicy`.
pub type OverrideObject = Object<OverrideSpec, NotUsed>;

const CLUSTER_PROPAGATION: ClusterScoped = ClusterScoped {
    kind: "ClusterPropagationPolicy",
    plural: "clusterpropagationpolicies",
    short_name: "cpp",
    description: "ClusterPropagationPolicy says which objects of any namespace, and which without one, go to which clusters.",
};
const CLUSTER_OVERRIDE: ClusterScoped = ClusterScoped {
    kind: "ClusterOverridePolicy",
    plural: "clusteroverridepolicies",
    short_name: "cop",
    description: "ClusterOverridePolicy says how objects of any namespace, and those without one, differ in some clusters. It comes before an OverridePolicy.",
};

/// The kind `PropagationPolicy`.
pub fn propagation_policies() -> ApiResource {
    PropagationPolicy::api_resource()
}

/// The kind `ClusterPropagationPolicy`.
pub fn cluster_propagation_policies() -> ApiResource {
    CLUSTER_PROPAGATION.api_resource(propagation_policies())
}

/// The kind `OverridePolicy`.
pub fn override_policies() -> ApiResource {
    OverridePolicy::api_resource()
}

/// The kind `ClusterOverridePolicy`.
pub fn cluster_override_policies() -> ApiResource {
    CLUSTER_OVERRIDE.api_resource(override_policies())
}

/// The CRDs of the four kinds.
pub fn crds() -> [CustomResourceDefinition; 4] {
    let propagation = without_null(PropagationPolicy::crd());
    let mut overriding = without_null(OverridePolicy::crd());
    each_schema(&mut overriding, &mut require_values);
    [
        cluster_scoped(propagation.clone(), &CLUSTER_PROPAGATION),
        cluster_scoped(overriding.clone(), &CLUSTER_OVERRIDE),
        propagation,
        overriding,
    ]
}

/// Requires a value of operations that have one, and none of `remove`, where the value may be of
/// any type: CEL does not see such values.
fn require_values(schema: &mut JSONSchemaProps) {
    let fields = schema.properties.as_ref();
    let value = fields.and_then(|fields| fields.get("value"));
    let is_of_any_type = value.is_some_and(|value| value.type_.is_none());
    if !is_of_any_type {
        return;
    }
    let operator_is = |names: &[&str]| {
        let names = names.iter().map(|name| JSON(json!(name))).collect();
        let operator = JSONSchemaProps {
            enum_: Some(names),
            ..JSONSchemaProps::default()
        };
        Some([("operator".to_owned(), operator)].into())
    };
    let value_is_there = JSONSchemaProps {
        required: Some(vec!["value".to_owned()]),
        ..JSONSchemaProps::default()
    };
    let with_value = JSONSchemaProps {
        properties: operator_is(&["add", "replace"]),
        ..value_is_there.clone()
    };
    let without_value = JSONSchemaProps {
        properties: operator_is(&["remove"]),
        not: Some(Box::new(value_is_there)),
        ..JSONSchemaProps::default()
    };
    schema.one_of = Some(vec![with_value, without_value]);
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn schema(crd: &CustomResourceDefinition) -> Value {
        let crd = serde_json::to_value(crd).unwrap();
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
    }

    #[test]
    fn the_kinds_have_the_names_of_karmada_and_no_status() {
        for (crd, (kind, scope, short)) in crds().iter().zip([
            (cluster_propagation_policies(), "Cluster", "cpp"),
            (cluster_override_policies(), "Cluster", "cop"),
            (propagation_policies(), "Namespaced", "pp"),
            (override_policies(), "Namespaced", "op"),
        ]) {
            let crd = serde_json::to_value(crd).unwrap();
            assert_eq!(kind.api_version, "policy.karmada.io/v1alpha1");
            assert_eq!(
                crd["metadata"]["name"],
                format!("{}.policy.karmada.io", kind.plural)
            );
            assert_eq!(crd["spec"]["scope"], scope);
            let names = json!({
                "categories": ["karmada-io"], "kind": kind.kind, "plural": kind.plural,
                "shortNames": [short], "singular": kind.kind.to_lowercase(),
            });
            assert_eq!(crd["spec"]["names"], names);
            let version = &crd["spec"]["versions"][0];
            assert!(version["subresources"]["status"].is_null(), "{version}");
            assert!(!crd.to_string().contains("nullable"));
        }
    }

    /// The defaults of a schema by their paths.
    fn defaults(schema: &Value, path: &str, found: &mut Vec<String>) {
        if let Some(default) = schema.get("default") {
            found.push(format!("{path}={default}"));
        }
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            defaults(field, &format!("{path}.{name}"), found);
        }
        if schema["items"].is_object() {
            defaults(&schema["items"], path, found);
        }
    }

    #[test]
    fn the_defaults_are_those_of_karmada() {
        let [cluster_propagation, cluster_overriding, ..] = crds();
        let mut found = Vec::new();
        defaults(&schema(&cluster_propagation), "", &mut found);
        let expected = [
            r#".spec.conflictResolution="Abort""#,
            ".spec.failover.application.decisionConditions.tolerationSeconds=300",
            r#".spec.failover.application.purgeMode="Gracefully""#,
            r#".spec.failover.cluster.purgeMode="Gracefully""#,
            r#".spec.placement.replicaScheduling.replicaSchedulingType="Divided""#,
            r#".spec.preemption="Never""#,
            ".spec.priority=0",
            r#".spec.schedulerName="default-scheduler""#,
        ];
        assert_eq!(found, expected);
        found.clear();
        defaults(&schema(&cluster_overriding), "", &mut found);
        assert_eq!(found, [""; 0]);
    }

    #[test]
    fn values_of_any_type_are_bound_to_their_operators() {
        let [.., overriding] = crds();
        let overriding = schema(&overriding);
        let overriders = &overriding["properties"]["spec"]["properties"]["overriders"];
        let lists = &overriders["properties"];
        let texts = &lists["fieldOverrider"]["items"]["properties"];
        for items in [&lists["plaintext"], &texts["json"], &texts["yaml"]] {
            let forms = items["items"]["oneOf"].as_array().unwrap();
            assert_eq!(forms[0]["required"], json!(["value"]));
            assert_eq!(forms[1]["not"]["required"], json!(["value"]));
        }
        assert!(lists["imageOverrider"]["items"]["oneOf"].is_null());
        assert!(lists["labelsOverrider"]["items"]["oneOf"].is_null());
    }
}
