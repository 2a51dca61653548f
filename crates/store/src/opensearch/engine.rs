//! The `Store` over OpenSearch.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use fleetdex_core::{
    model::{ClusterName, FieldPath, IndexPrefix, InvalidName, Restored, Source, quoted},
    planted::{Bug, planted},
    query::{
        Cursor, GroupKey, Groups, Hit, Page, Permitted, Query, QueryError, Relative, Relatives,
        ResourceName, SortKey,
        dsl::{self, Paging, Snapshot},
        merge::{OrderKey, Placed, PlacedPage},
        owners::MAX_OWNERS,
    },
};
use http::Method;
use serde::{
    Deserialize,
    de::{DeserializeOwned, IgnoredAny},
};
use serde_json::Value;

use super::{
    answers::{Answers, MAX_DOCUMENT_BYTES, Purpose, fewer},
    client::{BULK_TIMEOUT, Call, Client, parse},
    contexts::{KEEP_ALIVE, ListContexts},
    feed::Feed,
    refresh::Refresher,
    template::{IndexSettings, index_template, state_template},
    transport::OpenSearchService,
    visible::Part,
};
use crate::{
    Checkpoints, Extent, Generation, Store, StoreError, Visit,
    bulk::{self, Encoded, Verdict, Write},
    changes::{Log, Sequence},
};

const SEARCH_TIMEOUT: Duration = Duration::from_secs(30);
const ADMIN_TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes of a request's path that name where to look. OpenSearch reads a first line of 4,096 bytes (`http.max_initial_line_length`), and the
/// rest of it takes less than 300; an address may have a path of its own.
const MAX_TARGET_BYTES: usize = 3_500;

/// How an engine names and shapes its indices.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// What every index and alias starts with.
    pub prefix: IndexPrefix,
    /// Settings of new indices.
    pub settings: IndexSettings,
    /// Selectable fields that get a mapping of their own.
    pub fields: Vec<FieldPath>,
    /// Changes with whatever changes the documents of an object, or what of them can be searched.
    pub projection: String,
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
    /// What users hold of it.
    pub(super) contexts: ListContexts,
}

#[derive(Deserialize)]
pub(super) struct SearchAnswer<S> {
    timed_out: bool,
    #[serde(rename = "_shards")]
    shards: Shards,
    pub(super) pit_id: Option<String>,
    #[serde(default = "Hits::none")]
    pub(super) hits: Hits<S>,
    pub(super) aggregations: Option<Value>,
}

#[derive(Deserialize)]
pub(super) struct Shards {
    #[serde(default)]
    pub(super) total: u64,
    failed: u64,
}

#[derive(Deserialize)]
pub(super) struct Hits<S> {
    pub(super) total: Option<Total>,
    #[serde(default = "Vec::new")]
    pub(super) hits: Vec<RawHit<S>>,
}

impl<S> Hits<S> {
    fn none() -> Self {
        Self {
            total: None,
            hits: Vec::new(),
        }
    }
}

#[derive(Deserialize)]
pub(super) struct Total {
    pub(super) value: u64,
}

/// A hit, whose document is read as `S`.
#[derive(Deserialize)]
pub(super) struct RawHit<S> {
    #[serde(rename = "_id")]
    pub(super) id: String,
    #[serde(rename = "_version")]
    pub(super) version: Option<u64>,
    #[serde(rename = "_source")]
    pub(super) source: Option<S>,
    #[serde(default)]
    pub(super) sort: Vec<Value>,
}

impl Engine {
    /// An engine over a service.
    pub fn new(service: OpenSearchService, options: EngineOptions) -> Self {
        Self::feeding(service, options, Feed::new(Sequence::default()))
    }

    /// An engine that tells what it writes to a log that there is already.
    pub fn feeding(service: OpenSearchService, options: EngineOptions, feed: Feed) -> Self {
        Self::reading_into(service, options, feed, Answers::default())
    }

