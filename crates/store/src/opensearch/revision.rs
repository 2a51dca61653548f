//! Opening of index revisions: adopts the newest one if it fits, or creates the next.

use fleetdex_core::model::ClusterName;
use http::Method;
use serde_json::json;

use super::{
    engine::Engine,
    index_template::{MAPPING_VERSION, revision_index},
    survey::{IndexMetadata, SurveyedIndex},
};
use crate::{IndexRevision, StoreError};

/// How often another instance may create the next revision first before it is an error.
const ATTEMPTS: usize = 5;

impl Engine {
    /// Returns the newest revision if it fits, or else creates the next one.
    pub(super) async fn open_revision(
        &self,
        cluster: &ClusterName,
        uid: Option<&str>,
        above: u64,
    ) -> Result<IndexRevision, StoreError> {
        let remembered = self
            .stored_checkpoints(cluster)
            .await?
            .map_or(0, |checkpoints| checkpoints.revision);
        for _ in 0..ATTEMPTS {
            let indices = self.indices_of(cluster).await?;
            let newest = indices
                .iter()
                .max_by_key(|found| found.metadata.as_ref().map(|metadata| metadata.revision));
            if let Some(found) = newest
                && let Some(metadata) = &found.metadata
                && metadata.revision > above
                && self.fits(metadata, uid)
            {
                let others = indices
                    .iter()
                    .filter(|other| other.index != found.index && self.is_read(other, cluster));
                let read = others
                    .filter_map(|other| self.own_revision(other))
                    .max_by_key(|other| other.number);
                let replaces = read.map(Box::new);
                let mut adopted = self.adopt(found, metadata, uid).await?;
                // An older revision that answers beside a live one was restored from a snapshot. The
                // next activation removes it.
                adopted.live &= replaces.is_none();
                if adopted.is_read() {
                    self.feed.note_live(
                        cluster,
                        &adopted.target,
                        (!adopted.live).then(|| adopted.shown.clone()),
                    );
                }
                return Ok(IndexRevision {
                    replaces,
                    ..adopted
                });
            }
            let highest = newest
                .and_then(|found| found.metadata.as_ref())
                .map_or(0, |metadata| metadata.revision);
            let number = highest.max(above).max(remembered) + 1;
            if self.create_revision(cluster, uid, number).await? {
                tracing::info!(%cluster, number, "created an index revision");
            }
        }
        Err(StoreError::Busy {
            status: 409,
            reason: format!(
                "the indices of cluster {cluster} keep changing; is another installation at work?"
            ),
        })
    }

    /// Every index of a cluster. Fails if another installation or another cluster has an index
    /// under one of these names, or under the cluster's alias.
    async fn indices_of(&self, cluster: &ClusterName) -> Result<Vec<SurveyedIndex>, StoreError> {
        let prefix = &self.options.prefix;
        let indices = self
            .survey(&format!(
                "{},{}",
                prefix.revisions(cluster),
                prefix.cluster_alias(cluster)
            ))
            .await?;
        match indices
            .iter()
            .find(|found| !self.is_own(found) || !found.is_of(cluster))
        {
            Some(found) => Err(self.foreign(found)),
            None => Ok(indices),
        }
    }

    /// Whether an index holds documents of the current shape of that cluster. A UID that is unknown
    /// on either side is no difference.
    fn fits(&self, metadata: &IndexMetadata, uid: Option<&str>) -> bool {
        let same_cluster =
            uid.is_none() || metadata.uid.is_none() || metadata.uid.as_deref() == uid;
        same_cluster
            && metadata.mapping_version == MAPPING_VERSION
            && metadata.projection == self.options.projection
    }

    /// Completes a revision that fits: its write alias, and the cluster's UID if that was not known
    /// before.
    async fn adopt(
        &self,
        found: &SurveyedIndex,
        metadata: &IndexMetadata,
        uid: Option<&str>,
    ) -> Result<IndexRevision, StoreError> {
        let cluster = &metadata.cluster;
        let target = self.options.prefix.write_alias(cluster, metadata.revision);
        if !found.aliases.contains_key(target.as_str()) {
            let action = json!({ "add": { "index": found.index, "alias": target } });
            self.change_aliases("restoring an alias", &[action]).await?;
        }
        if metadata.uid.is_none() && uid.is_some() {
            let known = IndexMetadata {
                uid: uid.map(str::to_owned),
                ..metadata.clone()
            };
            let body = json!({ "_meta": { "fleetdex": known } });
            self.send(
                "naming the cluster of an index",
                Method::PUT,
                format!("/{}/_mapping", found.index),
                Some(&body),
            )
            .await?;
        }
        Ok(self.revision_of(found, metadata))
    }

    /// Creates an index; false if it existed already.
    async fn create_revision(
        &self,
        cluster: &ClusterName,
        uid: Option<&str>,
        number: u64,
    ) -> Result<bool, StoreError> {
        let metadata = IndexMetadata {
            cluster: cluster.clone(),
            owner: self.options.owner.clone(),
            uid: uid.map(str::to_owned),
            revision: number,
            mapping_version: MAPPING_VERSION,
            projection: self.options.projection.clone(),
        };
        let index = self.options.prefix.revision(cluster, number);
        let target = self.options.prefix.write_alias(cluster, number);
        let mut body = revision_index(&self.options.settings, &self.options.fields);
        body["aliases"] = json!({ target.as_str(): {} });
        body["mappings"]["_meta"] = json!({ "fleetdex": metadata });
        // Another instance may be faster.
        self.create_index("creating an index", &index, &body).await
    }
}
