//! `_search` and `_count`.

use std::sync::Arc;

use rand::RngExt;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::{
    aggregation::{self, Composite},
    answer::{Answer, Refusal},
    call::Call,
    cluster::{Cluster, Moment, named},
    document::Document,
    faults::FaultKind,
    filter_path,
    index::View,
    json::{java_text, token},
    point_in_time,
    query::Query,
    shards::{all_shards_failed, failed_shard, no_shard},
    sort::{self, Order, SortKey, SortValue},
};

const MAX_RESULT_WINDOW: usize = 10_000;
/// Matches are counted up to here unless a search says otherwise.
const COUNTED: u64 = 10_000;
const PARAMETERS: [&str; 3] = ["ignore_unavailable", "allow_no_indices", "expand_wildcards"];

/// What a search asks for.
struct Wanted {
    query: Query,
    sort: Option<Vec<SortKey>>,
    after: Option<Value>,
    from: usize,
    size: usize,
    source: Source,
    version: bool,
    /// Up to how many matches are counted; none: they are not.
    counted: Option<u64>,
    point_in_time: Option<Map<String, Value>>,
    aggregation: Option<Composite>,
}

/// Which part of the documents is shown.
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

impl Wanted {
    fn read(call: &Call) -> Result<Self, Refusal> {
        let mut wanted = Self {
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
            wanted.read_member(key, value)?;
        }
        Ok(wanted)
    }

    fn read_member(&mut self, key: &str, value: &Value) -> Result<(), Refusal> {
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
                return Err(Refusal::new(400, "parsing_exception", reason));
            }
        }
        Ok(())
    }
}

fn read_size(name: &str, value: &Value) -> Result<usize, Refusal> {
    let number = value.as_i64().ok_or_else(|| {
        Refusal::new(
            400,
            "number_format_exception",
            format!("For input string: \"{}\"", java_text(value)),
        )
    })?;
    usize::try_from(number).map_err(|_| {
        Refusal::illegal_argument(format!(
            "[{name}] parameter cannot be negative, found [{number}]"
        ))
    })
}

fn read_source(value: &Value) -> Result<Source, Refusal> {
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
        _ => Err(Refusal::illegal_argument(
            "this simulation knows `_source` as a boolean or a list",
        )),
    }
}

/// `_search` of a target, or of a point in time.
pub(super) fn search(
    cluster: &mut Cluster,
    moment: &mut Moment<'_>,
    call: &Call,
    target: Option<&str>,
) -> Result<Answer, Refusal> {
    call.allow(&PARAMETERS)?;
    let wanted = Wanted::read(call)?;
    moment.counters.searches += 1;
    let (id, views) = match &wanted.point_in_time {
        Some(pit) => {
            check_point_in_time(call, target)?;
            let (id, views) = point_in_time::views(cluster, moment.now, pit)?;
            (Some(id), views)
        }
        None => (None, target_views(cluster, call, target, moment.now)?),
    };
    if moment.suffers(FaultKind::SearchUnavailable) {
        return Err(all_shards_failed("query", &views, &no_shard()));
    }
    let mut body = Map::new();
    if let Some(id) = id {
        body.insert("pit_id".to_owned(), id.into());
    }
    run(&wanted, &views, moment, &mut body)?;
    Ok(Answer::ok(body.into()))
}

fn check_point_in_time(call: &Call, target: Option<&str>) -> Result<(), Refusal> {
    if target.is_some() {
        return Err(Refusal::invalid(&[
            "[indices] cannot be used with point in time".to_owned(),
        ]));
    }
    if PARAMETERS
        .iter()
        .any(|name| call.parameters.get(name).is_some())
    {
        return Err(Refusal::invalid(&[
            "[indicesOptions] cannot be used with point in time".to_owned(),
        ]));
    }
    Ok(())
}

fn target_views(
    cluster: &mut Cluster,
    call: &Call,
    target: Option<&str>,
    now: Instant,
) -> Result<Vec<View>, Refusal> {
    let target = target.unwrap_or("_all");
    let names = named(cluster, call, target)?;
    cluster.seen(target, &names, now)
}

/// The rest of the body.
fn run(
    wanted: &Wanted,
    views: &[View],
    moment: &mut Moment<'_>,
    body: &mut Map<String, Value>,
) -> Result<(), Refusal> {
    let mut hits = Vec::new();
    let mut total = 0;
    let mut failures: Vec<(&View, Refusal)> = Vec::new();
    for view in views {
        match matches(wanted, view) {
            Ok((found, count)) => {
                hits.extend(found);
                total += count;
            }
            Err(refusal) => failures.push((view, refusal)),
        }
    }
    if let (false, Some((_, refusal))) = (failures.len() < views.len(), failures.first()) {
        return Err(all_shards_failed("query", views, refusal));
    }
    let aggregations = wanted.aggregation.as_ref().filter(|_| !views.is_empty());
    let aggregations =
        aggregations.map(|aggregation| aggregation.count(hits.iter().map(|hit| &hit.document)));
    order(wanted, &mut hits);
    let max_score = hits
        .iter()
        .map(|hit| hit.score)
        .fold(None, |max: Option<f64>, score| {
            Some(max.map_or(score, |max| max.max(score)))
        });
    let mut page: Vec<Hit> = hits
        .into_iter()
        .skip(wanted.from)
        .take(wanted.size)
        .collect();
    let mut failed: Vec<Value> = failures
        .iter()
        .map(|(view, refusal)| failed_shard(&view.index, refusal))
        .collect();
    let timed_out = fail(moment, views, &mut page, &mut failed);
    let max_score = match max_score {
        _ if views.is_empty() => json!(0.0),
        Some(score) if wanted.sort.is_none() && wanted.size > 0 => json!(score),
        _ => Value::Null,
    };
    let shards: u64 = views.iter().map(|view| view.shards).sum();
    let mut outline = json!({
        "total": shards, "successful": shards - failed.len() as u64, "skipped": 0, "failed": failed.len(),
    });
    if !failed.is_empty() {
        outline["failures"] = failed.into();
    }
    let mut shown = Map::new();
    if let Some(limit) = wanted.counted {
        let relation = if total > limit { "gte" } else { "eq" };
        shown.insert(
            "total".to_owned(),
            json!({ "value": total.min(limit), "relation": relation }),
        );
    }
    shown.insert("max_score".to_owned(), max_score);
    shown.insert(
        "hits".to_owned(),
        page.iter().map(|hit| show(wanted, hit)).collect(),
    );
    body.insert("took".to_owned(), 1.into());
    body.insert("timed_out".to_owned(), timed_out.into());
    body.insert("_shards".to_owned(), outline);
    body.insert("hits".to_owned(), shown.into());
    body.extend(aggregations.map(|aggregations| ("aggregations".to_owned(), aggregations)));
    Ok(())
}

