//! Property of the DSL translation: OpenSearch finds what `QueryReference::matches` selects, for
//! generated queries and objects.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failing helper of a test fails the test"
)]

use std::{borrow::Cow, collections::BTreeMap};

use fleetdex_core::{
    model::{FieldPath, FieldType, Gvk, Quantity, SelectableField, number, quantity},
    query::{
        CheckedQuery, Grant, Owners, Permitted, Query, RankedQuery, Requester, ResourceName,
        Selectable, Word, WordSelector, WordText, field_term, label_number_term, label_term,
    },
};
use fleetdex_store::opensearch::dsl;
use proptest::{collection, prelude::*, sample::select, strategy::ValueTree as _};
use serde_json::Value;

use crate::query_reference::{QueryReference as _, Searchable};

/// The kind of every object.
const KIND: &str = "Widget";

#[derive(Clone, Debug)]
struct Object {
    cluster: String,
    resource: ResourceName,
    namespace: Option<String>,
    name: String,
    labels: BTreeMap<String, String>,
    fields: BTreeMap<String, String>,
    /// In milliseconds since 1970.
    created: Option<i64>,
    owners: Vec<String>,
}

impl Searchable for Object {
    fn cluster(&self) -> &str {
        &self.cluster
    }

    fn resource(&self) -> &ResourceName {
        &self.resource
    }

    fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or_default()
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn created(&self) -> Option<i64> {
        self.created
    }

    fn uid(&self) -> Cow<'_, str> {
        "uid".into()
    }

    fn owners(&self) -> Vec<Cow<'_, str>> {
        self.owners.iter().map(Cow::from).collect()
    }

    fn dependencies(&self) -> Vec<Cow<'_, str>> {
        Vec::new()
    }

    fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).map(String::as_str)
    }

    fn field(&self, path: &str) -> Option<Cow<'_, str>> {
        self.fields.get(path).map(Cow::from)
    }

    fn texts(&self) -> Vec<WordText<'_>> {
        let labels = self.labels.iter();
        let labels = labels.map(|(key, value)| WordText::Label(key, value));
        let whole = [KIND, &self.cluster, self.namespace(), &self.name];
        labels.chain(whole.map(WordText::Whole)).collect()
    }
}

fn fields() -> Vec<SelectableField> {
    let field = |path: &str, kind| SelectableField {
        path: FieldPath::new(path),
        sources: vec![FieldPath::new(path)],
        kind,
    };
    vec![
        field("spec.text", FieldType::Text),
        field("spec.count", FieldType::Number),
        field("spec.on", FieldType::Flag),
        field("spec.maybe", FieldType::Optional),
    ]
}

fn selectable() -> Selectable {
    Selectable::of(&Gvk::new("example.com", "v1", "Widget"), &fields()).and_any_path()
}

/// The keywords of an object's document, by mapped field.
fn document(object: &Object) -> BTreeMap<&'static str, Vec<String>> {
    let mut document: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut add = |field, value: String| document.entry(field).or_default().push(value);
    add("cluster", object.cluster.clone());
    add("search.group", object.resource.group.to_string());
    add("search.resource", object.resource.plural.to_string());
    add("kind", KIND.to_owned());
    add("metadata.name", object.name.clone());
    if let Some(namespace) = &object.namespace {
        add("metadata.namespace", namespace.clone());
    }
    object
        .created
        .iter()
        .for_each(|created| add("metadata.creationTimestamp", created.to_string()));
    object
        .owners
        .iter()
        .for_each(|uid| add("search.owners", uid.clone()));
    for (key, value) in &object.labels {
        add("search.labelKeys", key.clone());
        add("search.labels", label_term(key, value));
        if let Some(number) = number::parse_integer(value) {
            add("search.numbers", label_number_term(key, number));
        }
    }
    let absent = |field: &SelectableField| {
        (field.kind != FieldType::Optional).then(|| field.kind.absent().to_owned())
    };
    let mut stored = object.fields.clone();
    for field in fields() {
        if let Some(value) = absent(&field) {
            stored.entry(field.path.to_string()).or_insert(value);
        }
    }
    for (path, value) in &stored {
        add("search.fields", field_term(path, value));
        let holds_numbers = fields()
            .iter()
            .any(|field| field.path.as_str() == path && field.kind.holds_numbers());
        if let Some(number) = Quantity::parse(value).filter(|_| holds_numbers) {
            add("search.numbers", quantity::field_term(path, number));
        }
    }
    document
}

