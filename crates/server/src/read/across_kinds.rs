//! Searches for objects of every kind: one query for each resource that the caller may list.
//!
//! Guarantees: a result shows nothing that a list of its kind would not show the caller. What the
//! caller may not list is absent, and no warning tells of it. Of each query one page of objects is
//! in memory at a time, and all searches share permits for them.

mod found_hits;
mod resource_request;
mod watchable;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use fleetdex_core::{
    model::{ClusterName, DEPENDS_ON, FieldPath, Namespace, StoreName},
    query::{
        Hit, Owners, Permitted, Query, Relation, Relative, RelativesQuery, Requester, ResourceName,
    },
    selector::{FieldRequirement, FieldTest},
};
use fleetdex_limits::{
    fair_semaphore::{FairPermit, FairSemaphore},
    request::UserRequest,
};
use fleetdex_query_api::question::ListRequest;
use fleetdex_store::StoreError;
use futures::{
    FutureExt, Stream, StreamExt, TryStreamExt,
    future::{BoxFuture, try_join_all},
    stream,
};
use tokio::time::timeout;

pub use self::found_hits::{FoundHits, FromHit};
pub(super) use self::resource_request::{PlannedSearch, of_resource, planned, terms_of};
use self::resource_request::{check_fields, uninterpreted_warning, unsupported_path};
use super::{
    permitted::{permitted_objects, visible_catalog},
    query_plan::{self, PAGE, QueryPlan},
};
use crate::{
    api_error::ApiError,
    auth::{authentication_mode::AuthenticationMode, authorize::Permission, caller::Caller},
    catalog::{Catalog, RegisteredResource},
    store_timeout::in_time,
};

/// How long the stores may take for one resource.
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);
/// Queries that one search has in flight.
const CONCURRENT_QUERIES: usize = 4;

/// The resources that a caller may search.
pub struct AcrossKinds<'s> {
    authentication_mode: &'s AuthenticationMode,
    page_permits: &'s FairSemaphore<Arc<str>>,
    pub(super) caller: &'s Caller,
    /// What the caller can see of the catalog.
    pub(crate) catalog: Arc<Catalog>,
}

/// Runs some searches, a few at a time.
pub async fn concurrently<T: Send>(
    searches: Vec<BoxFuture<'_, Result<T, ApiError>>>,
) -> Result<Vec<T>, ApiError> {
    in_order(searches).try_collect().await
}

/// Runs some searches, a few at a time, and returns what they find in their order.
pub fn in_order<'s, T: Send + 's>(
    searches: Vec<BoxFuture<'s, Result<T, ApiError>>>,
) -> impl Stream<Item = Result<T, ApiError>> + Send + Unpin + 's {
    stream::iter(searches).buffered(CONCURRENT_QUERIES)
}

impl<'s> AcrossKinds<'s> {
    /// The resources that a caller may search. `page_permits`: those that all searches share.
    /// `named`: the clusters that the request names; one that is not known is an error.
    pub async fn new(
        authentication_mode: &'s AuthenticationMode,
        page_permits: &'s FairSemaphore<Arc<str>>,
        caller: &'s Caller,
        catalog: &Arc<Catalog>,
        named: &[ClusterName],
    ) -> Result<Self, ApiError> {
        let catalog = visible_catalog(authentication_mode, caller, catalog, named, None).await?;
        if let Some(unknown) = named.iter().find(|name| !catalog.knows_cluster(name)) {
            return Err(ApiError::NoSuchCluster(unknown.clone()));
        }
        Ok(Self {
            authentication_mode,
            page_permits,
            caller,
            catalog,
        })
    }

    /// The registered resource of a group and kind, in any version.
    pub fn resource_of(&self, group: &str, kind: &str) -> Option<&RegisteredResource> {
        let mut resources = self.catalog.resources();
        resources.find(|resource| *resource.name.group == *group && *resource.kind == *kind)
    }