    /// The same, with memory for its answers that other engines of the store have, too.
    pub fn reading_into(
        service: OpenSearchService,
        options: EngineOptions,
        feed: Feed,
        answers: Answers,
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
        }
    }

    /// The same, where other engines have the same OpenSearch.
    #[must_use]
    pub fn sharing(self, contexts: ListContexts) -> Self {
        Self { contexts, ..self }
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

    pub(super) async fn run_search<S: DeserializeOwned>(
        &self,
        purpose: Purpose,
        path: String,
        body: &Value,
    ) -> Result<SearchAnswer<S>, StoreError> {
        let (operation, body) = ("a search", Bytes::from(body.to_string()));
        let call = Call {
            operation,
            method: Method::POST,
            path,
            body,
            timeout: SEARCH_TIMEOUT,
        };
        let answer: SearchAnswer<S> =
            parse(operation, &self.client.with(purpose).call(call).await?)?;
        if answer.timed_out || answer.shards.failed > 0 {
            let reason = format!(
                "{} shards failed, timed out: {}",
                answer.shards.failed, answer.timed_out
            );
            return Err(StoreError::Busy {
                status: 503,
                reason,
            });
        }
        Ok(answer)
    }

    /// Writes what is not too large to be read again.
    async fn write_batch(&self, writes: &[Write]) -> Result<Vec<Verdict>, StoreError> {
        let fits = |write: &&Write| {
            write
                .body
                .as_ref()
                .is_none_or(|body| body.len() <= MAX_DOCUMENT_BYTES)
        };
        if writes.iter().all(|write| fits(&write)) {
            return self.write_fitting(writes).await;
        }
        let fitting: Vec<Write> = writes.iter().filter(fits).cloned().collect();
        let written = if fitting.is_empty() {
            Vec::new()
        } else {
            self.write_fitting(&fitting).await?
        };
        let mut written = written.into_iter();
        let too_large =
            || Verdict::Rejected(format!("it has more than {MAX_DOCUMENT_BYTES} bytes"));
        let verdict = |write| if fits(&write) { written.next() } else { None };
        Ok(writes
            .iter()
            .map(verdict)
            .map(|verdict| verdict.unwrap_or_else(too_large))
            .collect())
    }

    async fn write_fitting(&self, writes: &[Write]) -> Result<Vec<Verdict>, StoreError> {
        let operation = "a bulk request";
        let path = bulk::PATH.to_owned();
        let Encoded { body, items } = bulk::encode(writes);
        let answer = self
            .client
            .call(Call {
                operation,
                method: Method::POST,
                path,
                body,
                timeout: BULK_TIMEOUT,
            })
            .await?;
        let mut verdicts =
            bulk::read_response(&answer, items).map_err(|error| StoreError::Garbled {
                operation: operation.to_owned(),
                reason: error.to_string(),
            })?;
        verdicts.truncate(writes.len());
        Ok(verdicts)
    }

    /// Where a query looks: the aliases of its clusters, or the alias over all; nowhere if nothing of them may be seen. Where so many may be seen
    /// that OpenSearch does not read a path of all their names, the query's own conditions alone keep the others out.
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

    /// One page of at most as many objects as `size` says and, if that has room for it, one object more, which tells whether another page follows. A
    /// page that is too long is asked for again with fewer objects, and `size` says with how many.
    async fn page(
        &self,
        query: &Query,
        path: &str,
        size: &mut PageSize,
        (snapshot, after): (Option<&str>, &[Value]),
        count: bool,
    ) -> Result<SearchAnswer<Source>, StoreError> {
        let (purpose, keep_alive) = (Purpose::from(&query.requester), || KEEP_ALIVE.to_owned());
        loop {
            let paging = Paging {
                snapshot: snapshot.map(|id| Snapshot {
                    id: id.to_owned(),
                    keep_alive: keep_alive(),
                }),
                after: after.to_vec(),
                look_ahead: size.look_ahead,
                count_total: count,
            };
            let fewer = Query {
                limit: size.limit,
                ..query.clone()
            };
            let mut body = dsl::request_body(&fewer, &paging)
                .map_err(|error| StoreError::Invalid(error.to_string()))?;
            let answer = self.run_search(purpose, path.to_owned(), &body).await;
            match answer {
                // A view ends with any of its indices.
                Err(StoreError::Refused { status: 404, .. }) if snapshot.is_some() => {
                    return Err(StoreError::Expired);
                }
                Err(StoreError::AnswerTooLarge { limit, .. }) => {
                    tracing::debug!(resource = %query.resource.plural, objects = size.limit, "a page is asked for again with fewer objects");
                    let Some(less) = size.less() else {
                        body["_source"] = false.into();
                        return Err(self.too_large_alone(purpose, path, &body, limit).await);
                    };
                    *size = less;
                }
                other => return other,
            }
        }
    }

    /// The error that names the only document that a search finds, which is too large.
    async fn too_large_alone(
        &self,
        purpose: Purpose,
        path: &str,
        body: &Value,
        limit: usize,
    ) -> StoreError {
        let found = self
            .run_search::<IgnoredAny>(purpose, path.to_owned(), body)
            .await;
        let id = found
            .ok()
            .and_then(|answer| answer.hits.hits.into_iter().next())
            .map(|hit| hit.id);
        let operation = match id {
            Some(id) => format!("a search that finds document {} alone", quoted(&id)),
            None => "a search that finds one document".to_owned(),
        };
        StoreError::AnswerTooLarge { operation, limit }
    }

    async fn search_first(&self, query: &Query) -> Result<Page, StoreError> {
        let Some(target) = self.target(&query.clusters, &query.permitted) else {
            return Ok(Page::default());
        };
        let path = format!("/{target}/_search?ignore_unavailable=true&allow_no_indices=true");
        let mut size = PageSize::of(query);
        let answer = self
            .page(query, &path, &mut size, (None, &[]), false)
            .await?;
        if !size.leaves_more(&answer) {
            return read_page(answer, size, None, None);
        }
        // Only an answer of several pages needs a frozen view.
        let mut pit = self.open_pit(&target, true, &query.requester).await?;
        let mut answer = self
            .page(query, "/_search", &mut size, (Some(pit.id()), &[]), true)
            .await?;
        pit.renamed(answer.pit_id.take());
        let page = read_page(answer, size, Some(pit.id()), None)?;
        match page.next {
            Some(_) => drop(pit.keep()),
            None => pit.close().await,
        }
        Ok(page)
    }

    async fn search_next(&self, query: &Query, cursor: &Cursor) -> Result<Page, StoreError> {
        self.use_pit(cursor)?;
        let seen_by_all = planted(Bug::ForgetPermissionOfFurtherPages).then(|| Query {
            permitted: Permitted::Everything,
            ..query.clone()
        });
        let query = seen_by_all.as_ref().unwrap_or(query);
        let mut size = PageSize::of(query);
        let answer = self
            .page(
                query,
                "/_search",
                &mut size,
                (Some(&cursor.snapshot), &cursor.after),
                false,
            )
            .await?;
        let (shards, pit) = (
            answer.shards.total,
            answer
                .pit_id
                .clone()
                .unwrap_or_else(|| cursor.snapshot.clone()),
        );
        let page = read_page(answer, size, Some(&pit), cursor.remaining)?;
        match page.next {
            Some(_) => self.adopt_pit(&pit, shards, &query.requester),
            None => self.close_pit(&pit).await,
        }
        Ok(page)
    }

    /// One page, and the place of each object. `left`: how many objects are left from there on, where that is known.
    fn placed(
        query: &Query,
        size: PageSize,
        mut answer: SearchAnswer<Source>,
        left: Option<u64>,
    ) -> Result<PlacedPage, StoreError> {
        let more = size.leaves_more(&answer);
        let mut hits = std::mem::take(&mut answer.hits.hits);
        hits.truncate(size.limit);
        let left = left.or_else(|| answer.hits.total.map(|total| total.value));
        let remaining = left
            .map(|left| left.saturating_sub(hits.len() as u64))
            .filter(|_| more);
        let items = hits
            .into_iter()
            .map(|hit| read_placed(query, hit))
            .collect::<Result<Vec<_>, StoreError>>()?;
        Ok(PlacedPage {
            items,
            view: None,
            more,
            remaining,
        })
    }

    async fn placed_first(&self, query: &Query) -> Result<PlacedPage, StoreError> {
        let Some(target) = self.target(&query.clusters, &query.permitted) else {
            return Ok(PlacedPage::default());
        };
        let path = format!("/{target}/_search?ignore_unavailable=true&allow_no_indices=true");
        let mut size = PageSize::of(query);
        let answer = self
            .page(query, &path, &mut size, (None, &[]), false)
            .await?;
        if !size.leaves_more(&answer) {
            return Self::placed(query, size, answer, None);
        }
        let mut pit = self.open_pit(&target, true, &query.requester).await?;
        let mut answer = self
            .page(query, "/_search", &mut size, (Some(pit.id()), &[]), true)
            .await?;
        pit.renamed(answer.pit_id.take());
        let page = Self::placed(query, size, answer, None)?;
        Ok(PlacedPage {
            view: Some(pit.keep()),
            ..page
        })
    }

    async fn placed_next(&self, query: &Query, cursor: &Cursor) -> Result<PlacedPage, StoreError> {
        self.use_pit(cursor)?;
        let mut size = PageSize::of(query);
        let answer = self
            .page(
                query,
                "/_search",
                &mut size,
                (Some(&cursor.snapshot), &cursor.after),
                false,
            )
            .await?;
        let (shards, pit) = (
            answer.shards.total,
            answer
                .pit_id
                .clone()
                .unwrap_or_else(|| cursor.snapshot.clone()),
        );
        let page = Self::placed(query, size, answer, cursor.remaining)?;
        self.adopt_pit(&pit, shards, &query.requester);
        Ok(PlacedPage {
            view: Some(pit),
            ..page
        })
    }
}

