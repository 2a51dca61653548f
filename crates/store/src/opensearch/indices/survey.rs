//! What indices there are: surveys of index names, aliases and metadata.

use std::collections::{BTreeMap, BTreeSet};

use fleetdex_core::model::{ClusterName, IndexName, Partition};

use super::{
    complete_resources::shown_by,
    surveyed_index::{IndexMetadata, SharedIndexMetadata, SurveyedIndex, SurveyedMetadata},
};
use crate::{
    CompleteResources, IndexRevision, StoreError,
    opensearch::{
        engine::{Engine, targets},
        sharing::{alias_filters::ClusterPartition, shared_index::SharedIndex},
    },
};

/// A revision of this installation, as a survey has found it.
pub(crate) struct FoundRevision {
    pub(crate) revision: IndexRevision,
    pub(crate) metadata: IndexMetadata,
    /// Whether its write alias leads to it.
    pub(crate) is_written: bool,
    /// Whether any queries of its cluster are answered from it.
    pub(crate) is_read: bool,
}

impl Engine {
    /// A pattern of all indices of documents.
    pub(crate) fn every_index(&self) -> String {
        let prefix = &self.options.prefix;
        format!(
            "{},{}",
            prefix.every_revision(),
            prefix.every_shared_index()
        )
    }

    /// All indices that match a pattern.
    pub(crate) async fn survey(&self, pattern: &str) -> Result<Vec<SurveyedIndex>, StoreError> {
        let operation = "reading the indices";
        let path = format!(
            "/{pattern}?allow_no_indices=true&ignore_unavailable=true&filter_path=*.aliases,*.settings.index.uuid,*.mappings._meta"
        );
        let _turn = self.contexts.0.surveys.acquire().await;
        let Some(body) = self.get_optional(operation, path).await? else {
            return Ok(Vec::new());
        };
        SurveyedIndex::read(&body).map_err(|error| StoreError::garbled(operation, error))
    }

    /// Every revision of this installation under the engine's prefix.
    pub(crate) async fn own_revisions(&self) -> Result<Vec<FoundRevision>, StoreError> {
        let found = self.survey(&self.every_index()).await?;
        Ok(found
            .iter()
            .flat_map(|found| self.revisions_in(found))
            .collect())
    }

    /// The UID of each cluster: that of the revision that answers queries, or else of the newest
    /// one.
    pub(crate) async fn stored_identities(
        &self,
    ) -> Result<BTreeMap<ClusterName, String>, StoreError> {
        let mut own = self.own_revisions().await?;
        own.sort_by_key(|found| (found.is_read, found.metadata.revision));
        // A later entry overwrites an earlier one.
        let of_cluster =
            |FoundRevision { metadata, .. }: FoundRevision| Some((metadata.cluster, metadata.uid?));
        Ok(own.into_iter().filter_map(of_cluster).collect())
    }

    /// The revisions of this installation in an index.
    pub(crate) fn revisions_in(&self, found: &SurveyedIndex) -> Vec<FoundRevision> {
        if !self.is_own(found) {
            return Vec::new();
        }
        match &found.metadata {
            Some(SurveyedMetadata::OfCluster(metadata)) => {
                vec![self.revision_of(found, metadata)]
            }
            Some(SurveyedMetadata::Shared(metadata)) => self.partitions_of(found, metadata),
            None => Vec::new(),
        }
    }

    fn revision_of(&self, found: &SurveyedIndex, metadata: &IndexMetadata) -> FoundRevision {
        let cluster = &metadata.cluster;
        let (live, shown) = self.complete_resources(found, cluster).parts();
        let target = self.options.prefix.write_alias(cluster, metadata.revision);
        let is_read_through = |alias| found.is_read_through(alias);
        FoundRevision {
            is_written: found.is_read_through(&target),
            is_read: self.read_aliases(cluster).iter().any(is_read_through),
            revision: IndexRevision {
                cluster: cluster.clone(),
                number: metadata.revision,
                id: found.id.as_str().into(),
                index: found.index.clone(),
                target,
                live,
                shown,
                replaces: None,
            },
            metadata: metadata.clone(),
        }
    }

    fn partitions_of(
        &self,
        found: &SurveyedIndex,
        metadata: &SharedIndexMetadata,
    ) -> Vec<FoundRevision> {
        let prefix = &self.options.prefix;
        let shared = SharedIndex::of(found, prefix);
        let revision = |(partition, of_cluster): (&Partition, &ClusterPartition)| {
            let target = of_cluster.write_alias(*partition, prefix);
            let (live, shown) = shared.visible(*partition).parts();
            FoundRevision {
                revision: IndexRevision {
                    cluster: of_cluster.cluster.clone(),
                    number: of_cluster.revision,
                    id: shared.revision_id(*partition).into(),
                    index: target.clone(),
                    target,
                    live,
                    shown,
                    replaces: None,
                },
                metadata: IndexMetadata {
                    cluster: of_cluster.cluster.clone(),
                    owner: metadata.owner.clone(),
                    uid: of_cluster.uid.clone(),
                    revision: of_cluster.revision,
                    mapping_version: metadata.mapping_version,
                    projection: metadata.projection.clone(),
                },
                is_written: of_cluster.is_written,
                is_read: of_cluster.visible.is_some(),
            }
        };
        shared.partitions.iter().map(revision).collect()
    }

