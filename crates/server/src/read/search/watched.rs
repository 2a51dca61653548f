//! What a watch of a search follows: one query for each kind and store.
//!
//! Guarantee: a selection with the same hash has the same queries, so that a watch that continues
//! from another one of the same hash misses nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{BuildHasher as _, Hash as _, Hasher, RandomState},
    ptr,
    sync::{Arc, LazyLock},
};

use fleetdex_core::{
    model::{ClusterName, Gvk, StoreName},
    query::{Permitted, Query, Requester, ResourceName},
};
use fleetdex_query_api::question::{ListRequest, SearchRequest};
use fleetdex_store::IndexReader;
use jiff::Timestamp;

use super::{StoreQueries, add_queries, selection::SearchSelection};
use crate::{
    api_error::ApiError,
    auth::authorize::Permission,
    catalog::{Catalog, RegisteredResource},
    read::{
        across_kinds::{AcrossKinds, concurrently, of_resource, planned},
        query_plan::QueryPlan,
    },
};

/// Kinds that one watch follows at most. Each takes an access review every 30 seconds, so that the
/// rights of a watch are reviewed as often as those of any other (600 reviews in 30 seconds), and a
/// stream of changes from every other replica, of which a replica serves 2,000 to another one.
const MAX_KINDS: usize = 500;

/// Keys the hashes of selections, which are compared within a process only.
static SELECTION_HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// What a watch of a search follows.
pub struct WatchedSearch {
    /// The kinds, with what of them is permitted.
    pub kinds: Vec<WatchedKind>,
    /// What the watch lacks.
    pub warnings: BTreeSet<String>,
    /// Each store that is followed, and the queries of its kinds. Without kinds, a store from which
    /// the watch has its version.
    pub stores: Vec<(Arc<dyn IndexReader>, Vec<Query>)>,
    /// What it selects, whatever the catalog will be.
    pub scope: SearchScope,
}

/// One kind of a watch.
pub struct WatchedKind {
    /// The request for its objects.
    pub list: ListRequest,
    /// The plan of the request.
    pub plan: QueryPlan,
}

/// What a search selects for a caller from any catalog.
pub struct SearchScope {
    request: SearchRequest,
    requester: Requester,
    /// The time of the conditions on ages.
    now: Timestamp,
    /// The clusters that the caller can see; `None`: all.
    visible: Option<BTreeSet<ClusterName>>,
    /// Of each kind what the caller may list and watch; `None`: nothing.
    permitted: BTreeMap<ResourceName, Option<Permitted>>,
    /// The catalog at the start, whatever the caller can see of it.
    initial: Arc<Catalog>,
    /// The hash of what is selected from it.
    pub(crate) hash: u64,
}

/// What a catalog has of a scope.
#[derive(Default)]
struct Selected {
    kinds: Vec<WatchedKind>,
    warnings: BTreeSet<String>,
    queries: StoreQueries,
}

/// Plans a watch. `catalog`: whatever the caller can see of it.
pub async fn plan_watch(
    kinds: &AcrossKinds<'_>,
    catalog: &Arc<Catalog>,
    request: &SearchRequest,
) -> Result<WatchedSearch, ApiError> {
    let visible = &kinds.catalog;
    let mut scope = SearchScope {
        request: request.clone(),
        requester: kinds.requester(),
        now: Timestamp::now(),
        visible: visible.is_restricted.then(|| visible.clusters().clone()),
        permitted: BTreeMap::new(),
        initial: Arc::clone(catalog),
        hash: 0,
    };
    let mut warnings = BTreeSet::new();
    for (name, permission) in permissions(kinds, &scope).await? {
        let permitted = permission.map(|permission| {
            warnings.extend(permission.warnings);
            permission.permitted
        });
        scope.permitted.insert(name, permitted);
    }
    let selected = scope.select(visible)?;
    check_count(selected.kinds.len())?;
    scope.hash = selected.hash();
    warnings.extend(selected.warnings);
    let mut stores: Vec<_> = selected.queries.into_values().collect();
    if stores.is_empty() {
        let (_, first) = visible.stores().next().ok_or_else(no_store)?;
        stores.push((Arc::clone(first), Vec::new()));
    }
    Ok(WatchedSearch {
        kinds: selected.kinds,
        warnings,
        stores,
        scope,
    })
}

fn no_store() -> ApiError {
    ApiError::Unavailable("no store is connected yet".to_owned())
}

fn check_count(kinds: usize) -> Result<(), ApiError> {
    if kinds <= MAX_KINDS {
        return Ok(());
    }
    Err(ApiError::bad_request(format!(
        "parameter watch: the search selects {kinds} kinds, and a watch follows {MAX_KINDS} at most; name some with kind: in the search"
    )))
}

