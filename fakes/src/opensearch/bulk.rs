//! `_bulk`: writes with one result each.

use std::collections::{BTreeMap, BTreeSet};

use rand::RngExt;
use serde_json::{Map, Value, json};

use super::{
    admin, blocks,
    bulk_lines::{self, Action, Item},
    call::Call,
    cluster::{Cluster, RequestContext},
    faults::FaultKind,
    index::Written,
    mapping,
    response::{ApiResponse, Exception},
};

const PARAMETERS: [&str; 4] = [
    "refresh",
    "require_alias",
    "timeout",
    "wait_for_active_shards",
];

/// `POST /_bulk`, `POST /<index>/_bulk`
pub(super) fn bulk(
    cluster: &mut Cluster,
    context: &mut RequestContext<'_>,
    call: &Call,
    default_index: Option<&str>,
) -> Result<ApiResponse, Exception> {
    let items = bulk_lines::read(call, default_index)?;
    call.allow(&PARAMETERS)?;
    context.counters.bulks += 1;
    let failed_creations = create_missing(cluster, context, &items);
    let mut responses = Vec::with_capacity(items.len());
    let mut touched = BTreeSet::new();
    let refreshes = !matches!(call.parameters.get("refresh"), None | Some("false"));
    let mut has_errors = false;
    for item in items {
        let action = item.action.name();
        let (index, outcome) = match failed_creations.get(&item.index) {
            Some(exception) => (item.index.clone(), Err(exception.clone())),
            None => write(cluster, context, &item),
        };
        let response = match outcome {
            Ok(mut response) => {
                touched.insert(index);
                if refreshes {
                    response["forced_refresh"] = true.into();
                }
                response
            }
            Err(exception) => {
                has_errors = true;
                context.counters.note_refused(exception.status);
                json!({ "_index": index, "_id": item.id, "status": exception.status, "error": exception.error() })
            }
        };
        responses.push(json!({ action: response }));
    }
    if refreshes {
        for name in touched {
            if let Some(index) = cluster.indices.get_mut(&name) {
                index.refresh();
            }
        }
    }
    Ok(ApiResponse::ok(
        json!({ "took": 1, "errors": has_errors, "items": responses }),
    ))
}

/// Creates the missing indices of the items. Returns the failures by index. An index is not created
/// if any document requires an alias of that name. Deletes ignore `require_alias`: those with
/// external versions create an index.
fn create_missing(
    cluster: &mut Cluster,
    context: &mut RequestContext<'_>,
    items: &[Item],
) -> BTreeMap<String, Exception> {
    let mut missing: BTreeMap<&str, bool> = BTreeMap::new();
    for item in items {
        let is_delete = item.action == Action::Delete;
        if cluster.indices.contains_key(&item.index)
            || cluster.is_alias(&item.index)
            || is_delete && item.versioning.is_internal()
        {
            continue;
        }
        *missing.entry(&item.index).or_default() |= item.require_alias && !is_delete;
    }
    let mut failed_creations = BTreeMap::new();
    for (name, _) in missing
        .into_iter()
        .filter(|(_, requires_alias)| !requires_alias)
    {
        if let Err(exception) = admin::create_for_write(cluster, context, name) {
            failed_creations.insert(name.to_owned(), exception);
        }
    }
    failed_creations
}

/// Writes one item. Returns the concrete index, or the requested name if it does not resolve, and
/// the result.
fn write(
    cluster: &mut Cluster,
    context: &mut RequestContext<'_>,
    item: &Item,
) -> (String, Result<Value, Exception>) {
    if item.require_alias && item.action != Action::Delete && !cluster.is_alias(&item.index) {
        return (item.index.clone(), Err(no_alias(&item.index)));
    }
    let name = match cluster.write_index(&item.index) {
        Ok(name) => name.to_owned(),
        Err(exception) => return (item.index.clone(), Err(exception)),
    };
    let routing = item
        .routing
        .clone()
        .or_else(|| cluster.index_routing(&item.index));
    let response = apply(cluster, context, item, &name, routing.as_deref())
        .map(|applied| response(cluster, item, &name, &applied));
    (name, response)
}