/// Lets the search lose what a failed shard or a timeout loses; whether it timed out.
fn fail(
    moment: &mut Moment<'_>,
    views: &[View],
    page: &mut Vec<Hit>,
    failed: &mut Vec<Value>,
) -> bool {
    let Some(view) = views.first() else {
        return false;
    };
    let fails = moment.suffers(FaultKind::ShardFails);
    let times_out = moment.suffers(FaultKind::SearchTimesOut);
    if fails || times_out {
        page.retain(|_| moment.rng.random_bool(0.5));
    }
    if fails && failed.is_empty() {
        failed.push(failed_shard(&view.index, &no_shard()));
    }
    times_out
}

fn matches(wanted: &Wanted, view: &View) -> Result<(Vec<Hit>, u64), Refusal> {
    let end = wanted.from + wanted.size;
    if end > MAX_RESULT_WINDOW {
        let reason = format!(
            "Result window is too large, from + size must be less than or equal to: [{MAX_RESULT_WINDOW}] but was [{end}]. See \
             the scroll api for a more efficient way to request large data sets. This limit can be set by changing the \
             [index.max_result_window] index level setting."
        );
        return Err(Refusal::illegal_argument(reason));
    }
    let matcher = wanted.query.compile(&view.mapping)?;
    let keys = wanted.sort.as_deref().unwrap_or_default();
    let order = Order::new(keys, view)?;
    let after = wanted
        .after
        .as_ref()
        .map(|after| sort::read_after(keys, after, view))
        .transpose()?;
    let index: Arc<str> = view.index.as_str().into();
    let mut hits = Vec::new();
    let mut total = 0;
    for document in view.documents.values() {
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

/// By the keys, or the best first; what is equal, in the order of the indices and of the writes.
fn order(wanted: &Wanted, hits: &mut [Hit]) {
    hits.sort_by(|left, right| {
        let wanted_order = match &wanted.sort {
            Some(keys) => sort::compare(keys, &left.values, &right.values),
            None => right.score.total_cmp(&left.score),
        };
        let in_write_order = || left.document.sequence.cmp(&right.document.sequence);
        wanted_order
            .then_with(|| left.index.cmp(&right.index))
            .then_with(in_write_order)
    });
}

fn show(wanted: &Wanted, hit: &Hit) -> Value {
    let document = &hit.document;
    let mut shown = Map::new();
    shown.insert("_index".to_owned(), hit.index.as_ref().into());
    shown.insert("_id".to_owned(), document.id.as_ref().into());
    if wanted.version {
        shown.insert("_version".to_owned(), document.version.into());
    }
    let is_sorted = wanted.sort.is_some();
    shown.insert(
        "_score".to_owned(),
        if is_sorted {
            Value::Null
        } else {
            json!(hit.score)
        },
    );
    if !document.ignored.is_empty() {
        shown.insert(
            "_ignored".to_owned(),
            document.ignored.iter().map(AsRef::<str>::as_ref).collect(),
        );
    }
    if let Some(source) = source(&wanted.source, document) {
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

fn source(wanted: &Source, document: &Document) -> Option<Value> {
    match wanted {
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
    moment: &Moment<'_>,
    call: &Call,
    target: Option<&str>,
) -> Result<Answer, Refusal> {
    call.allow(&PARAMETERS)?;
    let members = call.optional_members()?;
    let query = members
        .get("query")
        .map_or(Ok(Query::MatchAll), Query::read)
        .map_err(unreadable_count)?;
    let views = target_views(cluster, call, target, moment.now)?;
    let mut count = 0;
    for view in &views {
        let matcher = query.compile(&view.mapping)?;
        count += view
            .documents
            .values()
            .filter(|document| matcher.score(document).is_some())
            .count();
    }
    let shards: u64 = views.iter().map(|view| view.shards).sum();
    Ok(Answer::ok(
        json!({ "count": count, "_shards": { "total": shards, "successful": shards, "skipped": 0, "failed": 0 } }),
    ))
}

fn unreadable_count(cause: Refusal) -> Refusal {
    if cause.error()["type"] == "parsing_exception" {
        return cause;
    }
    Refusal::new(400, "parsing_exception", "Failed to parse").caused_by(&cause)
}
