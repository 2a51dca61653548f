//! Distributed objects with their clusters as a table, and why they are where they are.

use fleetdex_core::{
    kinds,
    model::{ClusterName, Gvk, qualified, split_api_version},
};
use fleetdex_distribution::{
    placement_report::{AppliedState, PlacementCondition, PlacementReport, PlacementRow},
    template_name::TemplateName,
};
use fleetdex_search::Condition;
use http::StatusCode;
use maud::{Markup, html};
use serde_json::Value;

use crate::{
    address::{NativePath, ObjectAddress, encoded, of_search},
    bindings::BindingsQuestion,
    layout::{health, problem},
    query::{QueryApi, QueryRefusal},
    response::ROOT,
};

/// The columns with numbers.
const NUMBERS: [&str; 2] = ["Desired", "Actual"];

/// What the table has besides the clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ObjectColumns {
    /// Nothing: it is about one object.
    None,
    /// The name of each object.
    Name,
    /// Its namespace, too.
    NameAndNamespace,
}

impl ObjectColumns {
    fn all(self) -> Vec<&'static str> {
        let of_object: &[&str] = match self {
            Self::None => &[],
            Self::Name => &["Object"],
            Self::NameAndNamespace => &["Object", "Namespace"],
        };
        let of_cluster = [
            "Cluster", "Desired", "Actual", "Applied", "Health", "Message",
        ];
        of_object.iter().copied().chain(of_cluster).collect()
    }
}

/// What the control plane distributes of an object; `None`: nothing, as far as the caller may know.
pub(super) async fn of_object(
    api: &dyn QueryApi,
    object: &Value,
) -> Option<Result<PlacementReport, QueryRefusal>> {
    let owners = object["metadata"]["ownerReferences"].as_array();
    let mut owners = owners.into_iter().flatten();
    // These are never distributed.
    let has_controller = owners.any(|owner| owner["controller"] == true);
    if !api.distributes() || has_controller {
        return None;
    }
    let question = BindingsQuestion::OfObject(TemplateName::of(object));
    match api.bindings(question).await {
        Ok(page) => page.reports.into_iter().next().map(Ok),
        Err(refused) if is_silent(refused.status) => None,
        Err(refused) => Some(Err(refused)),
    }
}

/// Whether there is no binding, or none that the caller may know of.
fn is_silent(status: StatusCode) -> bool {
    matches!(status, StatusCode::NOT_FOUND | StatusCode::FORBIDDEN)
}

/// The part of the view of an object in a cluster that says where the control plane distributes it.
pub(super) fn section(
    distribution: &Result<PlacementReport, QueryRefusal>,
    here: &ClusterName,
) -> Markup {
    let report = match distribution {
        Ok(report) => report,
        Err(refused) => return problem(&refused.message),
    };
    let address = match &*report.object.namespace {
        "" => format!("{ROOT}/distribution?scope=cluster"),
        namespace => format!("{ROOT}/distribution?namespace={}", encoded(namespace)),
    };
    let mut rows = report.clusters.iter();
    let is_here = rows.any(|row| row.cluster == here.as_str());
    html! {
        p {
            "The control plane distributes " (report.object.kind) " " (report.object.name)
            @if let Some(policy) = &report.policy { " by the policy " (policy) }
            @if !is_here { ", and not to this cluster" } ". "
            a href=(address) { "What else is distributed" }
        }
        (table("Distribution", std::slice::from_ref(report), ObjectColumns::None))
        (reasons(report))
    }
}

/// A row for each object and cluster.
pub(super) fn table(caption: &str, reports: &[PlacementReport], columns: ObjectColumns) -> Markup {
    html! {
        table.results role="table" aria-label=(caption) {
            thead role="rowgroup" { tr role="row" { @for column in columns.all() { th.number[NUMBERS.contains(&column)] role="columnheader" scope="col" { (column) } } } }
            tbody role="rowgroup" {
                @for report in reports {
                    @let remark = report.remark();
                    @if !remark.is_empty() { (row(report, &remark_row(remark), columns)) }
                    @for placed in &report.clusters { (row(report, placed, columns)) }
                }
            }
        }
    }
}

/// What is to be said of an object in all clusters.
fn remark_row(message: String) -> PlacementRow {
    PlacementRow {
        applied: AppliedState::No,
        message,
        ..PlacementRow::default()
    }
}