/// What the caller may list and watch of each kind that is searched.
async fn permissions(
    kinds: &AcrossKinds<'_>,
    scope: &SearchScope,
) -> Result<Vec<(ResourceName, Option<Permission>)>, ApiError> {
    let reviewed = scope.lists(&kinds.catalog)?.into_iter();
    let reviews = reviewed.map(|(registered, list)| {
        let review = async move {
            let permission = kinds.watchable(&list).await?;
            Ok((registered.name.clone(), permission))
        };
        Box::pin(review) as _
    });
    concurrently(reviews.collect()).await
}

impl WatchedSearch {
    /// Bytes of its queries.
    pub fn query_bytes(&self) -> usize {
        let queries = self.stores.iter().flat_map(|(_, queries)| queries);
        queries.map(Query::bytes).sum()
    }

    /// The kinds of its objects, in their best versions.
    pub fn object_kinds(&self) -> BTreeMap<ResourceName, Gvk> {
        let kinds = self.kinds.iter();
        kinds
            .map(|kind| (kind.plan.query.resource.clone(), kind.plan.kind.clone()))
            .collect()
    }
}

impl SearchScope {
    /// Ends a watch if another selection is made from this catalog.
    pub fn check(&self, catalog: &Catalog) -> Result<(), ApiError> {
        if ptr::eq(catalog, &raw const *self.initial) || catalog.holds_like(&self.initial) {
            return Ok(());
        }
        let part = self.visible.as_ref();
        let part = part.map(|clusters| catalog.visible_to(clusters, None));
        let selected = self.select(part.as_ref().unwrap_or(catalog));
        if selected.is_ok_and(|selected| selected.hash() == self.hash) {
            return Ok(());
        }
        Err(ApiError::VersionExpired(
            "the kinds, clusters or stores that the search selects have changed".to_owned(),
        ))
    }

    /// The request for each kind that is searched.
    fn lists<'c>(
        &self,
        catalog: &'c Catalog,
    ) -> Result<Vec<(&'c RegisteredResource, ListRequest)>, ApiError> {
        let Some(selection) = SearchSelection::of(catalog, &self.request, self.now)? else {
            return Ok(Vec::new());
        };
        let list = |registered: &'c RegisteredResource| {
            let list = selection.of_resource(registered)?;
            Some((registered, of_resource(&list, registered)?))
        };
        Ok(catalog.resources().filter_map(list).collect())
    }

    fn select(&self, catalog: &Catalog) -> Result<Selected, ApiError> {
        let words = super::selection::words(&self.request);
        let mut selected = Selected::default();
        for (registered, list) in self.lists(catalog)? {
            let permitted = match self.permitted.get(&registered.name) {
                Some(Some(permitted)) if !is_nothing(permitted) => permitted.clone(),
                Some(_) => continue,
                None => return Err(not_reviewed(registered)),
            };
            let permission = Permission {
                permitted,
                warnings: Vec::new(),
            };
            let planned = planned(catalog, registered, &list, permission)?;
            selected.warnings.extend(planned.warnings);
            if let Some(plan) = planned.plan {
                let requester = self.requester.clone();
                add_queries(&mut selected.queries, &plan, &words, requester);
                selected.kinds.push(WatchedKind { list, plan });
            }
        }
        Ok(selected)
    }
}

fn is_nothing(permitted: &Permitted) -> bool {
    matches!(permitted, Permitted::Only(grants) if grants.is_empty())
}

/// What the caller may see of it is not known.
fn not_reviewed(registered: &RegisteredResource) -> ApiError {
    ApiError::VersionExpired(format!(
        "{} have been registered since",
        registered.name.plural
    ))
}

impl Selected {
    fn hash(&self) -> u64 {
        let mut hasher = SELECTION_HASHER.build_hasher();
        for (store, (_, queries)) in &self.queries {
            for query in queries {
                hash_query(store, query, &mut hasher);
            }
        }
        hasher.finish()
    }
}

/// Hashes what a query selects. Texts are canonical, and no part is a beginning of another.
fn hash_query(store: &StoreName, query: &Query, hasher: &mut impl Hasher) {
    (store, &query.resource, &query.clusters, &query.namespaces).hash(hasher);
    (&query.names, query.since, query.before).hash(hasher);
    query.permitted.canonical().hash(hasher);
    query.labels.to_string().hash(hasher);
    query.fields.to_string().hash(hasher);
    let words = query.words.words().iter();
    let words = words.map(|word| (word.text(), word.is_negated));
    words.collect::<Vec<_>>().hash(hasher);
    // Only the field selector needs it, and clusters that join may add fields.
    if !query.fields.is_empty() {
        format!("{:?}", query.selectable).hash(hasher);
    }
}
