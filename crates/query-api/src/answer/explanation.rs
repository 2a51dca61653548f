//! How a question is translated for the stores.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ListMetadata;
use crate::group::API_VERSION;

/// What the stores are asked for a question, and what it costs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Explanation {
    /// `Explanation`
    pub kind: String,
    /// Our API group and version.
    pub api_version: String,
    /// Empty: an explanation has no version and no pages.
    pub metadata: ListMetadata,
    /// The stores that are asked, of a question about one kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
    /// `"everything"`, or the clusters and namespaces that the caller may see.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permitted: Option<Value>,
    /// How much there is to read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimate: Option<Value>,
    /// The bodies of the requests.
    pub requests: Vec<Value>,
    /// The bodies by store, if several are asked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stores: Vec<StoreRequests>,
}

/// The bodies of the requests to one store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoreRequests {
    /// The store.
    pub store: String,
    /// The bodies.
    pub requests: Vec<Value>,
}

impl Explanation {
    /// An explanation that consists of requests.
    pub fn of(requests: Vec<Value>) -> Self {
        Self {
            kind: "Explanation".to_owned(),
            api_version: API_VERSION.to_owned(),
            requests,
            ..Self::default()
        }
    }
}