struct Applied {
    id: String,
    written: Written,
}

fn apply(
    cluster: &mut Cluster,
    context: &mut RequestContext<'_>,
    item: &Item,
    name: &str,
    routing: Option<&str>,
) -> Result<Applied, Exception> {
    if item.id.as_deref() == Some("") {
        return Err(Exception::illegal_argument(
            "if _id is specified it must not be empty",
        ));
    }
    let Some(index) = cluster.indices.get_mut(name) else {
        return Err(Exception::no_such_expression(name));
    };
    if let Some(block) = index.write_block().or_else(|| fault_block(context)) {
        return Err(blocks::exception(name, block));
    }
    check_queue(context)?;
    let id = item.id.clone().unwrap_or_else(|| context.uuid());
    let written = if item.action == Action::Delete {
        index.delete(&id, item.versioning, context.now)?
    } else {
        check_text(context, item)?;
        index.index(&id, routing, &item.source, item.versioning, context.now)?
    };
    context.counters.note_written(name, item.action, &written);
    Ok(Applied { id, written })
}

fn fault_block(context: &mut RequestContext<'_>) -> Option<(u16, &'static str)> {
    if context.has_fault(FaultKind::WriteBlock) {
        return Some(blocks::WRITE);
    }
    context
        .has_fault(FaultKind::FloodStage)
        .then_some(blocks::FLOOD_STAGE)
}

fn check_queue(context: &mut RequestContext<'_>) -> Result<(), Exception> {
    let Some(percent) = context.conditions.rejected_items else {
        return Ok(());
    };
    if context.rng.random_range(0..100) >= percent {
        return Ok(());
    }
    context.struck.insert(FaultKind::RejectedItems);
    Err(rejected())
}

/// 429: the queue is full.
pub(super) fn rejected() -> Exception {
    let reason = "rejected execution of coordinating operation [coordinating_and_primary_bytes=53476150, replica_bytes=0, \
                  all_bytes=53476150, coordinating_operation_bytes=2097152, max_coordinating_and_primary_bytes=53687091]";
    Exception::new(429, "rejected_execution_exception", reason)
}

fn check_text(context: &mut RequestContext<'_>, item: &Item) -> Result<(), Exception> {
    let Some(text) = &context.conditions.refused_text else {
        return Ok(());
    };
    if memchr::memmem::find(&item.source, text.as_bytes()).is_none() {
        return Ok(());
    }
    context.struck.insert(FaultKind::RefusedDocument);
    let id = item.id.as_deref().unwrap_or_default();
    let reason = format!(
        "failed to parse field [spec] of type [keyword] in document with id '{id}'. Preview of field's value: '{text}'"
    );
    Err(mapping::parsing(reason))
}

fn no_alias(name: &str) -> Exception {
    let reason = format!(
        "no such index [{name}] and [require_alias] request flag is [true] and [{name}] is not an alias"
    );
    Exception::new(404, "index_not_found_exception", reason)
        .with("index", name)
        .with("index_uuid", "_na_")
}

fn response(cluster: &Cluster, item: &Item, name: &str, applied: &Applied) -> Value {
    let written = &applied.written;
    let (result, status) = match (item.action, written.existed) {
        (Action::Delete, true) => ("deleted", 200),
        (Action::Delete, false) => ("not_found", 404),
        (_, true) => ("updated", 200),
        (_, false) => ("created", 201),
    };
    let copies = cluster
        .indices
        .get(name)
        .map_or(1, super::index::Index::copies);
    let mut members = Map::new();
    members.insert("_index".to_owned(), name.into());
    members.insert("_id".to_owned(), applied.id.as_str().into());
    members.insert("_version".to_owned(), written.version.into());
    members.insert("result".to_owned(), result.into());
    members.insert(
        "_shards".to_owned(),
        json!({ "total": copies, "successful": 1, "failed": 0 }),
    );
    members.insert("_seq_no".to_owned(), written.sequence.into());
    members.insert("_primary_term".to_owned(), 1.into());
    members.insert("status".to_owned(), status.into());
    members.into()
}
