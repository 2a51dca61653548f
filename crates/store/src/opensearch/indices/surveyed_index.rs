//! An index as OpenSearch shows it: its aliases, and the metadata in its mapping.

use std::collections::BTreeMap;

use fleetdex_core::model::{ClusterName, IndexName, IndexPrefix};
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

/// `_meta.fleetdex` of an index: whose documents it holds, and in what shape.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct IndexMetadata {
    pub(crate) cluster: ClusterName,
    pub(crate) owner: String,
    /// UID of the cluster's namespace kube-system; absent: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) uid: Option<String>,
    #[serde(rename = "generation")]
    pub(crate) revision: u64,
    pub(crate) mapping_version: u32,
    pub(crate) projection: String,
}

/// `_meta.fleetdex` of a shared index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SharedIndexMetadata {
    pub(crate) owner: String,
    pub(crate) mapping_version: u32,
    pub(crate) projection: String,
}

/// One index of a survey.
pub(crate) struct SurveyedIndex {
    pub(crate) index: IndexName,
    /// OpenSearch's own id of it.
    pub(crate) id: String,
    /// By name, with their configurations as text: of a shared index these are hundreds of trees,
    /// most of which are about other clusters.
    aliases: BTreeMap<String, Box<RawValue>>,
    pub(crate) metadata: Option<SurveyedMetadata>,
}

/// `_meta.fleetdex` of an index.
#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum SurveyedMetadata {
    OfCluster(IndexMetadata),
    Shared(SharedIndexMetadata),
}

#[derive(Deserialize)]
struct RawIndex {
    #[serde(default)]
    aliases: BTreeMap<String, Box<RawValue>>,
    #[serde(default)]
    mappings: RawMappings,
    settings: Option<RawSettings>,
}

#[derive(Deserialize, Default)]
struct RawMappings {
    #[serde(rename = "_meta", default)]
    meta: RawMeta,
}

#[derive(Deserialize, Default)]
struct RawMeta {
    fleetdex: Option<SurveyedMetadata>,
}

#[derive(Deserialize)]
struct RawSettings {
    index: RawIndexSettings,
}

#[derive(Deserialize)]
struct RawIndexSettings {
    uuid: String,
}

impl SurveyedMetadata {
    pub(crate) fn owner(&self) -> &str {
        match self {
            Self::OfCluster(metadata) => &metadata.owner,
            Self::Shared(metadata) => &metadata.owner,
        }
    }
}

impl SurveyedIndex {
    /// The indices of a response. One that is being deleted has no settings, and is left out.
    pub(crate) fn read(response: &[u8]) -> serde_json::Result<Vec<Self>> {
        let indices: BTreeMap<IndexName, RawIndex> = serde_json::from_slice(response)?;
        let found = indices.into_iter().filter_map(|(index, raw)| {
            Some(Self {
                index,
                id: raw.settings?.index.uuid,
                aliases: raw.aliases,
                metadata: raw.mappings.meta.fleetdex,
            })
        });
        Ok(found.collect())
    }

    /// Whether it may hold documents of a cluster.
    pub(crate) fn may_be_of(&self, cluster: &ClusterName) -> bool {
        match &self.metadata {
            Some(SurveyedMetadata::OfCluster(metadata)) => metadata.cluster == *cluster,
            Some(SurveyedMetadata::Shared(_)) => true,
            None => false,
        }
    }

    /// Whether an index claims to hold revisions under this prefix, of whichever installation.
    pub(crate) fn is_under(&self, prefix: &IndexPrefix) -> bool {
        match &self.metadata {
            Some(SurveyedMetadata::OfCluster(metadata)) => {
                self.index == prefix.revision(&metadata.cluster, metadata.revision)
            }
            Some(SurveyedMetadata::Shared(_)) => prefix.shared_index_number(&self.index).is_some(),
            None => false,
        }
    }

    pub(crate) fn is_of_fleetdex(&self) -> bool {
        self.metadata.is_some()
    }

    pub(crate) fn aliases(&self) -> impl Iterator<Item = &str> {
        self.aliases.keys().map(String::as_str)
    }

    /// The configuration of an alias; `None` if it does not lead here.
    pub(crate) fn alias(&self, name: &str) -> Option<Value> {
        serde_json::from_str(self.aliases.get(name)?.get()).ok()
    }

    /// Whether an alias leads to it.
    pub(crate) fn is_read_through(&self, alias: &IndexName) -> bool {
        self.aliases.contains_key(alias.as_str())
    }

    /// The metadata of an index that clusters share.
    pub(crate) fn shared(&self) -> Option<&SharedIndexMetadata> {
        match &self.metadata {
            Some(SurveyedMetadata::Shared(metadata)) => Some(metadata),
            _ => None,
        }
    }
}
