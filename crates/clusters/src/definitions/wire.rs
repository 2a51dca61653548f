//! Custom resource definitions as API servers send them, as far as they are read.

use fleetdex_core::model::{FieldPath, First, PrinterColumn};
use serde::{Deserialize, de::IgnoredAny};

/// Definitions per page. Each is at most 1.5 MB, which is what etcd takes; most are a tenth of
/// that, and all but a few lines of it schema.
pub(super) const PAGE: usize = 10;
/// Versions of a definition, at most. Few have more than three.
const MAX_VERSIONS: usize = 32;
/// Columns of a version, at most. Few have more than ten.
pub(super) const MAX_COLUMNS: usize = 64;
/// Selectable fields of a version, at most. Source: API servers accept 8 `selectableFields` per
/// version.
const MAX_FIELDS: usize = 8;

#[derive(Deserialize)]
pub(super) struct RawDefinitionList {
    #[serde(default)]
    pub(super) metadata: RawDefinitionListMetadata,
    pub(super) items: First<RawDefinition, PAGE>,
}

#[derive(Deserialize, Default)]
pub(super) struct RawDefinitionListMetadata {
    #[serde(default, rename = "continue")]
    pub(super) next: String,
}

/// A `CustomResourceDefinition`.
#[derive(Deserialize)]
pub(super) struct RawDefinition {
    pub(super) spec: RawDefinitionSpec,
}

#[derive(Deserialize)]
pub(super) struct RawDefinitionSpec {
    pub(super) group: String,
    pub(super) names: RawDefinitionNames,
    pub(super) versions: First<RawDefinitionVersion, MAX_VERSIONS>,
}

#[derive(Deserialize)]
pub(super) struct RawDefinitionNames {
    pub(super) plural: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RawDefinitionVersion {
    pub(super) name: String,
    #[serde(default)]
    pub(super) additional_printer_columns: First<PrinterColumn, MAX_COLUMNS>,
    #[serde(default)]
    pub(super) selectable_fields: First<RawSelectableField, MAX_FIELDS>,
    #[serde(default)]
    pub(super) schema: RawSchema,
}

/// What of a schema says whether there is a status; the rest is skipped.
#[derive(Deserialize, Default)]
pub(super) struct RawSchema {
    #[serde(default, rename = "openAPIV3Schema")]
    pub(super) root: Option<RawRootSchema>,
}

#[derive(Deserialize)]
pub(super) struct RawRootSchema {
    pub(super) properties: Option<RawProperties>,
    #[serde(rename = "x-kubernetes-preserve-unknown-fields")]
    pub(super) preserves_unknown_fields: Option<bool>,
}

#[derive(Deserialize)]
pub(super) struct RawProperties {
    pub(super) status: Option<IgnoredAny>,
}

impl RawSchema {
    /// Whether objects cannot have a status. A schema without properties says nothing.
    pub(super) fn lacks_status(&self) -> bool {
        self.root.as_ref().is_some_and(|root| {
            let properties = root.properties.as_ref();
            root.preserves_unknown_fields != Some(true)
                && properties.is_some_and(|properties| properties.status.is_none())
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RawSelectableField {
    pub(super) json_path: String,
}

impl RawSelectableField {
    /// As field selectors name it. API servers take paths without lists only, such as
    /// `.spec.color`.
    pub(super) fn path(&self) -> Option<FieldPath> {
        let path = FieldPath::new(self.json_path.strip_prefix('.')?);
        path.canonical().filter(|canonical| *canonical == path)
    }
}
