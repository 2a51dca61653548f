//! Searches over all kinds: one question to each store about every kind that the caller may list,
//! the best matches first.
//!
//! Guarantees: objects, counts and facets hold what lists of each kind would show the caller, and
//! nothing else. A page starts after the last object of the page before in what the stores hold
//! then: no view stays open, so objects that have changed meanwhile may be missing or repeated.

mod selection;
mod watched;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetdex_core::{
    model::{Gvk, StoreName, split_api_version},
    query::{
        Cursor, Facet, Permitted, Query, RankPosition, RankedHit, RankedPage, RankedQuery,
        Requester, ResourceName, WordSelector, ranked::MAX_FACET_VALUES,
    },
};
use fleetdex_limits::fair_semaphore::FairPermit;
use fleetdex_query_api::{
    answer::{Explanation, FacetCount, FacetCounts, ListMetadata},
    question::{ListRequest, SearchRequest},
};
use fleetdex_store::{IndexReader, explain::ranked_page};
use futures::{FutureExt, future::try_join_all};
use jiff::Timestamp;
use serde_json::json;

use self::selection::SearchSelection;
pub use self::{
    selection::named_clusters,
    watched::{SearchScope, WatchedSearch, plan_watch},
};
use super::{
    across_kinds::{AcrossKinds, FromHit, TIMEOUT, concurrently},
    list::{refused_token, token},
    object_summary::ObjectSummary,
    objects::FoundSummaries,
    query_plan::QueryPlan,
    snapshot::{log_of, sequence_number, wait_for},
};
use crate::{
    api_error::ApiError,
    auth::continue_token::{self, Continuation, SealingKeys, TokenBinding},
    catalog::RegisteredResource,
    store_timeout::in_time,
};

/// Each query, that of its store, the checked one of the embedded store, and its translation.
pub(super) const QUERY_COPIES: usize = 4;

/// The queries for one store.
pub(super) type StoreQueries = BTreeMap<StoreName, (Arc<dyn IndexReader>, Vec<Query>)>;

/// What is asked about one kind, and what its result lacks.
type PlannedKind = (StoreQueries, Vec<String>);

/// The objects that a search finds, and warnings about what is missing.
///
/// `reserve` reserves memory for queries of this many bytes.
pub async fn search(
    kinds: &AcrossKinds<'_>,
    request: &SearchRequest,
    keys: &SealingKeys,
    reserve: impl FnOnce(usize) -> Result<Vec<FairPermit<Arc<str>>>, ApiError>,
) -> Result<(FoundSummaries, Vec<String>), ApiError> {
    let bound = TokenBinding {
        caller: kinds.caller,
        request: &request.list,
        // Each page applies what the caller may see by then.
        permitted: &Permitted::Everything,
    };
    let from = request.list.continue_token.as_deref();
    let from = from.map(|text| opened(text, &bound, keys)).transpose()?;
    let (queries, warnings) = queries(kinds, request).await?;
    let of_store = queries.values().flat_map(|(_, queries)| queries);
    let bytes: usize = of_store.map(Query::bytes).sum();
    let _reservation = reserve(bytes * QUERY_COPIES)?;
    let after = from.as_ref().map(|from| from.position.clone());
    wait_until_shown(request, &queries).await?;
    // One for all stores: a search that held one for each could wait for itself. Only the embedded
    // store returns whole objects.
    let _page = kinds.page_permit().await?;
    let page = read(kinds, request, &queries, after).await?;
    let before = from.map_or(page.total, |from| from.remaining);
    let remaining = before
        .saturating_sub(page.items.len() as u64)
        .max(u64::from(page.more));
    let facets = request.facets.iter();
    let mut metadata = ListMetadata {
        remaining_item_count: Some(remaining).filter(|_| page.more),
        facets: facets.map(|facet| facet_counts(*facet, &page)).collect(),
        ..ListMetadata::default()
    };
    if let Some(last) = page.items.last().filter(|_| page.more) {
        let continuation = continuation(&queries, &last.position, remaining);
        metadata.continue_token = token(&continuation, &bound, keys)?;
    }
    let found = FoundSummaries {
        objects: summaries(kinds, &page),
        metadata,
    };
    Ok((found, warnings.into_iter().collect()))
}

/// What the stores are asked for the first page of a search, in OpenSearch's words. Nothing is
/// read.
pub async fn explain(
    kinds: &AcrossKinds<'_>,
    request: &SearchRequest,
) -> Result<(Explanation, Vec<String>), ApiError> {
    let (queries, warnings) = queries(kinds, request).await?;
    let mut bodies = Vec::new();
    for (_, queries) in queries.into_values() {
        let ranked = ranked(kinds, request, &queries, None);
        let body = ranked_page(&ranked);
        bodies.push(body.map_err(|error| ApiError::bad_request(error.to_string()))?);
    }
    Ok((Explanation::of(bodies), warnings.into_iter().collect()))
}

/// The queries of a search for each store, restricted to what the caller may list, and what their
/// results lack.
pub(super) async fn queries(
    kinds: &AcrossKinds<'_>,
    request: &SearchRequest,
) -> Result<(StoreQueries, BTreeSet<String>), ApiError> {
    match SearchSelection::of(&kinds.catalog, request, Timestamp::now())? {
        Some(selection) => plan(kinds, &selection).await,
        None => Ok((StoreQueries::new(), BTreeSet::new())),
    }
}

