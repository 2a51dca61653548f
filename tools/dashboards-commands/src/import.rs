//! The response of Dashboards' import API: `POST /api/saved_objects/_import`.
//!
//! Status 200 does not mean success: `success` does. Source: `src/core/server/saved_objects/import`
//! of <https://github.com/opensearch-project/OpenSearch-Dashboards>.

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
    title: Option<String>,
    error: ImportRefusal,
}

#[derive(Debug, Deserialize)]
struct ImportRefusal {
    #[serde(rename = "type", default)]
    reason: String,
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What Dashboards 2.19.2 answered, with status 200.
    const RESPONSES: [(&str, &str); 3] = [
        (
            r#"{"successCount":1,"success":false,"successResults":[{"type":"index-pattern","id":"fleetdex-objects","meta":{"title":"fleetdex","icon":"indexPatternApp"},"overwrite":true}],"errors":[{"id":"fleetdex-nodes","type":"search","title":"Nodes","meta":{"title":"Nodes","icon":"discoverApp"},"error":{"message":"mapping set to strict, dynamic introduction of [grid] within [search] is not allowed","type":"unknown"},"overwrite":true}]}"#,
            r#"search "fleetdex-nodes" (Nodes): mapping set to strict, dynamic introduction of [grid] within [search] is not allowed (unknown)"#,
        ),
        (
            r#"{"successCount":0,"success":false,"errors":[{"id":"fleetdex-nodes","type":"search","title":"Nodes","meta":{"title":"Nodes","icon":"discoverApp"},"error":{"type":"missing_references","references":[{"type":"index-pattern","id":"nope"}]},"overwrite":true}]}"#,
            r#"search "fleetdex-nodes" (Nodes): it refers to index-pattern "nope", which does not exist"#,
        ),
        (
            r#"{"successCount":0,"success":false,"errors":[{"type":"index-pattern","id":"fleetdex-objects","title":"fleetdex","meta":{"title":"fleetdex","icon":"indexPatternApp"},"error":{"type":"conflict"}}]}"#,
            r#"index-pattern "fleetdex-objects" (fleetdex): it exists already; without --no-overwrite it is replaced"#,
        ),
    ];

    #[test]
    fn each_refused_object_is_named_with_the_reason() {
        for (response, expected) in RESPONSES {
            let parsed: ImportResponse = serde_json::from_str(response).unwrap();
            assert!(!parsed.success);
            let refused: Vec<String> = parsed.errors.iter().map(ToString::to_string).collect();
            assert_eq!(refused, [expected]);
        }
    }
}
