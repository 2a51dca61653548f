//! One object of one cluster.

use axum::response::Response;
use fleetdex_distribution::placement_report::PlacementReport;
use fleetdex_query_api::answer::{Direction, FoundAnnotations, RelatedObject, RelatedObjectList};
use http::StatusCode;
use jiff::Timestamp;
use maud::{Markup, html};
use serde_json::Value;

use super::{
    Shown, placements,
    result_table::ResultRow,
    search::{of_cluster, same_object},
};
use crate::{
    address::{ObjectAddress, encoded, of_search},
    graph::{GraphNode, picture},
    layout::{Live, health, problem, warnings},
    other_words::{OtherWords, ShownExplanation, explained, get_command, raw},
    parameters::{Parameters, not_older_than},
    query::{Accept, QueryAnswer, QueryApi, QueryRefusal, ask},
    response::{ROOT, text_response},
    stored_object::stored_object,
    tables::{ShownTable, address, cell, metadata},
    yaml,
};

/// Events that are shown, the newest.
const EVENTS: usize = 50;
/// Clusters whose object of the same name is shown.
const CLUSTERS: usize = 500;

/// What the view shows.
struct ObjectParts<'v> {
    address: &'v ObjectAddress,
    object: &'v Value,
    as_of: Option<&'v str>,
    /// `None`: it is not distributed, as far as the caller may know.
    distribution: Option<Result<PlacementReport, QueryRefusal>>,
    relations: QueryAnswer<RelatedObjectList>,
    elsewhere: QueryAnswer<ShownTable>,
    events: QueryAnswer<ShownTable>,
    question: OtherWords,
}

/// The view of an object.
pub(crate) async fn object(
    api: &dyn QueryApi,
    address: &ObjectAddress,
    parameters: &Parameters,
) -> Shown {
    let title = format!("{} {}", address.path.resource(), address.path.name);
    // When this shows the version of an event, the other questions do, too.
    let found = match stored_object(api, address, &not_older_than(parameters)).await {
        Ok(found) => found,
        Err(unanswered) => return Shown::unanswered(&title, &unanswered),
    };
    let object = &found.value.object;
    let kind = object["kind"].as_str().unwrap_or_default();
    let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
    let related = format!(
        "/related{}?clusters={}",
        address.path.of_object(),
        encoded(address.cluster.as_str())
    );
    let elsewhere = format!(
        "/objects?q={}&limit={CLUSTERS}",
        encoded(&same_object(&address.path))
    );
    let events = events_path(address, uid);
    let here = address.query();
    let explained_paths = [&*here];
    let (distribution, relations, elsewhere, events, open_search) = futures::join!(
        placements::of_object(api, object),
        ask(api, &related, Accept::Json),
        ask(api, &elsewhere, Accept::Table),
        ask(api, &events, Accept::Table),
        explained(api, &explained_paths, parameters)
    );
    let parts = ObjectParts {
        address,
        object,
        as_of: found.value.as_of.as_deref(),
        distribution,
        relations,
        elsewhere,
        events,
        question: in_other_words(address, open_search),
    };
    let main = html! { (warnings(&found.warnings)) (parts.render(kind)) };
    Shown {
        live: Some(Live::Events(format!("{ROOT}/events{}", address.query()))),
        ..Shown::new(format!("{kind} {}", address.path.name), main)
    }
}

/// Events about the object. Those about cluster-scoped objects are in a namespace, too.
fn events_path(address: &ObjectAddress, uid: &str) -> String {
    let namespace = address.path.namespace.as_ref();
    let namespace = namespace.map(|name| format!("/namespaces/{}", encoded(name)));
    let namespace = namespace.unwrap_or_default();
    format!(
        "/clusters/{}/api/v1{namespace}/events?fieldSelector={}&limit={EVENTS}&orderBy={}",
        encoded(address.cluster.as_str()),
        encoded(&format!("involvedObject.uid={uid}")),
        encoded("metadata.creationTimestamp desc")
    )
}

fn in_other_words(address: &ObjectAddress, open_search: ShownExplanation) -> OtherWords {
    OtherWords {
        kubectl: raw(&address.query()),
        fleetdex: get_command(address),
        open_search: Some(open_search),
    }
}

/// The object as YAML, as plain text.
pub(crate) async fn download(api: &dyn QueryApi, address: &ObjectAddress) -> Response {
    let (status, text) = match stored_object(api, address, "").await {
        Ok(found) => (StatusCode::OK, yaml::print(&found.value.object)),
        Err(unanswered) => (unanswered.status, unanswered.message),
    };
    text_response(status, "text/plain; charset=utf-8", text)
}

