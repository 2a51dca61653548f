//! One object as all clusters have it: with the status of all of them in one, and what each one reports.

use std::{collections::BTreeSet, sync::Arc};

use fleetdex_core::{
    model::{ClusterName, Gvk, Interpretation},
    query::{Hit, ResourceName},
};
use fleetdex_interpreter::{Request, Response, request::AggregatedStatusItem, rules::RuleSet};
use jiff::Timestamp;
use serde_json::{Value, json, value::RawValue};

use super::{
    across_kinds::{AcrossKinds, FoundObject},
    aggregate::raw,
    object_summary::{ObjectIdentity, ObjectSummary, table},
    rules,
};
use crate::{
    catalog::Catalog,
    render::representation::{MetaVersion, OutputKind},
    request::{
        api_error::ApiError,
        api_request::{GROUPS, MergedRequest, VERSION},
    },
};

/// The columns of a Table.
const COLUMNS: [(&str, &str, u8); 6] = [
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

/// The object in one cluster.
struct MemberObject {
    summary: ObjectSummary,
    object: Value,
}

impl FoundObject for MemberObject {
    fn of(resource: &ResourceName, kind: &Gvk, hit: &Hit) -> Self {
        let summary = ObjectSummary::of(resource, kind, hit);
        let mut object: Value = serde_json::from_str(hit.object.get()).unwrap_or_default();
        if object.is_object() {
            object["apiVersion"] = summary.kind.api_version().into();
            object["kind"] = (&*summary.kind.kind).into();
        }
        Self { summary, object }
    }
}

/// One object as all clusters have it.
pub struct MergedObject {
    /// What identifies it, in every cluster.
    name: String,
    namespace: String,
    /// The object of the first cluster without what belongs to that cluster, and with the status of all clusters.
    object: Value,
    members: Vec<MemberStatus>,
}

/// What one cluster reports.
struct MemberStatus {
    summary: ObjectSummary,
    item: AggregatedStatusItem,
}

/// The object that a request names, of all clusters that the caller may see, and warnings about what is missing.
pub async fn merge(
    kinds: &AcrossKinds<'_>,
    rules: Arc<RuleSet>,
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
    if members.is_empty() {
        return Err(request.list.resource.no_such_object());
    }
    let catalog = Arc::clone(kinds.catalog());
    let (merged, warning) = rules::blocking(move || merged(&rules, &catalog, members)).await?;
    warnings.extend(warning);
    Ok((merged, warnings))
}

/// One object of the objects of all clusters, in the order of these, and a warning if no rule aggregates its status.
fn merged(
    rules: &RuleSet,
    catalog: &Catalog,
    members: Vec<MemberObject>,
) -> (MergedObject, Option<String>) {
    let items: Vec<AggregatedStatusItem> = members
        .iter()
        .map(|member| item(rules, catalog, member))
        .collect();
    let first = members.first();
    let (object, warning) = first
        .map(|first| merged_object(rules, catalog, first, &items))
        .unwrap_or_default();
    let identity = first.map(|first| first.summary.metadata.clone());
    let ObjectIdentity {
        name, namespace, ..
    } = identity.unwrap_or_default();
    let members = members.into_iter().zip(items);
    let merged = MergedObject {
        name,
        namespace,
        object,
        members: members
            .map(|(MemberObject { summary, .. }, item)| MemberStatus { summary, item })
            .collect(),
    };
    (merged, warning)
}

/// Objects of one name in several namespaces are not one object.
fn check_namespace(kinds: &AcrossKinds<'_>, request: &MergedRequest) -> Result<(), ApiError> {
    let resource = &request.list.resource;
    let name = ResourceName::new(&resource.group, &resource.plural);
    let is_namespaced = kinds.find(&name).is_some_and(|found| found.namespaced);
    if is_namespaced && resource.namespace.is_none() {
        return Err(ApiError::bad_request(format!(
            "{} are namespaced: the path of one object has its namespace, such as api/v1/namespaces/web/secrets/db",
            resource.plural
        )));
    }
    Ok(())
}

/// What one cluster reports, as Karmada's `AggregatedStatusItem`.
fn item(rules: &RuleSet, catalog: &Catalog, member: &MemberObject) -> AggregatedStatusItem {
    let object = &member.object;
    let status = match rules::interpret(rules, catalog, &Request::Status { object }) {
        Ok(interpreted) => match interpreted.response {
            Response::Status(status) => Some(status).filter(|status| !status.is_null()),
            _ => None,
        },
        Err(_) => None,
    };
    AggregatedStatusItem {
        cluster_name: member.summary.cluster.to_string(),
        status,
        applied: true,
        applied_message: String::new(),
        health: health(rules, catalog, member).to_owned(),
    }
}

/// `Healthy`, `Unhealthy` or `Unknown`: by the rules, or else by what the index says.
fn health(rules: &RuleSet, catalog: &Catalog, member: &MemberObject) -> &'static str {
    let request = Request::Health {
        object: &member.object,
    };
    let known = rules::interpret(rules, catalog, &request).map(|interpreted| interpreted.response);
    match (known, member.summary.interpretation.health) {
        (Ok(Response::Health { healthy: true, .. }), _) | (_, "Healthy" | "Suspended") => "Healthy",
        (Ok(Response::Health { .. }), _) => "Unhealthy",
        (_, "" | "Unknown") => "Unknown",
        _ => "Unhealthy",
    }
}

