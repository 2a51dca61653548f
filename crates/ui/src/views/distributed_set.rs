//! The objects of a set as a matrix: a row for each object, a column for each cluster, and how far
//! its rollout is.

use std::collections::{BTreeMap, BTreeSet};

use fleetdex_crds::distribution::{Distribution, RolloutStatus};
use fleetdex_distribution::{
    placement_report::{AppliedState, PlacementReport, PlacementRow},
    rollout::short,
    sets::SetName,
};
use http::StatusCode;
use maud::{Markup, html};

use super::{
    Shown,
    placements::{applied_mark, page_in, reasons, search_of},
};
use crate::{
    address::{encoded, of_search},
    bindings::{BindingsPage, BindingsQuestion},
    layout::{Live, health, warnings},
    other_words::{OtherWords, quoted},
    parameters::Parameters,
    query::{QueryApi, QueryRefusal},
    response::ROOT,
};

/// As for the objects of policies.
const REFRESH_SECONDS: u32 = 10;
/// Columns that are shown at a time. With the objects of a page these are a thousand cells.
const CLUSTERS: usize = 20;
/// Why the first page is shown in place of another one.
const EXPIRED: &str =
    "The next page of an earlier list is no longer to be had; these are the first objects.";

/// The address of a set's view.
pub(super) fn address(namespace: &str, name: &str) -> String {
    let (namespace, name) = (encoded(namespace), encoded(name));
    format!("{ROOT}/distribution/sets/{namespace}/{name}")
}

/// The view of a set.
pub(crate) async fn distributed_set(
    api: &dyn QueryApi,
    namespace: &str,
    name: &str,
    parameters: &Parameters,
) -> Shown {
    let title = format!("Distribution {namespace}/{name}");
    let read = read(api, namespace, name, parameters.get("continue")).await;
    let (set, page, missing) = match read {
        Ok(read) => read,
        Err(refused) => return Shown::unanswered(&title, &refused),
    };
    let first_column = parameters.get("column").parse().unwrap_or(0);
    let columns = Columns::of(&set, &page, first_column);
    let own = address(namespace, name);
    let in_other_words = OtherWords {
        kubectl: format!(
            "kubectl get distribution {} -n {} -o yaml",
            quoted(name),
            quoted(namespace)
        ),
        fleetdex: format!(
            "fleetdex rollout status {} -n {}",
            quoted(name),
            quoted(namespace)
        ),
        open_search: None,
    };
    let main = html! {
        h1 { (title) }
        (warnings(&missing))
        (summary(&set))
        div #distribution {
            @if page.reports.is_empty() { p { "No object of it is distributed." } }
            @else {
                (matrix(&page.reports, &columns))
                @if columns.has_others() { (columns.pages(&own, parameters.get("continue"))) }
                h2 { "Reasons" }
                @for report in &page.reports { (details(report)) }
            }
        }
        @if !page.continue_token.is_empty() {
            p.pages { a href={ (own) "?continue=" (encoded(&page.continue_token)) } { "More objects" } }
        }
        (in_other_words.render())
    };
    Shown {
        status: StatusCode::OK,
        live: Some(Live::Every(REFRESH_SECONDS)),
        ..Shown::new(title, main)
    }
}

/// The set, a page of the bindings of its objects, and what the answer lacks.
async fn read(
    api: &dyn QueryApi,
    namespace: &str,
    name: &str,
    continue_token: &str,
) -> Result<(Distribution, BindingsPage, Vec<String>), QueryRefusal> {
    let set = api.distribution(namespace, name).await?;
    let question = |continue_token: &str| BindingsQuestion::OfSet {
        set: SetName {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: set.metadata.uid.clone().unwrap_or_default(),
        },
        continue_token: continue_token.to_owned(),
    };
    match api.bindings(question(continue_token)).await {
        Err(refused) if refused.status == StatusCode::GONE => {
            let first = api.bindings(question("")).await?;
            Ok((set, first, vec![EXPIRED.to_owned()]))
        }
        page => Ok((set, page?, Vec::new())),
    }
}

/// The clusters that are shown.
struct Columns {
    /// With what the rollout says of each.
    shown: Vec<(String, &'static str)>,
    /// How many are before these, and how many there are.
    first: usize,
    all: usize,
}

impl Columns {
    fn of(set: &Distribution, page: &BindingsPage, first: usize) -> Self {
        let rows = page.reports.iter().flat_map(|report| &report.clusters);
        let clusters: BTreeSet<&str> = rows.map(|row| row.cluster.as_str()).collect();
        let all = clusters.len();
        let first = if first < all { first } else { 0 };
        let rollout = set
            .status
            .as_ref()
            .and_then(|status| status.rollout.as_ref());
        let shown = clusters.into_iter().skip(first).take(CLUSTERS);
        let shown = shown.map(|cluster| (cluster.to_owned(), wave(rollout, cluster)));
        Self {
            shown: shown.collect(),
            first,
            all,
        }
    }

    fn has_others(&self) -> bool {
        self.shown.len() < self.all
    }

