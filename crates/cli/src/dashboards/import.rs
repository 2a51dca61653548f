//! The response of Dashboards' import API: `POST /api/saved_objects/_import`.
//!
//! Status 200 does not mean success: `success` does. Source: `src/core/server/saved_objects/import` of
//! <https://github.com/opensearch-project/OpenSearch-Dashboards>.

use std::fmt;

use serde::Deserialize;
use serde_json::Value;

/// What an import reports.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ImportResponse {
    pub(super) success: bool,
    #[serde(default)]
    pub(super) success_results: Vec<ImportedObject>,
    #[serde(default)]
    pub(super) errors: Vec<RefusedObject>,
}

/// An object that was imported, or would have been if no other one had been refused.
#[derive(Debug, Deserialize)]
pub(super) struct ImportedObject {
    /// Whether it replaced another one.
    #[serde(default)]
    pub(super) overwrite: bool,
}

/// An object that Dashboards refused.
#[derive(Debug, Deserialize)]
pub struct RefusedObject {
    #[serde(rename = "type")]
    object_type: String,
    id: String,
    #[serde(default)]
    title: Option<String>,
    error: ImportRefusal,
}

#[derive(Debug, Deserialize)]
struct ImportRefusal {
    #[serde(rename = "type", default)]
    reason: String,
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    references: Vec<Value>,
}

impl fmt::Display for RefusedObject {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let title = self.title.as_deref().unwrap_or_default();
        write!(out, "{} {:?} ({title}): ", self.object_type, self.id)?;
        self.error.fmt(out)
    }
}

impl fmt::Display for ImportRefusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reason.as_str() {
            "conflict" | "ambiguous_conflict" => {
                out.write_str("it exists already; without --no-overwrite it is replaced")
            }
            "missing_references" => {
                let missing: Vec<String> = self.references.iter().map(reference).collect();
                write!(
                    out,
                    "it refers to {}, which does not exist",
                    missing.join(", ")
                )
            }
            "unsupported_type" => out.write_str("this Dashboards has no such type"),
            other => {
                let message = self.message.as_deref().unwrap_or("no message");
                write!(out, "{message} ({other})")
            }
        }
    }
}

fn reference(reference: &Value) -> String {
    let text = |name: &str| reference[name].as_str().unwrap_or("?").to_owned();
    format!("{} {:?}", text("type"), text("id"))
}
