//! Opening of index revisions: adopts the newest one if it fits, or creates the next.

use std::sync::Arc;

use fleetdex_core::model::ClusterName;
use http::Method;
use serde_json::json;

use crate::{
    CheckpointStore as _, IndexRevision, StoreError,
    opensearch::{
        engine::Engine,
        indices::{
            index_template::{MAPPING_VERSION, revision_index},
            survey::FoundRevision,
            surveyed_index::IndexMetadata,
        },
        sharing::placement_rules::IndexPlace,
    },
};

/// How often another instance may create the next revision first before it is an error.
const ATTEMPTS: usize = 5;

impl Engine {
    /// Returns the newest revision if it fits, or else creates the next one.
    pub(crate) async fn open_revision(
        &self,
        cluster: &ClusterName,
        uid: Option<&str>,
        above: u64,
    ) -> Result<IndexRevision, StoreError> {
        let _turn = self.contexts.0.openings.acquire().await;
        let _in_use = self.keep_in_use().await?;
        self.withdraw_deletions(cluster).await?;
        let remembered = self
            .checkpoints(cluster)
            .await?
            .map_or(0, |checkpoints| checkpoints.revision);
        for _ in 0..ATTEMPTS {
            let mut found = self.own_revisions_of(cluster).await?;
            found.sort_by(|left, right| {
                let key =
                    |found: &FoundRevision| (found.revision.number, Arc::clone(&found.revision.id));
                key(left).cmp(&key(right))
            });
            let newest = found.pop();
            let place = self
                .place(cluster, newest.as_ref().map(|newest| &newest.revision))
                .await?;
            let highest = newest.as_ref().map_or(0, |newest| newest.revision.number);
            // Instances that do not know of each other can make the same revision in two shared
            // indices: an alias that both have takes no writes, and none of them replaces the
            // other. The one that comes second sees both, and makes a later one.
            let is_alone = |newest: &FoundRevision| {
                found
                    .last()
                    .is_none_or(|other| other.revision.number < newest.revision.number)
            };
            if let Some(newest) = newest
                && newest.revision.number > above
                && is_alone(&newest)
                && self.fits(&newest.metadata, uid)
                && place == IndexPlace::of(&newest.revision)
            {
                let replaces = found.into_iter().rfind(|other| other.is_read);
                let replaces = replaces.map(|other| Box::new(other.revision));
                let mut adopted = self.adopt(newest, uid).await?;
                // An older revision that answers beside a live one was restored from a snapshot.
                // The next activation removes it.
                adopted.live &= replaces.is_none();
                if adopted.is_read() {
                    let shown = (!adopted.live).then(|| adopted.shown.clone());
                    self.feed.note_live(cluster, &adopted.target, shown);
                }
                adopted.replaces = replaces;
                return Ok(adopted);
            }
            let number = highest.max(above).max(remembered) + 1;
            let metadata = self.metadata(cluster, uid, number);
            let created = match place {
                IndexPlace::Own => self.create_revision(metadata).await?,
                IndexPlace::Shared => self.create_partition(metadata).await?,
            };
            if created {
                tracing::info!(%cluster, number, ?place, "created an index revision");
            }
        }
        let reason = format!(
            "the indices of cluster {cluster} keep changing; is another installation at work?"
        );
        Err(StoreError::busy(409, reason))
    }

    fn metadata(&self, cluster: &ClusterName, uid: Option<&str>, number: u64) -> IndexMetadata {
        IndexMetadata {
            cluster: cluster.clone(),
            owner: self.options.owner.clone(),
            uid: uid.map(str::to_owned),
            revision: number,
            mapping_version: MAPPING_VERSION,
            projection: self.options.projection.clone(),
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
        found: FoundRevision,
        uid: Option<&str>,
    ) -> Result<IndexRevision, StoreError> {
        let (revision, metadata, is_written) = (found.revision, found.metadata, found.is_written);
        let is_unnamed = metadata.uid.is_none() && uid.is_some();
        if revision.target.partition().is_some() {
            if !is_written || is_unnamed {
                self.complete_partition(&revision, uid).await?;
            }
            return Ok(revision);
        }
        if !is_written {
            let action = json!({ "add": { "index": revision.index, "alias": revision.target } });
            self.change_aliases("restoring an alias", &[action]).await?;
        }
        if is_unnamed {
            let uid = uid.map(str::to_owned);
            let body = json!({ "_meta": { "fleetdex": IndexMetadata { uid, ..metadata } } });
            let operation = "naming the cluster of an index";
            let path = format!("/{}/_mapping", revision.index);
            self.send(operation, Method::PUT, path, Some(&body)).await?;
        }
        Ok(revision)
    }

    /// Creates an index of its own for a revision; false if it existed already.
    async fn create_revision(&self, metadata: IndexMetadata) -> Result<bool, StoreError> {
        let IndexMetadata {
            cluster, revision, ..
        } = &metadata;
        let index = self.options.prefix.revision(cluster, *revision);
        let target = self.options.prefix.write_alias(cluster, *revision);
        let mut body = revision_index(&self.options.settings, &self.options.fields);
        body["aliases"] = json!({ target.as_str(): {} });
        body["mappings"]["_meta"] = json!({ "fleetdex": metadata });
        // Another instance may be faster.
        self.create_index("creating an index", &index, &body).await
    }
}
