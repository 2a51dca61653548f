//! Queries: the clauses that Fleetdex uses.

use std::{cmp::Ordering, collections::BTreeSet, sync::Arc};

use serde_json::{Map, Value};

use super::{
    document::{Document, ROUTING, Term, term},
    json::java_text,
    mapping::{Kind, Mapping},
    response::Exception,
};

/// A query, independent of a mapping.
#[derive(Clone, Debug)]
pub(super) enum Query {
    MatchAll,
    MatchNone,
    Ids(BTreeSet<String>),
    Exists(String),
    Terms(String, Vec<Value>),
    Prefix(String, String),
    Range(String, Box<Bounds>),
    Bool(Box<Bool>),
}

/// The limits of a range.
#[derive(Clone, Debug, Default)]
pub(super) struct Bounds {
    gt: Option<Value>,
    gte: Option<Value>,
    lt: Option<Value>,
    lte: Option<Value>,
}

/// The parts of a `bool` query.
#[derive(Clone, Debug)]
pub(super) struct Bool<Q = Query> {
    must: Vec<Q>,
    filter: Vec<Q>,
    should: Vec<Q>,
    must_not: Vec<Q>,
    minimum_should_match: Option<usize>,
}

/// Whether the comparison of a term with a limit matches.
type Test = fn(Ordering) -> bool;
type Limits = Vec<(Test, Term)>;

/// A query that is compiled for one mapping.
#[derive(Clone, Debug)]
pub(super) enum Matcher {
    All,
    None,
    Ids(BTreeSet<String>),
    Exists(String),
    Terms(String, BTreeSet<Term>),
    Prefix(String, String),
    Range(String, Limits),
    Bool(Box<Bool<Matcher>>),
}

impl Query {
    /// Parses the `query` of a request.
    pub fn read(query: &Value) -> Result<Self, Exception> {
        let members = query
            .as_object()
            .ok_or_else(|| parsing("query malformed, must start with start_object"))?;
        let mut clauses = members.iter();
        let Some((name, body)) = clauses.next() else {
            return Err(Exception::illegal_argument(
                "query malformed, empty clause found",
            ));
        };
        if clauses.next().is_some() {
            return Err(parsing(format!(
                "[{name}] malformed query, expected [END_OBJECT] but found [FIELD_NAME]"
            )));
        }
        let body = body.as_object().ok_or_else(|| {
            parsing(format!(
                "[{name}] query malformed, no start_object after query name"
            ))
        })?;
        match name.as_str() {
            "match_all" => Ok(Self::MatchAll),
            "match_none" => Ok(Self::MatchNone),
            "ids" => Ok(Self::Ids(
                body.get("values")
                    .and_then(Value::as_array)
                    .into_iter()
                    .flatten()
                    .map(java_text)
                    .collect(),
            )),
            "exists" => match body.get("field").and_then(Value::as_str) {
                Some(field) => Ok(Self::Exists(field.to_owned())),
                None => Err(parsing("[exists] must be provided with a [field]")),
            },
            "term" => read_term(body),
            "terms" => read_terms(body),
            "prefix" => {
                let (field, value) = only_field("prefix", body)?;
                Ok(Self::Prefix(
                    field.clone(),
                    java_text(value.get("value").unwrap_or(value)),
                ))
            }
            "range" => read_range(body),
            "bool" => read_bool(body).map(|parts| Self::Bool(Box::new(parts))),
            other => {
                let cause = Exception::new(
                    400,
                    "named_object_not_found_exception",
                    format!("unknown field [{other}]"),
                );
                Err(parsing(format!("unknown query [{other}]")).caused_by(&cause))
            }
        }
    }