impl ObjectParts<'_> {
    fn render(&self, kind: &str) -> Markup {
        let Self {
            address, object, ..
        } = self;
        let path = &address.path;
        html! {
            article.object {
                h1 { span.kind { (kind) } " " (path.name) }
                dl.facts #facts {
                    (fact("Cluster", &html! { a href=(of_search(&of_cluster(&address.cluster))) { (address.cluster) } }))
                    @if let Some(namespace) = &path.namespace {
                        (fact("Namespace", &html! { a href=(of_search(&format!("ns:{namespace}"))) { (namespace) } }))
                    }
                    (self.health())
                    (fact("Created", &time(object["metadata"]["creationTimestamp"].as_str())))
                    @if let Some(changed) = last_change(object) { (fact("Last change of a condition", &changed)) }
                    (fact("Shown as of", &self.freshness()))
                }
                @if let Some(distribution) = &self.distribution {
                    section aria-labelledby="distribution" #distribution-section { h2 #distribution { "Distribution" } (placements::section(distribution, &address.cluster)) }
                }
                section aria-labelledby="relations" #relations-section { h2 #relations { "Relations" } (self.relations(kind)) }
                section aria-labelledby="clusters" #clusters-section { h2 #clusters { "In all clusters" } (self.elsewhere()) }
                section aria-labelledby="events" #events-section { h2 #events { "Events" } (self.events()) }
                section aria-labelledby="yaml-title" #yaml-section { h2 #yaml-title { "YAML" } (self.yaml()) }
                (self.question.render())
            }
        }
    }

    /// Its health, as the search in all clusters shows it.
    fn health(&self) -> Markup {
        let Ok(elsewhere) = &self.elsewhere else {
            return html! {};
        };
        let table = &elsewhere.value;
        let mut objects = table.rows.iter().filter_map(metadata);
        let here = objects.find(|found| address(found).as_ref() == Some(self.address));
        let Some(here) = here else {
            return html! {};
        };
        let FoundAnnotations {
            health: word,
            health_reason: reason,
            health_message: message,
            ..
        } = &here.annotations;
        html! {
            @if !word.is_empty() {
                (fact("Health", &html! { (health(word)) @if !reason.is_empty() { " " span.reason { (reason) } } @if !message.is_empty() { span.message { (message) } } }))
            }
        }
    }

    fn freshness(&self) -> Markup {
        match self.as_of {
            Some(time) => html! { strong { (time) } " (the cluster is not read at present)" },
            None => html! { time data-age { (now()) } " (the index follows the cluster)" },
        }
    }

    fn relations(&self, kind: &str) -> Markup {
        let answered = match &self.relations {
            Ok(answered) => answered,
            Err(unanswered) => return problem(&unanswered.message),
        };
        let items = &answered.value.items;
        let nodes = |direction: Direction| -> Vec<GraphNode> {
            let items = items.iter();
            let items = items.filter(|item| item.relation.direction == direction);
            items.map(node).collect()
        };
        let center = GraphNode {
            kind: kind.to_owned(),
            name: self.address.path.name.clone(),
            health: String::new(),
            relation: String::new(),
            page: None,
        };
        html! {
            (warnings(&answered.warnings))
            @if items.is_empty() { p { "Nothing uses this object, and it uses nothing, as far as the index knows." } }
            (picture(&center, &nodes(Direction::UsedBy), &nodes(Direction::Uses)))
            @if !items.is_empty() {
                ul.relations {
                    @for item in items { (related(item)) }
                }
            }
        }
    }

    fn elsewhere(&self) -> Markup {
        let answered = match &self.elsewhere {
            Ok(answered) => answered,
            Err(unanswered) => return problem(&unanswered.message),
        };
        let table = &answered.value;
        let rows = table.rows.iter().map(ResultRow::of);
        // The search also finds kinds of the same name in other groups.
        let path = &self.address.path;
        let is_same = |row: &ResultRow| {
            let other = row.object.as_ref().map(|object| &object.path);
            other.is_some_and(|other| {
                (&other.group, &other.plural) == (&path.group, &path.plural)
                    && (&other.namespace, &other.name) == (&path.namespace, &path.name)
            })
        };
        let mut rows: Vec<ResultRow> = rows.filter(is_same).collect();
        rows.sort_by_cached_key(|row| {
            let cluster = row.object.as_ref().map(|object| object.cluster.clone());
            (cluster.as_ref() != Some(&self.address.cluster), cluster)
        });
        html! {
            (warnings(&answered.warnings))
            @if !table.metadata.continue_token.is_empty() { p.hint { "There are more clusters than these." } }
            table.results role="table" aria-label="The object in all clusters" {
                thead role="rowgroup" { tr role="row" { @for name in ["Cluster", "Health", "Reason", "Age", "Differences"] { th role="columnheader" scope="col" { (name) } } } }
                tbody role="rowgroup" { @for result in &rows { (self.elsewhere_row(table, result)) } }
            }
        }
    }

    fn elsewhere_row(&self, table: &ShownTable, result: &ResultRow) -> Markup {
        let Some(object) = &result.object else {
            return html! {};
        };
        let is_here = object.cluster == self.address.cluster;
        let compare = format!(
            "{ROOT}/compare{}?left={}&right={}",
            self.address.path.of_object(),
            encoded(self.address.cluster.as_str()),
            encoded(object.cluster.as_str())
        );
        html! {
            tr role="row" data-row data-key=(object.cluster) {
                th role="rowheader" scope="row" data-label="Cluster" { @if is_here { b { (object.cluster) } " (this one)" } @else { a href=(object.page()) { (object.cluster) } } }
                td role="cell" data-label="Health" { (health(&cell(table, &result.row, "Health"))) }
                td role="cell" data-label="Reason" { (cell(table, &result.row, "Reason")) }
                td role="cell" data-label="Age" data-age { (cell(table, &result.row, "Age")) }
                td role="cell" data-label="Differences" { @if !is_here { a href=(compare) { "Compare" span.invisible { " with " (object.cluster) } } } }
            }
        }
    }

    fn events(&self) -> Markup {
        let answered = match &self.events {
            Ok(answered) => answered,
            Err(unanswered) => return html! { p.hint { (unanswered.message) } },
        };
        let table = &answered.value;
        let rows = table.rows.iter().map(|row| ResultRow {
            object: None,
            row: row.clone(),
        });
        let rows: Vec<ResultRow> = rows.collect();
        html! {
            (warnings(&answered.warnings))
            @if rows.is_empty() { p { "No events." } } @else { (super::result_table::table("Events", table.columns(), &rows)) }
            @if !table.metadata.continue_token.is_empty() { p.hint { "These are the newest " (EVENTS) "; there are older ones." } }
        }
    }

    fn yaml(&self) -> Markup {
        let text = yaml::print(self.object);
        let address = format!("{}?format=yaml", self.address.page());
        html! {
            p.tools {
                a href=(address) { "Plain text" }
                button type="button" hidden data-copy-from=(address) { "Copy" span.invisible { " the YAML" } }
                label hidden data-yaml-search { "Find " input type="search" autocomplete="off" spellcheck="false"; }
                span role="status" data-yaml-found {}
            }
            @match yaml::folded(&text) {
                Some(folded) => (folded),
                None => { p { "The object has " (text.len() / 1024) " KiB, more than a page shows well: it is there as " a href=(address) { "plain text" } "." } },
            }
        }
    }
}

