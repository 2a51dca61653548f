//! The `Store` over OpenSearch.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use super::{
    client::{Call, Client, parse},
    extent::extent_queries,
    template::{IndexSettings, MAPPING_VERSION, index_template, mappings},
    transport::OpenSearchService,
};
use crate::{
    bulk::{self, Verdict, Write},
    model::{ClusterName, FieldPath, IndexName, IndexPrefix, restore},
    query::{
        Cursor, Hit, Page, Query,
        dsl::{self, Paging, Snapshot},
    },
    store::{Extent, Store, StoreError, Visit},
};

/// A bulk of 2 MiB takes tens of milliseconds; a node that collects garbage or merges may take much longer.
const BULK_TIMEOUT: Duration = Duration::from_mins(1);
const SEARCH_TIMEOUT: Duration = Duration::from_secs(30);
const ADMIN_TIMEOUT: Duration = Duration::from_secs(30);
/// Most hits that OpenSearch returns in one page (`index.max_result_window`).
const VERSIONS_PAGE: usize = 10_000;
/// How long the view of a paged answer outlives its last page.
const PIT_KEEP_ALIVE: &str = "5m";

/// How an engine names and shapes its indices.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// What every index and alias starts with.
    pub prefix: IndexPrefix,
    /// Settings of new indices.
    pub settings: IndexSettings,
    /// Selectable fields that get a mapping of their own.
    pub fields: Vec<FieldPath>,
    /// Hash of the projection that the documents are made with.
    pub projection: String,
    /// This installation; indices of others are never dropped.
    pub owner: String,
    /// For error messages.
    pub address: String,
}

/// Documents in OpenSearch.
#[derive(Clone)]
pub struct Engine {
    client: Client,
    options: EngineOptions,
}

#[derive(Deserialize)]
struct Mapping {
    mappings: Option<Meta>,
}

#[derive(Deserialize)]
struct Meta {
    #[serde(rename = "_meta")]
    meta: Option<FleetdexMeta>,
}

#[derive(Deserialize)]
struct FleetdexMeta {
    fleetdex: Option<IndexIdentity>,
}

#[derive(Deserialize)]
struct IndexIdentity {
    cluster: ClusterName,
    owner: String,
}

#[derive(Deserialize)]
struct PointInTime {
    pit_id: String,
}

#[derive(Deserialize)]
struct SearchAnswer {
    timed_out: bool,
    #[serde(rename = "_shards")]
    shards: Shards,
    pit_id: Option<String>,
    hits: Hits,
}

#[derive(Deserialize)]
struct Shards {
    failed: u64,
}

#[derive(Deserialize)]
struct Hits {
    total: Option<Total>,
    hits: Vec<RawHit>,
}

#[derive(Deserialize)]
struct Total {
    value: u64,
}

#[derive(Deserialize)]
struct RawHit {
    #[serde(rename = "_id")]
    id: String,
    #[serde(rename = "_version")]
    version: Option<u64>,
    #[serde(rename = "_source")]
    source: Option<Box<RawValue>>,
    #[serde(default)]
    sort: Vec<Value>,
}

impl Engine {
    /// An engine over a service.
    pub fn new(service: OpenSearchService, options: EngineOptions) -> Self {
        Self { client: Client::new(service, options.address.clone()), options }
    }

    async fn send(&self, operation: &str, method: Method, path: String, body: Option<&Value>) -> Result<Bytes, StoreError> {
        let timeout = if path.contains("_search") { SEARCH_TIMEOUT } else { ADMIN_TIMEOUT };
        let body = body.map_or_else(Bytes::new, |body| Bytes::from(body.to_string()));
        self.client.call(Call { operation, method, path, body, timeout }).await
    }

    async fn get_optional(&self, operation: &str, path: String) -> Result<Option<Bytes>, StoreError> {
        self.client.call_optional(Call { operation, method: Method::GET, path, body: Bytes::new(), timeout: ADMIN_TIMEOUT }).await
    }

    /// The indices under an alias.
    async fn indices(&self, alias: &IndexName) -> Result<Vec<String>, StoreError> {
        let operation = "reading an alias";
        let Some(body) = self.get_optional(operation, format!("/_alias/{alias}")).await? else { return Ok(Vec::new()) };
        let answer: BTreeMap<String, Value> = parse(operation, &body)?;
        Ok(answer.into_keys().collect())
    }

