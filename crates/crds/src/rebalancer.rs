//! `WorkloadRebalancer` of `apps.karmada.io/v1alpha1`: places objects once more, as if they were
//! new.
//!
//! Fields and names are those of Karmada's
//! [type](https://github.com/karmada-io/karmada/tree/master/pkg/apis/apps/v1alpha1).

use k8s_openapi::{
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{CustomResource, CustomResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema::{requires, without_null};

/// Which objects are placed once more.
#[expect(clippy::duplicated_attributes, reason = "columns have types in common")]
#[derive(
    CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema,
)]
#[kube(
    group = "apps.karmada.io",
    version = "v1alpha1",
    kind = "WorkloadRebalancer",
    plural = "workloadrebalancers",
    status = "RebalancerStatus",
    derive = "PartialEq",
    doc = "WorkloadRebalancer places objects once more, without regard to where they are.",
    printcolumn(name = "Finished", type_ = "date", json_path = ".status.finishTime"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = requires(&["workloads"]))]
pub struct RebalancerSpec {
    /// The objects, at least one.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub workloads: Vec<RebalancedObject>,
    /// Seconds after which a finished rebalancer is deleted; absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub ttl_seconds_after_finished: Option<i32>,
}

/// One object of the control plane.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = requires(&["apiVersion", "kind", "name"]))]
pub struct RebalancedObject {
    /// Group and version, such as `apps/v1`.
    #[serde(default)]
    pub api_version: String,
    /// Kind, such as `Deployment`.
    #[serde(default)]
    pub kind: String,
    /// Its namespace, if it has one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its name.
    #[serde(default)]
    pub name: String,
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RebalancerStatus {
    /// The result for each object.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observed_workloads: Vec<RebalanceResult>,
    /// The generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// When the last object had a result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_time: Option<Time>,
}

/// The result for one object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = requires(&["workload"]))]
pub struct RebalanceResult {
    /// The object.
    #[serde(default)]
    pub workload: RebalancedObject,
    /// `Successful` or `Failed`; empty: not known yet.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub result: String,
    /// Why it failed, such as `ReferencedBindingNotFound`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// The CRD.
pub fn crd() -> CustomResourceDefinition {
    without_null(WorkloadRebalancer::crd())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_rebalancer_survives_reading_and_writing() {
        let workload = json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "web", "name": "nginx"});
        let object = json!({
            "apiVersion": "apps.karmada.io/v1alpha1",
            "kind": "WorkloadRebalancer",
            "metadata": {"name": "once"},
            "spec": {"workloads": [workload], "ttlSecondsAfterFinished": 60},
            "status": {
                "observedWorkloads": [{"workload": workload, "result": "Failed", "reason": "ReferencedBindingNotFound"}],
                "observedGeneration": 1,
                "finishTime": "2026-01-02T03:04:05Z",
            },
        });
        let read: WorkloadRebalancer = serde_json::from_value(object.clone()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), object);
    }

    #[test]
    fn the_kind_is_cluster_scoped_with_a_status() {
        let crd = serde_json::to_value(crd()).unwrap();
        assert_eq!(crd["spec"]["scope"], "Cluster");
        let version = &crd["spec"]["versions"][0];
        assert_eq!(version["subresources"], json!({"status": {}}));
        let spec = &version["schema"]["openAPIV3Schema"]["properties"]["spec"];
        assert_eq!(spec["required"], json!(["workloads"]));
        assert_eq!(spec["properties"]["workloads"]["minItems"], 1);
    }
}