fn node(item: &RelatedObject) -> GraphNode {
    GraphNode {
        kind: item.kind.clone(),
        name: item.metadata.name.clone(),
        health: item.metadata.annotations.health.clone(),
        relation: item.relation.name.clone(),
        page: page(item),
    }
}

/// Objects that do not exist have no view.
fn page(item: &RelatedObject) -> Option<String> {
    let address = address(&item.metadata).filter(|_| item.relation.exists);
    address.as_ref().map(ObjectAddress::page)
}

fn related(item: &RelatedObject) -> Markup {
    let metadata = &item.metadata;
    let name = html! { (item.kind) " " (metadata.name) };
    html! {
        li {
            span.direction { (item.relation.direction.as_str()) } " "
            @if let Some(page) = page(item) { a href=(page) { (name) } } @else { (name) }
            @if !metadata.namespace.is_empty() { " in " (metadata.namespace) }
            " " span.relation { "(" (item.relation.name) ")" }
            " " (health(&metadata.annotations.health))
        }
    }
}

fn fact(name: &str, value: &Markup) -> Markup {
    html! { div { dt { (name) } dd { (value) } } }
}

fn time(text: Option<&str>) -> Markup {
    match text {
        Some(text) => html! { time datetime=(text) { (text) } },
        None => html! { "unknown" },
    }
}

fn now() -> String {
    let now = Timestamp::from_second(Timestamp::now().as_second());
    now.map(|time| time.to_string()).unwrap_or_default()
}

/// The newest transition of a condition.
fn last_change(object: &Value) -> Option<Markup> {
    let conditions = object["status"]["conditions"].as_array()?;
    let timed = conditions
        .iter()
        .filter_map(|condition| Some((condition["lastTransitionTime"].as_str()?, condition)));
    let (at, condition) = timed.max_by_key(|(time, _)| *time)?;
    Some(html! {
        (time(Some(at))) " " (condition["type"].as_str().unwrap_or_default()) ": " (condition["status"].as_str().unwrap_or_default())
    })
}