/// Evaluates the clauses that the translation uses, as OpenSearch does.
fn answers(clause: &Value, document: &BTreeMap<&str, Vec<String>>) -> bool {
    let (kind, body) = only_entry(clause);
    let keywords = |field: &str| document.get(field).map(Vec::as_slice).unwrap_or_default();
    match kind {
        "match_all" => true,
        "match_none" => false,
        "exists" => !keywords(body["field"].as_str().unwrap()).is_empty(),
        "term" => {
            let (field, value) = only_entry(body);
            match value["value"].as_str() {
                Some(text) => keywords(field)
                    .iter()
                    .any(|keyword| keyword.eq_ignore_ascii_case(text)),
                None => keywords(field).iter().any(|keyword| value == keyword),
            }
        }
        "prefix" | "wildcard" => {
            let (field, value) = only_entry(body);
            let text = value["value"].as_str().unwrap().to_ascii_lowercase();
            let pattern = if kind == "prefix" {
                format!("{text}*")
            } else {
                text
            };
            keywords(field)
                .iter()
                .any(|keyword| is_like(&keyword.to_ascii_lowercase(), &pattern))
        }
        "constant_score" => answers(&body["filter"], document),
        "dis_max" => {
            let queries = body["queries"].as_array().unwrap();
            queries.iter().any(|clause| answers(clause, document))
        }
        "terms" => {
            let (field, values) = only_entry(body);
            keywords(field).iter().any(|keyword| {
                values
                    .as_array()
                    .unwrap()
                    .iter()
                    .any(|value| value == keyword)
            })
        }
        "range" => {
            let (field, bounds) = only_entry(body);
            keywords(field).iter().any(|keyword| {
                bounds
                    .as_object()
                    .unwrap()
                    .iter()
                    .all(|(name, bound)| within(keyword, name, bound))
            })
        }
        "bool" => {
            let list = |name: &str| body[name].as_array().cloned().unwrap_or_default();
            list("filter")
                .iter()
                .all(|clause| answers(clause, document))
                && !list("must_not")
                    .iter()
                    .any(|clause| answers(clause, document))
                && (list("should").is_empty()
                    || list("should")
                        .iter()
                        .any(|clause| answers(clause, document)))
        }
        other => panic!("a clause that is not known here: {other}"),
    }
}

/// Whether a text matches a pattern without special characters but `*`.
fn is_like(text: &str, pattern: &str) -> bool {
    match pattern.split_once('*') {
        None => text == pattern,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|after| {
            (0..=after.len())
                .filter(|at| after.is_char_boundary(*at))
                .any(|at| is_like(&after[at..], rest))
        }),
    }
}

/// The score of a document by the scored clauses of words.
fn score(clause: &Value, document: &BTreeMap<&str, Vec<String>>) -> Option<u64> {
    let (kind, body) = only_entry(clause);
    match kind {
        "dis_max" => {
            let queries = body["queries"].as_array().unwrap();
            queries
                .iter()
                .filter_map(|query| score(query, document))
                .max()
        }
        "constant_score" => {
            answers(&body["filter"], document).then(|| body["boost"].as_u64().unwrap())
        }
        "bool" => {
            let clauses = body["must"].as_array().unwrap().iter();
            let scores = clauses.map(|clause| score(clause, document));
            let is_filtered = answers(
                &serde_json::json!({ "bool": { "filter": body["filter"], "must_not": body["must_not"] } }),
                document,
            );
            scores.sum::<Option<u64>>().filter(|_| is_filtered)
        }
        other => panic!("a scored clause that is not known here: {other}"),
    }
}