    async fn open_pit(&self, target: &str) -> Result<String, StoreError> {
        let operation = "opening a point in time";
        // A partial view would look like deleted documents.
        let path = format!(
            "/{target}/_search/point_in_time?keep_alive={PIT_KEEP_ALIVE}&allow_partial_pit_creation=false&ignore_unavailable=true"
        );
        let body = self.send(operation, Method::POST, path, None).await?;
        Ok(parse::<PointInTime>(operation, &body)?.pit_id)
    }

    async fn close_pit(&self, pit: &str) {
        let body = json!({ "pit_id": [pit] });
        let path = "/_search/point_in_time".to_owned();
        if let Err(error) = self.send("closing a point in time", Method::DELETE, path, Some(&body)).await {
            tracing::debug!(%error, "a point in time stays until it expires");
        }
    }

    async fn run_search(&self, path: String, body: &Value) -> Result<SearchAnswer, StoreError> {
        let operation = "a search";
        let answer: SearchAnswer = parse(operation, &self.send(operation, Method::POST, path, Some(body)).await?)?;
        if answer.timed_out || answer.shards.failed > 0 {
            let reason = format!("{} shards failed, timed out: {}", answer.shards.failed, answer.timed_out);
            return Err(StoreError::Busy { status: 503, reason });
        }
        Ok(answer)
    }

    async fn visit_pit(&self, pit: &str, query: &Value, visit: Visit<'_>) -> Result<(), StoreError> {
        let mut pit = pit.to_owned();
        let mut after: Option<Vec<Value>> = None;
        loop {
            let mut body = json!({
                "size": VERSIONS_PAGE,
                "pit": { "id": pit, "keep_alive": PIT_KEEP_ALIVE },
                "query": query,
                // What the id is made of: unique within a cluster. `_shard_doc` is not known to OpenSearch 2.
                "sort": [{ "metadata.uid": "asc" }, { "apiVersion": "asc" }, { "kind": "asc" }],
                "_source": false,
                "version": true,
                "track_total_hits": false,
            });
            if let Some(after) = after {
                body["search_after"] = json!(after);
            }
            let answer = self.run_search("/_search".to_owned(), &body).await?;
            for hit in &answer.hits.hits {
                // The store's own counter starts at 1, so there is always a version to compare.
                if let Some(Ok(version)) = hit.version.map(|version| version.to_string().parse()) {
                    visit(&hit.id, version);
                }
            }
            if answer.hits.hits.len() < VERSIONS_PAGE {
                return Ok(());
            }
            after = answer.hits.hits.into_iter().next_back().map(|hit| hit.sort);
            pit = answer.pit_id.unwrap_or(pit);
        }
    }

    /// Where a query looks: the aliases of its clusters, or the alias over all.
    fn target(&self, query: &Query) -> String {
        if query.clusters.is_empty() {
            return self.options.prefix.as_str().to_owned();
        }
        query.clusters.iter().map(|cluster| self.alias(cluster).to_string()).collect::<Vec<_>>().join(",")
    }

    /// One page and, with it, one object more, which tells whether another page follows.
    async fn page(
        &self,
        query: &Query,
        path: &str,
        snapshot: Option<&str>,
        after: &[Value],
        count: bool,
    ) -> Result<SearchAnswer, StoreError> {
        let keep_alive = || PIT_KEEP_ALIVE.to_owned();
        let paging = Paging {
            snapshot: snapshot.map(|id| Snapshot { id: id.to_owned(), keep_alive: keep_alive() }),
            after: after.to_vec(),
            look_ahead: true,
            count_total: count,
        };
        let body = dsl::request_body(query, &paging).map_err(|error| StoreError::Invalid(error.to_string()))?;
        let answer = self.run_search(path.to_owned(), &body).await;
        match answer {
            // A view ends with any of its indices.
            Err(StoreError::Refused { status: 404, .. }) if snapshot.is_some() => Err(StoreError::Expired),
            other => other,
        }
    }

