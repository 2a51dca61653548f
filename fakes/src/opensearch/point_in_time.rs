//! Requests for points in time: views that do not change.

use std::time::Duration;

use rand::RngExt;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::{
    call::Call,
    cluster::{Cluster, RequestContext, named},
    faults::FaultKind,
    index::View,
    points::PointsInTime,
    response::{ApiResponse, Exception},
    settings::parse_duration,
    shards,
};

/// Maximum number of open contexts per node (`search.max_open_pit_context`).
const MAX_OPEN: u64 = 300;
const MAX_KEEP_ALIVE: Duration = Duration::from_hours(24);
const ID_PREFIX: &str = "point-in-time-";

/// `POST /<target>/_search/point_in_time`
pub(super) fn create(
    cluster: &mut Cluster,
    context: &mut RequestContext<'_>,
    call: &Call,
    target: &str,
) -> Result<ApiResponse, Exception> {
    let allowed = [
        "keep_alive",
        "allow_partial_pit_creation",
        "ignore_unavailable",
        "allow_no_indices",
        "expand_wildcards",
        "preference",
    ];
    call.allow(&allowed)?;
    let Some(keep_alive) = call.parameters.get("keep_alive") else {
        return Err(Exception::invalid(&["keep alive not specified".to_owned()]));
    };
    let keep_alive = read_keep_alive(keep_alive)?;
    let may_be_partial = call.parameters.flag("allow_partial_pit_creation", true)?;
    let names = named(cluster, call, target)?;
    if names.is_empty() {
        // A point in time without indices has no id, and OpenSearch fails with a null pointer.
        let cause =
            "Cannot invoke \"String.getBytes(java.nio.charset.Charset)\" because \"src\" is null";
        let cause = Exception::new(400, "null_pointer_exception", cause);
        return Err(Exception::illegal_argument("invalid id: [null]").caused_by(&cause));
    }
    let mut views = cluster.visible_views(target, &names, context.now)?;
    let shards: u64 = views.iter().map(|view| view.shards).sum();
    if cluster.points_in_time.open(context.now) + shards > MAX_OPEN {
        return Err(shards::all_shards_failed("create_pit", &views, &too_many()));
    }
    let mut failed = 0;
    if context.has_fault(FaultKind::PointInTimeFails) {
        if !may_be_partial {
            return Err(shards::all_shards_failed(
                "create_pit",
                &views,
                &shards::no_shard(),
            ));
        }
        failed = 1;
        lose_documents(&mut views, context);
    }
    let id = cluster.points_in_time.add(views, keep_alive, context.now);
    Ok(ApiResponse::ok(json!({
        "pit_id": format!("{ID_PREFIX}{id}"),
        "_shards": { "total": shards, "successful": shards - failed, "skipped": 0, "failed": failed },
        "creation_time": 1_767_225_600_000_i64,
    })))
}

/// Makes a point in time partial: drops random documents.
fn lose_documents(views: &mut [View], context: &mut RequestContext<'_>) {
    for view in views {
        let remaining = view
            .documents
            .iter()
            .filter(|_| context.rng.random_bool(0.5));
        view.documents = remaining.cloned().collect();
    }
}

/// `DELETE /_search/point_in_time`; closed ones are accepted, too.
pub(super) fn close(cluster: &mut Cluster, call: &Call) -> Result<ApiResponse, Exception> {
    call.allow(&[])?;
    let ids: Vec<String> = match call.optional_members()?.get("pit_id") {
        Some(Value::Array(ids)) => ids
            .iter()
            .filter_map(Value::as_str)
            .map(ToOwned::to_owned)
            .collect(),
        Some(Value::String(id)) => vec![id.clone()],
        _ => Vec::new(),
    };
    if ids.is_empty() {
        return Err(Exception::invalid(&["no pit ids specified".to_owned()]));
    }
    let mut closed = Vec::new();
    for id in &ids {
        let number = read_id(&cluster.points_in_time, id)?;
        if let Some(point) = cluster.points_in_time.points.get_mut(&number) {
            point.views = None;
        }
        closed.push(json!({ "successful": true, "pit_id": id }));
    }
    Ok(ApiResponse::ok(json!({ "pits": closed })))
}

/// Returns the views of a search's point in time, and renews its keep-alive.
pub(super) fn views(
    cluster: &mut Cluster,
    now: Instant,
    pit: &Map<String, Value>,
) -> Result<(String, Vec<View>), Exception> {
    if let Some(unknown) = pit
        .keys()
        .find(|key| !["id", "keep_alive"].contains(&key.as_str()))
    {
        return Err(Exception::new(
            400,
            "x_content_parse_exception",
            format!("[pit] unknown field [{unknown}]"),
        ));
    }
    let Some(id) = pit.get("id").and_then(Value::as_str) else {
        return Err(Exception::illegal_argument(
            "point int time id is not provided",
        ));
    };
    let number = read_id(&cluster.points_in_time, id)?;
    let keep_alive = pit
        .get("keep_alive")
        .and_then(Value::as_str)
        .map(read_keep_alive)
        .transpose()?;
    cluster.points_in_time.expire(now);
    let Some(point) = cluster.points_in_time.points.get_mut(&number) else {
        return Err(invalid_id(id));
    };
    for (name, uuid) in &point.indices {
        if cluster
            .indices
            .get(name)
            .is_none_or(|index| index.uuid != *uuid)
        {
            let exception = Exception::new(
                404,
                "index_not_found_exception",
                format!("no such index [{name}]"),
            );
            return Err(exception
                .with("index", name.as_str())
                .with("index_uuid", uuid.as_str()));
        }
    }
    let Some(views) = &point.views else {
        return Err(missing(number, &point.indices));
    };
    point.used = now;
    point.keep_alive = point.keep_alive.max(keep_alive.unwrap_or_default());
    Ok((id.to_owned(), views.clone()))
}

fn read_keep_alive(text: &str) -> Result<Duration, Exception> {
    let keep_alive = parse_duration(text)?;
    if keep_alive <= MAX_KEEP_ALIVE {
        return Ok(keep_alive);
    }
    Err(Exception::illegal_argument(format!(
        "Keep alive for request ({text}) is too large. It must be less than (1d). This limit can be set by changing the \
         [point_in_time.max_keep_alive] cluster level setting."
    )))
}

fn read_id(points: &PointsInTime, id: &str) -> Result<u64, Exception> {
    let number = id
        .strip_prefix(ID_PREFIX)
        .and_then(|number| number.parse().ok());
    number
        .filter(|number| points.points.contains_key(number))
        .ok_or_else(|| invalid_id(id))
}

fn invalid_id(id: &str) -> Exception {
    let cause = Exception::illegal_argument("Last unit does not have enough valid bits");
    Exception::illegal_argument(format!("invalid id: [{id}]")).caused_by(&cause)
}

fn missing(number: u64, indices: &[(String, String)]) -> Exception {
    let cause = Exception::new(
        404,
        "search_context_missing_exception",
        format!("No search context found for id [{number}]"),
    );
    shards::shards_failed(
        "query",
        indices.iter().map(|(name, _)| name.as_str()),
        &cause,
    )
}

fn too_many() -> Exception {
    let reason = format!(
        "Trying to create too many Point In Time contexts. Must be less than or equal to: [{MAX_OPEN}]. This limit can be set by \
         changing the [search.max_open_pit_context] setting."
    );
    Exception::new(429, "rejected_execution_exception", reason)
}
