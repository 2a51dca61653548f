//! `Cluster`: one member cluster and how to reach it.
//!
//! The same kind that Karmada has, so its manifests apply unchanged: every field of upstream's
//! [type](https://github.com/karmada-io/karmada/blob/master/pkg/apis/cluster/v1alpha1/types.go) is
//! in the schema, whether Fleetdex uses it or not. On a Karmada control plane Karmada's API serves
//! this kind, and this CRD is not installed.

#![allow(
    clippy::duplicated_attributes,
    reason = "each printer column repeats the names and types of its settings"
)]

use std::{borrow::Cow, collections::BTreeMap};

use k8s_openapi::{api::core::v1::Taint, apimachinery::pkg::apis::meta::v1::Condition};
use kube::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};

/// How a member cluster is reached, and where it stands.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "cluster.karmada.io",
    version = "v1alpha1",
    kind = "Cluster",
    plural = "clusters",
    status = "ClusterStatus",
    category = "karmada-io",
    doc = "A member cluster: how it is reached, where it stands, and what it serves.",
    derive = "PartialEq",
    printcolumn(
        name = "Version",
        type_ = "string",
        json_path = ".status.kubernetesVersion"
    ),
    printcolumn(name = "Mode", type_ = "string", json_path = ".spec.syncMode"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].reason"#
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    ),
    printcolumn(
        name = "Provider",
        type_ = "string",
        json_path = ".spec.provider",
        priority = 1
    ),
    printcolumn(
        name = "Region",
        type_ = "string",
        json_path = ".spec.region",
        priority = 1
    ),
    printcolumn(
        name = "Zones",
        type_ = "string",
        json_path = ".spec.zones",
        priority = 1
    ),
    printcolumn(
        name = "API-Endpoint",
        type_ = "string",
        json_path = ".spec.apiEndpoint",
        priority = 1
    ),
    printcolumn(
        name = "Proxy-URL",
        type_ = "string",
        json_path = ".spec.proxyURL",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSpec {
    /// Unique identifier of the cluster, such as the UID of its namespace `kube-system`. It is not
    /// the UID of this object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,

    /// How Karmada synchronises with the cluster: `Push` or `Pull`. Fleetdex treats both the same.
    #[serde(
        default,
        deserialize_with = "empty_is_none",
        skip_serializing_if = "Option::is_none"
    )]
    pub sync_mode: Option<SyncMode>,

    /// URL of the cluster's API server, such as `https://10.0.0.1:6443`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    #[x_kube(validation = Rule::new(
        "self == '' || (isURL(self) && url(self).getScheme() in ['http', 'https'] && url(self).getHostname() != '')"
    ).message("apiEndpoint must be the URL of an API server: write it as https://HOST:PORT (or http://HOST:PORT)"))]
    #[x_kube(validation = Rule::new("!self.contains('@') && !self.contains('?') && !self.contains('#')")
        .message("apiEndpoint must not hold a user, a query or a fragment: remove '@', '?' and '#', and put credentials into the Secret that secretRef names"))]
    pub api_endpoint: Option<String>,

    /// The Secret with the credentials: key `token` (a bearer token), and key `caBundle` (PEM)
    /// unless `insecureSkipTLSVerification` is true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalSecretReference>,

    /// The Secret whose `token` may impersonate users; needed only for forwarding writes to the
    /// cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub impersonator_secret_ref: Option<LocalSecretReference>,

    /// Do not verify the API server's certificate. The connection is then open to interception.
    #[serde(
        default,
        rename = "insecureSkipTLSVerification",
        skip_serializing_if = "Option::is_none"
    )]
    pub insecure_skip_tls_verification: Option<bool>,

    /// Proxy to reach the cluster through: an `http`, `https` or `socks5` URL.
    #[serde(default, rename = "proxyURL", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    #[x_kube(validation = Rule::new(
        "self == '' || (isURL(self) && url(self).getScheme() in ['http', 'https', 'socks5'] && url(self).getHostname() != '')"
    ).message("proxyURL must be the URL of a proxy: write it as http://HOST:PORT, https://HOST:PORT or socks5://HOST:PORT"))]
    pub proxy_url: Option<String>,

    /// Headers for the proxy, sent with the CONNECT request; several values are separated by
    /// commas. Without `proxyURL` they have no effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_header: Option<BTreeMap<String, String>>,

    /// Name of the cloud provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,

    /// Region of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,

    /// Zone of the cluster. Superseded by `zones`; read when `zones` is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,

    /// Zones that the cluster's failure domains span.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zones: Option<Vec<String>>,

    /// Taints, for Karmada's scheduler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taints: Option<Vec<Taint>>,

    /// Grades of nodes by their resources, for Karmada's scheduler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_models: Option<Vec<ResourceModel>>,
}

