//! `aggs` of a search: `composite` aggregations over terms, the only kind that Fleetdex uses.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use serde_json::{Map, Value, json};

use super::{
    document::{Document, Term},
    response::Exception,
};

/// A composite aggregation, by its name.
pub(super) struct Composite {
    name: String,
    size: usize,
    /// Name and field of each source.
    sources: Vec<(String, String)>,
    /// The values of the last bucket of the previous page.
    after: Option<Vec<Option<Term>>>,
}

/// Reads `aggs`: one composite aggregation.
pub(super) fn read(aggregations: &Value) -> Result<Composite, Exception> {
    let only = aggregations
        .as_object()
        .filter(|named| named.len() == 1)
        .and_then(|named| named.iter().next());
    let unknown = || {
        Exception::illegal_argument(
            "this fake supports one `composite` aggregation over `terms` with `missing_bucket`",
        )
    };
    let (name, aggregation) = only.ok_or_else(unknown)?;
    let composite = aggregation.get("composite").ok_or_else(unknown)?;
    let mut sources = Vec::new();
    for source in composite["sources"].as_array().ok_or_else(unknown)? {
        let (name, details) = source
            .as_object()
            .and_then(|named| named.iter().next())
            .ok_or_else(unknown)?;
        let terms = details
            .get("terms")
            .filter(|terms| terms["missing_bucket"] == true)
            .ok_or_else(unknown)?;
        sources.push((
            name.clone(),
            terms["field"].as_str().ok_or_else(unknown)?.to_owned(),
        ));
    }
    let size = composite["size"]
        .as_u64()
        .and_then(|size| usize::try_from(size).ok())
        .unwrap_or(10);
    let after = composite
        .get("after")
        .map(|after| sources.iter().map(|(name, _)| term(&after[name])).collect());
    Ok(Composite {
        name: name.clone(),
        size,
        sources,
        after,
    })
}

fn term(value: &Value) -> Option<Term> {
    value
        .as_i64()
        .map(Term::Number)
        .or_else(|| value.as_str().map(|text| Term::Text(text.into())))
}

fn shown(term: Option<&Term>) -> Value {
    match term {
        None => Value::Null,
        Some(Term::Number(number)) => json!(number),
        Some(Term::Text(text)) => json!(text.as_ref()),
    }
}

impl Composite {
    /// Returns the `aggregations` of a response: buckets in the order of their values, missing
    /// values first.
    pub fn count<'d>(&self, documents: impl Iterator<Item = &'d Arc<Document>>) -> Value {
        let mut buckets: BTreeMap<Vec<Option<Term>>, u64> = BTreeMap::new();
        for document in documents {
            for values in self.values(document) {
                *buckets.entry(values).or_default() += 1;
            }
        }
        let follows = |(values, _): &(&Vec<Option<Term>>, &u64)| {
            self.after.as_ref().is_none_or(|after| *values > after)
        };
        let page: Vec<_> = buckets.iter().filter(follows).take(self.size).collect();
        let key = |values: &[Option<Term>]| -> Map<String, Value> {
            self.sources
                .iter()
                .zip(values)
                .map(|((name, _), value)| (name.clone(), shown(value.as_ref())))
                .collect()
        };
        let bucket = |(values, count): &(&Vec<Option<Term>>, &u64)| json!({ "key": key(values), "doc_count": count });
        let mut found = json!({ "buckets": page.iter().map(bucket).collect::<Vec<_>>() });
        if let Some((last, _)) = page.last() {
            found["after_key"] = key(last).into();
        }
        json!({ &self.name: found })
    }

    /// Returns every distinct combination of a document's values.
    fn values(&self, document: &Document) -> HashSet<Vec<Option<Term>>> {
        let mut combinations = HashSet::from([Vec::new()]);
        for (_, field) in &self.sources {
            let terms = document
                .terms
                .get(field.as_str())
                .map_or(&[][..], Vec::as_slice);
            let values: Vec<Option<Term>> = if terms.is_empty() {
                vec![None]
            } else {
                terms.iter().cloned().map(Some).collect()
            };
            let longer = combinations.iter().flat_map(|begun: &Vec<Option<Term>>| {
                values
                    .iter()
                    .map(|value| begun.iter().cloned().chain([value.clone()]).collect())
            });
            combinations = longer.collect();
        }
        combinations
    }
}