    async fn first_page(&self, query: &Query) -> Result<Page, StoreError> {
        let target = self.target(query);
        let path = format!("/{target}/_search?ignore_unavailable=true&allow_no_indices=true");
        let answer = self.page(query, &path, None, &[], false).await?;
        if answer.hits.hits.len() <= query.limit {
            return read_page(answer, query.limit, None);
        }
        // Only an answer of several pages needs a frozen view.
        let pit = self.open_pit(&target).await?;
        let answer = self.page(query, "/_search", Some(&pit), &[], true).await?;
        self.finish_page(answer, query.limit, pit).await
    }

    /// The page, and the view closed if it was the last one.
    async fn finish_page(&self, answer: SearchAnswer, limit: usize, pit: String) -> Result<Page, StoreError> {
        let pit = answer.pit_id.clone().unwrap_or(pit);
        let page = read_page(answer, limit, Some(&pit))?;
        if page.next.is_none() {
            self.close_pit(&pit).await;
        }
        Ok(page)
    }
}

#[async_trait]
impl Store for Engine {
    async fn prepare(&self) -> Result<(), StoreError> {
        let prefix = &self.options.prefix;
        let template = index_template(prefix, &self.options.settings, &self.options.fields);
        let path = format!("/_index_template/{prefix}", prefix = prefix.as_str());
        self.send("writing the index template", Method::PUT, path, Some(&template)).await?;
        // Indices from before keep their documents; new fields are added to their mapping.
        for cluster in self.clusters().await? {
            self.add_fields(&cluster).await?;
        }
        Ok(())
    }

    async fn lost(&self, ensured: &BTreeSet<ClusterName>) -> Result<BTreeSet<ClusterName>, StoreError> {
        #[derive(Deserialize)]
        struct Aliases {
            aliases: BTreeMap<String, Value>,
        }
        let operation = "a health check";
        let path = format!("/_alias/{}-*", self.options.prefix.as_str());
        let body = self.get_optional(operation, path).await?.unwrap_or_else(|| Bytes::from_static(b"{}"));
        let indices: BTreeMap<String, Aliases> = parse(operation, &body)?;
        let present: BTreeSet<&str> = indices.values().flat_map(|index| index.aliases.keys()).map(String::as_str).collect();
        let gone = ensured.iter().filter(|cluster| !present.contains(self.alias(cluster).as_str()));
        Ok(gone.cloned().collect())
    }

    async fn ensure(&self, cluster: &ClusterName) -> Result<(), StoreError> {
        let alias = self.alias(cluster);
        if !self.indices(&alias).await?.is_empty() {
            return Ok(());
        }
        let index = self.options.prefix.generation(cluster, 1);
        let identity = json!({ "fleetdex": {
            "cluster": cluster,
            "owner": self.options.owner,
            "generation": 1,
            "mappingVersion": MAPPING_VERSION,
            "projection": self.options.projection,
        } });
        let body = json!({ "aliases": { alias.as_str(): {} }, "mappings": { "_meta": identity } });
        match self.send("creating an index", Method::PUT, format!("/{index}"), Some(&body)).await {
            Ok(_) => {
                tracing::info!(%cluster, %index, "created an index");
                Ok(())
            }
            // Another request was faster.
            Err(StoreError::Refused { reason, .. }) if reason.contains("resource_already_exists_exception") => {
                let action = json!({ "actions": [{ "add": { "index": index.as_str(), "alias": alias.as_str() } }] });
                self.send("restoring an alias", Method::POST, "/_aliases".to_owned(), Some(&action)).await.map(drop)
            }
            Err(error) => Err(error),
        }
    }

    fn alias(&self, cluster: &ClusterName) -> IndexName {
        self.options.prefix.cluster_alias(cluster)
    }

    async fn write(&self, writes: &[Write]) -> Result<Vec<Verdict>, StoreError> {
        let operation = "a bulk request";
        let path = "/_bulk?filter_path=errors,items.*.status,items.*.error".to_owned();
        let body = bulk::encode(writes);
        let answer = self.client.call(Call { operation, method: Method::POST, path, body, timeout: BULK_TIMEOUT }).await?;
        bulk::read_response(&answer, writes.len())
            .map_err(|error| StoreError::Garbled { operation: operation.to_owned(), reason: error.to_string() })
    }

