//! One object as all clusters have it: with the status of all of them in one, and what each one
//! reports.

mod member_object;
mod merge_memory;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    pin::pin,
    sync::Arc,
};

use fleetdex_core::{
    model::{ClusterName, Interpretation},
    query::ResourceName,
};
use fleetdex_interpreter::{Request, Response, request::AggregatedStatusItem};
use fleetdex_query_api::{
    answer::{FoundObject, ListMetadata, Table},
    group::API_VERSION,
    question::MergedRequest,
};
use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesOrdered};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{
    Map, Value, json,
    value::{RawValue, to_raw_value},
};

use self::{
    member_object::{MemberObject, MemberReport},
    merge_memory::MergeMemory,
};
use super::{
    across_kinds::AcrossKinds,
    interpretation::{InterpretationError, RequestInterpreter},
    object_summary::ObjectSummary,
};
use crate::{
    api_error::ApiError,
    render::representation::{MetaVersion, OutputKind},
};

/// Clusters whose parts are interpreted at a time.
const CONCURRENT_MEMBERS: usize = 4;
/// Clusters that one warning names.
const NAMED_CLUSTERS: usize = 10;

/// The columns of a Table.
const COLUMNS: [(&str, &str, i32); 6] = [
    ("Cluster", "The member that holds the object.", 0),
    ("Ready", "Ready replicas, of the desired ones.", 0),
    (
        "Health",
        "Healthy, Progressing, Degraded, Suspended, Missing or Unknown.",
        0,
    ),
    ("Reason", "A word for the cause.", 0),
    ("Age", "How long ago the object was created.", 0),
    ("Message", "What the object says about the cause.", 1),
];

/// One object as all clusters have it.
pub struct MergedObject {
    /// What identifies it, in every cluster.
    name: String,
    namespace: String,
    /// The object of the first cluster without what belongs to that cluster, and with the status of
    /// all clusters.
    object: Value,
    members: Vec<MemberStatus>,
    _memory: MergeMemory,
}

/// What one cluster reports.
struct MemberStatus {
    summary: ObjectSummary,
    item: AggregatedStatusItem,
}

/// The object of the first cluster, with what all clusters report.
#[derive(Clone)]
struct Aggregation {
    object: Arc<Value>,
    items: Vec<AggregatedStatusItem>,
}

/// A [`MergedObject`] as JSON. It borrows everything, since the statuses of all clusters may be
/// large.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MergedDocument<'m> {
    kind: &'static str,
    api_version: &'static str,
    metadata: Value,
    object: &'m Value,
    aggregated_status: Vec<MemberDocument<'m>>,
}

/// What one cluster reports, and what Fleetdex says about it.
#[derive(Serialize)]
struct MemberDocument<'m> {
    #[serde(flatten)]
    item: &'m AggregatedStatusItem,
    #[serde(skip_serializing_if = "Map::is_empty")]
    assessment: Map<String, Value>,
}

/// The object that a request names, of all clusters that the caller may see, and warnings about
/// what is missing.
pub async fn merge(
    kinds: &AcrossKinds<'_>,
    interpreter: &RequestInterpreter,
    request: &MergedRequest,
) -> Result<(MergedObject, Vec<String>), ApiError> {
    check_namespace(kinds, request)?;
    let found = kinds.named::<MemberObject>(&request.list).await?;
    let mut members = found.objects;
    members.sort_by(|left, right| left.summary.order().cmp(&right.summary.order()));
    let mut clusters: BTreeSet<ClusterName> = BTreeSet::new();
    members.retain(|member| clusters.insert(member.summary.cluster.clone()));
    let mut warnings: Vec<String> = Vec::new();
    if found.has_more {
        warnings.push(format!(
            "more than {} clusters have the object; the result is of the first ones",
            members.len()
        ));
    }
    warnings.extend(found.warnings);
    let Some(first) = members.first() else {
        return Err(ApiError::no_such_object(&request.list.resource));
    };
    let sizes: Vec<usize> = members.iter().map(MemberObject::parsed_size).collect();
    let mut memory = MergeMemory::new(&sizes, CONCURRENT_MEMBERS).await?;
    let (items, unknown) = reports(interpreter, &members, &mut memory).await?;
    warnings.extend(unknown);
    let aggregation = Arc::new(Aggregation {
        object: Arc::new(first.parsed()),
        items,
    });
    let first_cluster = &first.summary.cluster;
    let (object, incomplete) = merged_object(interpreter, first_cluster, &aggregation).await;
    warnings.extend(incomplete);
    warnings.extend(interpreter.warnings());
    let items = Arc::unwrap_or_clone(aggregation).items;
    let identity = first.summary.metadata.clone();
    let status = |(member, item): (MemberObject, AggregatedStatusItem)| MemberStatus {
        summary: member.summary,
        item,
    };
    let merged = MergedObject {
        name: identity.name,
        namespace: identity.namespace,
        object,
        members: members.into_iter().zip(items).map(status).collect(),
        _memory: memory,
    };
    Ok((merged, warnings))
}

