//! Printer columns of custom resource definitions.

use std::sync::Arc;

use serde::Deserialize;

/// One of a definition's `additionalPrinterColumns`.
///
/// Source: `CustomResourceColumnDefinition` of
/// <https://pkg.go.dev/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1>
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PrinterColumn {
    /// Its title.
    pub name: Arc<str>,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    #[serde(rename = "type")]
    pub kind: Arc<str>,
    /// Format of the type; may be empty.
    #[serde(default)]
    pub format: Arc<str>,
    /// Its description; may be empty.
    #[serde(default)]
    pub description: Arc<str>,
    /// Columns above 0 are shown only in wide tables.
    #[serde(default)]
    pub priority: i32,
    /// The `JSONPath` of its value in an object, such as `.spec.replicas`.
    pub json_path: Arc<str>,
}
