//! Translates aggregations to OpenSearch's `composite` aggregations, which count exactly and have
//! pages.
//!
//! Labels are terms `key=value` of one field. A source over that field visits all labels of an
//! object, so the aggregation starts at the first label's key, and skips the terms of other keys. A
//! further request counts the objects without the label.

use std::borrow::Cow;

use fleetdex_core::{
    model::{decode_sort_key, index_fields, sort_field},
    query::{
        CheckedQuery, GroupKey, Query, QueryError, SortField,
        aggregate::{ResolvedGroupKey, resolve_group_keys},
    },
    selector::{LabelRequirement, LabelTest},
};
use serde_json::{Map, Value, json};

use super::clauses::query_clause;

/// Buckets of one page: OpenSearch makes 65,535 at most for one request (`search.max_buckets`).
pub const PAGE: usize = 10_000;

/// One request with pages: the objects that have some of the labels and lack the others.
#[derive(Clone, Debug)]
pub struct Composite {
    query: CheckedQuery<'static>,
    keys: Vec<KeySource>,
}

/// The source of the value of a group key.
#[derive(Clone, Debug)]
enum KeySource {
    /// The same for all objects of the request.
    Always(Option<String>),
    /// The text behind `key=` of a label's term.
    Label(String),
    /// The value of a field.
    Plain(&'static str),
    /// A value of `search.sort`, and the value of documents without one.
    Sorted(String, Option<&'static str>),
}

/// Values and count of one bucket.
pub type CompositeBucket = (Vec<Option<String>>, u64);

/// The requests that count all objects of a query once.
pub fn composites(query: &Query, by: &[GroupKey]) -> Result<Vec<Composite>, QueryError> {
    let keys = resolve_group_keys(query, by)?;
    let mut labels: Vec<&str> = Vec::new();
    for key in &keys {
        if let ResolvedGroupKey::Label(label) = key
            && !labels.contains(&label.as_str())
        {
            labels.push(label);
        }
    }
    let mut requests = Vec::with_capacity(1 << labels.len());
    for present in 0..1_usize << labels.len() {
        let has = |label: &str| {
            labels
                .iter()
                .position(|known| *known == label)
                .is_some_and(|bit| present >> bit & 1 == 1)
        };
        let mut requirements: Vec<LabelRequirement> =
            query.labels.requirements().cloned().collect();
        for label in &labels {
            let test = if has(label) {
                LabelTest::Exists
            } else {
                LabelTest::DoesNotExist
            };
            requirements.push(LabelRequirement::new(label, test).map_err(QueryError::Label)?);
        }
        let restricted = Query {
            labels: requirements.into_iter().collect(),
            ..query.clone()
        };
        requests.push(Composite {
            query: CheckedQuery::of(Cow::Owned(restricted))?,
            keys: keys.iter().map(|key| KeySource::of(key, &has)).collect(),
        });
    }
    Ok(requests)
}

impl KeySource {
    fn of(key: &ResolvedGroupKey, has: &impl Fn(&str) -> bool) -> Self {
        match key {
            ResolvedGroupKey::Cluster => Self::Plain(index_fields::CLUSTER),
            ResolvedGroupKey::Label(label) if has(label) => Self::Label(label.clone()),
            ResolvedGroupKey::Label(_) => Self::Always(None),
            ResolvedGroupKey::SortField(SortField::Always(value)) => {
                Self::Always(Some((*value).to_owned()))
            }
            ResolvedGroupKey::SortField(SortField::Name) => Self::Plain(index_fields::NAME),
            ResolvedGroupKey::SortField(SortField::Namespace) => {
                Self::Plain(index_fields::NAMESPACE)
            }
            ResolvedGroupKey::SortField(SortField::Field(path, kind)) => Self::Sorted(
                format!("{}.{}", index_fields::SORT, sort_field(path)),
                kind.reads_without_sort_key(),
            ),
        }
    }

    fn field(&self) -> Option<&str> {
        match self {
            Self::Always(_) => None,
            Self::Label(_) => Some(index_fields::LABELS),
            Self::Plain(field) => Some(field),
            Self::Sorted(field, _) => Some(field),
        }
    }

    /// The value of this key in a bucket; `None` if the bucket belongs to another label.
    #[expect(
        clippy::option_option,
        reason = "a bucket of another label differs from a bucket without a value"
    )]
    fn read(&self, found: &Value) -> Option<Option<String>> {
        let text = found.as_str();
        match self {
            Self::Always(value) => Some(value.clone()),
            Self::Label(label) => {
                let value = text?.strip_prefix(label.as_str())?.strip_prefix('=')?;
                Some(Some(value.to_owned()))
            }
            Self::Plain(_) => Some(text.map(str::to_owned)),
            Self::Sorted(_, without) => {
                Some(text.map(decode_sort_key).or(*without).map(str::to_owned))
            }
        }
    }
}