    /// Compiles the query for a mapping. Fields without a mapping match nothing.
    pub fn compile(&self, mapping: &Mapping) -> Result<Matcher, Exception> {
        let kind = |field: &str| match field {
            ROUTING => Some(Kind::Keyword),
            _ => mapping.field(field).map(|field| field.kind),
        };
        Ok(match self {
            Self::MatchAll => Matcher::All,
            Self::MatchNone => Matcher::None,
            Self::Ids(ids) => Matcher::Ids(ids.clone()),
            Self::Exists(field) => Matcher::Exists(field.clone()),
            Self::Terms(field, values) if field == "_id" => {
                Matcher::Ids(values.iter().map(java_text).collect())
            }
            Self::Terms(field, values) => match kind(field) {
                None => Matcher::None,
                Some(kind) => {
                    let terms = values
                        .iter()
                        .map(|value| literal(field, kind, value))
                        .collect::<Result<_, Exception>>()?;
                    Matcher::Terms(field.clone(), terms)
                }
            },
            Self::Prefix(field, prefix) => match kind(field) {
                None => Matcher::None,
                Some(_) => Matcher::Prefix(field.clone(), prefix.clone()),
            },
            Self::Range(field, bounds) => match kind(field) {
                None => Matcher::None,
                Some(kind) => Matcher::Range(field.clone(), bounds.limits(field, kind)?),
            },
            Self::Bool(parts) => Matcher::Bool(Box::new(parts.compile(mapping)?)),
        })
    }
}

impl Bounds {
    fn limits(&self, field: &str, kind: Kind) -> Result<Limits, Exception> {
        let tests: [(&Option<Value>, Test); 4] = [
            (&self.gt, Ordering::is_gt),
            (&self.gte, Ordering::is_ge),
            (&self.lt, Ordering::is_lt),
            (&self.lte, Ordering::is_le),
        ];
        let mut limits = Vec::new();
        for (bound, test) in tests {
            if let Some(bound) = bound {
                limits.push((test, literal(field, kind, bound)?));
            }
        }
        Ok(limits)
    }
}

impl Bool {
    fn compile(&self, mapping: &Mapping) -> Result<Bool<Matcher>, Exception> {
        let compile = |queries: &[Query]| {
            queries
                .iter()
                .map(|query| query.compile(mapping))
                .collect::<Result<Vec<_>, Exception>>()
        };
        Ok(Bool {
            must: compile(&self.must)?,
            filter: compile(&self.filter)?,
            should: compile(&self.should)?,
            must_not: compile(&self.must_not)?,
            minimum_should_match: self.minimum_should_match,
        })
    }
}

impl Matcher {
    /// The routings that a matching document may have; `None` if it may have any.
    pub fn routings(&self) -> Option<&BTreeSet<Term>> {
        match self {
            Self::Terms(field, routings) if field == ROUTING => Some(routings),
            Self::Bool(parts) => {
                let mut needed = parts.filter.iter().chain(&parts.must);
                needed.find_map(Self::routings)
            }
            _ => None,
        }
    }

    /// Returns the score of a matching document.
    pub fn score(&self, document: &Document) -> Option<f64> {
        let matches = match self {
            Self::All => true,
            Self::None => false,
            Self::Ids(ids) => ids.contains(document.id.as_ref()),
            Self::Exists(field) => exists(document, field),
            Self::Terms(field, terms) => terms_of(document, field)
                .iter()
                .any(|term| terms.contains(term)),
            Self::Prefix(field, prefix) => terms_of(document, field)
                .iter()
                .any(|term| matches!(term, Term::Text(text) if text.starts_with(prefix.as_str()))),
            Self::Range(field, limits) => terms_of(document, field)
                .iter()
                .any(|term| limits.iter().all(|(test, limit)| test(term.cmp(limit)))),
            Self::Bool(parts) => return parts.score(document),
        };
        matches.then_some(1.0)
    }
}

impl Bool<Matcher> {
    fn score(&self, document: &Document) -> Option<f64> {
        let is_match = |matcher: &Matcher| matcher.score(document).is_some();
        if self.must_not.iter().any(is_match) || !self.filter.iter().all(is_match) {
            return None;
        }
        let mut score = 0.0;
        for matcher in &self.must {
            score += matcher.score(document)?;
        }
        let found: Vec<f64> = self
            .should
            .iter()
            .filter_map(|matcher| matcher.score(document))
            .collect();
        let is_optional =
            self.should.is_empty() || !self.must.is_empty() || !self.filter.is_empty();
        if found.len()
            < self
                .minimum_should_match
                .unwrap_or(usize::from(!is_optional))
        {
            return None;
        }
        let has_none = self.must.is_empty()
            && self.filter.is_empty()
            && self.should.is_empty()
            && self.must_not.is_empty();
        Some(if has_none {
            1.0
        } else {
            score + found.iter().sum::<f64>()
        })
    }
}

