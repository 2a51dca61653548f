//! Cluster, namespace and name of an object of the fleet.

use std::collections::BTreeMap;

use fleetdex_core::model::CLUSTER_ANNOTATION;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::error::OutputError;

/// Cluster, namespace and name of an object of the fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FleetName {
    /// The member cluster, from the annotation of the query API.
    pub(super) cluster: String,
    /// `metadata.namespace`; empty for a cluster-scoped object.
    pub(super) namespace: String,
    /// `metadata.name`
    pub(super) name: String,
}

impl FleetName {
    /// Reads it from an object of a response.
    pub(super) fn of(object: &RawValue) -> Result<Self, OutputError> {
        #[derive(Deserialize)]
        struct PartialObject {
            metadata: PartialMetadata,
        }
        #[derive(Deserialize)]
        struct PartialMetadata {
            #[serde(default)]
            namespace: String,
            #[serde(default)]
            name: String,
            #[serde(default)]
            annotations: Option<BTreeMap<String, String>>,
        }
        let PartialObject { metadata } =
            serde_json::from_str(object.get()).map_err(OutputError::NoObject)?;
        let cluster = metadata
            .annotations
            .unwrap_or_default()
            .remove(CLUSTER_ANNOTATION)
            .unwrap_or_default();
        Ok(Self {
            cluster,
            namespace: metadata.namespace,
            name: metadata.name,
        })
    }
}
