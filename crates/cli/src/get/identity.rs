//! What an object of the fleet is called.

use std::collections::BTreeMap;

use fleetdex_core::model::CLUSTER_ANNOTATION;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::error::OutputError;

/// What identifies an object of the fleet, and its labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The member that holds it.
    pub cluster: String,
    /// `metadata.namespace`; empty where there is none.
    pub namespace: String,
    /// `metadata.name`
    pub name: String,
    /// `metadata.labels`
    pub labels: BTreeMap<String, String>,
}

impl Identity {
    /// Reads it from an object of the API's answer.
    pub fn of(object: &RawValue) -> Result<Self, OutputError> {
        #[derive(Deserialize)]
        struct Partial {
            metadata: Metadata,
        }
        #[derive(Deserialize)]
        struct Metadata {
            #[serde(default)]
            namespace: String,
            #[serde(default)]
            name: String,
            #[serde(default)]
            labels: Option<BTreeMap<String, String>>,
            #[serde(default)]
            annotations: Option<BTreeMap<String, String>>,
        }
        let partial: Partial = serde_json::from_str(object.get()).map_err(OutputError::NoObject)?;
        let Metadata {
            namespace,
            name,
            labels,
            annotations,
        } = partial.metadata;
        let cluster = annotations
            .unwrap_or_default()
            .remove(CLUSTER_ANNOTATION)
            .unwrap_or_default();
        Ok(Self {
            cluster,
            namespace,
            name,
            labels: labels.unwrap_or_default(),
        })
    }

    /// All labels as one cell.
    pub fn labels_cell(&self) -> String {
        let pairs: Vec<String> = self
            .labels
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        if pairs.is_empty() {
            "<none>".to_owned()
        } else {
            pairs.join(",")
        }
    }
}