/// How many objects a page has at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PageSize {
    limit: usize,
    /// Whether one object more is asked for.
    look_ahead: bool,
}

impl PageSize {
    fn of(query: &Query) -> Self {
        Self {
            limit: query.limit,
            look_ahead: true,
        }
    }

    /// What to ask for when this was too much; nothing if it was one object.
    fn less(self) -> Option<Self> {
        match fewer(self.limit) {
            Some(limit) => Some(Self { limit, ..self }),
            None if self.look_ahead => Some(Self {
                look_ahead: false,
                ..self
            }),
            None => None,
        }
    }

    /// Whether another page follows. An object that was asked for alone does not tell: then the page after it may be empty.
    fn leaves_more<S>(self, answer: &SearchAnswer<S>) -> bool {
        let found = answer.hits.hits.len();
        if self.look_ahead {
            found > self.limit
        } else {
            found == self.limit
        }
    }
}

#[async_trait]
impl Store for Engine {
    async fn prepare(&self) -> Result<(), StoreError> {
        let EngineOptions {
            prefix,
            settings,
            fields,
            ..
        } = &self.options;
        self.claim_prefix().await?;
        let operation = "writing the index templates";
        let template = index_template(prefix, settings, fields);
        self.send(
            operation,
            Method::PUT,
            format!("/_index_template/{}", prefix.as_str()),
            Some(&template),
        )
        .await?;
        let template = state_template(prefix, settings, &self.options.owner);
        self.send(
            operation,
            Method::PUT,
            format!("/_index_template/{}", prefix.state()),
            Some(&template),
        )
        .await
        .map(drop)
    }