    /// The first objects of `only` these resources, or of every one if there are none, that
    /// `request` selects; its resource is not used.
    pub async fn first_objects<T: FromHit>(
        &self,
        only: &[ResourceName],
        request: &ListRequest,
        limit: usize,
    ) -> Result<FoundHits<T>, ApiError> {
        let resources = self.searched_resources(only)?;
        check_fields(&resources, request)?;
        let searches = resources.into_iter();
        let searches =
            searches.map(|resource| self.objects_of(&resource.name, request, limit).boxed());
        let mut found = in_order(searches.collect());
        let mut all = FoundHits::default();
        while let Some(of_resource) = found.try_next().await? {
            all.extend(of_resource);
            if all.objects.len() > limit {
                all.objects.truncate(limit);
                all.has_more = true;
                break;
            }
        }
        Ok(all)
    }

    /// Whether there is an object of any resource that `request` selects. Asks until one is found.
    pub async fn has_objects(&self, request: &ListRequest) -> Result<bool, ApiError> {
        let searches: Vec<BoxFuture<'_, Result<FoundHits<()>, ApiError>>> = self
            .catalog
            .resources()
            .map(|resource| self.objects_of(&resource.name, request, 1).boxed())
            .collect();
        let mut found = stream::iter(searches).buffer_unordered(CONCURRENT_QUERIES);
        while let Some(of_resource) = found.try_next().await? {
            if !of_resource.objects.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// How many objects of `only` these resources, or of every one if there are none, `request`
    /// selects.
    pub async fn count_objects(
        &self,
        only: &[ResourceName],
        request: &ListRequest,
    ) -> Result<u64, ApiError> {
        let resources = self.searched_resources(only)?.into_iter();
        let counts = resources.map(|resource| self.count_of(resource, request).boxed());
        Ok(concurrently(counts.collect()).await?.into_iter().sum())
    }

    fn searched_resources(
        &self,
        only: &[ResourceName],
    ) -> Result<Vec<&RegisteredResource>, ApiError> {
        if only.is_empty() {
            return Ok(self.catalog.resources().collect());
        }
        let find = |name: &ResourceName| {
            self.catalog.find(name).ok_or_else(|| {
                ApiError::bad_request(format!(
                    "parameter kinds: no ResourceRegistry selects {name}"
                ))
            })
        };
        only.iter().map(find).collect()
    }

    /// The first objects of one resource that `request` selects; none if the caller may not list
    /// it.
    pub async fn objects_of<T: FromHit>(
        &self,
        resource: &ResourceName,
        request: &ListRequest,
        limit: usize,
    ) -> Result<FoundHits<T>, ApiError> {
        self.search(resource, request, limit, None).await
    }

    /// The first objects of one resource that have one of these owners.
    pub async fn owned_objects<T: FromHit>(
        &self,
        resource: &ResourceName,
        clusters: &[ClusterName],
        limit: usize,
        owners: &Owners,
    ) -> Result<FoundHits<T>, ApiError> {
        let request = ListRequest {
            clusters: clusters.to_vec(),
            ..ListRequest::default()
        };
        self.search(resource, &request, limit, Some(owners.clone()))
            .await
    }

    /// The first objects of one resource that refer to one of some objects, each
    /// `apiVersion/kind/namespace/name`.
    pub async fn depending_objects<T: FromHit>(
        &self,
        resource: &ResourceName,
        clusters: &[ClusterName],
        limit: usize,
        terms: &BTreeSet<String>,
    ) -> Result<FoundHits<T>, ApiError> {
        let refers = FieldRequirement {
            path: FieldPath::new(DEPENDS_ON),
            test: FieldTest::In(terms.clone()),
        };
        let request = ListRequest {
            clusters: clusters.to_vec(),
            fields: [refers].into_iter().collect(),
            ..ListRequest::default()
        };
        self.search(resource, &request, limit, None).await
    }

    /// The object that the path of a request names, in each cluster. What is refused is an error,
    /// as for a list.
    pub async fn named<T: FromHit>(&self, request: &ListRequest) -> Result<FoundHits<T>, ApiError> {
        let (mode, caller) = (self.authentication_mode, self.caller);
        let permission = permitted_objects(mode, caller, &self.catalog, request).await?;
        self.run(request, permission, PAGE, None).await
    }

    /// The resources whose objects may be related to some objects. Not restricted to what the
    /// caller may see: which they are may only be used to search them.
    pub async fn related_resources(
        &self,
        clusters: &[ClusterName],
        relation: Relation,
    ) -> Result<BTreeSet<ResourceName>, ApiError> {
        let query = RelativesQuery {
            clusters: clusters.to_vec(),
            namespaces: Vec::new(),
            permitted: Permitted::Everything,
            requester: self.requester(),
            relation,
        };
        let searches = self
            .catalog
            .stores()
            .map(|(_, store)| store.relatives(&query));
        let found = timeout(TIMEOUT, try_join_all(searches)).await;
        match found.map_err(|_| ApiError::Timeout(TIMEOUT.as_secs()))? {
            Ok(found) => {
                let relatives = found.into_iter().flatten();
                Ok(relatives
                    .map(|relative: Relative| relative.resource)
                    .collect())
            }
            // More than a store counts. A refusal would tell the caller so of objects that are not
            // visible.
            Err(StoreError::Invalid(_)) => {
                let all = self.catalog.resources();
                Ok(all.map(|resource| resource.name.clone()).collect())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The terms by which other objects refer to one, one for each version of its resource.
    pub fn terms_of(&self, resource: &ResourceName, namespace: &str, name: &str) -> Vec<String> {
        let registered = self.catalog.find(resource);
        let terms = |registered| terms_of(registered, namespace, name);
        registered.map(terms).unwrap_or_default()
    }

    /// Whether a result has all that exists in a namespace of a cluster: the caller may see it, a
    /// store has all of it, and nothing of it is incomplete or stale. An empty namespace is that of
    /// cluster-scoped objects.
    pub fn shows_all_of<T>(
        &self,
        found: &FoundHits<T>,
        cluster: &ClusterName,
        namespace: &str,
    ) -> bool {
        let Some((resource, permitted)) = &found.searched else {
            return false;
        };
        let parsed: Option<Namespace> = namespace.parse().ok();
        let is_whole = |store: &StoreName| {
            let coverage = self.catalog.coverage(resource, store, cluster);
            coverage.is_some_and(|coverage| coverage.holds_all_of(parsed.as_ref()))
        };
        let mut gaps = self.catalog.gaps(resource);
        let mut incomplete = self.catalog.incomplete.iter();
        !found.has_more
            && permitted.allows(cluster.as_str(), namespace)
            && self.catalog.stores().any(|(store, _)| is_whole(store))
            && self.catalog.stale(cluster).is_none()
            && !gaps.any(|((of, _), _)| of == cluster)
            && !incomplete.any(|(of, _)| of == cluster)
    }

    async fn search<T: FromHit>(
        &self,
        resource: &ResourceName,
        request: &ListRequest,
        limit: usize,
        owners: Option<Owners>,
    ) -> Result<FoundHits<T>, ApiError> {
        let Some(registered) = self.catalog.find(resource) else {
            return Ok(FoundHits::default());
        };
        let Some((request, permission)) = self.permitted(registered, request).await? else {
            return Ok(FoundHits::default());
        };
        if let Some(path) = unsupported_path(registered, &request) {
            return Ok(FoundHits {
                warnings: uninterpreted_warning(registered, path)
                    .into_iter()
                    .collect(),
                ..FoundHits::default()
            });
        }
        self.run(&request, permission, limit, owners).await
    }

    /// The plan of a search of one resource; `None` if the caller may list none of what is
    /// requested.
    pub(super) async fn plan_of(
        &self,
        registered: &RegisteredResource,
        request: &ListRequest,
    ) -> Result<Option<PlannedSearch>, ApiError> {
        let Some((request, permission)) = self.permitted(registered, request).await? else {
            return Ok(None);
        };
        planned(&self.catalog, registered, &request, permission).map(Some)
    }

    /// What a request selects of one resource, and what of it the caller may list; `None`: nothing.
    async fn permitted(
        &self,
        registered: &RegisteredResource,
        request: &ListRequest,
    ) -> Result<Option<(ListRequest, Permission)>, ApiError> {
        let Some(request) = of_resource(request, registered) else {
            return Ok(None);
        };
        let permission = self.permission(&request).await?;
        Ok(permission.map(|permission| (request, permission)))
    }

    async fn count_of(
        &self,
        registered: &RegisteredResource,
        request: &ListRequest,
    ) -> Result<u64, ApiError> {
        let Some((request, permission)) = self.permitted(registered, request).await? else {
            return Ok(0);
        };
        if unsupported_path(registered, &request).is_some() {
            return Ok(0);
        }
        let mut plan = query_plan::plan(&self.catalog, &request, permission.permitted)?;
        if plan.is_empty {
            return Ok(0);
        }
        plan.query.requester = self.requester();
        // A store works for a count as for a page.
        let _page = self.page_permit().await?;
        let counted = in_time(TIMEOUT, plan.stores.aggregate(&plan.query, &[], 1));
        Ok(counted.await?.total)
    }

    async fn run<T: FromHit>(
        &self,
        request: &ListRequest,
        permission: Permission,
        limit: usize,
        owners: Option<Owners>,
    ) -> Result<FoundHits<T>, ApiError> {
        let plan = query_plan::plan(&self.catalog, request, permission.permitted)?;
        let mut found = FoundHits {
            warnings: permission.warnings.into_iter().collect(),
            searched: Some((plan.query.resource.clone(), plan.query.permitted.clone())),
            ..FoundHits::default()
        };
        found.warnings.extend(plan.warnings.iter().cloned());
        if plan.is_empty {
            return Ok(found);
        }
        let page = self.page(plan, limit, owners).await?;
        found.objects = page.objects;
        found.has_more = page.has_more;
        Ok(found)
    }

    /// The first page of a query.
    async fn page<T: FromHit>(
        &self,
        plan: QueryPlan,
        limit: usize,
        owners: Option<Owners>,
    ) -> Result<FoundHits<T>, ApiError> {
        let query = Query {
            limit: limit.min(PAGE),
            owners,
            requester: self.requester(),
            ..plan.query
        };
        let _page = self.page_permit().await?;
        let (hits, has_more) = in_time(TIMEOUT, plan.stores.first_objects(&query)).await?;
        let read = |hit: &Hit| T::of(&query.resource, &plan.kind, hit);
        Ok(FoundHits {
            objects: hits.iter().map(read).collect(),
            has_more,
            ..FoundHits::default()
        })
    }

    /// The permit to have a page read; `None` for a request that waits for nothing, as it has the
    /// reserve of the memory.
    pub(super) async fn page_permit(&self) -> Result<Option<FairPermit<Arc<str>>>, ApiError> {
        if UserRequest::current().memory().has_reserve() {
            return Ok(None);
        }
        let user: Arc<str> = self.caller.name.as_str().into();
        let permit = self.page_permits.acquire(user, TIMEOUT).await;
        permit.map(Some).ok_or(ApiError::TooManyRequests)
    }

    pub(super) fn requester(&self) -> Requester {
        Requester::User(self.caller.name.as_str().into())
    }

    /// What the caller may list of a resource; `None`: nothing.
    async fn permission(&self, request: &ListRequest) -> Result<Option<Permission>, ApiError> {
        let (mode, caller) = (self.authentication_mode, self.caller);
        match permitted_objects(mode, caller, &self.catalog, request).await {
            Ok(permission) => Ok(Some(permission)),
            Err(ApiError::Forbidden(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