impl Composite {
    /// The body of the `_search` for `size` buckets, [`PAGE`] at most, after another bucket.
    pub fn body(&self, after: Option<&Value>, size: usize) -> Value {
        let mut body =
            json!({ "size": 0, "track_total_hits": false, "query": query_clause(&self.query) });
        let sources = self.sources();
        if sources.is_empty() {
            body["track_total_hits"] = true.into();
            return body;
        }
        let mut composite = json!({ "size": size, "sources": sources });
        if let Some(after) = after.cloned().or_else(|| self.start()) {
            composite["after"] = after;
        }
        body["aggs"] = json!({ "groups": { "composite": composite } });
        body
    }

    /// The values of the only group; `None` if there may be several.
    pub fn only_group(&self) -> Option<Vec<Option<String>>> {
        let value = |key: &KeySource| match key {
            KeySource::Always(value) => Some(value.clone()),
            _ => None,
        };
        self.keys.iter().map(value).collect()
    }

    /// The values and the count of a bucket; `None` if it belongs to other labels than the
    /// requested ones.
    pub fn read(&self, key: &Map<String, Value>, count: u64) -> Option<CompositeBucket> {
        let found = |number: usize| key.get(&name(number)).unwrap_or(&Value::Null);
        let values: Option<Vec<_>> = self
            .keys
            .iter()
            .enumerate()
            .map(|(number, key)| key.read(found(number)))
            .collect();
        Some((values?, count))
    }

    /// Whether no bucket after this one can belong to the requested labels.
    pub fn is_over(&self, key: &Map<String, Value>) -> bool {
        let Some((number, label)) = self.first_label() else {
            return false;
        };
        let last = key
            .get(&name(number))
            .and_then(Value::as_str)
            .unwrap_or_default();
        // '>' follows '=' in ASCII: beyond it no term starts with "key=".
        last >= format!("{label}>").as_str()
    }

    fn first_label(&self) -> Option<(usize, &str)> {
        self.keys
            .iter()
            .enumerate()
            .find_map(|(number, key)| match key {
                KeySource::Label(label) => Some((number, label.as_str())),
                _ => None,
            })
    }

    /// The positions of the keys that have a source, the first label before all others: buckets are
    /// sorted in that order.
    fn in_order(&self) -> impl Iterator<Item = (usize, &str)> {
        let first = self.first_label().map(|(number, _)| number);
        let rest = (0..self.keys.len()).filter(move |number| Some(*number) != first);
        first
            .into_iter()
            .chain(rest)
            .filter_map(|number| Some((number, self.keys[number].field()?)))
    }

    fn sources(&self) -> Vec<Value> {
        let source = |(number, field): (usize, &str)| json!({ name(number): { "terms": { "field": field, "missing_bucket": true } } });
        self.in_order().map(source).collect()
    }

    /// The `after` key right before the first label's terms.
    fn start(&self) -> Option<Value> {
        let (first, label) = self.first_label()?;
        let mut after: Map<String, Value> = self
            .in_order()
            .map(|(number, _)| (name(number), Value::Null))
            .collect();
        // '<' precedes '=' in ASCII.
        after.insert(name(first), format!("{label}<").into());
        Some(after.into())
    }
}

fn name(number: usize) -> String {
    format!("by{number}")
}

#[cfg(test)]
mod tests {
    use fleetdex_core::{
        model::{FieldPath, Gvk},
        query::{ResourceName, Selectable},
    };

    use super::*;

    fn pods() -> Query {
        let selectable = Selectable::of(&Gvk::new("", "v1", "Pod"), &[]);
        Query::all_of(ResourceName::new("", "pods"), selectable, 1)
    }

    fn requests(by: &[GroupKey]) -> String {
        let bodies = composites(&pods(), by).unwrap();
        let lines: Vec<String> = bodies
            .iter()
            .map(|request| request.body(None, PAGE).to_string())
            .collect();
        lines.join("\n")
    }