fn terms_of<'d>(document: &'d Document, field: &str) -> &'d [Term] {
    document.terms.get(field).map_or(&[], Vec::as_slice)
}

/// Whether a field has a value, or an object has such a field.
fn exists(document: &Document, field: &str) -> bool {
    if document.terms.contains_key(field) {
        return true;
    }
    let inner = format!("{field}.");
    let from_inner = document.terms.range::<str, _>((
        std::ops::Bound::Included(inner.as_str()),
        std::ops::Bound::Unbounded,
    ));
    from_inner.take(1).any(|(path, _)| path.starts_with(&inner))
}

/// Converts a value of a query to a term of the field.
fn literal(field: &str, kind: Kind, value: &Value) -> Result<Term, Exception> {
    if kind == Kind::Float {
        return Err(Exception::illegal_argument(format!(
            "this fake does not search fractions: [{field}]"
        )));
    }
    if kind == Kind::Keyword
        && let Value::String(text) = value
    {
        return Ok(Term::Text(Arc::from(text.as_str())));
    }
    term(kind, value)
}

fn read_term(body: &Map<String, Value>) -> Result<Query, Exception> {
    let (field, value) = only_field("term", body)?;
    match value {
        Value::Array(_) => Err(parsing("[term] query does not support array of values")),
        Value::Object(members) => {
            let value = members
                .get("value")
                .ok_or_else(|| Exception::illegal_argument("value cannot be null"))?;
            Ok(Query::Terms(field.clone(), vec![value.clone()]))
        }
        value => Ok(Query::Terms(field.clone(), vec![value.clone()])),
    }
}

fn read_terms(body: &Map<String, Value>) -> Result<Query, Exception> {
    let mut fields = body.iter().filter(|(key, _)| *key != "boost");
    let Some((field, values)) = fields.next() else {
        return Err(parsing(
            "[terms] query requires a field name, followed by array of terms or a document lookup specification",
        ));
    };
    match values {
        Value::Array(values) => Ok(Query::Terms(field.clone(), values.clone())),
        _ => Err(parsing(format!("[terms] query does not support [{field}]"))),
    }
}

fn read_range(body: &Map<String, Value>) -> Result<Query, Exception> {
    let (field, limits) = only_field("range", body)?;
    let mut bounds = Bounds::default();
    for (key, value) in limits.as_object().into_iter().flatten() {
        let bound = match key.as_str() {
            "gt" => &mut bounds.gt,
            "gte" => &mut bounds.gte,
            "lt" => &mut bounds.lt,
            "lte" => &mut bounds.lte,
            other => return Err(parsing(format!("[range] query does not support [{other}]"))),
        };
        *bound = Some(value.clone()).filter(|value| !value.is_null());
    }
    Ok(Query::Range(field.clone(), Box::new(bounds)))
}

fn read_bool(body: &Map<String, Value>) -> Result<Bool, Exception> {
    let mut parts = Bool {
        must: Vec::new(),
        filter: Vec::new(),
        should: Vec::new(),
        must_not: Vec::new(),
        minimum_should_match: None,
    };
    for (key, value) in body {
        let queries = match key.as_str() {
            "must" => &mut parts.must,
            "filter" => &mut parts.filter,
            "should" => &mut parts.should,
            "must_not" => &mut parts.must_not,
            "minimum_should_match" => {
                parts.minimum_should_match = java_text(value).parse().ok();
                continue;
            }
            other => {
                return Err(Exception::new(
                    400,
                    "x_content_parse_exception",
                    format!("[bool] unknown field [{other}]"),
                ));
            }
        };
        let clauses = match value {
            Value::Array(clauses) => clauses.as_slice(),
            clause => std::slice::from_ref(clause),
        };
        *queries = clauses
            .iter()
            .map(Query::read)
            .collect::<Result<_, Exception>>()?;
    }
    Ok(parts)
}

