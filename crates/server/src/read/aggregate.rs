//! Counts of objects by group.

use std::time::Duration;

use fleetdex_core::{
    model::DEPENDS_ON,
    query::{Group, GroupKey, Groups, aggregate::resolve_group_keys},
};
use fleetdex_interpreter::field_selector::IMAGE;
use fleetdex_query_api::{
    group::{GROUPS, VERSION},
    question::AggregateRequest,
};
use serde_json::{Value, json, value::RawValue};
use tokio::time::timeout;

use super::query_plan::{QueryPlan, refused};
use crate::{
    api_error::ApiError,
    catalog::RegisteredResource,
    render::representation::{MetaVersion, OutputKind},
};

/// How long the stores may take for all groups: some dozen pages for the largest result.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Refuses keys of which an object has several values, in several spellings: in groups that have each object once, it would be counted under an accidental one.
pub fn check_keys(
    registered: Option<&RegisteredResource>,
    request: &AggregateRequest,
) -> Result<(), ApiError> {
    let is_interpreted =
        |path: &str| registered.is_some_and(|registered| registered.is_interpreted(path));
    for key in &request.by {
        let GroupKey::Field(path) = key else { continue };
        let remedy = match path.as_str() {
            IMAGE => "/images counts Pods by image and cluster",
            DEPENDS_ON => "fieldSelector=dependsOn=... selects the objects that refer to one",
            _ => continue,
        };
        if is_interpreted(path.as_str()) {
            return Err(ApiError::bad_request(format!(
                "parameter by: an object may have several values of {path}, and is counted once; {remedy}"
            )));
        }
    }
    Ok(())
}

/// Counts the objects that a list would show.
pub async fn count(plan: QueryPlan, request: &AggregateRequest) -> Result<Groups, ApiError> {
    for part in plan.stores.parts() {
        resolve_group_keys(&part.query(&plan.query), &request.by)
            .map_err(|error| refused("by", &error, &part.name))?;
    }
    if plan.is_empty {
        return Ok(Groups::default());
    }
    let counted = timeout(
        TIMEOUT,
        plan.stores.aggregate(&plan.query, &request.by, request.top),
    )
    .await;
    Ok(counted.map_err(|_| ApiError::Timeout(TIMEOUT.as_secs()))??)
}

/// The result as JSON: an `Aggregate`, or the same as a Table.
pub fn document(
    groups: &Groups,
    request: &AggregateRequest,
    output: OutputKind,
) -> Result<Box<RawValue>, ApiError> {
    if let OutputKind::Table(version, _) = output {
        return raw(&table(groups, request, version));
    }
    let items: Vec<Value> = groups
        .groups
        .iter()
        .map(|group| json!({ "values": group.values, "count": group.count }))
        .collect();
    raw(&json!({
        "kind": "Aggregate",
        "apiVersion": format!("{}/{VERSION}", GROUPS[0]),
        "metadata": {},
        "by": request.by.iter().map(name).collect::<Vec<String>>(),
        "total": groups.total,
        "others": groups.others,
        "items": items,
    }))
}

/// A column for each key, and one for the counts.
fn table(groups: &Groups, request: &AggregateRequest, version: MetaVersion) -> Value {
    let column = |name: &str, kind: &str, description: &str| json!({ "name": name, "type": kind, "format": "", "description": description, "priority": 0 });
    let keys = request.by.iter().map(|key| match key {
        GroupKey::Cluster => column("Cluster", "string", "The member that holds the objects."),
        GroupKey::Namespace => column("Namespace", "string", "The namespace of the objects."),
        GroupKey::Label(label) => column(label, "string", "The value of this label."),
        GroupKey::Field(path) => column(path.as_str(), "string", "What this field reads."),
    });
    let columns: Vec<Value> = keys
        .chain([column("Count", "integer", "How many objects there are.")])
        .collect();
    let row = |group: &Group| {
        let values = group
            .values
            .iter()
            .map(|value| json!(value.as_deref().unwrap_or("<none>")));
        json!({ "cells": values.chain([json!(group.count)]).collect::<Vec<Value>>() })
    };
    json!({
        "kind": "Table",
        "apiVersion": version.api_version(),
        "metadata": {},
        "columnDefinitions": columns,
        "rows": groups.groups.iter().map(row).collect::<Vec<Value>>(),
    })
}

/// Serializes a document.
pub fn raw(document: &Value) -> Result<Box<RawValue>, ApiError> {
    serde_json::value::to_raw_value(document).map_err(|error| ApiError::Internal(error.to_string()))
}

/// A key as it is written in the parameter `by`.
pub fn name(key: &GroupKey) -> String {
    match key {
        GroupKey::Cluster => "cluster".to_owned(),
        GroupKey::Namespace => "metadata.namespace".to_owned(),
        GroupKey::Label(label) => format!("label:{label}"),
        GroupKey::Field(path) => path.to_string(),
    }
}
