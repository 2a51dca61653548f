//! Partitions of shared indices: where clusters are placed, and how partitions are added, named,
//! removed and emptied.

use std::collections::{BTreeMap, BTreeSet};

use fleetdex_core::{
    model::{ClusterName, IndexName, JsonLine, Partition},
    planted::{Bug, planted},
};
use http::Method;
use serde::{
    Deserialize,
    de::{DeserializeOwned, IgnoredAny},
};
use serde_json::{Value, json};

use super::{
    client::{BULK_TIMEOUT, Call, parse},
    engine::Engine,
    index_template::revision_index,
    placement::{IndexPlace, PlacementFacts, has_room, is_scarce},
    responses::Purpose,
    search_response::{RawHit, SearchResponse},
    shared_index::{ClusterPartition, SharedIndex, first_aliases},
    survey::FoundRevision,
    surveyed_index::{IndexMetadata, SharedIndexMetadata},
};
use crate::{
    IndexRevision, ShardUse, StoreError,
    bulk::{self, Verdict},
};

/// How often a change of a shared index is made again because another one was faster: each time at
/// least one of them has succeeded.
const ATTEMPTS: usize = 50;
/// Documents that are deleted by one request.
const DELETIONS: usize = 5_000;
/// Clusters whose documents are counted: more than there can be.
const COUNTED_CLUSTERS: usize = 50_000;
/// What OpenSearch (3.4, 2.19) says if an alias that has to exist does not: when it reads the
/// request, or when it applies it, after another one.
const ALIAS_MISSING: [&str; 2] = ["aliases_not_found_exception", "required alias ["];

#[derive(Deserialize)]
struct ClusterHealth {
    #[serde(default)]
    active_shards: u64,
    #[serde(default)]
    initializing_shards: u64,
    #[serde(default)]
    unassigned_shards: u64,
    number_of_data_nodes: u64,
}

/// `cluster.max_shards_per_node` of `/_cluster/settings`.
#[derive(Deserialize)]
struct LimitSettings {
    #[serde(default)]
    transient: LimitScope,
    #[serde(default)]
    persistent: LimitScope,
    #[serde(default)]
    defaults: LimitScope,
}

#[derive(Deserialize, Default)]
struct LimitScope {
    #[serde(default)]
    cluster: ShardLimit,
}

#[derive(Deserialize, Default)]
struct ShardLimit {
    max_shards_per_node: Option<String>,
}

/// The documents of each cluster, of an aggregation.
#[derive(Deserialize)]
struct CountedClusters {
    buckets: Vec<CountedCluster>,
}

#[derive(Deserialize)]
struct CountedCluster {
    key: CountedKey,
    doc_count: u64,
}

#[derive(Deserialize)]
struct CountedKey {
    cluster: Option<String>,
}

/// OpenSearch's default of `cluster.max_shards_per_node`.
const SHARDS_PER_NODE: u64 = 1_000;

impl IndexPlace {
    /// Where the documents of a revision are.
    pub(super) fn of(revision: &IndexRevision) -> Self {
        if revision.target.partition().is_some() {
            Self::Shared
        } else {
            Self::Own
        }
    }
}

/// A document of a removed partition.
type StrayHit = RawHit<IgnoredAny>;

impl Engine {
    /// Where the documents of a cluster belong, whose newest revision this is.
    pub(super) async fn place(
        &self,
        cluster: &ClusterName,
        newest: Option<&IndexRevision>,
    ) -> Result<IndexPlace, StoreError> {
        let current = newest.map(IndexPlace::of);
        let rules = &self.options.placement;
        if !rules.is_packing && current != Some(IndexPlace::Shared) {
            return Ok(IndexPlace::Own);
        }
        let shards = self.read_shard_use().await?;
        let clusters = self.placement.expected_clusters();
        let of_index = self.options.settings.shards_of_index();
        Ok(rules.place(PlacementFacts {
            current,
            documents: self.placement.documents(cluster),
            is_scarce: is_scarce(clusters, of_index, shards, rules.shards_percent),
            has_room: has_room(of_index, shards),
        }))
    }

