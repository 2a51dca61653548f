//! `_search` and `_count`.

use std::sync::Arc;

use rand::RngExt;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::{
    aggregation::{self, Composite},
    call::Call,
    cluster::{Cluster, RequestContext, named},
    document::Document,
    faults::FaultKind,
    filter_path,
    index::View,
    json::{java_text, token},
    point_in_time,
    query::Query,
    response::{ApiResponse, Exception},
    shards::{all_shards_failed, failed_shard, no_shard},
    sort::{self, Order, SortKey, SortValue},
};

const MAX_RESULT_WINDOW: usize = 10_000;
/// The default of `track_total_hits`.
const COUNTED: u64 = 10_000;
/// Which indices are searched.
const INDICES_OPTIONS: [&str; 3] = ["ignore_unavailable", "allow_no_indices", "expand_wildcards"];
/// Which copies are searched. There is one of each shard.
const PREFERENCE: &str = "preference";
const PARAMETERS: [&str; 4] = [
    INDICES_OPTIONS[0],
    INDICES_OPTIONS[1],
    INDICES_OPTIONS[2],
    PREFERENCE,
];

/// A parsed search.
struct SearchRequest {
    query: Query,
    sort: Option<Vec<SortKey>>,
    after: Option<Value>,
    from: usize,
    size: usize,
    source: Source,
    version: bool,
    /// Up to which number matches are counted; `None`: not at all.
    counted: Option<u64>,
    point_in_time: Option<Map<String, Value>>,
    aggregation: Option<Composite>,
}

/// The part of the documents that a response contains.
enum Source {
    All,
    None,
    Only(Vec<String>),
}

struct Hit {
    index: Arc<str>,
    document: Arc<Document>,
    score: f64,
    values: Vec<SortValue>,
}

impl SearchRequest {
    fn read(call: &Call) -> Result<Self, Exception> {
        let mut search_request = Self {
            query: Query::MatchAll,
            sort: None,
            after: None,
            from: 0,
            size: 10,
            source: Source::All,
            version: false,
            counted: Some(COUNTED),
            point_in_time: None,
            aggregation: None,
        };
        for (key, value) in &call.optional_members()? {
            search_request.read_member(key, value)?;
        }
        Ok(search_request)
    }

    fn read_member(&mut self, key: &str, value: &Value) -> Result<(), Exception> {
        match key {
            "query" => self.query = Query::read(value)?,
            "sort" => self.sort = Some(sort::read(value)?),
            "search_after" => self.after = Some(value.clone()),
            "from" => self.from = read_size("from", value)?,
            "size" => self.size = read_size("size", value)?,
            "version" => self.version = value.as_bool().unwrap_or(false),
            "track_total_hits" => {
                self.counted = match value {
                    Value::Bool(true) => Some(u64::MAX),
                    Value::Bool(false) => None,
                    limit => limit.as_u64(),
                }
            }
            "_source" => self.source = read_source(value)?,
            "aggs" | "aggregations" => self.aggregation = Some(aggregation::read(value)?),
            "pit" => self.point_in_time = Some(value.as_object().cloned().unwrap_or_default()),
            other => {
                let reason = format!("Unknown key for a {} in [{other}].", token(value));
                return Err(Exception::new(400, "parsing_exception", reason));
            }
        }
        Ok(())
    }
}

fn read_size(name: &str, value: &Value) -> Result<usize, Exception> {
    let number = value.as_i64().ok_or_else(|| {
        Exception::new(
            400,
            "number_format_exception",
            format!("For input string: \"{}\"", java_text(value)),
        )
    })?;
    usize::try_from(number).map_err(|_| {
        Exception::illegal_argument(format!(
            "[{name}] parameter cannot be negative, found [{number}]"
        ))
    })
}

fn read_source(value: &Value) -> Result<Source, Exception> {
    match value {
        Value::Bool(true) => Ok(Source::All),
        Value::Bool(false) => Ok(Source::None),
        Value::String(path) => Ok(Source::Only(vec![path.clone()])),
        Value::Array(paths) => Ok(Source::Only(
            paths
                .iter()
                .filter_map(Value::as_str)
                .map(ToOwned::to_owned)
                .collect(),
        )),
        _ => Err(Exception::illegal_argument(
            "this fake supports `_source` as a boolean or a list",
        )),
    }
}

/// `_search` of a target, or of a point in time.
pub(super) fn search(
    cluster: &mut Cluster,
    context: &mut RequestContext<'_>,
    call: &Call,
    target: Option<&str>,
) -> Result<ApiResponse, Exception> {
    call.allow(&PARAMETERS)?;
    let search_request = SearchRequest::read(call)?;
    context.counters.searches += 1;
    let (id, views) = match &search_request.point_in_time {
        Some(pit) => {
            check_point_in_time(call, target)?;
            let (id, views) = point_in_time::views(cluster, context.now, pit)?;
            (Some(id), views)
        }
        None => (None, target_views(cluster, call, target, context.now)?),
    };
    if context.has_fault(FaultKind::SearchUnavailable) {
        return Err(all_shards_failed("query", &views, &no_shard()));
    }
    let mut body = Map::new();
    if let Some(id) = id {
        body.insert("pit_id".to_owned(), id.into());
    }
    run(&search_request, &views, context, &mut body)?;
    Ok(ApiResponse::ok(body.into()))
}

