//! The clusters and registries of the fleet.

use fleetdex_crds::registry::{Phase, RegistryClusterStatus, Summary};
use fleetdex_query_api::answer::{ClusterReport, ClusterState, FleetReport, RegistryReport};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use maud::{Markup, html};

use super::{Shown, search::of_cluster};
use crate::{
    address::of_search,
    layout::{Live, problem, warnings},
    other_words::{OtherWords, ShownExplanation, explained, raw},
    parameters::Parameters,
    query::{Accept, QueryAnswer, QueryApi, ask},
    tables::ShownTable,
};

/// Where the query API says how the fleet is read.
const PATH: &str = "/clusters";

/// Where it counts the objects of each cluster that do not work.
const UNHEALTHY: &str = "/objects?q=health%3ADegraded%2CMissing&limit=1&facets=cluster";

/// The columns with numbers.
const NUMBERS: [&str; 4] = ["Kinds", "Objects", "Degraded or missing", "Lag"];

/// Progress of a first sync is worth watching; each time costs a report of the fleet and a count of
/// what is unhealthy.
const REFRESH_SECONDS: u32 = 10;

/// The view of the fleet.
pub(crate) async fn fleet(api: &dyn QueryApi, parameters: &Parameters) -> Shown {
    let (fleet, unhealthy, open_search) = futures::join!(
        ask::<FleetReport>(api, PATH, Accept::Json),
        ask::<ShownTable>(api, UNHEALTHY, Accept::Table),
        explained(api, &[UNHEALTHY], parameters)
    );
    match fleet {
        Ok(answered) => {
            let main = html! {
                h1 { "The fleet" }
                (warnings(&answered.warnings))
                @match &unhealthy {
                    Ok(counted) => (warnings(&counted.warnings)),
                    Err(uncounted) => (problem(&uncounted.message)),
                }
                div #fleet {
                    (clusters(&answered.value, &unhealthy))
                    (registries(registries_of(&answered.value)))
                }
                (in_other_words(open_search).render())
            };
            Shown {
                live: Some(Live::Every(REFRESH_SECONDS)),
                ..Shown::new("Fleet", main)
            }
        }
        Err(unanswered) => Shown::unanswered("The fleet", &unanswered),
    }
}

/// OpenSearch knows nothing of clusters and registries but their objects.
fn in_other_words(open_search: ShownExplanation) -> OtherWords {
    OtherWords {
        kubectl: format!(
            "{}\n{}\nkubectl get resourceregistries -o yaml",
            raw(PATH),
            raw(UNHEALTHY)
        ),
        fleetdex: "fleetdex clusters -o yaml\nfleetdex search health:Degraded,Missing --facets"
            .to_owned(),
        open_search: Some(open_search),
    }
}

/// A number of things, such as `1 cluster`.
fn counted(count: u64, thing: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {thing}{ending}")
}

fn clusters(fleet: &FleetReport, unhealthy: &QueryAnswer<ShownTable>) -> Markup {
    let unhealthy = unhealthy.as_ref().ok();
    let unhealthy = unhealthy.and_then(|answered| answered.value.facet("cluster"));
    let columns = [
        "Cluster",
        "State",
        "Kinds",
        "Objects",
        "Degraded or missing",
        "Lag",
        "Last in sync",
        "Read by",
    ];
    html! {
        h2 { "Clusters (" (fleet.clusters.len()) ")" }
        @if fleet.clusters.is_empty() { p { "No registry selects a cluster that you may see." } } @else {
            table.results role="table" aria-label="Clusters" {
                thead role="rowgroup" { tr role="row" { @for column in columns { th.number[NUMBERS.contains(&column)] role="columnheader" scope="col" { (column) } } } }
                tbody role="rowgroup" {
                    @for cluster in &fleet.clusters {
                        @let counted = unhealthy.and_then(|facet| facet.values.iter().find(|value| value.value == cluster.name.as_str()).map_or((facet.others == 0).then_some(0), |value| Some(value.count)));
                        (cluster_row(cluster, registries_of(fleet), counted))
                    }
                }
            }
        }
    }
}

/// The registries that the caller may see.
fn registries_of(fleet: &FleetReport) -> &[RegistryReport] {
    fleet.registries.as_deref().unwrap_or_default()
}

