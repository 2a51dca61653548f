//! Recognizes customizations among documents.

use fleetdex_core::model::split_api_version;
use fleetdex_interpreter::{customization::KIND, value::text, webhook::API_VERSION};
use serde_json::Value;

/// Says of a document that is not a customization what it is.
///
/// Source of the text: `pkg/karmadactl/interpret/interpret.go` of
/// <https://github.com/karmada-io/karmada>
pub fn check_type(document: &Value) -> Result<(), String> {
    let (api_version, kind) = (text(document, &["apiVersion"]), text(document, &["kind"]));
    if (api_version, kind) == (API_VERSION, KIND) {
        return Ok(());
    }
    let (group, version) = split_api_version(api_version);
    Err(format!("not a {KIND}, got {group}/{version}, Kind={kind}"))
}