    async fn lost(&self, generations: &[Generation]) -> Result<BTreeSet<ClusterName>, StoreError> {
        self.lost_generations(generations).await
    }

    async fn open(
        &self,
        cluster: &ClusterName,
        uid: Option<&str>,
        above: u64,
    ) -> Result<Generation, StoreError> {
        self.open_generation(cluster, uid, above).await
    }

    async fn activate(&self, generation: &Generation) -> Result<(), StoreError> {
        self.swap_to(generation, Part::All).await
    }

    async fn show(
        &self,
        generation: &Generation,
        resources: &BTreeSet<ResourceName>,
    ) -> Result<(), StoreError> {
        self.swap_to(generation, Part::Only(resources.clone()))
            .await
    }

    async fn generations(&self) -> Result<Vec<Generation>, StoreError> {
        self.own_generations().await
    }

    async fn identities(&self) -> Result<BTreeMap<ClusterName, String>, StoreError> {
        self.stored_identities().await
    }

    async fn write(&self, writes: &[Write]) -> Result<Vec<Verdict>, StoreError> {
        let batch = self.feed.begin(writes);
        let before = match self.read_before(writes, &batch).await {
            Ok(before) => before,
            Err(error) => {
                batch.cancel();
                return Err(error);
            }
        };
        match self.write_batch(writes).await {
            Ok(verdicts) => {
                batch.settle(writes, &verdicts, before).await;
                Ok(verdicts)
            }
            Err(error) => {
                batch.fail(writes, before).await;
                Err(error)
            }
        }
    }

    async fn visit_versions(
        &self,
        generation: &Generation,
        extent: &Extent,
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        self.visit_extent(generation, extent, visit).await
    }

    async fn rejected(
        &self,
        generation: &Generation,
        extent: &Extent,
    ) -> Result<Vec<Arc<str>>, StoreError> {
        self.rejected_ids(generation, extent).await
    }