impl ClusterSpec {
    /// Its zones: `zones`, or `zone` where that is empty.
    pub fn all_zones(&self) -> Vec<String> {
        match self.zones.as_ref().filter(|zones| !zones.is_empty()) {
            Some(zones) => zones.clone(),
            None => self
                .zone
                .iter()
                .filter(|zone| !zone.is_empty())
                .cloned()
                .collect(),
        }
    }
}

/// How Karmada synchronises with a member.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncMode {
    /// The control plane reaches the member.
    Push,
    /// An agent in the member reaches the control plane.
    Pull,
}

/// A Secret in a namespace.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LocalSecretReference {
    /// Namespace of the Secret.
    pub namespace: String,
    /// Name of the Secret.
    pub name: String,
}

/// A grade of nodes, by ranges of their resources.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
pub struct ResourceModel {
    /// The grade.
    #[schemars(range(min = 0))]
    pub grade: i64,
    /// The resources of a node of this grade.
    pub ranges: Vec<ResourceModelRange>,
}

/// The range of one resource in a grade.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct ResourceModelRange {
    /// Name of the resource, such as `cpu`.
    pub name: String,
    /// Least amount, inclusive.
    pub min: ResourceQuantity,
    /// Greatest amount, exclusive.
    pub max: ResourceQuantity,
}

/// An amount of a resource, written as a number or as text with a suffix (`500m`, `2Gi`).
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(untagged)]
pub enum ResourceQuantity {
    /// A plain number.
    Number(serde_json::Number),
    /// A number with a suffix.
    Text(String),
}

impl JsonSchema for ResourceQuantity {
    fn schema_name() -> Cow<'static, str> {
        "Quantity".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "An amount, as a number or as text with a suffix (500m, 2Gi).",
            "x-kubernetes-int-or-string": true,
        })
    }
}

/// The last observed state of a member cluster.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    /// Version of the member's Kubernetes, such as `v1.36.3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes_version: Option<String>,

    /// What the member serves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_enablements: Option<Vec<ApiEnablement>>,

    /// Conditions: `Ready`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Option<Vec<Condition>>,

    /// Count of the member's nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_summary: Option<NodeSummary>,

    /// Sum of the member's resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_summary: Option<ResourceSummary>,

    /// What Karmada does to the member to remedy its conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy_actions: Option<Vec<String>>,
}

/// The resources of one group and version.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ApiEnablement {
    /// Group and version, such as `apps/v1`.
    pub group_version: String,
    /// Its resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Vec<ApiResource>>,
}

/// One resource that a member serves.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiResource {
    /// Plural name, such as `deployments`.
    pub name: String,
    /// Kind, such as `Deployment`.
    pub kind: String,
}

/// Count of a member's nodes.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct NodeSummary {
    /// How many nodes there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_num: Option<i32>,
    /// How many of them are ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_num: Option<i32>,
}

/// Sum of a member's resources.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ResourceSummary {
    /// The allocatable resources of all nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocatable: Option<BTreeMap<String, ResourceQuantity>>,
    /// The requests of pods that are not scheduled yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocating: Option<BTreeMap<String, ResourceQuantity>>,
    /// The requests of scheduled pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocated: Option<BTreeMap<String, ResourceQuantity>>,
    /// How many nodes there are of each grade.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocatable_modelings: Option<Vec<AllocatableModeling>>,
}

/// How many nodes there are of one grade.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
pub struct AllocatableModeling {
    /// The grade.
    #[schemars(range(min = 0))]
    pub grade: i64,
    /// The nodes.
    pub count: i64,
}

