//! The clusters and registries of the fleet.

use std::collections::BTreeMap;

use maud::{Markup, html};
use serde::Deserialize;

use super::{Shown, search::of_cluster};
use crate::{
    address::of_search,
    layout::{Live, problem, warnings},
    other_words::{Explanation, OtherWords, explained, raw},
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

/// Progress of a first sync is worth watching; each time costs a report of the fleet and a count of what is unhealthy.
const REFRESH_SECONDS: u32 = 10;

/// How the fleet is read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct FleetAnswer {
    clusters: Vec<ClusterAnswer>,
    registries: Vec<RegistryAnswer>,
}

/// How a cluster is read.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClusterAnswer {
    name: String,
    state: String,
    message: String,
    since: String,
    lag_seconds: Option<f64>,
    replica: String,
    kinds: usize,
    gaps: Vec<String>,
}

/// The status of a registry.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RegistryAnswer {
    name: String,
    status: RegistryStatusAnswer,
}

/// What the status of a registry says.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RegistryStatusAnswer {
    conditions: Vec<ConditionAnswer>,
    clusters: Vec<RegistryClusterAnswer>,
    summary: SummaryAnswer,
}

/// A condition.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ConditionAnswer {
    r#type: String,
    status: String,
    reason: String,
    message: String,
    last_transition_time: String,
}

/// A cluster of a registry.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RegistryClusterAnswer {
    name: String,
    phase: String,
    message: String,
    objects: u64,
    last_sync_time: String,
    last_audit_time: String,
    kinds: Vec<RegistryKindAnswer>,
    omitted_kinds: u64,
}

/// A kind that is not in sync.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RegistryKindAnswer {
    kind: String,
    namespace: String,
    phase: String,
    message: String,
}

/// Counts of a registry.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SummaryAnswer {
    clusters: u64,
    objects: u64,
    kinds_by_phase: BTreeMap<String, u64>,
}

/// The view of the fleet.
pub(crate) async fn fleet(api: &dyn QueryApi, parameters: &Parameters) -> Shown {
    let (fleet, unhealthy, open_search) = futures::join!(
        ask::<FleetAnswer>(api, PATH, Accept::Json),
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
                    (registries(&answered.value.registries))
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
fn in_other_words(open_search: Explanation) -> OtherWords {
    OtherWords {
        kubectl: format!(
            "{}\n{}\nkubectl get resourceregistries -o yaml",
            raw(PATH),
            raw(UNHEALTHY)
        ),
        fleetdex: "fleetdex clusters -o yaml\nfleetdex search health:Degraded,Missing --facets"
            .to_owned(),
        open_search,
    }
}

/// A number of things, such as `1 cluster`.
fn counted(count: u64, thing: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {thing}{ending}")
}

fn clusters(fleet: &FleetAnswer, unhealthy: &QueryAnswer<ShownTable>) -> Markup {
    let unhealthy = unhealthy
        .as_ref()
        .ok()
        .and_then(|answered| answered.value.facet("cluster"));
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
                        @let counted = unhealthy.and_then(|facet| facet.values.iter().find(|value| value.value == cluster.name).map_or((facet.others == 0).then_some(0), |value| Some(value.count)));
                        (cluster.render(&fleet.registries, counted))
                    }
                }
            }
        }
    }
}

impl ClusterAnswer {
    /// The search for what it has.
    fn search(&self) -> String {
        self.name
            .parse()
            .map(|name| of_cluster(&name))
            .unwrap_or_default()
    }

