//! The search over all kinds.

use std::collections::{BTreeMap, BTreeSet};

use fleetdex_core::model::ClusterName;
use fleetdex_query_api::answer::{FacetCounts, TableColumn};
use fleetdex_search::{Condition, MAX_BYTES, MAX_TERMS, Search, parse};
use maud::{Markup, html};

use super::{
    Shown,
    result_table::{ResultRow, key, table},
};
use crate::{
    address::{NativePath, ObjectAddress, encoded, of_search},
    layout::{Live, problem, warnings},
    other_words::{OtherWords, ShownExplanation, explained, quoted, raw},
    parameters::{Parameters, not_older_than},
    query::{Accept, Answered, QueryAnswer, QueryApi, ask},
    response::ROOT,
    tables::{ShownRow, ShownTable, address, metadata},
};

/// Objects of a page.
const LIMIT: usize = 50;
/// Values of a facet that are shown before the others unfold.
const FACET_VALUES: usize = 8;
/// The facets, by their names in the query API, with their titles.
const FACETS: [(&str, &str); 4] = [
    ("kind", "Kind"),
    ("cluster", "Cluster"),
    ("namespace", "Namespace"),
    ("health", "Health"),
];

/// The view of a search.
pub(crate) async fn search(api: &dyn QueryApi, parameters: &Parameters) -> Shown {
    let text = parameters.get("q").trim();
    let title = if text.is_empty() {
        "All objects".to_owned()
    } else {
        format!("Search: {text}")
    };
    let question = question_path(text);
    let explained_paths = [&*question];
    let (answer, explanation) = futures::join!(
        page_or_first(api, &question, parameters),
        explained(api, &explained_paths, parameters)
    );
    let shown = match answer {
        Ok(answered) => {
            let columns = columns_of_one_kind(api, &answered.value).await;
            let question = in_other_words(text, &question, explanation);
            let events = format!("{ROOT}/events?q={}", encoded(text));
            Shown {
                live: Some(Live::Events(events)),
                ..Shown::new(title, render(text, &answered, columns, &question))
            }
        }
        Err(unanswered) => {
            let message = unanswered.message.trim_start_matches("parameter q: ");
            let main = html! { h1.invisible { (title) } (problem(message)) (examples()) };
            Shown {
                status: unanswered.status,
                ..Shown::new(title.clone(), main)
            }
        }
    };
    Shown {
        search: text.to_owned(),
        ..shown
    }
}

/// The page that the parameters name, or the first one if that is no longer to be had.
async fn page_or_first(
    api: &dyn QueryApi,
    question: &str,
    parameters: &Parameters,
) -> QueryAnswer<ShownTable> {
    let next = parameters.get("continue");
    let version = not_older_than(parameters);
    let first = format!("{}{version}", page_path(question, ""));
    if next.is_empty() {
        return ask(api, &first, Accept::Table).await;
    }
    // A page after the first one has no version: the first one is waited for.
    if !version.is_empty() {
        let first = format!("{question}&limit=1{version}");
        let _shown = ask::<ShownTable>(api, &first, Accept::Table).await;
    }
    let page = ask(api, &page_path(question, next), Accept::Table).await;
    if page.is_ok() {
        return page;
    }
    let mut first = ask::<ShownTable>(api, &first, Accept::Table).await?;
    let text = "The next page of an earlier result is no longer to be had; this is the first page.";
    first.warnings.push(text.to_owned());
    Ok(first)
}

/// The question about a text, below the group and version.
fn question_path(text: &str) -> String {
    format!("/objects?q={}", encoded(text))
}

fn page_path(question: &str, next: &str) -> String {
    let facets = FACETS.map(|(name, _)| name).join(",");
    let start = if next.is_empty() {
        String::new()
    } else {
        format!("&continue={}", encoded(next))
    };
    format!("{question}&limit={LIMIT}&facets={facets}{start}")
}

fn in_other_words(text: &str, question: &str, open_search: ShownExplanation) -> OtherWords {
    OtherWords {
        kubectl: raw(question),
        fleetdex: format!("fleetdex search -- {}", quoted(text)),
        open_search: Some(open_search),
    }
}

/// The Table of the only kind that was found, which has columns of its own. `None` if there are
/// several kinds, or if it cannot be had.
async fn columns_of_one_kind(api: &dyn QueryApi, found: &ShownTable) -> Option<ShownTable> {
    let kinds = found.facet("kind")?;
    if kinds.values.len() != 1 || kinds.others > 0 {
        return None;
    }
    let rows = found.rows.iter();
    let objects: Vec<ObjectAddress> = rows.filter_map(|row| address(metadata(row)?)).collect();
    let resource = &objects.first()?.path;
    let is_same = |object: &ObjectAddress| {
        object.path.group == resource.group && object.path.plural == resource.plural
    };
    if !objects.iter().all(is_same) {
        return None;
    }
    let of = |part: fn(&ObjectAddress) -> &str| {
        let values: BTreeSet<&str> = objects.iter().map(part).collect();
        let given = values.into_iter().filter(|value| !value.is_empty());
        given.map(encoded).collect::<Vec<_>>().join(",")
    };
    let path = format!(
        "/search{}?names={}&clusters={}&namespaces={}&limit=500",
        resource.of_all_namespaces(),
        of(|object| &object.path.name),
        of(|object| object.cluster.as_str()),
        of(|object| object.path.namespace.as_deref().unwrap_or_default()),
    );
    let table = ask::<ShownTable>(api, &path, Accept::Table).await.ok()?;
    Some(table.value)
}