/// Reads `""` as an absent mode. An aggregated API may return it, and one such object must not make
/// a whole list unreadable.
fn empty_is_none<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<SyncMode>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum RawMode {
        Mode(SyncMode),
        Other(serde::de::IgnoredAny),
    }
    Ok(match RawMode::deserialize(deserializer)? {
        RawMode::Mode(mode) => Some(mode),
        RawMode::Other(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt;
    use serde_json::{Value, json};

    use super::*;

    /// Every field that upstream's type has.
    fn upstream_manifest() -> Value {
        json!({
            "apiVersion": "cluster.karmada.io/v1alpha1",
            "kind": "Cluster",
            "metadata": { "name": "member1", "labels": { "tier": "gold" } },
            "spec": {
                "id": "5f2c5d4e-3a43-4d53-9d4f-0d8ecb5d8c6a",
                "syncMode": "Push",
                "apiEndpoint": "https://172.18.0.3:6443",
                "secretRef": { "namespace": "karmada-cluster", "name": "member1" },
                "impersonatorSecretRef": { "namespace": "karmada-cluster", "name": "member1-impersonator" },
                "insecureSkipTLSVerification": true,
                "proxyURL": "socks5://10.0.0.1:1080",
                "proxyHeader": { "X-Tenant": "a,b" },
                "provider": "huaweicloud",
                "region": "cn-north-4",
                "zone": "cn-north-4a",
                "zones": ["cn-north-4a", "cn-north-4b"],
                "taints": [{ "key": "maintenance", "value": "true", "effect": "NoSchedule",
                             "timeAdded": "2026-01-02T03:04:05Z" }],
                "resourceModels": [
                    { "grade": 0, "ranges": [{ "name": "cpu", "min": "0", "max": "1" }, { "name": "memory", "min": 0, "max": "4Gi" }] },
                    { "grade": 8, "ranges": [{ "name": "cpu", "min": 128, "max": 9_223_372_036_854_775_807_u64 }] }
                ]
            },
            "status": {
                "kubernetesVersion": "v1.36.3",
                "apiEnablements": [{ "groupVersion": "apps/v1", "resources": [{ "name": "deployments", "kind": "Deployment" }] }],
                "conditions": [{ "type": "Ready", "status": "True", "reason": "ClusterReady", "message": "ok",
                                 "lastTransitionTime": "2026-01-02T03:04:05Z" }],
                "nodeSummary": { "totalNum": 3, "readyNum": 2 },
                "resourceSummary": {
                    "allocatable": { "cpu": "8", "memory": "16Gi" },
                    "allocating": { "cpu": "100m" },
                    "allocated": { "cpu": 1 },
                    "allocatableModelings": [{ "grade": 0, "count": 1 }]
                },
                "remedyActions": ["TrafficControl"]
            }
        })
    }

    /// The paths of all leaves of a schema's properties, as strict field validation sees them.
    fn unknown_fields(schema: &Value, object: &Value, path: &str, found: &mut Vec<String>) {
        match object {
            Value::Object(fields) => {
                for (name, value) in fields {
                    let below = format!("{path}.{name}");
                    let known = &schema["properties"][name];
                    let free = &schema["additionalProperties"];
                    match (known.is_null(), free.is_null()) {
                        (false, _) => unknown_fields(known, value, &below, found),
                        (true, false) => unknown_fields(free, value, &below, found),
                        (true, true) => found.push(below),
                    }
                }
            }
            Value::Array(items) => {
                for item in items {
                    unknown_fields(&schema["items"], item, path, found);
                }
            }
            _ => {}
        }
    }

    fn schema() -> Value {
        let definition = serde_json::to_value(Cluster::crd()).unwrap();
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
    }

    #[test]
    fn every_upstream_field_is_in_the_schema() {
        let manifest = upstream_manifest();
        for part in ["spec", "status"] {
            let mut found = Vec::new();
            unknown_fields(
                &schema()["properties"][part],
                &manifest[part],
                part,
                &mut found,
            );
            assert_eq!(found, Vec::<String>::new());
        }
    }

    #[test]
    fn an_upstream_object_survives_reading_and_writing() {
        let cluster: Cluster = serde_json::from_value(upstream_manifest()).unwrap();
        assert_eq!(serde_json::to_value(cluster).unwrap(), upstream_manifest());
    }

    #[test]
    fn nothing_in_the_spec_is_required() {
        assert_eq!(schema()["properties"]["spec"].get("required"), None);
        let cluster: Cluster = serde_json::from_value(
            json!({ "metadata": { "name": "a" }, "spec": { "syncMode": "" } }),
        )
        .unwrap();
        assert_eq!(cluster.spec, ClusterSpec::default());
    }

    #[test]
    fn the_definition_is_cluster_scoped_with_a_status_subresource() {
        let definition = serde_json::to_value(Cluster::crd()).unwrap();
        assert_eq!(
            definition["metadata"]["name"],
            "clusters.cluster.karmada.io"
        );
        assert_eq!(definition["spec"]["scope"], "Cluster");
        assert_eq!(
            definition["spec"]["versions"][0]["subresources"],
            json!({ "status": {} })
        );
    }

    #[test]
    fn the_schema_refuses_what_cannot_be_connected_to() {
        let spec = &schema()["properties"]["spec"]["properties"];
        for field in ["apiEndpoint", "proxyURL"] {
            let rules = spec[field]["x-kubernetes-validations"].as_array().unwrap();
            assert!(rules.iter().all(|rule| {
                rule["message"]
                    .as_str()
                    .is_some_and(|text| text.starts_with(field))
            }));
        }
    }
}