/// What each cluster reports, in the order of the clusters, and warnings about what is not known.
async fn reports(
    interpreter: &RequestInterpreter,
    members: &[MemberObject],
    memory: &mut MergeMemory,
) -> Result<(Vec<AggregatedStatusItem>, Vec<String>), ApiError> {
    let members = members.iter();
    let mut unasked = members.map(|member| member.report(interpreter).boxed());
    let mut asked: FuturesOrdered<BoxFuture<'_, MemberReport>> =
        unasked.by_ref().take(memory.concurrency).collect();
    let mut known: VecDeque<MemberReport> = VecDeque::new();
    let mut unknown: BTreeMap<(&'static str, String), Vec<String>> = BTreeMap::new();
    let mut items = Vec::new();
    loop {
        let next = match known.pop_front() {
            Some(report) => Some(report),
            None => asked.next().await,
        };
        let Some(report) = next else { break };
        let kept = memory.keep(report.item.status.as_ref());
        beside(kept, &mut asked, &mut known).await?;
        asked.extend(unasked.next());
        for cause in report.unknown {
            let clusters = unknown.entry(cause).or_default();
            clusters.push(report.item.cluster_name.clone());
        }
        items.push(report.item);
    }
    let warning = |((what, cause), clusters): (_, Vec<String>)| {
        let clusters = some_of(&clusters);
        format!("the {what} of {clusters} is unknown: {cause}")
    };
    Ok((items, unknown.into_iter().map(warning).collect()))
}

/// Waits for memory while the members that are asked go on: what others wait for may be a turn that
/// one of these has.
async fn beside(
    memory: impl Future<Output = Result<(), ApiError>>,
    asked: &mut FuturesOrdered<BoxFuture<'_, MemberReport>>,
    known: &mut VecDeque<MemberReport>,
) -> Result<(), ApiError> {
    let mut memory = pin!(memory);
    loop {
        tokio::select! {
            biased;
            reserved = &mut memory => return reserved,
            Some(report) = asked.next(), if !asked.is_empty() => known.push_back(report),
        }
    }
}

fn some_of(clusters: &[String]) -> String {
    let named = clusters.iter().take(NAMED_CLUSTERS);
    let named: Vec<&str> = named.map(String::as_str).collect();
    match clusters.len().saturating_sub(NAMED_CLUSTERS) {
        0 => named.join(", "),
        others => format!("{} and {others} other clusters", named.join(", ")),
    }
}

/// Objects of one name in several namespaces are not one object.
fn check_namespace(kinds: &AcrossKinds<'_>, request: &MergedRequest) -> Result<(), ApiError> {
    let resource = &request.list.resource;
    let name = ResourceName::new(&resource.group, &resource.plural);
    let is_namespaced = kinds
        .catalog
        .find(&name)
        .is_some_and(|found| found.namespaced);
    if is_namespaced && resource.namespace.is_none() {
        return Err(ApiError::bad_request(format!(
            "{} are namespaced: the path of one object has its namespace, such as api/v1/namespaces/web/secrets/db",
            resource.plural
        )));
    }
    Ok(())
}

/// The object of the first cluster without what belongs to that cluster, with the status of all,
/// and warnings about what no rule has answered.
async fn merged_object(
    interpreter: &RequestInterpreter,
    first_cluster: &ClusterName,
    aggregation: &Arc<Aggregation>,
) -> (Value, Vec<String>) {
    let mut warnings = Vec::new();
    let status = aggregated_status(interpreter, aggregation).await;
    let status = status.unwrap_or_else(|error| {
        warnings.push(format!("the status of all clusters is left out: {error}"));
        Value::Null
    });
    let first = &aggregation.object;
    let mut merged = pruned(interpreter, first).await.unwrap_or_else(|error| {
        warnings.push(format!(
            "the object is shown as {first_cluster} has it: {error}"
        ));
        Value::clone(first)
    });
    if let Some(members) = merged.as_object_mut() {
        members.remove("status");
        if !status.is_null() {
            members.insert("status".to_owned(), status);
        }
    }
    (merged, warnings)
}

async fn pruned(
    interpreter: &RequestInterpreter,
    first: &Arc<Value>,
) -> Result<Value, InterpretationError> {
    let interpreted = interpreter.run(first, |object| Ok(Request::Prune { object }));
    Ok(match interpreted.await?.response {
        Response::Pruned(pruned) => pruned,
        _ => Value::clone(first),
    })
}

/// The status of all clusters; null if none has one.
async fn aggregated_status(
    interpreter: &RequestInterpreter,
    aggregation: &Arc<Aggregation>,
) -> Result<Value, InterpretationError> {
    let interpreted = interpreter.run(aggregation, |aggregation| {
        Ok(Request::AggregateStatus {
            object: &aggregation.object,
            items: &aggregation.items,
        })
    });
    let status = &aggregation.object["status"];
    match interpreted.await {
        Ok(interpreted) => Ok(match interpreted.response {
            Response::AggregatedStatus(mut aggregated) => aggregated["status"].take(),
            _ => Value::Null,
        }),
        // That of the only cluster is that of all.
        Err(InterpretationError::NoRule { .. }) if aggregation.items.len() == 1 => {
            Ok(status.clone())
        }
        Err(InterpretationError::NoRule { .. }) if status.is_null() => Ok(Value::Null),
        Err(error) => Err(error),
    }
}

/// The result as JSON: a `MergedObject`, or a Table with a row for each cluster.
pub fn document(merged: &MergedObject, output: OutputKind) -> Result<Box<RawValue>, ApiError> {
    let internal = |error: serde_json::Error| ApiError::Internal(error.to_string());
    if let OutputKind::Table(version, _) = output {
        return to_raw_value(&table(merged, version)).map_err(internal);
    }
    let mut metadata = json!({ "name": merged.name });
    if !merged.namespace.is_empty() {
        metadata["namespace"] = json!(merged.namespace);
    }
    let document = MergedDocument {
        kind: "MergedObject",
        api_version: API_VERSION,
        metadata,
        object: &merged.object,
        aggregated_status: merged.members.iter().map(member_document).collect(),
    };
    to_raw_value(&document).map_err(internal)
}

fn member_document(member: &MemberStatus) -> MemberDocument<'_> {
    let Interpretation {
        health,
        health_reason,
        health_message,
        ..
    } = &member.summary.interpretation;
    let assessment = [
        ("health", *health),
        ("reason", health_reason),
        ("message", health_message),
    ];
    let given = assessment.into_iter().filter(|(_, text)| !text.is_empty());
    MemberDocument {
        item: &member.item,
        assessment: given
            .map(|(key, text)| (key.to_owned(), text.into()))
            .collect(),
    }
}

fn table(merged: &MergedObject, version: MetaVersion) -> Table<FoundObject> {
    let now = Timestamp::now();
    let row = |member: &MemberStatus| {
        let found = &member.summary.interpretation;
        let cells = vec![
            member.summary.cluster.as_str().into(),
            ready(found).into(),
            found.health.into(),
            found.health_reason.as_str().into(),
            member.summary.age(now).into(),
            found.health_message.as_str().into(),
        ];
        member.summary.row(cells, version)
    };
    let rows = merged.members.iter().map(row).collect();
    let metadata = ListMetadata::default();
    Table::new(version.api_version(), metadata, &COLUMNS, rows)
}

/// `2/3`; empty for an object without replicas.
fn ready(found: &Interpretation) -> String {
    match (found.ready_replicas, found.desired_replicas) {
        (Some(ready), Some(desired)) => format!("{ready}/{desired}"),
        (None, Some(desired)) => format!("?/{desired}"),
        (Some(ready), None) => ready.to_string(),
        (None, None) => String::new(),
    }
}