async fn plan(
    kinds: &AcrossKinds<'_>,
    selection: &SearchSelection,
) -> Result<(StoreQueries, BTreeSet<String>), ApiError> {
    let resources = kinds.catalog.resources();
    let planned = resources.filter_map(|registered| {
        let list = selection.of_resource(registered)?;
        Some(plan_kind(kinds, selection, registered, list).boxed())
    });
    let mut queries = StoreQueries::new();
    let mut warnings = BTreeSet::new();
    for (planned, lacking) in concurrently(planned.collect()).await? {
        warnings.extend(lacking);
        for (name, (store, of_kind)) in planned {
            let of_store = queries.entry(name).or_insert_with(|| (store, Vec::new()));
            of_store.1.extend(of_kind);
        }
    }
    Ok((queries, warnings))
}

async fn plan_kind(
    kinds: &AcrossKinds<'_>,
    selection: &SearchSelection,
    registered: &RegisteredResource,
    list: ListRequest,
) -> Result<PlannedKind, ApiError> {
    let Some(planned) = kinds.plan_of(registered, &list).await? else {
        return Ok(PlannedKind::default());
    };
    let mut queries = StoreQueries::new();
    if let Some(plan) = planned.plan {
        add_queries(&mut queries, &plan, &selection.words, kinds.requester());
    }
    Ok((queries, planned.warnings))
}

/// The question to one store.
fn ranked(
    kinds: &AcrossKinds<'_>,
    request: &SearchRequest,
    queries: &[Query],
    after: Option<RankPosition>,
) -> RankedQuery {
    RankedQuery {
        queries: queries.to_vec(),
        requester: kinds.requester(),
        limit: request.limit,
        after,
        facets: request.facets.clone(),
    }
}

/// Adds the query of one kind, with the words of the search, for each of its stores.
fn add_queries(
    queries: &mut StoreQueries,
    plan: &QueryPlan,
    words: &WordSelector,
    requester: Requester,
) {
    let query = Query {
        words: words.clone(),
        requester,
        ..plan.query.clone()
    };
    for part in plan.stores.parts() {
        let of_store = queries.entry(part.name.clone());
        let of_store = of_store.or_insert_with(|| (Arc::clone(&part.store), Vec::new()));
        of_store.1.push(part.query(&query));
    }
}

/// Waits until the stores show the version that the request names.
async fn wait_until_shown(request: &SearchRequest, queries: &StoreQueries) -> Result<(), ApiError> {
    let Some(version) = request.not_older_than else {
        return Ok(());
    };
    let logs = queries.values().map(|(store, _)| log_of(&**store));
    let logs = try_join_all(logs).await?;
    if logs.is_empty() {
        return Ok(());
    }
    wait_for(&logs, sequence_number(&logs, version)?).await
}

/// One page, from all stores.
async fn read(
    kinds: &AcrossKinds<'_>,
    request: &SearchRequest,
    queries: &StoreQueries,
    after: Option<RankPosition>,
) -> Result<RankedPage, ApiError> {
    let pages = queries.values().map(async |(store, queries)| {
        let ranked = ranked(kinds, request, queries, after.clone());
        in_time(TIMEOUT, store.ranked_page(&ranked)).await
    });
    let pages = try_join_all(pages).await?;
    Ok(RankedPage::merged(pages, request.limit))
}

fn summaries(kinds: &AcrossKinds<'_>, page: &RankedPage) -> Vec<ObjectSummary> {
    let resources = kinds.catalog.resources();
    let plurals: BTreeMap<(&str, &str), &str> = resources
        .map(|registered| {
            let name = &registered.name;
            ((&*name.group, &*registered.kind), &*name.plural)
        })
        .collect();
    let summary = |found: &RankedHit| {
        let (group, version) = split_api_version(&found.position.api_version);
        let kind = Gvk::new(group, version, &found.position.kind);
        let plural = plurals.get(&(group, &*found.position.kind));
        let resource = ResourceName::new(group, plural.copied().unwrap_or_default());
        ObjectSummary::of(&resource, &kind, &found.hit)
    };
    page.items.iter().map(summary).collect()
}

/// The largest counts of a facet, and of how many objects it has other values.
fn facet_counts(facet: Facet, page: &RankedPage) -> FacetCounts {
    let counts = page.facets.get(&facet);
    let mut values: Vec<(&String, &u64)> = counts.into_iter().flatten().collect();
    values.sort_by(|left, right| right.1.cmp(left.1).then_with(|| left.0.cmp(right.0)));
    let (shown, others) = values.split_at(values.len().min(MAX_FACET_VALUES));
    let others: u64 = others.iter().map(|(_, count)| **count).sum();
    let shown = shown.iter().map(|(value, count)| FacetCount {
        value: (*value).clone(),
        count: **count,
    });
    FacetCounts {
        name: facet.name().to_owned(),
        values: shown.collect(),
        others: others + page.others.get(&facet).unwrap_or(&0),
    }
}

/// Where a page starts.
struct PageStart {
    position: RankPosition,
    /// How many objects come after it, as far as the page before knew.
    remaining: u64,
}

/// The continuation after an object. All stores go on after the same one.
fn continuation(queries: &StoreQueries, last: &RankPosition, remaining: u64) -> Continuation {
    let cursor = Cursor {
        snapshot: String::new(),
        after: vec![json!(last)],
        remaining: Some(remaining),
    };
    let first = queries.keys().next().map(|name| (name.clone(), cursor));
    Continuation {
        version: None,
        cursors: first.into_iter().collect(),
    }
}

fn opened(text: &str, bound: &TokenBinding<'_>, keys: &SealingKeys) -> Result<PageStart, ApiError> {
    let opened = continue_token::open(keys, text, bound, Timestamp::now().as_second());
    let cursors = opened.map_err(refused_token)?.cursors;
    let cursor = cursors.into_values().next();
    let read = cursor.and_then(|cursor| {
        let position = cursor.after.into_iter().next()?;
        Some(PageStart {
            position: serde_json::from_value(position).ok()?,
            remaining: cursor.remaining?,
        })
    });
    read.ok_or(ApiError::Expired)
}
