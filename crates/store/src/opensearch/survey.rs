//! What indices there are: surveys of index names, aliases and metadata.

use std::collections::{BTreeMap, BTreeSet};

use fleetdex_core::model::{ClusterName, IndexName, IndexPrefix};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{client::parse, engine::Engine, visible_resources::VisibleResources};
use crate::{IndexRevision, StoreError};

/// `_meta.fleetdex` of an index: whose documents it holds, and in what shape.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct IndexMetadata {
    pub(super) cluster: ClusterName,
    pub(super) owner: String,
    /// UID of the cluster's namespace kube-system; absent: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) uid: Option<String>,
    #[serde(rename = "generation")]
    pub(super) revision: u64,
    pub(super) mapping_version: u32,
    pub(super) projection: String,
}

/// One index of a survey.
pub(super) struct SurveyedIndex {
    pub(super) index: IndexName,
    id: String,
    /// By name, with their configurations.
    pub(super) aliases: BTreeMap<String, Value>,
    pub(super) metadata: Option<IndexMetadata>,
}

#[derive(Deserialize)]
struct RawIndex {
    #[serde(default)]
    aliases: BTreeMap<String, Value>,
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
    fleetdex: Option<IndexMetadata>,
}

#[derive(Deserialize)]
struct RawSettings {
    index: RawIndexSettings,
}

#[derive(Deserialize)]
struct RawIndexSettings {
    uuid: String,
}

impl SurveyedIndex {
    pub(super) fn is_of(&self, cluster: &ClusterName) -> bool {
        self.metadata
            .as_ref()
            .is_some_and(|metadata| metadata.cluster == *cluster)
    }

    /// Whether an index claims to be a revision under this prefix, of whichever installation.
    pub(super) fn is_revision_under(&self, prefix: &IndexPrefix) -> bool {
        self.metadata.as_ref().is_some_and(|metadata| {
            self.index == prefix.revision(&metadata.cluster, metadata.revision)
        })
    }

    /// Whether an alias leads to it.
    pub(super) fn is_read_through(&self, alias: &IndexName) -> bool {
        self.aliases.contains_key(alias.as_str())
    }
}

impl Engine {
    /// All indices that match a pattern.
    pub(super) async fn survey(&self, pattern: &str) -> Result<Vec<SurveyedIndex>, StoreError> {
        let operation = "reading the indices";
        let path = format!(
            "/{pattern}?allow_no_indices=true&ignore_unavailable=true&filter_path=*.aliases,*.settings.index.uuid,*.mappings._meta"
        );
        let Some(body) = self.get_optional(operation, path).await? else {
            return Ok(Vec::new());
        };
        let indices: BTreeMap<IndexName, RawIndex> = parse(operation, &body)?;
        let found = indices.into_iter().filter_map(|(index, raw)| {
            let id = raw.settings?.index.uuid;
            Some(SurveyedIndex {
                index,
                id,
                aliases: raw.aliases,
                metadata: raw.mappings.meta.fleetdex,
            })
        });
        Ok(found.collect())
    }

    /// Every revision of this installation under the engine's prefix.
    pub(super) async fn own_revisions(&self) -> Result<Vec<IndexRevision>, StoreError> {
        let found = self
            .survey(self.options.prefix.every_revision().as_str())
            .await?;
        Ok(found
            .iter()
            .filter_map(|found| self.own_revision(found))
            .collect())
    }

    /// The UID of each cluster: that of the revision that answers queries, or else of the newest
    /// one.
    pub(super) async fn stored_identities(
        &self,
    ) -> Result<BTreeMap<ClusterName, String>, StoreError> {
        let found = self
            .survey(self.options.prefix.every_revision().as_str())
            .await?;
        let mut own: Vec<(bool, u64, &IndexMetadata)> = Vec::new();
        for index in found.iter().filter(|index| self.is_own(index)) {
            own.extend(index.metadata.as_ref().map(|metadata| {
                (
                    self.is_read(index, &metadata.cluster),
                    metadata.revision,
                    metadata,
                )
            }));
        }
        own.sort_by_key(|(is_read, revision, _)| (*is_read, *revision));
        // A later entry overwrites an earlier one.
        let of_cluster = |(_, _, metadata): (bool, u64, &IndexMetadata)| {
            Some((metadata.cluster.clone(), metadata.uid.clone()?))
        };
        Ok(own.into_iter().filter_map(of_cluster).collect())
    }

