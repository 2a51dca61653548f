//! `Workload` of `workload.example.io/v1alpha1`: the fields that the interpreter reads and changes.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A simple Deployment.
#[derive(Deserialize, Serialize)]
pub struct Workload {
    pub metadata: Metadata,
    #[serde(default)]
    pub spec: WorkloadSpec,
    #[serde(default)]
    pub status: WorkloadStatus,
}

#[derive(Deserialize, Serialize)]
pub struct Metadata {
    #[serde(default)]
    pub namespace: String,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadSpec {
    pub replicas: i32,
    pub paused: bool,
    /// A pod template.
    pub template: Value,
}

impl Default for WorkloadSpec {
    fn default() -> Self {
        Self {
            replicas: 1,
            paused: false,
            template: Value::Null,
        }
    }
}

#[derive(Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadStatus {
    pub ready_replicas: i32,
}