    /// The use of shards, read again once in the interval of placement.
    async fn read_shard_use(&self) -> Result<ShardUse, StoreError> {
        if let Some(shards) = self.placement.shards(self.options.placement.interval) {
            return Ok(shards);
        }
        let operation = "reading the number of shards";
        let health = "/_cluster/health?filter_path=active_shards,initializing_shards,unassigned_shards,number_of_data_nodes";
        let health: Option<ClusterHealth> = self.read_permitted(operation, health).await?;
        let settings =
            "/_cluster/settings?include_defaults=true&filter_path=*.cluster.max_shards_per_node";
        let settings: Option<LimitSettings> = self.read_permitted(operation, settings).await?;
        let per_node = settings.and_then(|settings| {
            let LimitSettings {
                transient,
                persistent,
                defaults,
            } = settings;
            [transient, persistent, defaults]
                .into_iter()
                .find_map(|scope| scope.cluster.max_shards_per_node?.parse().ok())
        });
        let nodes = health
            .as_ref()
            .map_or(1, |health| health.number_of_data_nodes);
        let shards = ShardUse {
            used: health.map_or(0, |health| {
                health.active_shards + health.initializing_shards + health.unassigned_shards
            }),
            limit: nodes.saturating_mul(per_node.unwrap_or(SHARDS_PER_NODE)),
        };
        self.placement.set_shards(shards);
        Ok(shards)
    }

