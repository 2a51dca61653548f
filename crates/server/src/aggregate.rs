//! Counts: which groups are asked for, and the answer.

use std::time::Duration;

use fleetdex_core::query::{Group, GroupKey, Groups, aggregate::grouped};
use serde_json::{Value, json, value::RawValue};
use tokio::time::timeout;

use super::{
    representation::{Form, MetaVersion},
    request::{AggregateRequest, GROUPS, VERSION},
    status::ApiError,
    target::{Target, refused},
};

/// How long the store may take for all groups: some dozen pages of the largest answer.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Counts what a list would show.
pub async fn count(target: Target, request: &AggregateRequest) -> Result<Groups, ApiError> {
    for part in target.stores.parts() {
        grouped(&part.query(&target.query), &request.by)
            .map_err(|error| refused("by", &error, &part.name))?;
    }
    if target.nothing_to_ask {
        return Ok(Groups::default());
    }
    let counted = timeout(
        TIMEOUT,
        target
            .stores
            .aggregate(&target.query, &request.by, request.top),
    )
    .await;
    Ok(counted.map_err(|_| ApiError::Timeout(TIMEOUT.as_secs()))??)
}

/// The answer as JSON: an `Aggregate`, or the same as a Table.
pub fn answer(
    groups: &Groups,
    request: &AggregateRequest,
    form: Form,
) -> Result<Box<RawValue>, ApiError> {
    if let Form::Table(version, _) = form {
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

/// A document that is made here.
pub fn raw(document: &Value) -> Result<Box<RawValue>, ApiError> {
    serde_json::value::to_raw_value(document).map_err(|error| ApiError::Internal(error.to_string()))
}

/// A key as requests name it.
pub fn name(key: &GroupKey) -> String {
    match key {
        GroupKey::Cluster => "cluster".to_owned(),
        GroupKey::Namespace => "metadata.namespace".to_owned(),
        GroupKey::Label(label) => format!("label:{label}"),
        GroupKey::Field(path) => path.to_string(),
    }
}