    async fn checkpoints(&self, cluster: &ClusterName) -> Result<Option<Checkpoints>, StoreError> {
        self.stored_checkpoints(cluster).await
    }

    async fn save_checkpoints(&self, checkpoints: &[Checkpoints]) -> Result<(), StoreError> {
        self.write_checkpoints(checkpoints).await
    }

    async fn drop_generation(&self, generation: &Generation) -> Result<(), StoreError> {
        self.delete_generation(generation).await
    }

    async fn retire(&self) -> Result<(), StoreError> {
        self.remove_rest().await
    }

    async fn drop_cluster(&self, cluster: &ClusterName) -> Result<(), StoreError> {
        self.delete_generations(cluster).await?;
        self.delete_checkpoints(cluster).await
    }

    async fn search(&self, query: &Query, from: Option<&Cursor>) -> Result<Page, StoreError> {
        match from {
            None => self.search_first(query).await,
            Some(cursor) => self.search_next(query, cursor).await,
        }
    }

    fn pin(&self, cursor: &Cursor) {
        self.pin_pit(cursor);
    }

    fn release(&self, cursor: &Cursor) {
        self.close_later(cursor.snapshot.clone());
    }

    async fn relatives(&self, asked: &Relatives) -> Result<BTreeSet<Relative>, StoreError> {
        let body =
            dsl::relatives_body(asked).map_err(|error| StoreError::Invalid(error.to_string()))?;
        let Some(target) = self.target(&asked.clusters, &asked.permitted) else {
            return Ok(BTreeSet::new());
        };
        let path = format!("/{target}/_search?ignore_unavailable=true&allow_no_indices=true");
        let answer = self.run_search(Purpose::Question, path, &body).await?;
        read_relatives(&answer)
    }

    async fn first_page(&self, query: &Query) -> Result<(Page, u64), StoreError> {
        // Before the search, which may show more.
        let moment = self.feed.moment(&query.resource).await;
        Ok((self.search_first(query).await?, moment))
    }

    async fn placed_page(
        &self,
        query: &Query,
        from: Option<&Cursor>,
    ) -> Result<PlacedPage, StoreError> {
        match from {
            None => self.placed_first(query).await,
            Some(cursor) => self.placed_next(query, cursor).await,
        }
    }

    async fn open_view(&self, query: &Query) -> Result<String, StoreError> {
        // Where nothing may be seen, nothing is left to be read.
        let target = self
            .target(&query.clusters, &query.permitted)
            .ok_or(StoreError::Expired)?;
        Ok(self.open_pit(&target, true, &query.requester).await?.keep())
    }

    async fn moment(&self, resource: &ResourceName) -> Result<u64, StoreError> {
        Ok(self.feed.moment(resource).await)
    }

    async fn changes(&self) -> Result<Arc<Log>, StoreError> {
        Ok(self.feed.follow().await)
    }

    fn hand_over(&self, cluster: &ClusterName) {
        self.feed.hand_over(cluster);
    }

    fn expire_changes(&self) {
        self.feed.expire();
    }

    async fn end_changes(&self) {
        self.feed.end().await;
    }

    async fn aggregate(
        &self,
        query: &Query,
        by: &[GroupKey],
        top: usize,
    ) -> Result<Groups, StoreError> {
        self.count_groups(query, by, top).await
    }

    async fn groups(&self, query: &Query, by: &[GroupKey]) -> Result<Groups, StoreError> {
        self.find_groups(query, by).await
    }
}

/// The objects of a page. `snapshot` is the view that further pages are read from, `left_before` how many objects were left before this page,
/// where that has been counted.
fn read_page(
    mut answer: SearchAnswer<Source>,
    size: PageSize,
    snapshot: Option<&str>,
    left_before: Option<u64>,
) -> Result<Page, StoreError> {
    let more = size.leaves_more(&answer);
    let mut hits = std::mem::take(&mut answer.hits.hits);
    hits.truncate(size.limit);
    let after = hits.last().map(|hit| hit.sort.clone()).unwrap_or_default();
    let items = hits
        .into_iter()
        .map(read_hit)
        .collect::<Result<Vec<_>, StoreError>>()?;
    let left_before = left_before.or_else(|| answer.hits.total.map(|total| total.value));
    let remaining = left_before
        .map(|left| left.saturating_sub(items.len() as u64))
        .filter(|_| more && snapshot.is_some());
    let next = snapshot.filter(|_| more).map(|snapshot| Cursor {
        snapshot: snapshot.to_owned(),
        after,
        remaining,
    });
    Ok(Page {
        items,
        next,
        remaining,
    })
}