    async fn visit_versions(&self, cluster: &ClusterName, extent: &Extent, visit: Visit<'_>) -> Result<(), StoreError> {
        let alias = self.alias(cluster);
        if self.indices(&alias).await?.is_empty() {
            return Ok(());
        }
        self.send("refreshing an index", Method::POST, format!("/{alias}/_refresh"), None).await?;
        let pit = self.open_pit(alias.as_str()).await?;
        let mut outcome = Ok(());
        for query in extent_queries(extent) {
            outcome = self.visit_pit(&pit, &query, visit).await;
            if outcome.is_err() {
                break;
            }
        }
        self.close_pit(&pit).await;
        outcome
    }

    async fn clusters(&self) -> Result<Vec<ClusterName>, StoreError> {
        let operation = "reading the mappings";
        let prefix = &self.options.prefix;
        let path = format!(
            "/{prefix}-*.g*/_mapping?allow_no_indices=true&ignore_unavailable=true&filter_path=*.mappings._meta",
            prefix = prefix.as_str()
        );
        let Some(body) = self.get_optional(operation, path).await? else { return Ok(Vec::new()) };
        let indices: BTreeMap<String, Mapping> = parse(operation, &body)?;
        let ours = indices.into_iter().filter_map(|(index, mapping)| {
            let identity = mapping.mappings?.meta?.fleetdex?;
            // The pattern also finds the indices of a longer prefix.
            let of_prefix = index.strip_prefix(self.alias(&identity.cluster).as_str())?.starts_with(".g");
            (of_prefix && identity.owner == self.options.owner).then_some(identity.cluster)
        });
        let mut clusters: Vec<ClusterName> = ours.collect();
        clusters.sort();
        clusters.dedup();
        Ok(clusters)
    }

    async fn drop_cluster(&self, cluster: &ClusterName) -> Result<(), StoreError> {
        for index in self.indices(&self.alias(cluster)).await? {
            self.send("deleting an index", Method::DELETE, format!("/{index}"), None).await?;
            tracing::info!(%cluster, %index, "deleted an index");
        }
        Ok(())
    }

    async fn search(&self, query: &Query, from: Option<&Cursor>) -> Result<Page, StoreError> {
        let Some(cursor) = from else { return self.first_page(query).await };
        let answer = self.page(query, "/_search", Some(&cursor.snapshot), &cursor.after, false).await?;
        self.finish_page(answer, query.limit, cursor.snapshot.clone()).await
    }
}

impl Engine {
    async fn add_fields(&self, cluster: &ClusterName) -> Result<(), StoreError> {
        let mut mapping = mappings(&self.options.fields);
        let body = json!({ "properties": mapping["properties"].take() });
        let path = format!("/{}/_mapping", self.alias(cluster));
        match self.send("extending a mapping", Method::PUT, path, Some(&body)).await {
            // The alias is gone or the field has another mapping there: `ensure` makes the first again, the second stays as it is.
            Err(StoreError::Refused { reason, .. }) => {
                tracing::warn!(%cluster, %reason, "new selectable fields have no mapping of their own in this cluster's index");
                Ok(())
            }
            other => other.map(drop),
        }
    }
}

/// The objects of a page. `snapshot` is the view that further pages are read from.
fn read_page(mut answer: SearchAnswer, limit: usize, snapshot: Option<&str>) -> Result<Page, StoreError> {
    let mut hits = std::mem::take(&mut answer.hits.hits);
    let more = hits.len() > limit;
    hits.truncate(limit);
    let after = hits.last().map(|hit| hit.sort.clone()).unwrap_or_default();
    let items = hits.into_iter().map(read_hit).collect::<Result<Vec<_>, StoreError>>()?;
    let next = snapshot.filter(|_| more).map(|snapshot| Cursor { snapshot: snapshot.to_owned(), after });
    let remaining = answer.hits.total.map(|total| total.value.saturating_sub(items.len() as u64));
    Ok(Page { remaining: remaining.filter(|_| next.is_some()), items, next })
}

fn read_hit(hit: RawHit) -> Result<Hit, StoreError> {
    let garbled = |reason: String| StoreError::Garbled { operation: "a search".to_owned(), reason };
    let source = hit.source.ok_or_else(|| garbled(format!("document {} has no source", hit.id)))?;
    let (cluster, object) = restore(&source).map_err(|error| garbled(format!("document {}: {error}", hit.id)))?;
    Ok(Hit { cluster, object })
}