    /// `None` if the user has no right to read it, or the service (as some of AWS do) does not offer
    /// it.
    async fn read_permitted<T: DeserializeOwned>(
        &self,
        operation: &str,
        path: &str,
    ) -> Result<Option<T>, StoreError> {
        match self.get_optional(operation, path.to_owned()).await {
            Ok(Some(body)) => parse(operation, &body).map(Some),
            Ok(None)
            | Err(StoreError::Unauthorized { status: 403, .. } | StoreError::Refused { .. }) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The clusters of those live revisions that belong elsewhere, a few at a time.
    pub(super) async fn find_misplaced(
        &self,
        revisions: &[IndexRevision],
    ) -> Result<BTreeSet<ClusterName>, StoreError> {
        let rules = &self.options.placement;
        if revisions.is_empty() || !self.placement.is_due(rules.interval) {
            return Ok(BTreeSet::new());
        }
        let shards = self.read_shard_use().await?;
        let clusters = self.placement.expected_clusters();
        let of_index = self.options.settings.shards_of_index();
        let is_scarce = is_scarce(clusters, of_index, shards, rules.shards_percent);
        let is_shared = |revision: &IndexRevision| IndexPlace::of(revision) == IndexPlace::Shared;
        let may_move_in = is_scarce && rules.is_packing;
        if !may_move_in && !revisions.iter().any(is_shared) {
            return Ok(BTreeSet::new());
        }
        self.placement.set_documents(self.count_documents().await?);
        let mut misplaced = BTreeSet::new();
        for revision in revisions.iter().filter(|revision| revision.live) {
            let place = self.place(&revision.cluster, Some(revision)).await?;
            if place != IndexPlace::of(revision) && self.placement.begin_move(&revision.cluster) {
                misplaced.insert(revision.cluster.clone());
            }
        }
        Ok(misplaced)
    }

    /// The visible documents of each cluster.
    async fn count_documents(&self) -> Result<BTreeMap<ClusterName, u64>, StoreError> {
        let source =
            json!({ "cluster": { "terms": { "field": "cluster", "missing_bucket": true } } });
        let clusters = json!({ "composite": { "size": COUNTED_CLUSTERS, "sources": [source] } });
        let body =
            json!({ "size": 0, "track_total_hits": false, "aggs": { "clusters": clusters } });
        let path = format!(
            "/{}/_search?ignore_unavailable=true&allow_no_indices=true",
            self.options.prefix.all()
        );
        let answer: SearchResponse<IgnoredAny> =
            self.run_search(Purpose::Upkeep, path, &body).await?;
        let Some(mut aggregations) = answer.aggregations else {
            return Ok(BTreeMap::new());
        };
        let counted: CountedClusters = serde_json::from_value(aggregations["clusters"].take())
            .map_err(|error| StoreError::Garbled {
                operation: "a search".to_owned(),
                reason: error.to_string(),
            })?;
        let of_cluster =
            |counted: CountedCluster| Some((counted.key.cluster?.parse().ok()?, counted.doc_count));
        Ok(counted.buckets.into_iter().filter_map(of_cluster).collect())
    }

    /// The shared indices of this installation that match a pattern, with their metadata.
    pub(super) async fn shared_indices(
        &self,
        pattern: &str,
    ) -> Result<Vec<(SharedIndex, SharedIndexMetadata)>, StoreError> {
        let prefix = &self.options.prefix;
        let found = self.survey(pattern).await?;
        let own = found.iter().filter(|found| self.is_own(found));
        Ok(own
            .filter_map(|found| Some((SharedIndex::of(found, prefix), found.shared()?.clone())))
            .collect())
    }

    /// Adds a partition for a revision to a shared index that has room, or to a new one. False if
    /// another instance has added one.
    pub(super) async fn create_partition(
        &self,
        metadata: IndexMetadata,
    ) -> Result<bool, StoreError> {
        let operation = "adding a partition";
        let required = SharedIndexMetadata {
            owner: metadata.owner,
            mapping_version: metadata.mapping_version,
            projection: metadata.projection,
        };
        let added = ClusterPartition {
            cluster: metadata.cluster,
            uid: metadata.uid,
            revision: metadata.revision,
            is_written: true,
            visible: None,
        };
        let prefix = &self.options.prefix;
        let _change = self.placement.begin_change().await;
        for _ in 0..ATTEMPTS {
            let own = self.indices_of(&added.cluster).await?;
            let is_newer = |other: &FoundRevision| other.revision.number >= added.revision;
            if self.revisions_of(&added.cluster, &own).iter().any(is_newer) {
                return Ok(false);
            }
            let is_added = match self.shared_index_with_room(&required).await? {
                Some(chosen) => {
                    let mut change = chosen.change();
                    change.add(added.clone());
                    match change.actions(prefix) {
                        Some(actions) => self.try_change(operation, &actions).await?,
                        None => false,
                    }
                }
                None => {
                    // A number that none has had before: a request that deletes another index may
                    // arrive late.
                    let index = prefix.shared_index(fastrand::u32(1..).into());
                    self.create_shared_index(&index, &required, &added).await?
                }
            };
            if is_added {
                return Ok(true);
            }
        }
        Err(too_many_changes(operation))
    }

    /// A shared index with this metadata and room for a further partition. The one that had room
    /// last time is looked at first: all of them have the aliases of all clusters.
    async fn shared_index_with_room(
        &self,
        required: &SharedIndexMetadata,
    ) -> Result<Option<SharedIndex>, StoreError> {
        let every_index = self.options.prefix.every_shared_index();
        let clusters = self.options.placement.clusters_per_index;
        for looked_at in self.placement.with_room().into_iter().chain([every_index]) {
            let shared = self.shared_indices(looked_at.as_str()).await?;
            let chosen = shared
                .into_iter()
                .find(|(shared, metadata)| metadata == required && shared.has_room(clusters));
            if let Some((chosen, _)) = chosen {
                self.placement.set_with_room(chosen.index.clone());
                return Ok(Some(chosen));
            }
        }
        Ok(None)
    }

    /// Creates a shared index with its first partition; false if it existed already.
    async fn create_shared_index(
        &self,
        index: &IndexName,
        metadata: &SharedIndexMetadata,
        first: &ClusterPartition,
    ) -> Result<bool, StoreError> {
        let mut body = revision_index(&self.options.settings, &self.options.fields);
        body["aliases"] = first_aliases(index, first, &self.options.prefix);
        body["mappings"]["_meta"] = json!({ "fleetdex": metadata });
        let is_new = self
            .create_index("creating a shared index", index, &body)
            .await?;
        if is_new {
            tracing::info!(%index, "created an index that small clusters share");
        }
        Ok(is_new)
    }

    /// Sends a change of aliases that was made from the state of shared indices; false if that state
    /// is not the current one.
    pub(super) async fn try_change(
        &self,
        operation: &str,
        actions: &[Value],
    ) -> Result<bool, StoreError> {
        match self.change_aliases(operation, actions).await {
            Ok(()) => Ok(true),
            Err(StoreError::Refused { reason, .. })
                if ALIAS_MISSING.iter().any(|missing| reason.contains(missing)) =>
            {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Changes the partitions of the shared index that has the one of a revision, and returns that
    /// index. `None` if there is no such partition.
    async fn change_partition(
        &self,
        operation: &str,
        revision: &IndexRevision,
        change: impl Fn(&mut BTreeMap<Partition, ClusterPartition>, Partition) + Sync,
    ) -> Result<Option<IndexName>, StoreError> {
        let Some(partition) = revision.target.partition() else {
            return Ok(None);
        };
        let prefix = &self.options.prefix;
        let _change = self.placement.begin_change().await;
        // One of them may be lost.
        let aliases = format!(
            "{},{}",
            revision.target,
            prefix.cluster_alias(&revision.cluster)
        );
        for _ in 0..ATTEMPTS {
            let shared = self.shared_indices(&aliases).await?;
            let has_it = |(shared, _): &&(SharedIndex, SharedIndexMetadata)| {
                shared.partition_of(revision).is_some()
            };
            let Some((shared, _)) = shared.iter().find(has_it) else {
                return Ok(None);
            };
            let mut changed = shared.change();
            change(&mut changed.after, partition);
            let Some(actions) = changed.actions(prefix) else {
                return Ok(None);
            };
            if self.try_change(operation, &actions).await? {
                return Ok(Some(shared.index.clone()));
            }
        }
        Err(too_many_changes(operation))
    }

    /// Completes a partition: its write alias, and the UID of its cluster.
    pub(super) async fn complete_partition(
        &self,
        revision: &IndexRevision,
        uid: Option<&str>,
    ) -> Result<(), StoreError> {
        let complete = |partitions: &mut BTreeMap<Partition, ClusterPartition>, partition| {
            if let Some(completed) = partitions.get_mut(&partition) {
                completed.is_written = true;
                completed.uid = uid.map(str::to_owned).or(completed.uid.take());
            }
        };
        self.change_partition("completing a partition", revision, complete)
            .await
            .map(drop)
    }

    /// Removes a partition. No query sees its documents then; a sweep deletes them, or the index if
    /// it has no other partition.
    pub(super) async fn delete_partition(
        &self,
        revision: &IndexRevision,
    ) -> Result<(), StoreError> {
        let remove = |partitions: &mut BTreeMap<Partition, ClusterPartition>, partition| {
            partitions.remove(&partition);
            if planted(Bug::DropTheNeighbour) {
                partitions.pop_first();
            }
        };
        let changed = self
            .change_partition("removing a partition", revision, remove)
            .await?;
        if let Some(index) = changed {
            tracing::info!(cluster = %revision.cluster, %index, "removed a cluster from a shared index");
        }
        Ok(())
    }

    /// Deletes documents that no partition has, and shared indices without partitions.
    pub(super) async fn sweep_shared_indices(&self, pattern: &str) -> Result<(), StoreError> {
        // One index that fails does not keep the others from being swept.
        let mut outcome = Ok(());
        for (shared, _) in self.shared_indices(pattern).await? {
            let swept = if shared.partitions.is_empty() {
                self.delete_shared_index(&shared).await
            } else {
                self.sweep_shared_index(&shared).await
            };
            outcome = outcome.and(swept);
        }
        outcome
    }

    async fn delete_shared_index(&self, shared: &SharedIndex) -> Result<(), StoreError> {
        let index = &shared.index;
        let operation = "deleting a shared index";
        if let Some(actions) = shared.restoring() {
            self.try_change(operation, &actions).await?;
            return Err(too_many_changes(operation));
        }
        if let Some(actions) = shared.closing()
            && !self.try_change(operation, &actions).await?
        {
            // A partition was added meanwhile.
            return Ok(());
        }
        let path = format!("/{index}?ignore_unavailable=true");
        self.send(operation, Method::DELETE, path, None).await?;
        tracing::info!(%index, "deleted a shared index without partitions");
        Ok(())
    }

    /// Deletes the documents of partitions that were removed before. What a partition gets that is
    /// added meanwhile stays: its number is higher than the version that was read.
    async fn sweep_shared_index(&self, shared: &SharedIndex) -> Result<(), StoreError> {
        let index = &shared.index;
        self.refresh_index(index).await?;
        let body = json!({
            "size": DELETIONS,
            "query": { "bool": { "must_not": [{ "terms": { "_routing": shared.routings() } }] } },
            "_source": false,
            "track_total_hits": false,
        });
        loop {
            let path = format!(
                "/{index}/_search?filter_path=timed_out,_shards,hits.hits._id,hits.hits._routing"
            );
            let found: SearchResponse<IgnoredAny> =
                self.run_search(Purpose::Upkeep, path, &body).await?;
            let strays: Vec<StrayHit> = found
                .hits
                .hits
                .into_iter()
                .filter(|hit| {
                    let routing = hit.routing.as_deref();
                    routing.is_none_or(|routing| shared.is_gone(routing))
                })
                .collect();
            if strays.is_empty() {
                return Ok(());
            }
            tracing::info!(%index, documents = strays.len(), "deleting documents of removed partitions");
            if !self.delete_strays(index, &strays).await? {
                // Another sweep has deleted them, or this search is behind.
                let reason =
                    format!("{index} still shows documents of removed partitions that are deleted");
                return Err(StoreError::Busy {
                    status: 409,
                    reason,
                });
            }
            self.refresh_index(index).await?;
        }
    }

    /// Whether any was there.
    async fn delete_strays(
        &self,
        index: &IndexName,
        strays: &[StrayHit],
    ) -> Result<bool, StoreError> {
        let operation = "deleting documents of removed partitions";
        let lines: Vec<JsonLine> = strays
            .iter()
            .map(|stray| {
                // With an external version it would create the index again that another sweep has
                // deleted.
                let mut action = json!({ "_index": index, "_id": stray.id });
                if let Some(routing) = &stray.routing {
                    action["routing"] = json!(routing);
                }
                JsonLine::new(json!({ "delete": action }).to_string())
            })
            .collect();
        let call = Call {
            operation,
            method: Method::POST,
            path: bulk::PATH.to_owned(),
            body: bulk::joined(&lines),
            timeout: BULK_TIMEOUT,
        };
        let answer = self.client.call(call).await?;
        let verdicts =
            bulk::read_response(&answer, lines.len()).map_err(|error| StoreError::Garbled {
                operation: operation.to_owned(),
                reason: error.to_string(),
            })?;
        let is_done = |verdict: &Verdict| {
            matches!(
                verdict,
                Verdict::Deleted | Verdict::Absent | Verdict::Superseded | Verdict::IndexMissing(_)
            )
        };
        let is_any = verdicts.contains(&Verdict::Deleted);
        match verdicts.into_iter().find(|verdict| !is_done(verdict)) {
            None => Ok(is_any),
            Some(refused) => Err(StoreError::Busy {
                status: 429,
                reason: format!("{operation}: {refused:?}"),
            }),
        }
    }
}

pub(super) fn too_many_changes(operation: &str) -> StoreError {
    StoreError::Busy {
        status: 409,
        reason: format!("{operation}: the aliases of a shared index keep changing"),
    }
}
