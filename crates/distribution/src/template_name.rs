//! Names of objects.

use std::fmt;

use fleetdex_interpreter::value::{list, text};
use serde::Serialize;
use serde_json::Value;

/// Group and version, and kind.
pub type KindName = (String, String);

/// Which object.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TemplateName {
    /// Group and version.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Namespace; empty for a cluster-scoped object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl TemplateName {
    /// Of an object.
    pub fn of(object: &Value) -> Self {
        let owned = |path: &[&str]| text(object, path).to_owned();
        Self {
            api_version: owned(&["apiVersion"]),
            kind: owned(&["kind"]),
            namespace: owned(&["metadata", "namespace"]),
            name: owned(&["metadata", "name"]),
        }
    }

    /// Of the object that a reference names.
    pub fn of_reference(reference: &Value) -> Self {
        let owned = |member: &str| text(reference, &[member]).to_owned();
        Self {
            api_version: owned("apiVersion"),
            kind: owned("kind"),
            namespace: owned("namespace"),
            name: owned("name"),
        }
    }

    /// Of the objects that a `WorkloadRebalancer` places anew.
    pub fn of_workloads(rebalancer: &Value) -> impl Iterator<Item = Self> {
        let workloads = list(rebalancer, &["spec", "workloads"]).iter();
        workloads.map(Self::of_reference)
    }

    /// Group and version, and kind.
    pub fn kind_name(&self) -> KindName {
        (self.api_version.clone(), self.kind.clone())
    }
}

/// Such as `Deployment shop/web`.
impl fmt::Display for TemplateName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} ", self.kind)?;
        if !self.namespace.is_empty() {
            write!(out, "{}/", self.namespace)?;
        }
        out.write_str(&self.name)
    }
}