fn render(
    text: &str,
    answered: &Answered<ShownTable>,
    of_one_kind: Option<ShownTable>,
    question: &OtherWords,
) -> Markup {
    let found = &answered.value;
    let search = parse(text).unwrap_or_default();
    html! {
        div.search-view {
            section.found aria-labelledby="found" {
                h1 #found { (counted(total(found))) @if text.is_empty() { " in all clusters" } }
                (terms(&search))
                (warnings(&answered.warnings))
                div #results {
                    @if found.rows.is_empty() { (nothing_found(text)) } @else { (rows(found, of_one_kind)) }
                    @if !found.metadata.continue_token.is_empty() {
                        nav.pages aria-label="Pages of the result" {
                            a rel="next" href={ (ROOT) "/?q=" (encoded(text)) "&continue=" (encoded(&found.metadata.continue_token)) } { "Next page" }
                        }
                    }
                }
                (question.render())
            }
            (facets(&search, found))
        }
    }
}

/// How many objects all pages have together. Each object has one kind.
fn total(found: &ShownTable) -> u64 {
    match found.facet("kind").filter(|kinds| !kinds.values.is_empty()) {
        Some(kinds) => kinds.values.iter().map(|kind| kind.count).sum::<u64>() + kinds.others,
        None => found.rows.len() as u64 + found.metadata.remaining_item_count.unwrap_or_default(),
    }
}

fn counted(count: u64) -> String {
    if count == 1 {
        return "1 object".to_owned();
    }
    let digits = count.to_string();
    let mut grouped = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{grouped} objects")
}

/// The rows of the page: with the columns of their kind where they are known.
fn rows(found: &ShownTable, of_one_kind: Option<ShownTable>) -> Markup {
    let addressed: Vec<ResultRow> = found.rows.iter().map(ResultRow::of).collect();
    if let Some(of_kind) = of_one_kind {
        let by_uid = of_kind.rows.iter().map(|row| (key(row), row));
        let by_uid: BTreeMap<String, &ShownRow> = by_uid.collect();
        let joined = addressed.iter().map(|result| {
            let row = ShownRow::clone(by_uid.get(&key(&result.row))?);
            let object = result.object.clone();
            Some(ResultRow { row, object })
        });
        let joined: Option<Vec<ResultRow>> = joined.collect();
        // An object that has gone since would be missing: then all have the columns that every kind
        // has.
        if let Some(joined) = joined {
            return with_namespaces(of_kind.column_definitions.unwrap_or_default(), joined);
        }
    }
    table("Found objects", found.columns(), &addressed)
}

/// A Table of one kind has no column of namespaces: clients add it, as kubectl does.
fn with_namespaces(mut columns: Vec<TableColumn>, mut rows: Vec<ResultRow>) -> Markup {
    let namespace_of = |row: &ResultRow| {
        let metadata = metadata(&row.row);
        metadata.map_or_else(String::new, |metadata| metadata.namespace.clone())
    };
    if rows.iter().any(|row| !namespace_of(row).is_empty()) {
        let after_cluster = columns.len().min(1);
        let column = TableColumn {
            name: "Namespace".to_owned(),
            ..TableColumn::default()
        };
        columns.insert(after_cluster, column);
        for row in &mut rows {
            let namespace = namespace_of(row).into();
            let at = after_cluster.min(row.row.cells.len());
            row.row.cells.insert(at, namespace);
        }
    }
    table("Found objects", &columns, &rows)
}

/// The terms of the search, each with the search without it.
fn terms(search: &Search) -> Markup {
    html! {
        @if !search.terms.is_empty() {
            ul.terms aria-label="Terms of the search" {
                @for (position, term) in search.terms.iter().enumerate() {
                    li { a href=(of_search(&without(search, position))) { (term) " " span aria-hidden="true" { "×" } span.invisible { "remove this term" } } }
                }
            }
        }
    }
}

fn without(search: &Search, position: usize) -> String {
    let mut terms = search.terms.clone();
    terms.remove(position);
    Search { terms }.to_string()
}

fn facets(search: &Search, found: &ShownTable) -> Markup {
    html! {
        nav.facets aria-label="Narrow the search" {
            @for (name, title) in FACETS {
                @if let Some(facet) = found.facet(name) { (values(search, facet, title)) }
            }
        }
    }
}