    /// Links to the other columns.
    fn pages(&self, own: &str, continue_token: &str) -> Markup {
        let last = self.first + self.shown.len();
        let next = if last < self.all { last } else { 0 };
        let token = encoded(continue_token);
        html! {
            p.pages {
                "Clusters " (self.first + 1) " to " (last) " of " (self.all) ". "
                a href={ (own) "?column=" (next) "&continue=" (token) } {
                    @if next == 0 { "The first clusters" } @else { "More clusters" }
                }
            }
        }
    }
}

/// What a rollout that is not complete says of a cluster.
fn wave(rollout: Option<&RolloutStatus>, cluster: &str) -> &'static str {
    let under_way = rollout.filter(|rollout| {
        rollout.waves > 0 && !matches!(rollout.phase.as_str(), "Complete" | "Undone")
    });
    match under_way {
        None => "",
        Some(rollout) if rollout.reached.iter().any(|one| one == cluster) => "new revision",
        Some(_) => "waits for its wave",
    }
}

/// How the set is as a whole.
fn summary(set: &Distribution) -> Markup {
    let status = set.status.clone().unwrap_or_default();
    let ready = status.conditions.iter().find(|one| one.type_ == "Ready");
    let rollout = status.rollout.unwrap_or_default();
    let facts: [(&str, String); 5] = [
        ("Version", status.version),
        ("Clusters that have all of it", status.ready_clusters),
        ("Wave", rollout.progress),
        ("Revision", short(&rollout.revision).to_owned()),
        ("Stable revision", short(&rollout.stable).to_owned()),
    ];
    html! {
        @if let Some(ready) = ready {
            p {
                span.health data-health=(if ready.status == "True" { "Healthy" } else { "Progressing" }) {
                    "Ready is " (ready.status)
                }
                " (" (ready.reason) "): " (ready.message)
            }
        } @else { p { "It is not rendered yet." } }
        @if !rollout.phase.is_empty() {
            p { "Rollout: " b { (rollout.phase) } @if !rollout.message.is_empty() { ", " (rollout.message) } }
        }
        dl {
            @for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) { dt { (name) } dd { (value) } }
        }
    }
}

/// A row for each object, a column for each cluster.
fn matrix(reports: &[PlacementReport], columns: &Columns) -> Markup {
    html! {
        table.results role="table" aria-label="Objects and clusters" {
            thead role="rowgroup" { tr role="row" {
                th role="columnheader" scope="col" { "Object" }
                th role="columnheader" scope="col" { "Namespace" }
                @for (cluster, wave) in &columns.shown {
                    th role="columnheader" scope="col" { (cluster) @if !wave.is_empty() { " (" (wave) ")" } }
                }
            } }
            tbody role="rowgroup" { @for report in reports { (row(report, columns)) } }
        }
    }
}

fn row(report: &PlacementReport, columns: &Columns) -> Markup {
    let object = &report.object;
    let rows = report.clusters.iter();
    let placed: BTreeMap<&str, &PlacementRow> =
        rows.map(|row| (row.cluster.as_str(), row)).collect();
    let key = format!("{}/{}", object.namespace, report.object_word());
    html! {
        tr role="row" data-row data-key=(key) {
            th role="rowheader" scope="row" data-label="Object" { a href=(of_search(&search_of(object, None))) { (object.kind) " " (object.name) } }
            td role="cell" data-label="Namespace" .empty[object.namespace.is_empty()] { (object.namespace) }
            @for (cluster, _) in &columns.shown {
                @match placed.get(cluster.as_str()) {
                    Some(placed) => td role="cell" data-label=(cluster) { (cell(report, placed)) },
                    None => td.empty role="cell" data-label=(cluster) {},
                }
            }
        }
    }
}

/// What a cluster has of an object, in few words; why it is so is among the reasons.
fn cell(report: &PlacementReport, placed: &PlacementRow) -> Markup {
    let is_fine = placed.applied == AppliedState::Yes && !placed.health.is_empty();
    let state = if is_fine {
        health(&placed.health)
    } else {
        applied_mark(placed.applied)
    };
    let replicas = placed.desired.map(|desired| match placed.actual {
        Some(actual) => format!("{actual}/{desired}"),
        None => format!("?/{desired}"),
    });
    html! {
        @match page_in(&report.object, &placed.cluster) {
            Some(address) => a href=(address) { (state) },
            None => (state),
        }
        @if let Some(replicas) = replicas { " " (replicas) }
    }
}

/// Why an object is as it is. Those that are not as they shall be are open.
fn details(report: &PlacementReport) -> Markup {
    let rows = report.clusters.iter();
    let messages: Vec<&PlacementRow> = rows.filter(|row| !row.message.is_empty()).collect();
    html! {
        details open[!report.is_applied() || report.left_out > 0] {
            summary { (report.object) }
            @if !messages.is_empty() {
                ul aria-label="Clusters" { @for row in messages { li { b { (row.cluster) } ": " (row.message) } } }
            }
            (reasons(report))
        }
    }
}