fn only_field<'b>(
    query: &str,
    body: &'b Map<String, Value>,
) -> Result<(&'b String, &'b Value), Exception> {
    let mut fields = body.iter();
    match (fields.next(), fields.next()) {
        (Some(field), None) => Ok(field),
        (Some((first, _)), Some((second, _))) => Err(parsing(format!(
            "[{query}] query doesn't support multiple fields, found [{first}] and [{second}]"
        ))),
        (None, _) => Err(Exception::illegal_argument("field name is null or empty")),
    }
}

fn parsing(reason: impl Into<String>) -> Exception {
    Exception::new(400, "parsing_exception", reason)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::opensearch::document::analyse;

    fn score(query: &Value) -> Option<f64> {
        let mapping = Mapping::new(&json!({ "dynamic": false, "properties": {
            "kind": { "type": "keyword" },
            "names": { "type": "keyword" },
            "search": { "properties": { "labels": { "type": "keyword" } } },
            "time": { "type": "date" },
        } }))
        .unwrap();
        let time = "2026-01-01T00:00:00Z";
        let source = json!({ "kind": "Pod", "names": ["a", "c"], "search": { "labels": [] }, "time": time, "spec": "x" });
        let analysis = analyse(&mapping, "1", source.to_string().as_bytes()).unwrap();
        let document = Document {
            id: "1".into(),
            version: 1,
            sequence: 1,
            source: analysis.source,
            terms: analysis.terms,
            ignored: Vec::new(),
        };
        Query::read(query)
            .unwrap()
            .compile(&mapping)
            .unwrap()
            .score(&document)
    }

    #[test]
    fn clauses_match_any_value_of_a_mapped_field() {
        for (query, expected) in [
            (json!({ "match_all": {} }), true),
            (json!({ "match_none": {} }), false),
            (json!({ "ids": { "values": ["1"] } }), true),
            (json!({ "term": { "kind": "Pod" } }), true),
            (json!({ "term": { "kind": { "value": "pod" } } }), false),
            (json!({ "term": { "spec": "x" } }), false),
            (json!({ "terms": { "names": ["b", "c"] } }), true),
            (json!({ "terms": { "names": [] } }), false),
            (json!({ "prefix": { "kind": "P" } }), true),
            (json!({ "exists": { "field": "kind" } }), true),
            (json!({ "exists": { "field": "search.labels" } }), false),
            (json!({ "exists": { "field": "search" } }), false),
            (
                json!({ "range": { "names": { "gt": "a", "lt": "c" } } }),
                false,
            ),
            (
                json!({ "range": { "names": { "gt": "a", "lte": "c" } } }),
                true,
            ),
            (
                json!({ "range": { "time": { "gte": "2026-01-01", "lt": 1_800_000_000_000_i64 } } }),
                true,
            ),
            (json!({ "range": { "spec": { "gt": "" } } }), false),
        ] {
            assert_eq!(score(&query).is_some(), expected, "{query}");
        }
    }

    #[test]
    fn a_bool_query_scores_its_must_and_should_clauses() {
        let pod = json!({ "term": { "kind": "Pod" } });
        let other = json!({ "term": { "kind": "Node" } });
        for (query, expected) in [
            (json!({}), Some(1.0)),
            (json!({ "filter": [pod] }), Some(0.0)),
            (json!({ "filter": pod, "must": [pod] }), Some(1.0)),
            (json!({ "must_not": [other] }), Some(0.0)),
            (json!({ "must_not": [pod] }), None),
            (json!({ "should": [pod, other] }), Some(1.0)),
            (json!({ "should": [other] }), None),
            (json!({ "filter": [pod], "should": [other] }), Some(0.0)),
            (
                json!({ "filter": [pod], "should": [other], "minimum_should_match": 1 }),
                None,
            ),
        ] {
            assert_eq!(score(&json!({ "bool": query })), expected, "{query}");
        }
    }

    #[test]
    fn an_unknown_query_is_rejected() {
        for query in [
            json!({ "wildcard": { "kind": "P*" } }),
            json!({}),
            json!({ "term": { "a": "b", "c": "d" } }),
        ] {
            assert!(Query::read(&query).is_err(), "{query}");
        }
    }
}