fn values(search: &Search, facet: &FacetCounts, title: &str) -> Markup {
    let given = facet.values.iter();
    let given: Vec<_> = given.filter(|counted| !counted.value.is_empty()).collect();
    let (first, others) = given.split_at(given.len().min(FACET_VALUES));
    let item = |value: &str, count: u64| {
        html! {
            li { @match narrowed(search, &facet.name, value) {
                Narrowed::To(address) => { a href=(address) { (value) } },
                Narrowed::Already => { b aria-current="true" { (value) } },
                Narrowed::Impossible => { (value) },
            } " " span.count { (count) } }
        }
    };
    html! {
        @if !given.is_empty() {
            section {
                h2 { (title) }
                ul { @for counted in first { (item(&counted.value, counted.count)) } }
                @if !others.is_empty() {
                    details { summary { (others.len()) " more" } ul { @for counted in others { (item(&counted.value, counted.count)) } } }
                }
                @if facet.others > 0 { p.others { (facet.others) " objects with other values" } }
            }
        }
    }
}

/// What a value of a facet leads to.
enum Narrowed {
    To(String),
    Already,
    Impossible,
}

fn narrowed(search: &Search, facet: &str, value: &str) -> Narrowed {
    let Some(condition) = condition(facet, value) else {
        return Narrowed::Impossible;
    };
    let has = |term: &fleetdex_search::Term| !term.negated && term.condition == condition;
    if search.terms.iter().any(has) {
        return Narrowed::Already;
    }
    let Ok(added) = parse(&condition.to_string()) else {
        return Narrowed::Impossible;
    };
    let terms = search.terms.iter().cloned().chain(added.terms);
    let longer = Search {
        terms: terms.collect(),
    };
    let text = longer.to_string();
    // A search may have no room for another term.
    if longer.terms.len() > MAX_TERMS || text.len() > MAX_BYTES {
        return Narrowed::Impossible;
    }
    Narrowed::To(of_search(&text))
}

fn condition(facet: &str, value: &str) -> Option<Condition> {
    match facet {
        "kind" => Some(Condition::Kind(vec![value.to_owned()])),
        "cluster" => Some(Condition::Cluster(vec![value.parse().ok()?])),
        "namespace" => Some(Condition::Namespace(vec![value.parse().ok()?])),
        "health" => Some(Condition::Health(vec![value.to_owned()])),
        _ => None,
    }
}

fn nothing_found(text: &str) -> Markup {
    html! {
        p { "No object that you may list matches" @if !text.is_empty() { " " code { (text) } } "." }
        (examples())
    }
}

fn examples() -> Markup {
    let examples = [
        ("nginx:1.27", "where this image runs, among other matches"),
        ("health:Degraded age:<1d", "what fails and is new"),
        ("kind:Deployment label:app=web", "a kind by a label"),
        ("uses:secret/shop/credentials", "what uses a Secret"),
    ];
    html! {
        dl.examples { @for (text, meaning) in examples { dt { a href=(of_search(text)) { code { (text) } } } dd { (meaning) } } }
    }
}

/// The search for what a cluster has.
pub(super) fn of_cluster(cluster: &ClusterName) -> String {
    Condition::Cluster(vec![cluster.clone()]).to_string()
}

/// The search that finds an object of this name in all clusters, as far as a search can say it.
pub(super) fn same_object(path: &NativePath) -> String {
    let mut conditions = vec![
        Condition::Kind(vec![path.resource()]),
        Condition::Name(vec![path.name.clone()]),
    ];
    let namespace = path.namespace.as_deref().and_then(|name| name.parse().ok());
    conditions.extend(namespace.map(|namespace| Condition::Namespace(vec![namespace])));
    let texts: Vec<String> = conditions.iter().map(ToString::to_string).collect();
    texts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_objects_are_readable() {
        assert_eq!(counted(0), "0 objects");
        assert_eq!(counted(1), "1 object");
        assert_eq!(counted(1_234_567), "1,234,567 objects");
    }

    #[test]
    fn a_value_of_a_facet_narrows_the_search() {
        let search = parse("web kind:Pod").unwrap();
        assert!(matches!(
            narrowed(&search, "kind", "Pod"),
            Narrowed::Already
        ));
        let Narrowed::To(address) = narrowed(&search, "namespace", "shop") else {
            panic!("not narrowed");
        };
        assert_eq!(address, "/ui/?q=web%20kind%3APod%20ns%3Ashop");
        assert_eq!(without(&search, 0), "kind:Pod");
    }

    #[test]
    fn the_same_object_is_found_by_kind_name_and_namespace() {
        let path =
            NativePath::decode("/apis/apps/v1/namespaces/shop/deployments/checkout").unwrap();
        assert_eq!(
            same_object(&path),
            "kind:deployments.apps name:checkout ns:shop"
        );
    }
}