/// An object and its place: its sort values are those of the query's keys, of the cluster unless that is one of the keys, of UID and `apiVersion`.
fn read_placed(query: &Query, hit: RawHit<Source>) -> Result<Placed, StoreError> {
    let after = hit.sort.clone();
    let key = |value: &Value| match value {
        // A missing number is the least or the greatest that there is, and stands where absent values do.
        Value::Number(number) => number
            .as_i64()
            .filter(|time| ![i64::MIN, i64::MAX].contains(time))
            .map(OrderKey::Time),
        Value::String(text) => OrderKey::of_text(text),
        _ => None,
    };
    let mut order: Vec<Option<OrderKey>> = after.iter().map(key).collect();
    if let Some(position) = query
        .sort
        .iter()
        .position(|sort| sort.key == SortKey::Cluster)
    {
        let cluster = order.get(position).cloned().flatten();
        order.insert(query.sort.len().min(order.len()), cluster);
    }
    Ok(Placed {
        hit: read_hit(hit)?,
        order,
        after,
    })
}

fn read_relatives(answer: &SearchAnswer<IgnoredAny>) -> Result<BTreeSet<Relative>, StoreError> {
    let found = answer.hits.total.as_ref().map_or(0, |total| total.value);
    if found > MAX_OWNERS as u64 {
        let error = QueryError::TooLarge {
            what: "owners",
            found: MAX_OWNERS + 1,
            limit: MAX_OWNERS,
        };
        return Err(StoreError::Invalid(error.to_string()));
    }
    let mut relatives = BTreeSet::new();
    for hit in &answer.hits.hits {
        let [
            Value::String(cluster),
            Value::String(uid),
            Value::String(group),
            Value::String(plural),
            namespace,
        ] = hit.sort.as_slice()
        else {
            continue;
        };
        let garbled = |error: InvalidName| StoreError::Garbled {
            operation: "a search".to_owned(),
            reason: error.to_string(),
        };
        relatives.insert(Relative {
            cluster: cluster.parse().map_err(garbled)?,
            namespace: namespace.as_str().unwrap_or_default().to_owned(),
            resource: ResourceName::new(group, plural),
            uid: uid.clone(),
        });
    }
    Ok(relatives)
}

fn read_hit(RawHit { id, source, .. }: RawHit<Source>) -> Result<Hit, StoreError> {
    let garbled = |reason: String| StoreError::Garbled {
        operation: "a search".to_owned(),
        reason,
    };
    let Source(restored) = source.ok_or_else(|| garbled(format!("document {id} has no source")))?;
    let Restored { cluster, object } =
        restored.map_err(|error| garbled(format!("document {id}: {error}")))?;
    Ok(Hit { cluster, object })
}

#[cfg(test)]
mod tests {
    use fleetdex_core::{
        model::Gvk,
        query::{Grant, GroupKey, Requester, Selectable, composite::PAGE},
    };
    use http::{Request, Response};
    use parking_lot::Mutex;
    use serde_json::json;
    use tower::{service_fn, util::BoxCloneSyncService};

    use super::*;