    /// What queries see of an index both through the alias of the cluster and the one over all
    /// clusters.
    fn complete_resources(
        &self,
        found: &SurveyedIndex,
        cluster: &ClusterName,
    ) -> CompleteResources {
        let [of_cluster, over_all] = self
            .read_aliases(cluster)
            .map(|alias| shown_by(found.alias(alias.as_str()).as_ref()));
        of_cluster.and(over_all)
    }

    pub(crate) fn read_aliases(&self, cluster: &ClusterName) -> [IndexName; 2] {
        [
            self.options.prefix.cluster_alias(cluster),
            self.options.prefix.all(),
        ]
    }

    /// The clusters of those revisions that are gone, or without the aliases that they should have,
    /// or beside which another revision answers, too, as after a restore from a snapshot.
    pub(crate) async fn find_lost_revisions(
        &self,
        revisions: &[IndexRevision],
    ) -> Result<BTreeSet<ClusterName>, StoreError> {
        let found = self.own_revisions().await?;
        let mut by_cluster: BTreeMap<&ClusterName, Vec<&FoundRevision>> = BTreeMap::new();
        for found in &found {
            let of_cluster = by_cluster.entry(&found.revision.cluster).or_default();
            of_cluster.push(found);
        }
        let is_lost = |expected: &&IndexRevision| {
            let of_cluster = by_cluster.get(&expected.cluster);
            let mut of_cluster = of_cluster.into_iter().flatten();
            let is_shown = |found: &IndexRevision| {
                found.live || !expected.live && found.shown.is_superset(&expected.shown)
            };
            let is_intact = of_cluster.clone().any(|found| {
                found.revision.id == expected.id && found.is_written && is_shown(&found.revision)
            });
            let has_rival = expected.live
                && of_cluster.any(|found| found.revision.id != expected.id && found.is_read);
            !is_intact || has_rival
        };
        Ok(revisions
            .iter()
            .filter(is_lost)
            .map(|expected| expected.cluster.clone())
            .collect())
    }

    /// Every index of a cluster. Fails if another installation or another cluster has an index
    /// under one of these names, or under the cluster's alias.
    pub(crate) async fn indices_of(
        &self,
        cluster: &ClusterName,
    ) -> Result<Vec<SurveyedIndex>, StoreError> {
        let indices = self.survey(&self.names_of(cluster)).await?;
        match indices
            .iter()
            .find(|found| !self.is_own(found) || !found.may_be_of(cluster))
        {
            Some(found) => Err(self.foreign(found)),
            None => Ok(indices),
        }
    }

    /// Every index of some clusters, with as few requests as their names fit into. Fails if another
    /// installation has an index under one of these names, or another cluster under the alias of
    /// one of them.
    pub(crate) async fn indices_of_all(
        &self,
        clusters: &BTreeSet<&ClusterName>,
    ) -> Result<Vec<SurveyedIndex>, StoreError> {
        let is_foreign = |found: &SurveyedIndex| {
            let is_read = |cluster: &&&ClusterName| {
                found.is_read_through(&self.options.prefix.cluster_alias(cluster))
            };
            let mut read_through = clusters.iter().filter(is_read);
            !self.is_own(found) || read_through.any(|cluster| !found.may_be_of(cluster))
        };
        let names: Vec<String> = clusters
            .iter()
            .map(|cluster| self.names_of(cluster))
            .collect();
        let mut indices = BTreeMap::new();
        for pattern in targets(names.iter().map(String::as_str)) {
            for found in self.survey(&pattern).await? {
                if is_foreign(&found) {
                    return Err(self.foreign(&found));
                }
                indices.insert(found.index.clone(), found);
            }
        }
        Ok(indices.into_values().collect())
    }

    /// A pattern of the indices and aliases of a cluster.
    fn names_of(&self, cluster: &ClusterName) -> String {
        let prefix = &self.options.prefix;
        format!(
            "{},{},{}",
            prefix.revisions(cluster),
            prefix.cluster_alias(cluster),
            prefix.write_aliases(cluster)
        )
    }

    /// The revisions of a cluster.
    pub(crate) async fn own_revisions_of(
        &self,
        cluster: &ClusterName,
    ) -> Result<Vec<FoundRevision>, StoreError> {
        let indices = self.indices_of(cluster).await?;
        Ok(indices
            .iter()
            .flat_map(|found| self.revisions_in(found))
            .filter(|found| found.revision.cluster == *cluster)
            .collect())
    }

    /// Whether an index is one of this installation and prefix. In earlier releases the names of a
    /// longer prefix matched the pattern of a shorter one.
    pub(crate) fn is_own(&self, found: &SurveyedIndex) -> bool {
        let owner = found.metadata.as_ref().map(SurveyedMetadata::owner);
        owner == Some(&self.options.owner) && found.is_under(&self.options.prefix)
    }

    /// The error that names the owner of an index.
    pub(crate) fn foreign(&self, found: &SurveyedIndex) -> StoreError {
        let owner = match &found.metadata {
            Some(SurveyedMetadata::OfCluster(metadata)) if metadata.owner == self.options.owner => {
                format!("cluster {}", metadata.cluster)
            }
            Some(metadata) => format!("another installation ({})", metadata.owner()),
            None => "something else than Fleetdex".to_owned(),
        };
        StoreError::Foreign {
            index: found.index.to_string(),
            owner,
        }
    }
}
