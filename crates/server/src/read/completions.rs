//! Completions of a search that is being written.
//!
//! Guarantee: what is offered of the fleet are clusters that the caller may see, kinds that the
//! caller may list, and values of objects that the caller may list. Nothing in them depends on
//! other objects.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetdex_core::{
    model::ClusterName,
    query::{Query, ValueCounts, ValueField, ValuePrefix, ValuesQuery},
};
use fleetdex_interpreter::image;
use fleetdex_limits::fair_semaphore::FairPermit;
use fleetdex_query_api::{
    answer::SearchCompletions,
    question::{CompletionsRequest, SearchRequest},
};
use fleetdex_search::{MAX_ITEMS, ValueSet, WantedValues, complete, wanted_values};
use futures::future::try_join_all;

use super::{
    across_kinds::{AcrossKinds, TIMEOUT},
    search::{QUERY_COPIES, StoreQueries, queries},
};
use crate::{api_error::ApiError, store_timeout::in_time};

/// What the short names of images omit, the most first. Source: `crates/interpreter/src/image.rs`
const OMITTED_OF_IMAGES: [&str; 2] = ["docker.io/library/", "docker.io/"];

/// What may stand at the position of a request, and warnings about what is missing.
///
/// `reserve` reserves memory for queries of this many bytes.
pub async fn completions(
    kinds: &AcrossKinds<'_>,
    request: &CompletionsRequest,
    reserve: impl FnOnce(usize) -> Result<Vec<FairPermit<Arc<str>>>, ApiError>,
) -> Result<(SearchCompletions, Vec<String>), ApiError> {
    let wanted = wanted_values(&request.text, request.cursor);
    let (queries, warnings) = if wanted.iter().any(|wanted| wanted.of != ValueSet::Clusters) {
        permitted_queries(kinds, &request.others).await?
    } else {
        (StoreQueries::new(), BTreeSet::new())
    };
    let bytes: usize = all_queries(&queries).map(Query::bytes).sum();
    let _reservation = reserve(bytes * QUERY_COPIES)?;
    let mut known = stored_values(kinds, &queries, &wanted).await?;
    for wanted in wanted {
        let values = match wanted.of {
            ValueSet::Kinds => beginning(kinds_of(kinds, &queries), &wanted.prefix),
            ValueSet::Clusters => {
                let clusters = kinds.catalog.clusters().iter();
                beginning(clusters.map(ClusterName::as_str).collect(), &wanted.prefix)
            }
            _ => continue,
        };
        known.insert(wanted, values);
    }
    let completions = complete(&request.text, request.cursor, &known);
    let completions = SearchCompletions::new(&request.text, completions);
    Ok((completions, warnings.into_iter().collect()))
}

/// The queries for what the caller may list among what other terms select.
async fn permitted_queries(
    kinds: &AcrossKinds<'_>,
    others: &SearchRequest,
) -> Result<(StoreQueries, BTreeSet<String>), ApiError> {
    match queries(kinds, others).await {
        // Other terms may not be complete either, such as the name of a kind.
        Err(ApiError::BadRequest(_)) => queries(kinds, &SearchRequest::default()).await,
        planned => planned,
    }
}

fn all_queries(queries: &StoreQueries) -> impl Iterator<Item = &Query> {
    queries.values().flat_map(|(_, queries)| queries)
}

/// The kinds of which the caller may list something.
fn kinds_of<'k>(kinds: &'k AcrossKinds<'_>, queries: &StoreQueries) -> BTreeSet<&'k str> {
    let registered = all_queries(queries).filter_map(|query| kinds.catalog.find(&query.resource));
    registered.map(|registered| &*registered.kind).collect()
}

/// The names that begin with a prefix in any ASCII case, in alphabetical order.
fn beginning(names: BTreeSet<&str>, prefix: &str) -> Vec<String> {
    let begins = |name: &&str| begins(name, prefix);
    let names = names.into_iter().filter(begins).take(MAX_ITEMS);
    names.map(str::to_owned).collect()
}

fn begins(text: &str, prefix: &str) -> bool {
    let start = text.as_bytes().get(..prefix.len());
    start.is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()))
}

