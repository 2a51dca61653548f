//! Extents as OpenSearch queries, however many kinds they name.

use std::collections::{BTreeMap, BTreeSet};

use fleetdex_core::model::index_fields;
use serde_json::{Value, json};

use crate::{Extent, KindExtent, opensearch::dsl::either};

/// Alternatives of one query. Each has at most three clauses, so that a query stays below
/// OpenSearch's limit of 1,024 clauses (`indices.query.bool.max_clause_count`).
const MAX_ALTERNATIVES: usize = 300;

/// Queries that together find every document of an extent, each document by exactly one of them.
/// Usually there is just one.
pub(crate) fn extent_queries(extent: &Extent) -> Vec<Value> {
    match extent {
        Extent::Kind(kind) => vec![kind_query(kind)],
        Extent::Outside(kinds) => {
            let alternatives = outside(kinds);
            alternatives.chunks(MAX_ALTERNATIVES).map(either).collect()
        }
    }
}

fn kind_query(extent: &KindExtent) -> Value {
    let mut filter = vec![
        json!({ "term": { (index_fields::API_VERSION): extent.api_version } }),
        json!({ "term": { (index_fields::KIND): extent.kind } }),
    ];
    if let Some(namespace) = &extent.namespace {
        filter.push(json!({ "term": { (index_fields::NAMESPACE): namespace } }));
    }
    json!({ "bool": { "filter": filter } })
}

/// The ways in which a document is outside of all of `kinds`; no document matches two of them. Its
/// apiVersion is not among theirs; or it is and the kind is not among those of that apiVersion; or
/// it is and the namespace is not among those of that kind.
fn outside(kinds: &[KindExtent]) -> Vec<Value> {
    let by_version = group(kinds);
    let versions: Vec<&&str> = by_version.keys().collect();
    let mut alternatives = vec![
        json!({ "bool": { "must_not": [{ "terms": { (index_fields::API_VERSION): versions } }] } }),
    ];
    for (version, covered) in &by_version {
        let names: Vec<&&str> = covered.keys().collect();
        alternatives.push(json!({ "bool": {
            "filter": [{ "term": { (index_fields::API_VERSION): version } }],
            "must_not": [{ "terms": { (index_fields::KIND): names } }],
        } }));
        let mut by_namespaces: BTreeMap<&BTreeSet<&str>, Vec<&str>> = BTreeMap::new();
        for (kind, namespaces) in covered {
            if let Namespaces::Some(names) = namespaces {
                by_namespaces.entry(names).or_default().push(kind);
            }
        }
        for (namespaces, kinds_alike) in by_namespaces {
            alternatives.push(json!({ "bool": {
                "filter": [{ "term": { (index_fields::API_VERSION): version } }, { "terms": { (index_fields::KIND): kinds_alike } }],
                "must_not": [{ "terms": { (index_fields::NAMESPACE): namespaces } }],
            } }));
        }
    }
    alternatives
}

/// The namespaces in which a kind is covered.
enum Namespaces<'a> {
    All,
    Some(BTreeSet<&'a str>),
}

/// The covered namespaces, by apiVersion and kind.
fn group(kinds: &[KindExtent]) -> BTreeMap<&str, BTreeMap<&str, Namespaces<'_>>> {
    let mut grouped: BTreeMap<&str, BTreeMap<&str, Namespaces<'_>>> = BTreeMap::new();
    for extent in kinds {
        let of_version = grouped.entry(&extent.api_version).or_default();
        let covered = of_version
            .entry(&extent.kind)
            .or_insert_with(|| Namespaces::Some(BTreeSet::new()));
        match (&extent.namespace, covered) {
            (None, covered) => *covered = Namespaces::All,
            (Some(namespace), Namespaces::Some(names)) => {
                names.insert(namespace.as_str());
            }
            (Some(_), Namespaces::All) => {}
        }
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(api_version: &str, name: &str, namespace: Option<&str>) -> KindExtent {
        let namespace = namespace.map(|namespace| namespace.parse().unwrap());
        KindExtent {
            api_version: api_version.to_owned(),
            kind: name.to_owned(),
            namespace,
        }
    }

    #[test]
    fn an_outside_extent_splits_by_version_then_kind_then_namespace() {
        let kinds = [
            kind("v1", "Pod", Some("web")),
            kind("v1", "Secret", None),
            kind("v1", "Service", Some("web")),
            kind("v1", "ConfigMap", Some("a")),
            kind("v1", "ConfigMap", None),
            kind("apps/v1", "Deployment", None),
        ];
        let queries = extent_queries(&Extent::Outside(kinds.to_vec()));
        let alternatives = queries[0]["bool"]["should"].as_array().unwrap();
        let lines: Vec<String> = alternatives
            .iter()
            .map(|alternative| alternative["bool"].to_string())
            .collect();
        insta::assert_snapshot!(lines.join("\n"), @r#"
        {"must_not":[{"terms":{"apiVersion":["apps/v1","v1"]}}]}
        {"filter":[{"term":{"apiVersion":"apps/v1"}}],"must_not":[{"terms":{"kind":["Deployment"]}}]}
        {"filter":[{"term":{"apiVersion":"v1"}}],"must_not":[{"terms":{"kind":["ConfigMap","Pod","Secret","Service"]}}]}
        {"filter":[{"term":{"apiVersion":"v1"}},{"terms":{"kind":["Pod","Service"]}}],"must_not":[{"terms":{"metadata.namespace":["web"]}}]}
        "#);
        assert_eq!(queries.len(), 1);
    }

    #[test]
    fn an_extent_of_many_versions_takes_several_queries() {
        let kinds = (0..600)
            .map(|number| kind(&format!("g{number}.io/v1"), "Widget", Some("web")))
            .collect();
        let queries = extent_queries(&Extent::Outside(kinds));
        let sizes: Vec<usize> = queries
            .iter()
            .map(|query| query["bool"]["should"].as_array().unwrap().len())
            .collect();
        assert_eq!(sizes, [300, 300, 300, 300, 1]);
    }

    #[test]
    fn outside_of_nothing_is_everything() {
        let queries = extent_queries(&Extent::Outside(Vec::new()));
        insta::assert_snapshot!(queries[0]["bool"]["should"][0], @r#"{"bool":{"must_not":[{"terms":{"apiVersion":[]}}]}}"#);
    }
}