fn row(report: &PlacementReport, placed: &PlacementRow, columns: ObjectColumns) -> Markup {
    let object = &report.object;
    let key = format!(
        "{}/{}/{}",
        object.namespace,
        report.object_word(),
        placed.cluster
    );
    html! {
        tr role="row" data-row data-key=(key) {
            @if columns != ObjectColumns::None {
                th role="rowheader" scope="row" data-label="Object" { a href=(of_search(&search_of(object, None))) { (object.kind) " " (object.name) } }
            }
            @if columns == ObjectColumns::NameAndNamespace { td role="cell" data-label="Namespace" { (object.namespace) } }
            (cluster_cell(object, &placed.cluster, columns))
            (number_cell("Desired", placed.desired))
            (number_cell("Actual", placed.actual))
            td role="cell" data-label="Applied" { (applied_mark(placed.applied)) }
            td role="cell" data-label="Health" .empty[placed.health.is_empty()] { (health(&placed.health)) }
            td role="cell" data-label="Message" .empty[placed.message.is_empty()] { (placed.message) }
        }
    }
}

fn cluster_cell(object: &TemplateName, cluster: &str, columns: ObjectColumns) -> Markup {
    let name = html! {
        @match page_in(object, cluster) {
            Some(address) => a href=(address) { (cluster) },
            None => (cluster),
        }
    };
    html! {
        @if columns == ObjectColumns::None { th role="rowheader" scope="row" data-label="Cluster" { (name) } }
        @else { td role="cell" data-label="Cluster" .empty[cluster.is_empty()] { (name) } }
    }
}

fn number_cell(column: &str, number: Option<i64>) -> Markup {
    html! { td.number role="cell" data-label=(column) .empty[number.is_none()] { @if let Some(number) = number { (number) } } }
}

/// Whether a cluster has an object as it shall be.
pub(super) fn applied_mark(state: AppliedState) -> Markup {
    let (word, mark) = match state {
        AppliedState::Yes => ("Healthy", "●"),
        AppliedState::No => ("Degraded", "▲"),
        AppliedState::Leaving => ("Progressing", "◐"),
        AppliedState::Unknown => ("Unknown", "?"),
    };
    html! { span.health data-health=(word) { span.mark aria-hidden="true" { (mark) } " " (state.as_str()) } }
}

/// The address of the object in a cluster: its view, if it is known how its resource is called
/// there, or else a search. `None` for text that is no name of a cluster.
pub(super) fn page_in(object: &TemplateName, cluster: &str) -> Option<String> {
    let cluster: ClusterName = cluster.parse().ok()?;
    let gvk = Gvk::from_api_version(&object.api_version, &object.kind);
    let Some(built_in) = kinds::find(&gvk) else {
        return Some(of_search(&search_of(object, Some(cluster))));
    };
    let namespace = Some(&object.namespace).filter(|namespace| !namespace.is_empty());
    let path = NativePath {
        group: built_in.group.to_owned(),
        version: built_in.version.to_owned(),
        namespace: namespace.cloned(),
        plural: built_in.plural.to_owned(),
        name: object.name.clone(),
    };
    Some(ObjectAddress { cluster, path }.page())
}

/// The search that finds the object in a cluster, or in all of them.
pub(super) fn search_of(object: &TemplateName, cluster: Option<ClusterName>) -> String {
    let (group, _) = split_api_version(&object.api_version);
    let mut conditions = vec![
        Condition::Kind(vec![qualified(&object.kind, group)]),
        Condition::Name(vec![object.name.clone()]),
    ];
    let namespace = object.namespace.parse().ok();
    conditions.extend(namespace.map(|namespace| Condition::Namespace(vec![namespace])));
    conditions.extend(cluster.map(|cluster| Condition::Cluster(vec![cluster])));
    let texts: Vec<String> = conditions.iter().map(ToString::to_string).collect();
    texts.join(" ")
}

/// The clusters that are not chosen, and the conditions.
pub(super) fn reasons(report: &PlacementReport) -> Markup {
    html! {
        @if report.left_out > 0 { (problem(&format!("{} clusters are left out, because the page shows no more. Ask with fleetdex distribute status.", report.left_out))) }
        @if !report.conditions.is_empty() {
            ul.conditions aria-label="Conditions" { @for one in &report.conditions { (condition(one)) } }
        }
        @if !report.not_chosen.is_empty() {
            p { "Not chosen:" }
            ul aria-label="Clusters that are not chosen" {
                @for group in &report.not_chosen { li { b { (group.clusters.join(", ")) } ": " (group.reason) } }
            }
        }
    }
}

/// Some are true where something waits; the others are true where all is well.
fn condition(condition: &PlacementCondition) -> Markup {
    let word = match (&*condition.kind, &*condition.status) {
        ("DeletionHeld" | "FailoverBlocked", "True") => "Progressing",
        ("DeletionHeld", "False") | (_, "True") => "Healthy",
        (_, "False") => "Degraded",
        _ => "Unknown",
    };
    html! {
        li {
            span.health data-health=(word) { (condition.kind) " is " (condition.status) } " (" (condition.reason) "): " (condition.message)
            " " span.since { "since " (condition.last_transition_time) }
        }
    }
}