    fn render(&self, registries: &[RegistryAnswer], unhealthy: Option<u64>) -> Markup {
        let of_registries: Vec<&RegistryClusterAnswer> = registries
            .iter()
            .flat_map(|registry| &registry.status.clusters)
            .filter(|cluster| cluster.name == self.name)
            .collect();
        let objects: u64 = of_registries.iter().map(|cluster| cluster.objects).sum();
        let last = of_registries
            .iter()
            .map(|cluster| &*cluster.last_sync_time)
            .max();
        let word = match (&*self.state, self.gaps.is_empty()) {
            ("Current", true) => "Healthy",
            ("Current", false) => "Progressing",
            _ => "Degraded",
        };
        html! {
            tr role="row" data-row data-key=(self.name) {
                th role="rowheader" scope="row" data-label="Cluster" { a href=(of_search(&self.search())) { (self.name) } }
                td role="cell" data-label="State" {
                    span.health data-health=(word) { (self.state) }
                    @if !self.message.is_empty() { span.message { (self.message) } }
                    @if !self.since.is_empty() { span.message { "Shown as of " (self.since) "." } }
                    @if !self.gaps.is_empty() { ul.gaps { @for gap in &self.gaps { li { (gap) } } } }
                }
                td.number role="cell" data-label="Kinds" { (self.kinds) }
                td.number role="cell" data-label="Objects" { @if !of_registries.is_empty() { (objects) } }
                td.number role="cell" data-label="Degraded or missing" {
                    @match unhealthy {
                        Some(0) => "0",
                        Some(count) => { a href=(of_search(&format!("{} health:Degraded,Missing", self.search()))) { (count) } },
                        None => "",
                    }
                }
                td.number role="cell" data-label="Lag" { @if let Some(seconds) = self.lag_seconds { (seconds) " s" } }
                td role="cell" data-label="Last in sync" data-age { (last.unwrap_or_default()) }
                td role="cell" data-label="Read by" { @if self.replica.is_empty() { "this replica" } @else { (self.replica) } }
            }
        }
    }
}

fn registries(registries: &[RegistryAnswer]) -> Markup {
    html! {
        @if !registries.is_empty() {
            h2 { "Registries (" (registries.len()) ")" }
            @for registry in registries { (registry.render()) }
        }
    }
}

impl RegistryAnswer {
    fn render(&self) -> Markup {
        let SummaryAnswer {
            clusters,
            objects,
            kinds_by_phase,
        } = &self.status.summary;
        let kinds: u64 = kinds_by_phase.values().sum();
        let synced = kinds_by_phase.get("Synced").copied().unwrap_or_default();
        let failing = self
            .status
            .clusters
            .iter()
            .filter(|cluster| cluster.phase != "Synced" || !cluster.kinds.is_empty());
        let failing: Vec<&RegistryClusterAnswer> = failing.collect();
        html! {
            section.registry aria-label={ "Registry " (self.name) } {
                h3 { (self.name) }
                p { (counted(*clusters, "cluster")) ", " (counted(*objects, "object")) ", " (synced) " of " (counted(kinds, "kind")) " in sync" }
                @if synced < kinds { progress max=(kinds) value=(synced) aria-label={ "Kinds of " (self.name) " in sync" } {} }
                ul.conditions { @for condition in &self.status.conditions { (condition.render()) } }
                @if !failing.is_empty() {
                    details open[failing.len() < 10] {
                        summary { (counted(failing.len() as u64, "cluster")) @if failing.len() == 1 { " is" } @else { " are" } " not wholly in sync" }
                        ul { @for cluster in failing { (cluster.render()) } }
                    }
                }
            }
        }
    }
}

impl ConditionAnswer {
    /// Most conditions are `True` if something is right; those that name a problem are `True` if there is one.
    fn render(&self) -> Markup {
        let is_good = !matches!(&*self.r#type, "Conflict" | "MissingFields");
        let word = match (is_good, &*self.status) {
            (true, "True") | (false, "False") => "Healthy",
            (_, "Unknown") => "Progressing",
            _ => "Degraded",
        };
        html! {
            li {
                span.health data-health=(word) { (self.r#type) " is " (self.status) } " (" (self.reason) "): " (self.message)
                @if !self.last_transition_time.is_empty() { " " span.since { "since " (self.last_transition_time) } }
            }
        }
    }
}

impl RegistryClusterAnswer {
    fn render(&self) -> Markup {
        let word = if self.phase == "Failed" || self.phase == "NotFound" {
            "Degraded"
        } else {
            "Progressing"
        };
        html! {
            li {
                b { (self.name) } " " span.health data-health=(word) { (self.phase) } @if !self.message.is_empty() { ": " (self.message) }
                @if !self.last_audit_time.is_empty() { " " span.since data-age { "compared with the cluster at " (self.last_audit_time) } }
                @if !self.kinds.is_empty() {
                    ul { @for kind in &self.kinds {
                        li { (kind.kind) @if !kind.namespace.is_empty() { " in " (kind.namespace) } ": " (kind.phase) @if !kind.message.is_empty() { ", " (kind.message) } }
                    }
                    @if self.omitted_kinds > 0 { li { "and " (self.omitted_kinds) " more" } } }
                }
            }
        }
    }
}