fn check_point_in_time(call: &Call, target: Option<&str>) -> Result<(), Exception> {
    if target.is_some() {
        return Err(Exception::invalid(&[
            "[indices] cannot be used with point in time".to_owned(),
        ]));
    }
    let has = |name: &&str| call.parameters.get(name).is_some();
    if INDICES_OPTIONS.iter().any(has) {
        return Err(Exception::invalid(&[
            "[indicesOptions] cannot be used with point in time".to_owned(),
        ]));
    }
    if has(&PREFERENCE) {
        return Err(Exception::invalid(&[
            "[preference] cannot be used with point in time".to_owned(),
        ]));
    }
    Ok(())
}

fn target_views(
    cluster: &mut Cluster,
    call: &Call,
    target: Option<&str>,
    now: Instant,
) -> Result<Vec<View>, Exception> {
    let target = target.unwrap_or("_all");
    let names = named(cluster, call, target)?;
    cluster.visible_views(target, &names, now)
}

/// Runs the search and adds the results to the body.
fn run(
    search_request: &SearchRequest,
    views: &[View],
    context: &mut RequestContext<'_>,
    body: &mut Map<String, Value>,
) -> Result<(), Exception> {
    let mut hits = Vec::new();
    let mut total = 0;
    let mut failures: Vec<(&View, Exception)> = Vec::new();
    for view in views {
        match matches(search_request, view) {
            Ok((found, count)) => {
                hits.extend(found);
                total += count;
            }
            Err(exception) => failures.push((view, exception)),
        }
    }
    if let (false, Some((_, exception))) = (failures.len() < views.len(), failures.first()) {
        return Err(all_shards_failed("query", views, exception));
    }
    let aggregations = search_request
        .aggregation
        .as_ref()
        .filter(|_| !views.is_empty());
    let aggregations =
        aggregations.map(|aggregation| aggregation.count(hits.iter().map(|hit| &hit.document)));
    order(search_request, &mut hits);
    let max_score = hits
        .iter()
        .map(|hit| hit.score)
        .fold(None, |max: Option<f64>, score| {
            Some(max.map_or(score, |max| max.max(score)))
        });
    let mut page: Vec<Hit> = hits
        .into_iter()
        .skip(search_request.from)
        .take(search_request.size)
        .collect();
    let mut missing = Missing {
        failed: failures
            .iter()
            .map(|(view, exception)| failed_shard(&view.index, exception))
            .collect(),
        unavailable: 0,
    };
    let timed_out = fail(context, views, &mut page, &mut missing);
    let max_score = match max_score {
        _ if views.is_empty() => json!(0.0),
        Some(score) if search_request.sort.is_none() && search_request.size > 0 => json!(score),
        _ => Value::Null,
    };
    let shards: u64 = views.iter().map(|view| view.shards).sum();
    let failed = missing.failed.len() as u64;
    let successful = shards - failed - missing.unavailable;
    let mut outline =
        json!({ "total": shards, "successful": successful, "skipped": 0, "failed": failed });
    if failed > 0 {
        outline["failures"] = missing.failed.into();
    }
    let mut shown = Map::new();
    if let Some(limit) = search_request.counted {
        let relation = if total > limit { "gte" } else { "eq" };
        shown.insert(
            "total".to_owned(),
            json!({ "value": total.min(limit), "relation": relation }),
        );
    }
    shown.insert("max_score".to_owned(), max_score);
    shown.insert(
        "hits".to_owned(),
        page.iter().map(|hit| show(search_request, hit)).collect(),
    );
    body.insert("took".to_owned(), 1.into());
    body.insert("timed_out".to_owned(), timed_out.into());
    body.insert("_shards".to_owned(), outline);
    body.insert("hits".to_owned(), shown.into());
    body.extend(aggregations.map(|aggregations| ("aggregations".to_owned(), aggregations)));
    Ok(())
}

/// Shards without a result.
struct Missing {
    failed: Vec<Value>,
    /// Those that no node has. OpenSearch (3.4) counts them neither as failed nor as successful.
    unavailable: u64,
}

/// Applies the faults of missing shards and of a timeout: drops random hits. Returns whether the
/// search timed out.
fn fail(
    context: &mut RequestContext<'_>,
    views: &[View],
    page: &mut Vec<Hit>,
    missing: &mut Missing,
) -> bool {
    let Some(view) = views.first() else {
        return false;
    };
    let fails = context.has_fault(FaultKind::ShardFails);
    let is_unavailable = context.has_fault(FaultKind::ShardUnavailable);
    let times_out = context.has_fault(FaultKind::SearchTimesOut);
    if fails || is_unavailable || times_out {
        page.retain(|_| context.rng.random_bool(0.5));
    }
    if missing.failed.is_empty() {
        if fails {
            missing.failed.push(failed_shard(&view.index, &no_shard()));
        } else {
            missing.unavailable = is_unavailable.into();
        }
    }
    times_out
}

