//! The status of all three kinds.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The condition that says whether an object is in use.
pub const ACCEPTED: &str = "Accepted";

/// Whether an object is in use, and if not all of it, why.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InterpreterStatus {
    /// `Accepted`: True if every part of the object is in use; otherwise the message names each
    /// part that is not, such as a script that does not compile or an operation that another
    /// customization, earlier by name, defines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