    #[test]
    fn fields_are_sources_with_a_bucket_for_those_that_have_none() {
        let by = [
            GroupKey::Cluster,
            GroupKey::Namespace,
            GroupKey::Field(FieldPath::new("spec.host")),
        ];
        insta::assert_snapshot!(requests(&by), @r#"{"size":0,"track_total_hits":false,"query":{"bool":{"filter":[{"term":{"search.group":""}},{"term":{"search.resource":"pods"}}]}},"aggs":{"groups":{"composite":{"size":10000,"sources":[{"by0":{"terms":{"field":"cluster","missing_bucket":true}}},{"by1":{"terms":{"field":"metadata.namespace","missing_bucket":true}}},{"by2":{"terms":{"field":"search.sort.spec/nodeName","missing_bucket":true}}}]}}}}"#);
    }

    #[test]
    fn a_label_starts_at_its_key_and_the_objects_without_it_are_counted_separately() {
        insta::assert_snapshot!(requests(&[GroupKey::Cluster, GroupKey::Label("app".to_owned())]), @r#"
        {"size":0,"track_total_hits":false,"query":{"bool":{"filter":[{"term":{"search.group":""}},{"term":{"search.resource":"pods"}}],"must_not":[{"term":{"search.labelKeys":"app"}}]}},"aggs":{"groups":{"composite":{"size":10000,"sources":[{"by0":{"terms":{"field":"cluster","missing_bucket":true}}}]}}}}
        {"size":0,"track_total_hits":false,"query":{"bool":{"filter":[{"term":{"search.group":""}},{"term":{"search.resource":"pods"}},{"term":{"search.labelKeys":"app"}}]}},"aggs":{"groups":{"composite":{"size":10000,"sources":[{"by1":{"terms":{"field":"search.labels","missing_bucket":true}}},{"by0":{"terms":{"field":"cluster","missing_bucket":true}}}],"after":{"by1":"app<","by0":null}}}}}
        "#);
    }

    #[test]
    fn a_value_that_all_objects_share_needs_no_aggregation() {
        insta::assert_snapshot!(requests(&[GroupKey::Field(FieldPath::new("status.podIPs"))]), @r#"{"size":0,"track_total_hits":true,"query":{"bool":{"filter":[{"term":{"search.group":""}},{"term":{"search.resource":"pods"}}]}}}"#);
        insta::assert_snapshot!(requests(&[]), @r#"{"size":0,"track_total_hits":true,"query":{"bool":{"filter":[{"term":{"search.group":""}},{"term":{"search.resource":"pods"}}]}}}"#);
    }

    #[test]
    fn buckets_of_other_labels_are_skipped_and_end_the_search_behind_the_label() {
        let request = &composites(
            &pods(),
            &[GroupKey::Label("app".to_owned()), GroupKey::Cluster],
        )
        .unwrap()[1];
        let key = |label: &str| {
            json!({ "by0": label, "by1": "a" })
                .as_object()
                .unwrap()
                .clone()
        };
        assert_eq!(
            request.read(&key("app=web"), 3),
            Some((vec![Some("web".to_owned()), Some("a".to_owned())], 3))
        );
        assert_eq!(
            request.read(&key("app="), 3),
            Some((vec![Some(String::new()), Some("a".to_owned())], 3))
        );
        for other in ["app-x=web", "application=web", "b=c"] {
            assert_eq!(request.read(&key(other), 3), None, "{other}");
        }
        assert!(
            !request.is_over(&key("app=web"))
                && !request.is_over(&key("app-x=web"))
                && request.is_over(&key("b=c"))
        );
    }

    #[test]
    fn an_invalid_group_key_is_refused_with_the_valid_ones() {
        let refused = composites(&pods(), &[GroupKey::Field(FieldPath::new("spec.color"))])
            .unwrap_err()
            .to_string();
        assert!(
            refused.starts_with("field label not supported: spec.color; these are: metadata.name"),
            "{refused}"
        );
        let refused = composites(&pods(), &[const { GroupKey::Cluster }; 5])
            .unwrap_err()
            .to_string();
        assert_eq!(
            refused,
            "the query asks for 5 keys to group by, and at most 4 are possible; ask in several queries"
        );
        assert!(composites(&pods(), &[GroupKey::Label("-x".to_owned())]).is_err());
    }
}