    pub(super) fn own_revision(&self, found: &SurveyedIndex) -> Option<IndexRevision> {
        let metadata = found
            .metadata
            .as_ref()
            .filter(|metadata| metadata.owner == self.options.owner)?;
        let prefix = &self.options.prefix;
        // In earlier releases the names of a longer prefix matched the pattern of a shorter one.
        let of_prefix = found.index == prefix.revision(&metadata.cluster, metadata.revision);
        of_prefix.then(|| self.revision_of(found, metadata))
    }

    pub(super) fn revision_of(
        &self,
        found: &SurveyedIndex,
        metadata: &IndexMetadata,
    ) -> IndexRevision {
        let (live, shown) = match self.visible_resources(found, &metadata.cluster) {
            VisibleResources::All => (true, BTreeSet::new()),
            VisibleResources::Only(resources) => (false, resources),
        };
        IndexRevision {
            cluster: metadata.cluster.clone(),
            number: metadata.revision,
            id: found.id.as_str().into(),
            index: found.index.clone(),
            target: self
                .options
                .prefix
                .write_alias(&metadata.cluster, metadata.revision),
            live,
            shown,
            replaces: None,
        }
    }

    /// What queries see of an index both through the alias of the cluster and the one over all
    /// clusters.
    fn visible_resources(&self, found: &SurveyedIndex, cluster: &ClusterName) -> VisibleResources {
        let [of_cluster, over_all] = self
            .read_aliases(cluster)
            .map(|alias| VisibleResources::of(found.aliases.get(alias.as_str())));
        of_cluster.and(over_all)
    }

    /// Whether any queries of a cluster are answered from an index.
    pub(super) fn is_read(&self, found: &SurveyedIndex, cluster: &ClusterName) -> bool {
        self.read_aliases(cluster)
            .iter()
            .any(|alias| found.is_read_through(alias))
    }

    pub(super) fn read_aliases(&self, cluster: &ClusterName) -> [IndexName; 2] {
        [
            self.options.prefix.cluster_alias(cluster),
            self.options.prefix.all(),
        ]
    }

    /// The clusters of those revisions that are gone, or without the aliases that they should have,
    /// or beside which another revision answers, too, as after a restore from a snapshot.
    pub(super) async fn find_lost_revisions(
        &self,
        revisions: &[IndexRevision],
    ) -> Result<BTreeSet<ClusterName>, StoreError> {
        let found = self
            .survey(self.options.prefix.every_revision().as_str())
            .await?;
        let is_intact = |expected: &IndexRevision| {
            found.iter().any(|found| {
                let written = found.aliases.contains_key(expected.target.as_str());
                let read = || match self.visible_resources(found, &expected.cluster) {
                    VisibleResources::All => true,
                    VisibleResources::Only(shown) => {
                        !expected.live && shown.is_superset(&expected.shown)
                    }
                };
                found.index == expected.index && *found.id == *expected.id && written && read()
            })
        };
        let has_rival = |expected: &IndexRevision| {
            let is_rival = |found: &SurveyedIndex| {
                found.index != expected.index
                    && found.is_of(&expected.cluster)
                    && self.is_own(found)
                    && self.is_read(found, &expected.cluster)
            };
            expected.live && found.iter().any(is_rival)
        };
        Ok(revisions
            .iter()
            .filter(|expected| !is_intact(expected) || has_rival(expected))
            .map(|expected| expected.cluster.clone())
            .collect())
    }

    /// Whether an index is a revision of this installation and prefix.
    pub(super) fn is_own(&self, found: &SurveyedIndex) -> bool {
        self.own_revision(found).is_some()
    }

    /// The error that names the owner of an index.
    pub(super) fn foreign(&self, found: &SurveyedIndex) -> StoreError {
        let owner = match &found.metadata {
            Some(metadata) if metadata.owner == self.options.owner => {
                format!("cluster {}", metadata.cluster)
            }
            Some(metadata) => format!("another installation ({})", metadata.owner),
            None => "something else than Fleetdex".to_owned(),
        };
        StoreError::Foreign {
            index: found.index.to_string(),
            owner,
        }
    }
}