/// The object of the first cluster without what belongs to that cluster, with the status of all, and a warning if no rule aggregates it.
fn merged_object(
    rules: &RuleSet,
    catalog: &Catalog,
    first: &MemberObject,
    items: &[AggregatedStatusItem],
) -> (Value, Option<String>) {
    let object = &first.object;
    let (status, warning) = aggregated_status(rules, catalog, first, items);
    let pruned = rules::interpret(rules, catalog, &Request::Prune { object });
    let mut merged = match pruned.map(|interpreted| interpreted.response) {
        Ok(Response::Pruned(pruned)) => pruned,
        _ => object.clone(),
    };
    if let Some(members) = merged.as_object_mut() {
        members.remove("status");
        if !status.is_null() {
            members.insert("status".to_owned(), status);
        }
    }
    (merged, warning)
}

fn aggregated_status(
    rules: &RuleSet,
    catalog: &Catalog,
    first: &MemberObject,
    items: &[AggregatedStatusItem],
) -> (Value, Option<String>) {
    let object = &first.object;
    let request = Request::AggregateStatus { object, items };
    let aggregated = rules::interpret(rules, catalog, &request);
    match aggregated.map(|interpreted| interpreted.response) {
        Ok(Response::AggregatedStatus(mut aggregated)) => (aggregated["status"].take(), None),
        // That of the only cluster is that of all.
        _ if items.len() == 1 => (object["status"].clone(), None),
        Ok(_) => (Value::Null, None),
        Err(_) if object["status"].is_null() => (Value::Null, None),
        Err(error) => (
            Value::Null,
            Some(format!("the status of all clusters is left out: {error}")),
        ),
    }
}

/// The result as JSON: a `MergedObject`, or a Table with a row for each cluster.
pub fn document(merged: &MergedObject, output: OutputKind) -> Result<Box<RawValue>, ApiError> {
    if let OutputKind::Table(version, _) = output {
        return raw(&rows(merged, version));
    }
    let mut metadata = json!({ "name": merged.name });
    if !merged.namespace.is_empty() {
        metadata["namespace"] = json!(merged.namespace);
    }
    raw(&json!({
        "kind": "MergedObject",
        "apiVersion": format!("{}/{VERSION}", GROUPS[0]),
        "metadata": metadata,
        "object": merged.object,
        "aggregatedStatus": merged.members.iter().map(member_status).collect::<Vec<Value>>(),
    }))
}

fn member_status(member: &MemberStatus) -> Value {
    let Interpretation {
        health,
        health_reason,
        health_message,
        ..
    } = &member.summary.interpretation;
    let mut status = serde_json::to_value(&member.item).unwrap_or_default();
    let assessment = [
        ("health", *health),
        ("reason", health_reason),
        ("message", health_message),
    ];
    let given = assessment.into_iter().filter(|(_, text)| !text.is_empty());
    let assessment: serde_json::Map<String, Value> = given
        .map(|(key, text)| (key.to_owned(), text.into()))
        .collect();
    if !assessment.is_empty() {
        status["assessment"] = assessment.into();
    }
    status
}

fn rows(merged: &MergedObject, version: MetaVersion) -> Value {
    let now = Timestamp::now();
    let row = |member: &MemberStatus| {
        let found = &member.summary.interpretation;
        let cells = json!([
            member.summary.cluster.as_str(),
            ready(found),
            found.health,
            found.health_reason,
            member.summary.age(now),
            found.health_message,
        ]);
        member.summary.row(&cells, version)
    };
    let rows: Vec<Value> = merged.members.iter().map(row).collect();
    table(&COLUMNS, &rows, version)
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