fn matches(search_request: &SearchRequest, view: &View) -> Result<(Vec<Hit>, u64), Exception> {
    let end = search_request.from + search_request.size;
    if end > MAX_RESULT_WINDOW {
        let reason = format!(
            "Result window is too large, from + size must be less than or equal to: [{MAX_RESULT_WINDOW}] but was [{end}]. See \
             the scroll api for a more efficient way to request large data sets. This limit can be set by changing the \
             [index.max_result_window] index level setting."
        );
        return Err(Exception::illegal_argument(reason));
    }
    let matcher = search_request.query.compile(&view.mapping)?;
    let keys = search_request.sort.as_deref().unwrap_or_default();
    let order = Order::new(keys, view)?;
    let after = search_request
        .after
        .as_ref()
        .map(|after| sort::read_after(keys, after, view))
        .transpose()?;
    let index: Arc<str> = view.index.as_str().into();
    let mut hits = Vec::new();
    let mut total = 0;
    for document in view.documents.candidates(&matcher) {
        let Some(score) = matcher.score(document) else {
            continue;
        };
        total += 1;
        let values = order.values(document);
        if after
            .as_ref()
            .is_none_or(|after| sort::compare(keys, &values, after).is_gt())
        {
            hits.push(Hit {
                index: Arc::clone(&index),
                document: Arc::clone(document),
                score,
                values,
            });
        }
    }
    Ok((hits, total))
}

/// Sorts by the keys or by descending score; equal hits by index and write order.
fn order(search_request: &SearchRequest, hits: &mut [Hit]) {
    hits.sort_by(|left, right| {
        let order = match &search_request.sort {
            Some(keys) => sort::compare(keys, &left.values, &right.values),
            None => right.score.total_cmp(&left.score),
        };
        let in_write_order = || left.document.sequence.cmp(&right.document.sequence);
        order
            .then_with(|| left.index.cmp(&right.index))
            .then_with(in_write_order)
    });
}

fn show(search_request: &SearchRequest, hit: &Hit) -> Value {
    let document = &hit.document;
    let mut shown = Map::new();
    shown.insert("_index".to_owned(), hit.index.as_ref().into());
    shown.insert("_id".to_owned(), document.id.as_ref().into());
    if search_request.version {
        shown.insert("_version".to_owned(), document.version.into());
    }
    let is_sorted = search_request.sort.is_some();
    shown.insert(
        "_score".to_owned(),
        if is_sorted {
            Value::Null
        } else {
            json!(hit.score)
        },
    );
    if let Some(routing) = document.routing() {
        shown.insert("_routing".to_owned(), routing.as_ref().into());
    }
    if !document.ignored.is_empty() {
        shown.insert(
            "_ignored".to_owned(),
            document.ignored.iter().map(AsRef::<str>::as_ref).collect(),
        );
    }
    if let Some(source) = source(&search_request.source, document) {
        shown.insert("_source".to_owned(), source);
    }
    if is_sorted {
        shown.insert(
            "sort".to_owned(),
            hit.values.iter().map(sort::shown).collect(),
        );
    }
    shown.into()
}

fn source(filter: &Source, document: &Document) -> Option<Value> {
    match filter {
        Source::None => None,
        Source::All => Some(document.source.as_ref().clone()),
        Source::Only(paths) => {
            let patterns: Vec<Vec<&str>> =
                paths.iter().map(|path| path.split('.').collect()).collect();
            Some(
                filter_path::include(&document.source, &patterns)
                    .unwrap_or_else(|| Value::Object(Map::new())),
            )
        }
    }
}

/// `_count`
pub(super) fn count(
    cluster: &mut Cluster,
    context: &RequestContext<'_>,
    call: &Call,
    target: Option<&str>,
) -> Result<ApiResponse, Exception> {
    call.allow(&PARAMETERS)?;
    let members = call.optional_members()?;
    let query = members
        .get("query")
        .map_or(Ok(Query::MatchAll), Query::read)
        .map_err(unreadable_count)?;
    let views = target_views(cluster, call, target, context.now)?;
    let mut count = 0;
    for view in &views {
        let matcher = query.compile(&view.mapping)?;
        count += view
            .documents
            .candidates(&matcher)
            .filter(|document| matcher.score(document).is_some())
            .count();
    }
    let shards: u64 = views.iter().map(|view| view.shards).sum();
    Ok(ApiResponse::ok(
        json!({ "count": count, "_shards": { "total": shards, "successful": shards, "skipped": 0, "failed": 0 } }),
    ))
}

fn unreadable_count(cause: Exception) -> Exception {
    if cause.error()["type"] == "parsing_exception" {
        return cause;
    }
    Exception::new(400, "parsing_exception", "Failed to parse").caused_by(&cause)
}
