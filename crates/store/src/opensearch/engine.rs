//! The engine: a client of one OpenSearch, and how it names and shapes indices.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use fleetdex_core::{
    model::{ClusterName, FieldPath, IndexName, IndexPrefix},
    query::Permitted,
};
use http::Method;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::RwLock;

use super::{
    connection::{
        client::{Call, Client, unparsable},
        responses::{Purpose, ResponseBudget},
        transport::OpenSearchService,
    },
    feed::Feed,
    indices::{
        index_settings::IndexSettings, policy_exclusion::PolicyExclusion, refresh::Refresher,
    },
    read::{
        contexts::ListContexts,
        search_response::{Lack, SearchResponse, Source},
    },
    sharing::{placement_rules::PlacementRules, placement_state::Placement},
};
use crate::{StoreError, changes::Sequence};

const SEARCH_TIMEOUT: Duration = Duration::from_secs(30);
const ADMIN_TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes of a request's path that name its targets. OpenSearch reads a first line of 4,096 bytes
/// (`http.max_initial_line_length`), and the rest of it takes less than 300; an address may have a
/// path of its own.
pub(super) const MAX_TARGET_BYTES: usize = 3_500;

/// Names of indices, joined to lists that fit into a path.
pub(super) fn targets<'n>(names: impl Iterator<Item = &'n str>) -> Vec<String> {
    let mut targets: Vec<String> = Vec::new();
    for name in names {
        match targets.last_mut() {
            Some(target) if target.len() + name.len() < MAX_TARGET_BYTES => {
                target.push(',');
                target.push_str(name);
            }
            _ => targets.push(name.to_owned()),
        }
    }
    targets
}

/// How an engine names and shapes its indices.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// What every index and alias starts with.
    pub prefix: IndexPrefix,
    /// Settings of new indices.
    pub settings: IndexSettings,
    /// Selectable fields that get a mapping of their own.
    pub fields: Vec<FieldPath>,
    /// Changes with anything that changes the documents of an object, or which of their fields can
    /// be searched.
    pub projection: String,
    /// Which clusters share indices.
    pub placement: PlacementRules,
    /// This installation; indices of others are never dropped.
    pub owner: String,
    /// For error messages.
    pub address: String,
}

/// Documents in OpenSearch.
#[derive(Clone)]
pub struct Engine {
    pub(super) client: Client,
    pub(super) options: EngineOptions,
    pub(super) feed: Feed,
    /// The contexts that users hold.
    pub(super) contexts: ListContexts,
    /// Which settings keep policies away from indices.
    pub(super) exclusion: Arc<PolicyExclusion>,
    /// What decides where the documents of clusters are.
    pub(super) placement: Placement,
    /// Whether this process has removed the checkpoint index and the templates, as no registry
    /// names the store. Indices are made under the read lock, so that none is made meanwhile.
    pub(super) is_retired: Arc<RwLock<bool>>,
    /// The newest permit of this process to delete what a cluster has.
    pub(super) permits: Arc<Mutex<BTreeMap<ClusterName, IndexName>>>,
}

/// Reads the copies of the node that gets the request, where it has any. All nodes get requests in
/// turn, so that all of them read, and no document crosses the network between nodes. Without local
/// copies, as on a coordinating node, OpenSearch chooses among the others as ever.
pub(super) const LOCAL_COPIES: &str = "_local";

/// How often a search is sent whose shards are not available. Where an index was replaced while the
/// search ran, the next one finds its successor.
const SEARCH_ATTEMPTS: usize = 3;
/// How long after the one before.
const SEARCH_PAUSE: Duration = Duration::from_millis(50);

/// The path of a search of these indices that is not in a point in time. Missing ones are left out.
pub(super) fn search_path(target: &str) -> String {
    format!(
        "/{target}/_search?ignore_unavailable=true&allow_no_indices=true&preference={LOCAL_COPIES}"
    )
}

impl Engine {
    /// An engine over a service.
    pub fn new(service: OpenSearchService, options: EngineOptions) -> Self {
        Self::feeding(service, options, Feed::new(Sequence::default()))
    }

    /// An engine that records its writes in an existing feed.
    pub fn feeding(service: OpenSearchService, options: EngineOptions, feed: Feed) -> Self {
        Self::reading_into(service, options, feed, ResponseBudget::default())
    }

