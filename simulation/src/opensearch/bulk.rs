//! `_bulk`: writes, one verdict each.

use std::collections::{BTreeMap, BTreeSet};

use rand::RngExt;
use serde_json::{Map, Value, json};

use super::{
    admin,
    answer::{Answer, Refusal},
    blocks,
    bulk_lines::{self, Action, Item},
    call::Call,
    cluster::{Cluster, Moment},
    faults::FaultKind,
    index::Written,
    mapping,
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
    moment: &mut Moment<'_>,
    call: &Call,
    default_index: Option<&str>,
) -> Result<Answer, Refusal> {
    let items = bulk_lines::read(call, default_index)?;
    call.allow(&PARAMETERS)?;
    moment.counters.bulks += 1;
    let not_made = make_missing(cluster, moment, &items);
    let mut answers = Vec::with_capacity(items.len());
    let mut touched = BTreeSet::new();
    let refreshes = !matches!(call.parameters.get("refresh"), None | Some("false"));
    let mut has_errors = false;
    for item in items {
        let action = item.action.name();
        let (index, outcome) = match not_made.get(&item.index) {
            Some(refusal) => (item.index.clone(), Err(refusal.clone())),
            None => write(cluster, moment, &item),
        };
        let answer = match outcome {
            Ok(mut answer) => {
                touched.insert(index);
                if refreshes {
                    answer["forced_refresh"] = true.into();
                }
                answer
            }
            Err(refusal) => {
                has_errors = true;
                moment.counters.note_refused(refusal.status);
                json!({ "_index": index, "_id": item.id, "status": refusal.status, "error": refusal.error() })
            }
        };
        answers.push(json!({ action: answer }));
    }
    if refreshes {
        for name in touched {
            if let Some(index) = cluster.indices.get_mut(&name) {
                index.refresh();
            }
        }
    }
    Ok(Answer::ok(
        json!({ "took": 1, "errors": has_errors, "items": answers }),
    ))
}

/// Makes the indices that are written to and missing; which of them could not be made. A name of which any document requires
/// that it is an alias is not made. Deletes take no notice of that: those with versions of their own make an index.
fn make_missing(
    cluster: &mut Cluster,
    moment: &mut Moment<'_>,
    items: &[Item],
) -> BTreeMap<String, Refusal> {
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
    let mut not_made = BTreeMap::new();
    for (name, _) in missing
        .into_iter()
        .filter(|(_, requires_alias)| !requires_alias)
    {
        if let Err(refusal) = admin::create_for_write(cluster, moment, name) {
            not_made.insert(name.to_owned(), refusal);
        }
    }
    not_made
}

/// The index, as far as it is known, and what it answers.
fn write(
    cluster: &mut Cluster,
    moment: &mut Moment<'_>,
    item: &Item,
) -> (String, Result<Value, Refusal>) {
    if item.require_alias && item.action != Action::Delete && !cluster.is_alias(&item.index) {
        return (item.index.clone(), Err(no_alias(&item.index)));
    }
    let name = match cluster.write_index(&item.index) {
        Ok(name) => name.to_owned(),
        Err(refusal) => return (item.index.clone(), Err(refusal)),
    };
    let answered =
        apply(cluster, moment, item, &name).map(|applied| answer(cluster, item, &name, &applied));
    (name, answered)
}

struct Applied {
    id: String,
    written: Written,
}

fn apply(
    cluster: &mut Cluster,
    moment: &mut Moment<'_>,
    item: &Item,
    name: &str,
) -> Result<Applied, Refusal> {
    if item.id.as_deref() == Some("") {
        return Err(Refusal::illegal_argument(
            "if _id is specified it must not be empty",
        ));
    }
    let Some(index) = cluster.indices.get_mut(name) else {
        return Err(Refusal::no_such_expression(name));
    };
    if let Some(block) = index.write_block().or_else(|| fault_block(moment)) {
        return Err(blocks::refusal(name, block));
    }
    check_queue(moment)?;
    let id = item.id.clone().unwrap_or_else(|| moment.uuid());
    let written = if item.action == Action::Delete {
        index.delete(&id, item.versioning, moment.now)?
    } else {
        check_text(moment, item)?;
        index.index(&id, &item.source, item.versioning, moment.now)?
    };
    moment.counters.note_written(name, item.action, &written);
    Ok(Applied { id, written })
}

fn fault_block(moment: &mut Moment<'_>) -> Option<(u16, &'static str)> {
    if moment.suffers(FaultKind::WriteBlock) {
        return Some(blocks::WRITE);
    }
    moment
        .suffers(FaultKind::FloodStage)
        .then_some(blocks::FLOOD_STAGE)
}

fn check_queue(moment: &mut Moment<'_>) -> Result<(), Refusal> {
    let Some(percent) = moment.conditions.rejected_items else {
        return Ok(());
    };
    if moment.rng.random_range(0..100) >= percent {
        return Ok(());
    }
    moment.struck.insert(FaultKind::RejectedItems);
    Err(rejected())
}

/// 429: the queue is full.
pub(super) fn rejected() -> Refusal {
    let reason = "rejected execution of coordinating operation [coordinating_and_primary_bytes=53476150, replica_bytes=0, \
                  all_bytes=53476150, coordinating_operation_bytes=2097152, max_coordinating_and_primary_bytes=53687091]";
    Refusal::new(429, "rejected_execution_exception", reason)
}

fn check_text(moment: &mut Moment<'_>, item: &Item) -> Result<(), Refusal> {
    let Some(text) = &moment.conditions.refused_text else {
        return Ok(());
    };
    if memchr::memmem::find(&item.source, text.as_bytes()).is_none() {
        return Ok(());
    }
    moment.struck.insert(FaultKind::RefusedDocument);
    let id = item.id.as_deref().unwrap_or_default();
    let reason = format!(
        "failed to parse field [spec] of type [keyword] in document with id '{id}'. Preview of field's value: '{text}'"
    );
    Err(mapping::parsing(reason))
}

fn no_alias(name: &str) -> Refusal {
    let reason = format!(
        "no such index [{name}] and [require_alias] request flag is [true] and [{name}] is not an alias"
    );
    Refusal::new(404, "index_not_found_exception", reason)
        .with("index", name)
        .with("index_uuid", "_na_")
}

fn answer(cluster: &Cluster, item: &Item, name: &str, applied: &Applied) -> Value {
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