    /// An engine that finds three pods everywhere, and what it asks. Searches of points in time do not answer if `hangs`.
    fn recorded(hangs: bool) -> (Engine, Arc<Mutex<Vec<String>>>) {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let record = Arc::clone(&asked);
        let opened = Arc::new(std::sync::atomic::AtomicU64::new(0));
        let service = BoxCloneSyncService::new(service_fn(move |request: Request<Bytes>| {
            let mut line = format!("{} {}", request.method(), request.uri());
            if request.method() == Method::DELETE {
                line = format!("{line} {}", String::from_utf8_lossy(request.body()));
            }
            record.lock().push(line);
            let opens =
                request.method() == Method::POST && request.uri().path().ends_with("point_in_time");
            let number =
                opened.fetch_add(u64::from(opens), std::sync::atomic::Ordering::Relaxed) + 1;
            let waits = hangs && request.uri().path() == "/_search";
            let source = |name: &str| json!({ "cluster": "a", "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "uid": name } });
            let hit = |name: &str| json!({ "_id": name, "_source": source(name), "sort": [name] });
            let hits = ["a", "b", "c"].map(hit);
            let body = json!({
                "pit_id": opens.then(|| format!("pit{number}")), "timed_out": false, "_shards": { "total": 2, "failed": 0 },
                "hits": { "total": { "value": 3 }, "hits": hits },
            });
            async move {
                if waits {
                    std::future::pending::<()>().await;
                }
                Ok(Response::new(Bytes::from(body.to_string())))
            }
        }));
        let options = EngineOptions {
            prefix: IndexPrefix::default(),
            settings: IndexSettings::default(),
            fields: Vec::new(),
            projection: String::new(),
            owner: String::new(),
            address: String::new(),
        };
        (Engine::new(service, options), asked)
    }

    fn query(permitted: Permitted) -> Query {
        let selectable = Selectable::of(&Gvk::new("", "v1", "Pod"), &[]);
        Query {
            permitted,
            ..Query::all_of(ResourceName::new("", "pods"), selectable, 2)
        }
    }

    fn in_clusters(names: &[String]) -> Permitted {
        let clusters = names.iter().map(|name| name.parse().unwrap()).collect();
        Permitted::Only(vec![Grant {
            clusters: Some(clusters),
            namespaces: None,
        }])
    }

    #[tokio::test]
    async fn only_clusters_that_may_be_seen_are_searched() {
        let paths = |asked: &Mutex<Vec<String>>| {
            let targets = asked.lock().drain(..).collect::<Vec<_>>();
            let target =
                |path: &String| path.split(['/', '?']).nth(1).unwrap_or_default().to_owned();
            targets.iter().map(target).collect::<Vec<_>>()
        };
        let (engine, asked) = recorded(false);
        let some = in_clusters(&["b".to_owned(), "a".to_owned()]);
        engine.search(&query(some.clone()), None).await.unwrap();
        assert_eq!(
            paths(&asked),
            ["fleetdex-a,fleetdex-b", "fleetdex-a,fleetdex-b", "_search"]
        );
        engine
            .search(
                &Query {
                    clusters: vec!["b".parse().unwrap(), "c".parse().unwrap()],
                    ..query(some)
                },
                None,
            )
            .await
            .unwrap();
        assert_eq!(paths(&asked), ["fleetdex-b", "fleetdex-b", "_search"]);
        let page = engine.search(&query(in_clusters(&[])), None).await.unwrap();
        assert!(page.items.is_empty() && page.next.is_none());
        assert!(
            engine
                .aggregate(&query(Permitted::Only(Vec::new())), &[], 1)
                .await
                .unwrap()
                .groups
                .is_empty()
        );
        assert_eq!(paths(&asked), [""; 0]);
        // More than OpenSearch reads of a path: the conditions of the query keep the others out.
        let many: Vec<String> = (0..300).map(|number| format!("cluster-{number}")).collect();
        engine
            .search(&query(in_clusters(&many)), None)
            .await
            .unwrap();
        assert_eq!(paths(&asked), ["fleetdex", "fleetdex", "_search"]);
    }

    /// The points in time that were closed.
    async fn closed(asked: &Mutex<Vec<String>>) -> Vec<String> {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let asked = asked.lock();
        asked
            .iter()
            .filter_map(|line| {
                line.strip_prefix("DELETE /_search/point_in_time ")
                    .map(str::to_owned)
            })
            .collect()
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_cut_off_keeps_no_point_in_time() {
        let (engine, asked) = recorded(true);
        let list = query(Permitted::Everything);
        assert!(
            tokio::time::timeout(Duration::from_secs(1), engine.search(&list, None))
                .await
                .is_err()
        );
        assert_eq!(closed(&asked).await, [r#"{"pit_id":["pit1"]}"#]);
        let (cluster, api_version, kind) =
            ("a".parse().unwrap(), "v1".to_owned(), "Pod".to_owned());
        let generation = Generation::first(&IndexPrefix::default(), &cluster);
        let extent = Extent::Kind(crate::KindExtent {
            api_version,
            kind,
            namespace: None,
        });
        let mut visit = |_: crate::Stored<'_>| {};
        let visiting = engine.visit_versions(&generation, &extent, &mut visit);
        assert!(
            tokio::time::timeout(Duration::from_secs(1), visiting)
                .await
                .is_err()
        );
        assert_eq!(
            closed(&asked).await.last().unwrap(),
            r#"{"pit_id":["pit2"]}"#
        );
    }

    #[tokio::test(start_paused = true)]
    async fn users_hold_no_more_than_their_shares_and_leave_the_rest_to_the_operator() {
        let (engine, asked) = recorded(false);
        // Each takes two contexts.
        let engine = engine.sharing(ListContexts::new(12));
        let of = |name: &str| Query {
            requester: Requester::User(name.into()),
            ..query(Permitted::Everything)
        };
        let mut cursors = Vec::new();
        for _ in 0..5 {
            tokio::time::advance(Duration::from_secs(1)).await;
            cursors.extend(engine.search(&of("mallory"), None).await.unwrap().next);
        }
        assert_eq!(
            closed(&asked).await,
            [r#"{"pit_id":["pit1"]}"#, r#"{"pit_id":["pit2"]}"#]
        );
        assert!(matches!(
            engine.search(&of("mallory"), cursors.first()).await,
            Err(StoreError::Superseded)
        ));
        for _ in 0..3 {
            engine.search(&of("alice"), None).await.unwrap();
        }
        let refused = engine.search(&of("bob"), None).await;
        assert!(
            matches!(&refused, Err(StoreError::Crowded(message)) if message.contains("12 contexts")),
            "{refused:?}"
        );
        assert!(
            engine
                .search(&query(Permitted::Everything), None)
                .await
                .is_ok(),
            "the operator itself has no share"
        );
        engine.release(&cursors[4]);
        assert_eq!(
            closed(&asked).await.last().unwrap(),
            r#"{"pit_id":["pit5"]}"#
        );
        assert!(engine.search(&of("bob"), None).await.is_ok());
        engine.pin(&cursors[3]);
        assert!(
            engine
                .search(&of("mallory"), Some(&cursors[2]))
                .await
                .is_ok()
        );
    }

    #[tokio::test]
    async fn groups_of_many_pages_are_found_without_a_point_in_time() {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let record = Arc::clone(&asked);
        let service = BoxCloneSyncService::new(service_fn(move |request: Request<Bytes>| {
            record.lock().push(request.uri().path().to_owned());
            let asked: serde_json::Value =
                serde_json::from_slice(request.body()).unwrap_or_default();
            let composite = &asked["aggs"]["groups"]["composite"];
            let source = composite["sources"][0]
                .as_object()
                .and_then(|source| source.keys().next().cloned())
                .unwrap_or_default();
            let after = composite["after"][&source]
                .as_str()
                .and_then(|after| after.strip_prefix("cluster-")?.parse::<usize>().ok());
            let from = after.map_or(0, |after| after + 1);
            // Two full pages, and one cluster more.
            let names = (from..=2 * PAGE)
                .take(PAGE)
                .map(|number| format!("cluster-{number:06}"));
            let buckets: Vec<_> = names
                .map(|name| json!({ "key": { (source.clone()): name }, "doc_count": 3 }))
                .collect();
            let after = buckets.last().map(|bucket| bucket["key"].clone());
            let body = json!({
                "pit_id": "pit", "timed_out": false, "_shards": { "total": 2, "failed": 0 }, "hits": { "hits": [] },
                "aggregations": { "groups": { "buckets": buckets, "after_key": after } },
            });
            async move { Ok(Response::new(Bytes::from(body.to_string()))) }
        }));
        let engine = Engine::new(service, recorded(false).0.options.clone());
        let found = engine
            .groups(&query(Permitted::Everything), &[GroupKey::Cluster])
            .await
            .unwrap();
        assert_eq!(
            (found.groups.len(), found.total),
            (2 * PAGE + 1, 3 * (2 * PAGE as u64 + 1))
        );
        assert_eq!(*asked.lock(), ["/fleetdex/_search"; 3]);
    }

    #[test]
    fn a_document_that_is_none_of_ours_is_named() {
        let answer = json!({ "timed_out": false, "_shards": { "failed": 0 }, "hits": { "hits": [{ "_id": "v1/Pod/u", "_source": {} }] } });
        let answer: SearchAnswer<Source> =
            parse("a search", answer.to_string().as_bytes()).unwrap();
        let error = read_page(
            answer,
            PageSize {
                limit: 10,
                look_ahead: true,
            },
            None,
            None,
        )
        .unwrap_err();
        assert!(
            error
                .to_string()
                .contains("document v1/Pod/u: missing field `cluster`"),
            "{error}"
        );
    }
}