/// The most frequent values that the stores have of what is wanted.
async fn stored_values(
    kinds: &AcrossKinds<'_>,
    queries: &StoreQueries,
    wanted: &[WantedValues],
) -> Result<BTreeMap<WantedValues, Vec<String>>, ApiError> {
    let prefixes = wanted
        .iter()
        .filter_map(|wanted| Some((wanted, stored_prefix(wanted)?)));
    let (wanted, prefixes): (Vec<&WantedValues>, Vec<ValuePrefix>) = prefixes.unzip();
    if wanted.is_empty() || queries.is_empty() {
        return Ok(BTreeMap::new());
    }
    // One for all stores, which work for it as for a page.
    let _page = kinds.page_permit().await?;
    let of_stores = queries.values().map(async |(store, queries)| {
        let query = ValuesQuery {
            queries: queries.clone(),
            requester: kinds.requester(),
            prefixes: prefixes.clone(),
        };
        in_time(TIMEOUT, store.frequent_values(&query)).await
    });
    let mut counts = vec![ValueCounts::default(); prefixes.len()];
    for of_store in try_join_all(of_stores).await? {
        for (counts, of_prefix) in counts.iter_mut().zip(of_store) {
            counts.add_all(of_prefix);
        }
    }
    let read = wanted.into_iter().zip(counts);
    Ok(read
        .map(|(wanted, counts)| (wanted.clone(), values(wanted, counts)))
        .collect())
}

/// What stores look for; `None` if they have no such values.
fn stored_prefix(wanted: &WantedValues) -> Option<ValuePrefix> {
    let field = match &wanted.of {
        ValueSet::Kinds | ValueSet::Clusters => return None,
        ValueSet::Namespaces => ValueField::Namespace,
        ValueSet::LabelKeys => ValueField::LabelKey,
        ValueSet::LabelValues(key) => ValueField::Label(key.clone()),
        ValueSet::Reasons => ValueField::Reason,
        ValueSet::Images => {
            let prefix = ValuePrefix::new(ValueField::Image, &wanted.prefix)?;
            return Some(prefix.or_behind(&OMITTED_OF_IMAGES));
        }
    };
    ValuePrefix::new(field, &wanted.prefix)
}

/// The values as searches have them, the most frequent first.
fn values(wanted: &WantedValues, counts: ValueCounts) -> Vec<String> {
    let mut values: Vec<String> = Vec::new();
    for (value, _) in counts.most_frequent(usize::MAX) {
        let value = match wanted.of {
            ValueSet::Images => image_spelling(&value, &wanted.prefix),
            _ => value,
        };
        // The spellings of an image become one.
        if !values.contains(&value) {
            values.push(value);
        }
        if values.len() == MAX_ITEMS {
            break;
        }
    }
    values
}

/// The shortest spelling of an image that begins with a prefix.
fn image_spelling(stored: &str, prefix: &str) -> String {
    let short = OMITTED_OF_IMAGES
        .iter()
        .filter_map(|omitted| stored.strip_prefix(omitted));
    let mut same = short.filter(|short| {
        begins(short, prefix) && image::query_term(short) == image::query_term(stored)
    });
    same.next().unwrap_or(stored).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_offered_in_the_shortest_spelling_that_begins_as_the_text() {
        for (stored, prefix, expected) in [
            ("docker.io/library/nginx:1.27", "", "nginx:1.27"),
            ("docker.io/library/nginx", "NGI", "nginx"),
            ("docker.io/library/nginx", "library/n", "library/nginx"),
            (
                "docker.io/library/nginx",
                "docker.io/l",
                "docker.io/library/nginx",
            ),
            ("docker.io/team/app", "", "team/app"),
            ("docker.io/localhost/app", "", "docker.io/localhost/app"),
            ("ghcr.io/team/app", "gh", "ghcr.io/team/app"),
            ("nginx:1.27", "ng", "nginx:1.27"),
        ] {
            assert_eq!(
                image_spelling(stored, prefix),
                expected,
                "{stored} {prefix}"
            );
        }
    }
}