fn within(keyword: &str, name: &str, bound: &Value) -> bool {
    if let Some(bound) = bound.as_i64() {
        let time: i64 = keyword.parse().unwrap();
        return if name == "gte" {
            time >= bound
        } else {
            time < bound
        };
    }
    let bound = bound.as_str().unwrap();
    match name {
        "gt" => keyword > bound,
        "gte" => keyword >= bound,
        "lt" => keyword < bound,
        "lte" => keyword <= bound,
        other => panic!("a bound that is not known here: {other}"),
    }
}

fn only_entry(object: &Value) -> (&str, &Value) {
    let (name, value) = object.as_object().unwrap().iter().next().unwrap();
    (name, value)
}

fn object() -> impl Strategy<Value = Object> {
    let words = || select(vec!["a", "b"]).prop_map(String::from);
    let label_values = select(vec!["", "web", "db", "1", "2", "010"]).prop_map(String::from);
    let field_values = select(vec![
        "", "a", "b", "0", "1", "500m", "false", "true", "x,y=z",
    ])
    .prop_map(String::from);
    let paths = select(vec![
        "spec.text",
        "spec.count",
        "spec.on",
        "spec.maybe",
        "spec.other",
    ])
    .prop_map(String::from);
    let plural = select(vec!["widgets", "widgets", "widgets", "gadgets"]);
    let owners = || collection::vec(select(vec!["u1", "u2"]).prop_map(String::from), 0..2);
    (
        (words(), plural, proptest::option::of(words()), words()),
        collection::btree_map(
            select(vec!["app", "x.io/n"]).prop_map(String::from),
            label_values,
            0..3,
        ),
        collection::btree_map(paths, field_values, 0..4),
        proptest::option::weighted(0.8, 0_i64..4),
        owners(),
    )
        .prop_map(
            |((cluster, plural, namespace, name), labels, fields, created, owners)| Object {
                cluster,
                resource: ResourceName::new("example.com", plural),
                namespace,
                name,
                labels,
                fields,
                created,
                owners,
            },
        )
}

fn permitted() -> impl Strategy<Value = Permitted> {
    let some = || prop::option::weighted(0.7, collection::vec(select(vec!["a", "b"]), 0..3));
    let grant = (some(), some()).prop_map(|(clusters, namespaces)| Grant {
        clusters: clusters.map(|names| names.iter().map(|name| name.parse().unwrap()).collect()),
        namespaces: namespaces
            .map(|names| names.iter().map(|name| name.parse().unwrap()).collect()),
    });
    prop_oneof![3 => Just(Permitted::Everything), 1 => collection::vec(grant, 0..4).prop_map(Permitted::Only)]
}

fn owners() -> impl Strategy<Value = Option<Owners>> {
    let owner = (
        select(vec![None, Some("a"), Some("b")]),
        select(vec!["u1", "u2", "u3"]),
    );
    let some = collection::vec(owner, 0..3).prop_map(|all| {
        let mut owners = Owners::default();
        for (cluster, uid) in all {
            owners.insert(cluster.map(|name| name.parse().unwrap()), uid);
        }
        owners
    });
    proptest::option::weighted(0.07, some)
}

fn words() -> impl Strategy<Value = WordSelector> {
    let texts = vec![
        "a", "b", "we", "WEB", "b", "app", "app=", "app=w", "p=web", "=web", "X.io/N", "x.io/n=1",
        "widget", "dge", "0",
    ];
    let word = (select(texts), proptest::bool::weighted(0.3));
    let some = collection::vec(word, 1..3).prop_map(|words| {
        let words = words.into_iter();
        words
            .map(|(text, is_negated)| Word::new(text, is_negated))
            .collect()
    });
    prop_oneof![7 => Just(WordSelector::default()), 1 => some]
}

