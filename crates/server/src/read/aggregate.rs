//! Counts of objects by group.

use std::time::Duration;

use fleetdex_core::{
    model::DEPENDS_ON,
    query::{Group, GroupKey, Groups, aggregate::resolve_group_keys},
};
use fleetdex_interpreter::field_selector::IMAGE;
use fleetdex_query_api::{
    answer::{Answer, Counts, FoundObject, GroupCount, ListMetadata, Table, TableRow},
    group::API_VERSION,
    question::AggregateRequest,
};
use serde_json::Value;

use super::query_plan::{QueryPlan, refused};
use crate::{
    api_error::ApiError,
    catalog::RegisteredResource,
    render::representation::{MetaVersion, OutputKind},
    store_timeout::in_time,
};

/// How long the stores may take for all groups: some dozen pages for the largest result.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Refuses keys of which an object has several values, in several spellings: in groups that have
/// each object once, it would be counted under an accidental one.
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
    let counted = plan.stores.aggregate(&plan.query, &request.by, request.top);
    in_time(TIMEOUT, counted).await
}

/// The answer: an `Aggregate`, or the same as a Table.
pub fn answer(groups: Groups, request: &AggregateRequest, output: OutputKind) -> Answer {
    if let OutputKind::Table(version, _) = output {
        return Answer::Table(table(&groups, request, version));
    }
    let item = |group: Group| GroupCount {
        values: group.values,
        count: group.count,
    };
    Answer::Counts(Counts {
        kind: "Aggregate".to_owned(),
        api_version: API_VERSION.to_owned(),
        metadata: ListMetadata::default(),
        by: request.by.iter().map(name).collect(),
        total: groups.total,
        others: groups.others,
        items: groups.groups.into_iter().map(item).collect(),
    })
}

/// A column for each key, and one for the counts.
fn table(groups: &Groups, request: &AggregateRequest, version: MetaVersion) -> Table<FoundObject> {
    let keys = request.by.iter().map(|key| match key {
        GroupKey::Cluster => ("Cluster", "The member that holds the objects.", 0),
        GroupKey::Namespace => ("Namespace", "The namespace of the objects.", 0),
        GroupKey::Label(label) => (&**label, "The value of this label.", 0),
        GroupKey::Field(path) => (path.as_str(), "What this field reads.", 0),
    });
    let columns: Vec<_> = keys
        .chain([("Count", "How many objects there are.", 0)])
        .collect();
    let row = |group: &Group| {
        let values = group.values.iter();
        let values = values.map(|value| Value::from(value.as_deref().unwrap_or("<none>")));
        TableRow {
            cells: values.chain([group.count.into()]).collect(),
            object: None,
        }
    };
    let rows = groups.groups.iter().map(row).collect();
    let metadata = ListMetadata::default();
    let mut table = Table::new(version.api_version(), metadata, &columns, rows);
    let counts = table.column_definitions.iter_mut().flatten().last();
    if let Some(counts) = counts {
        "integer".clone_into(&mut counts.cell_type);
    }
    table
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