fn cluster_row(
    cluster: &ClusterReport,
    registries: &[RegistryReport],
    unhealthy: Option<u64>,
) -> Markup {
    let of_registries = registries
        .iter()
        .flat_map(|registry| &registry.status.clusters);
    let is_it = |status: &&RegistryClusterStatus| status.name == cluster.name.as_str();
    let of_registries: Vec<_> = of_registries.filter(is_it).collect();
    let objects: u64 = of_registries.iter().map(|cluster| cluster.objects).sum();
    let synced = of_registries
        .iter()
        .filter_map(|cluster| cluster.last_sync_time.as_ref());
    let last = synced.max();
    let word = match (cluster.state, cluster.gaps.is_empty()) {
        (ClusterState::Current, true) => "Healthy",
        (ClusterState::Current, false) => "Progressing",
        _ => "Degraded",
    };
    let search = of_cluster(&cluster.name);
    html! {
        tr role="row" data-row data-key=(cluster.name) {
            th role="rowheader" scope="row" data-label="Cluster" { a href=(of_search(&search)) { (cluster.name) } }
            td role="cell" data-label="State" {
                span.health data-health=(word) { (cluster.state.as_str()) }
                @if !cluster.message.is_empty() { span.message { (cluster.message) } }
                @if let Some(since) = cluster.since { span.message { "Shown as of " (since) "." } }
                @if !cluster.gaps.is_empty() { ul.gaps { @for gap in &cluster.gaps { li { (gap) } } } }
            }
            td.number role="cell" data-label="Kinds" { (cluster.kinds) }
            td.number role="cell" data-label="Objects" { @if !of_registries.is_empty() { (objects) } }
            td.number role="cell" data-label="Degraded or missing" {
                @match unhealthy {
                    Some(0) => "0",
                    Some(count) => { a href=(of_search(&format!("{search} health:Degraded,Missing"))) { (count) } },
                    None => "",
                }
            }
            td.number role="cell" data-label="Lag" { @if let Some(seconds) = cluster.lag_seconds { (seconds) " s" } }
            td role="cell" data-label="Last in sync" data-age { (time(last)) }
            td role="cell" data-label="Read by" { (cluster.replica.as_deref().unwrap_or("this replica")) }
        }
    }
}

/// A time as the API has it; empty without one.
fn time(time: Option<&Time>) -> String {
    let text = time.map(|time| time.0.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    text.unwrap_or_default()
}

fn registries(registries: &[RegistryReport]) -> Markup {
    html! {
        @if !registries.is_empty() {
            h2 { "Registries (" (registries.len()) ")" }
            @for report in registries { (registry(report)) }
        }
    }
}

fn registry(report: &RegistryReport) -> Markup {
    let Summary {
        clusters,
        objects,
        kinds_by_phase,
        ..
    } = report.status.summary.clone().unwrap_or_default();
    let kinds: u64 = kinds_by_phase.values().sum();
    let synced = kinds_by_phase.get(&Phase::Synced).copied();
    let synced = synced.unwrap_or_default();
    let failing = report.status.clusters.iter();
    let failing: Vec<&RegistryClusterStatus> = failing
        .filter(|cluster| cluster.phase != Phase::Synced || !cluster.kinds.is_empty())
        .collect();
    html! {
        section.registry aria-label={ "Registry " (report.name) } {
            h3 { (report.name) }
            p { (counted(clusters, "cluster")) ", " (counted(objects, "object")) ", " (synced) " of " (counted(kinds, "kind")) " in sync" }
            @if synced < kinds { progress max=(kinds) value=(synced) aria-label={ "Kinds of " (report.name) " in sync" } {} }
            ul.conditions { @for known in &report.status.conditions { (condition(known)) } }
            @if !failing.is_empty() {
                details open[failing.len() < 10] {
                    summary { (counted(failing.len() as u64, "cluster")) @if failing.len() == 1 { " is" } @else { " are" } " not wholly in sync" }
                    ul { @for cluster in failing { (failing_cluster(cluster)) } }
                }
            }
        }
    }
}

/// Most conditions are `True` if something is right; those that name a problem are `True` if there
/// is one.
fn condition(condition: &Condition) -> Markup {
    let is_good = !matches!(&*condition.type_, "Conflict" | "MissingFields");
    let word = match (is_good, &*condition.status) {
        (true, "True") | (false, "False") => "Healthy",
        (_, "Unknown") => "Progressing",
        _ => "Degraded",
    };
    html! {
        li {
            span.health data-health=(word) { (condition.type_) " is " (condition.status) } " (" (condition.reason) "): " (condition.message)
            " " span.since { "since " (time(Some(&condition.last_transition_time))) }
        }
    }
}

fn failing_cluster(cluster: &RegistryClusterStatus) -> Markup {
    let word = match cluster.phase {
        Phase::Failed | Phase::NotFound => "Degraded",
        _ => "Progressing",
    };
    html! {
        li {
            b { (cluster.name) } " " span.health data-health=(word) { (cluster.phase.as_str()) } @if !cluster.message.is_empty() { ": " (cluster.message) }
            @if cluster.last_audit_time.is_some() { " " span.since data-age { "compared with the cluster at " (time(cluster.last_audit_time.as_ref())) } }
            @if !cluster.kinds.is_empty() {
                ul { @for kind in &cluster.kinds {
                    li { (kind.kind) @if !kind.namespace.is_empty() { " in " (kind.namespace) } ": " (kind.phase.as_str()) @if !kind.message.is_empty() { ", " (kind.message) } }
                }
                @if cluster.omitted_kinds > 0 { li { "and " (cluster.omitted_kinds) " more" } } }
            }
        }
    }
}