fn query() -> impl Strategy<Value = Query> {
    let label_terms = select(vec![
        "app",
        "!app",
        "app=web",
        "app!=web",
        "app in (web,,db)",
        "app notin (web,)",
        "app=",
        "x.io/n>1",
        "x.io/n<2",
        "x.io/n>9",
        "x.io/n notin (1,2)",
    ]);
    let field_terms = select(vec![
        "metadata.name=a",
        "metadata.name!=a",
        "metadata.namespace",
        "!metadata.namespace",
        "metadata.namespace in (,a)",
        "metadata.namespace notin (,a)",
        "spec.text",
        "!spec.text",
        "spec.text in (a,)",
        "spec.text!=b",
        "spec.count=0",
        "spec.count!=",
        "spec.count=",
        "spec.on=false",
        "spec.maybe",
        "!spec.maybe",
        "spec.maybe in (,a,x\\,y\\=z)",
        "spec.maybe notin (,b)",
        "spec.maybe!=a",
        "spec.count>0",
        "spec.count>=1",
        "spec.count<=0",
        "spec.maybe<1",
        "spec.maybe>=0.5",
        "spec.maybe>-1,spec.maybe<=500m",
        "spec.other=x\\,y\\=z",
        "spec.other!=",
        "spec['other'] in (a,b)",
    ]);
    let names = || collection::vec(select(vec!["a", "b"]), 0..2);
    let selectors = (
        collection::vec(label_terms, 0..3),
        collection::vec(field_terms, 0..3),
    );
    let bound = || proptest::option::weighted(0.05, 0_i64..4);
    (
        selectors,
        names(),
        names(),
        names(),
        permitted(),
        (bound(), bound(), owners(), words()),
    )
        .prop_map(
            |(
                (labels, fields),
                clusters,
                namespaces,
                names,
                permitted,
                (since, before, owners, words),
            )| Query {
                permitted,
                since,
                before,
                owners,
                clusters: clusters.iter().map(|name| name.parse().unwrap()).collect(),
                namespaces: namespaces
                    .iter()
                    .map(|name| name.parse().unwrap())
                    .collect(),
                names: names.into_iter().map(String::from).collect(),
                labels: labels.join(",").parse().unwrap(),
                fields: fields.join(",").parse().unwrap(),
                words,
                ..Query::all_of(
                    ResourceName::new("example.com", "widgets"),
                    selectable(),
                    10,
                )
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn the_dsl_finds_what_the_query_matches(query in query(), objects in collection::vec(object(), 1..6)) {
        let clause = dsl::query_clause(&CheckedQuery::new(&query).unwrap());
        for object in &objects {
            prop_assert_eq!(answers(&clause, &document(object)), query.matches(object), "{} on {:?}", clause, object);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_dsl_scores_what_the_query_matches(query in query(), objects in collection::vec(object(), 1..6)) {
        let ranked = RankedQuery { requester: Requester::Operator, limit: 10, after: None, facets: Vec::new(), queries: vec![query.clone()] };
        let body = dsl::ranked_body(&ranked).unwrap();
        for object in &objects {
            let expected = query.matches(object).then(|| query.score(object)).flatten();
            prop_assert_eq!(score(&body["query"], &document(object)), expected.map(u64::from), "{} on {:?}", body, object);
        }
    }
}

/// Checks that the generators exercise the property often enough.
#[test]
fn many_generated_queries_match_some_objects_and_not_others() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut selective = 0;
    for _ in 0..300 {
        let query = query().new_tree(&mut runner).unwrap().current();
        let objects = collection::vec(object(), 100)
            .new_tree(&mut runner)
            .unwrap()
            .current();
        let matched = objects
            .iter()
            .filter(|object| query.matches(*object))
            .count();
        selective += usize::from(matched > 0 && matched < objects.len());
    }
    assert!(
        selective > 120,
        "only {selective} of 300 queries are selective"
    );
}
