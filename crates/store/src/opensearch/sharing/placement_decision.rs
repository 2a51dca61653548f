//! Decides the places of clusters by what OpenSearch says of its shards and documents.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::Ordering,
    time::Duration,
};

use async_trait::async_trait;
use fleetdex_core::model::{ClusterName, index_fields};
use serde::{
    Deserialize,
    de::{DeserializeOwned, IgnoredAny},
};
use serde_json::json;
use tokio::time::Instant;

use super::{
    placement_rules::{IndexPlace, PlacementFacts},
    placement_state::{has_room, is_scarce},
};
use crate::{
    IndexRevision, IndexSharing, ShardUse, StoreError,
    opensearch::{
        connection::{client::parse, responses::Purpose},
        engine::Engine,
        read::search_response::SearchResponse,
    },
};

/// Clusters whose documents are counted: more than there can be.
const COUNTED_CLUSTERS: usize = 50_000;

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
    pub(crate) fn of(revision: &IndexRevision) -> Self {
        if revision.target.partition().is_some() {
            Self::Shared
        } else {
            Self::Own
        }
    }
}

impl Engine {
    /// Where the documents of a cluster belong, whose newest revision this is.
    pub(crate) async fn place(
        &self,
        cluster: &ClusterName,
        newest: Option<&IndexRevision>,
    ) -> Result<IndexPlace, StoreError> {
        let current = newest.map(IndexPlace::of);
        let rules = &self.options.placement;
        if !rules.shares_indices && current != Some(IndexPlace::Shared) {
            return Ok(IndexPlace::Own);
        }
        let shards = self.read_shard_use().await?;
        let clusters = self.placement.0.expected.load(Ordering::Relaxed);
        let of_index = self.options.settings.shards_of_index();
        Ok(rules.place(PlacementFacts {
            current,
            documents: self
                .placement
                .0
                .state
                .lock()
                .documents
                .get(cluster)
                .copied(),
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
            [settings.transient, settings.persistent, settings.defaults]
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
        self.placement.0.state.lock().shards = Some((Instant::now(), shards));
        Ok(shards)
    }

    /// `None` if the user has no right to read it, or the service (as some of AWS do) does not
    /// offer it.
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

    /// The visible documents of each cluster.
    async fn count_documents(&self) -> Result<BTreeMap<ClusterName, u64>, StoreError> {
        let source = json!({ "cluster": { "terms": { "field": index_fields::CLUSTER, "missing_bucket": true } } });
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
            .map_err(|error| StoreError::garbled("a search", error))?;
        let of_cluster =
            |counted: CountedCluster| Some((counted.key.cluster?.parse().ok()?, counted.doc_count));
        Ok(counted.buckets.into_iter().filter_map(of_cluster).collect())
    }
}

#[async_trait]
impl IndexSharing for Engine {
    fn expect_clusters(&self, clusters: usize) {
        self.placement.0.expected.store(clusters, Ordering::Relaxed);
    }

    /// A few at a time.
    async fn misplaced(
        &self,
        revisions: &[IndexRevision],
    ) -> Result<BTreeSet<ClusterName>, StoreError> {
        let rules = &self.options.placement;
        if revisions.is_empty() || !self.placement.is_due(rules.interval) {
            return Ok(BTreeSet::new());
        }
        let shards = self.read_shard_use().await?;
        let clusters = self.placement.0.expected.load(Ordering::Relaxed);
        let of_index = self.options.settings.shards_of_index();
        let is_scarce = is_scarce(clusters, of_index, shards, rules.shards_percent);
        let is_shared = |revision: &IndexRevision| IndexPlace::of(revision) == IndexPlace::Shared;
        let may_move_in = is_scarce && rules.shares_indices;
        if !may_move_in && !revisions.iter().any(is_shared) {
            return Ok(BTreeSet::new());
        }
        let documents = self.count_documents().await?;
        self.placement.0.state.lock().documents = documents;
        let mut misplaced = BTreeSet::new();
        for revision in revisions.iter().filter(|revision| revision.live) {
            let place = self.place(&revision.cluster, Some(revision)).await?;
            if place != IndexPlace::of(revision) && self.placement.begin_move(&revision.cluster) {
                misplaced.insert(revision.cluster.clone());
            }
        }
        Ok(misplaced)
    }

    async fn sweep(&self) -> Result<(), StoreError> {
        let every_shared_index = self.options.prefix.every_shared_index();
        self.sweep_shared_indices(every_shared_index.as_str()).await
    }

    fn shard_use(&self) -> Option<ShardUse> {
        self.placement.shards(Duration::MAX)
    }
}