    /// The same, sharing its memory for responses with other engines of the store.
    pub fn reading_into(
        service: OpenSearchService,
        options: EngineOptions,
        feed: Feed,
        answers: ResponseBudget,
    ) -> Self {
        let client = Client::new(service, answers, options.address.clone());
        feed.refresh_with(Refresher {
            client: client.clone(),
            alias: options.prefix.all(),
        });
        Self {
            client,
            options,
            feed,
            contexts: ListContexts::default(),
            exclusion: Arc::default(),
            placement: Placement::default(),
            is_retired: Arc::default(),
            permits: Arc::default(),
        }
    }

    /// The same, sharing contexts with other engines of the same OpenSearch.
    #[must_use]
    pub fn sharing(self, contexts: ListContexts) -> Self {
        let client = self.client.sharing(contexts.0.queries.clone());
        Self {
            client,
            contexts,
            ..self
        }
    }

    pub(super) async fn send(
        &self,
        operation: &str,
        method: Method,
        path: String,
        body: Option<&Value>,
    ) -> Result<Bytes, StoreError> {
        let timeout = if path.contains("_search") {
            SEARCH_TIMEOUT
        } else {
            ADMIN_TIMEOUT
        };
        let body = body.map_or_else(Bytes::new, |body| Bytes::from(body.to_string()));
        self.client
            .call(Call {
                operation,
                method,
                path,
                body,
                timeout,
            })
            .await
    }

    /// Creates an index; false if it existed already.
    pub(super) async fn create_index(
        &self,
        operation: &str,
        index: &IndexName,
        body: &Value,
    ) -> Result<bool, StoreError> {
        let created = self
            .send_excluding(operation, format!("/{index}"), body, "/settings/index")
            .await;
        match created {
            Ok(()) => Ok(true),
            Err(StoreError::Refused { reason, .. })
                if reason.contains("resource_already_exists_exception") =>
            {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    pub(super) async fn get_optional(
        &self,
        operation: &str,
        path: String,
    ) -> Result<Option<Bytes>, StoreError> {
        self.client
            .call_optional(Call {
                operation,
                method: Method::GET,
                path,
                body: Bytes::new(),
                timeout: ADMIN_TIMEOUT,
            })
            .await
    }

    pub(super) async fn run_search<S: Source>(
        &self,
        purpose: Purpose,
        path: String,
        body: &Value,
    ) -> Result<SearchResponse<S>, StoreError> {
        let documents = body["size"].as_u64().unwrap_or(0);
        let (operation, body) = ("a search", Bytes::from(body.to_string()));
        let client = self.client.with(purpose).asking_for(documents);
        // A search in a point in time names no index.
        let is_in_view = path.starts_with("/_search");
        let mut attempts = 0;
        loop {
            let call = Call {
                operation,
                method: Method::POST,
                path: path.clone(),
                body: body.clone(),
                timeout: SEARCH_TIMEOUT,
            };
            let parse = |body: &[u8]| SearchResponse::parse(body).map_err(unparsable(operation));
            let (mut answer, memory) = client.call_and_parse(call, parse).await?;
            attempts += 1;
            let reason = match answer.lack() {
                None => {
                    // What the operator reads is not counted any more, so that nothing waits for
                    // it.
                    if purpose == Purpose::Question {
                        answer.hold(memory);
                    }
                    return Ok(answer);
                }
                // With the shards their view is gone.
                Some(Lack::Unavailable(_)) if is_in_view => return Err(StoreError::Expired),
                Some(Lack::Unavailable(_)) if attempts < SEARCH_ATTEMPTS => {
                    tokio::time::sleep(SEARCH_PAUSE).await;
                    continue;
                }
                Some(Lack::Unavailable(reason) | Lack::Other(reason)) => reason,
            };
            return Err(StoreError::busy(503, reason));
        }
    }

    /// The targets of a query: the aliases of its clusters, or the alias over all; `None` if the
    /// caller may see none of them. Where the names are too long for a request path, the alias over
    /// all: the query's own conditions keep the other clusters out.
    pub(super) fn target(&self, clusters: &[ClusterName], permitted: &Permitted) -> Option<String> {
        let prefix = &self.options.prefix;
        let Some(clusters) = permitted.clusters(clusters) else {
            return Some(prefix.as_str().to_owned());
        };
        let aliases = clusters
            .iter()
            .map(|cluster| prefix.cluster_alias(cluster).to_string());
        let target = aliases.collect::<Vec<_>>().join(",");
        match target.len() {
            0 => None,
            1..=MAX_TARGET_BYTES => Some(target),
            _ => Some(prefix.as_str().to_owned()),
        }
    }
}
