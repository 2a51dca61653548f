//! The clusters and objects that a caller may get, list or watch: applies the authorizer's
//! decisions to the catalog and the stores.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use fleetdex_core::{
    model::{ClusterName, Namespace},
    query::{Grant, GroupKey, Permitted, Query, Relative, Requester, ResourceName},
};
use fleetdex_query_api::{
    question::ListRequest,
    rbac_attributes::{Attributes, WATCH_VERB},
};

use super::query_plan::{plan, requested_clusters};
use crate::{
    api_error::ApiError,
    auth::{
        authentication_mode::AuthenticationMode,
        authorize::{AccessRequest, NamespaceLister, Permission},
        caller::Caller,
        reauthorization::{Reauthorization, WatchedObjects},
    },
    catalog::Catalog,
    store_timeout::in_time,
};

/// Timeout of the query for the namespaces that hold objects.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The part of the catalog that the caller of a request can see; nothing in it depends on other
/// clusters. Every request for members or for stored objects starts here.
///
/// The refusal of a cluster's name is the same whether the cluster exists or not. Clusters that are
/// not named and not visible are omitted. `resource`: the only resource of the request, if it has
/// one.
pub async fn visible_catalog(
    authentication_mode: &AuthenticationMode,
    caller: &Caller,
    catalog: &Arc<Catalog>,
    named: &[ClusterName],
    resource: Option<&ResourceName>,
) -> Result<Arc<Catalog>, ApiError> {
    let visible = visible_clusters(authentication_mode, caller, catalog, named).await?;
    Ok(visible.map_or_else(
        || Arc::clone(catalog),
        |visible| Arc::new(catalog.visible_to(&visible, resource)),
    ))
}

/// The clusters that a caller can see, of the named ones or else of all; `None` for all clusters.
pub async fn visible_clusters(
    authentication_mode: &AuthenticationMode,
    caller: &Caller,
    catalog: &Catalog,
    named: &[ClusterName],
) -> Result<Option<BTreeSet<ClusterName>>, ApiError> {
    let AuthenticationMode::Delegated(auth) = authentication_mode else {
        return Ok(None);
    };
    let authorizer = &auth.authorizer;
    authorizer.clusters(caller, named, catalog.clusters()).await
}

/// What of the requested objects the caller can see; an error if it is nothing. `catalog`: what
/// [`visible_catalog`] returned.
pub async fn permitted_objects(
    authentication_mode: &AuthenticationMode,
    caller: &Caller,
    catalog: &Catalog,
    request: &ListRequest,
) -> Result<Permission, ApiError> {
    let AuthenticationMode::Delegated(auth) = authentication_mode else {
        return Ok(Permission::default());
    };
    let resource_path = &request.resource;
    let resource = ResourceName::new(&resource_path.group, &resource_path.plural);
    // A resource that is not registered is 404 for all callers.
    let Some(registered) = catalog.find(&resource) else {
        return Ok(Permission::default());
    };
    let clusters = Vec::from_iter(requested_clusters(registered, request));
    let access = AccessRequest {
        verb: rbac_verb(request),
        resource: &resource,
        version: &resource_path.version,
        namespaced: registered.namespaced,
        name: resource_path.name.as_deref(),
        namespaces: &request.namespaces,
        clusters: &clusters,
        only_these_clusters: catalog.is_restricted,
        warns_of_namespaces: !request.is_across_kinds,
    };
    let namespaces = StoredNamespaces {
        caller,
        catalog,
        request,
    };
    let authorizer = &auth.authorizer;
    authorizer.permission(caller, &access, &namespaces).await
}

/// The reauthorization of a watch; `None` if its caller needs none. `outer`: the attributes by
/// which the request was authorized. `shown`: of each resource the request, and what of it is
/// permitted.
pub fn reauthorization<'r>(
    authentication_mode: &AuthenticationMode,
    caller: &Caller,
    outer: Option<Attributes>,
    shown: impl IntoIterator<Item = (&'r ListRequest, &'r Permitted)>,
) -> Option<Reauthorization> {
    let AuthenticationMode::Delegated(auth) = authentication_mode else {
        return None;
    };
    let objects = |(request, permitted): (&ListRequest, &Permitted)| {
        let resource_path = &request.resource;
        WatchedObjects {
            resource: ResourceName::new(&resource_path.group, &resource_path.plural),
            version: resource_path.version.clone(),
            name: resource_path.name.clone(),
            permitted: permitted.clone(),
        }
    };
    (!caller.is_superuser()).then_some(Reauthorization {
        authorizer: auth.authorizer.clone(),
        caller: caller.clone(),
        outer: outer?,
        objects: shown.into_iter().map(objects).collect(),
    })
}

/// Filters objects of any kind by what a caller can see.
pub struct VisibilityFilter<'s> {
    /// Decides.
    pub authentication_mode: &'s AuthenticationMode,
    /// The caller.
    pub caller: &'s Caller,
    /// What [`visible_catalog`] returned.
    pub catalog: &'s Catalog,
}

impl VisibilityFilter<'_> {
    /// The objects of `found` that the caller can list.
    pub async fn visible(&self, found: BTreeSet<Relative>) -> Result<Vec<Relative>, ApiError> {
        let AuthenticationMode::Delegated(auth) = self.authentication_mode else {
            return Ok(found.into_iter().collect());
        };
        let mut by_resource: BTreeMap<ResourceName, Vec<Relative>> = BTreeMap::new();
        for relative in found {
            let of_resource = by_resource.entry(relative.resource.clone());
            of_resource.or_default().push(relative);
        }
        let mut visible = Vec::new();
        for (resource, relatives) in by_resource {
            // A resource that is no longer registered has no version to review.
            let Some(registered) = self.catalog.find(&resource) else {
                continue;
            };
            let clusters = relatives.iter().map(|relative| &relative.cluster);
            let clusters: BTreeSet<&ClusterName> = clusters.collect();
            let namespaces = relatives.iter().map(|relative| relative.namespace.as_str());
            let namespaces: BTreeSet<&str> = namespaces.collect();
            let namespaces = namespaces.into_iter().filter_map(|name| name.parse().ok());
            let access = AccessRequest {
                verb: "list",
                resource: &resource,
                version: registered.versions.first().map_or("", |version| version),
                namespaced: registered.namespaced,
                name: None,
                namespaces: &namespaces.collect::<Vec<_>>(),
                clusters: &clusters.into_iter().cloned().collect::<Vec<_>>(),
                only_these_clusters: self.catalog.is_restricted,
                warns_of_namespaces: false,
            };
            let authorizer = &auth.authorizer;
            let reviewed = authorizer.permission(self.caller, &access, &NoNamespaces);
            match reviewed.await {
                Ok(Permission { permitted, .. }) => {
                    let is_visible = |relative: &Relative| {
                        permitted.allows(relative.cluster.as_str(), &relative.namespace)
                    };
                    visible.extend(relatives.into_iter().filter(is_visible));
                }
                Err(ApiError::Forbidden(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(visible)
    }
}

/// Lists no namespaces: the access request names those of the objects.
struct NoNamespaces;

#[async_trait]
impl NamespaceLister for NoNamespaces {
    async fn namespaces(&self) -> Result<BTreeMap<ClusterName, Vec<Namespace>>, ApiError> {
        Ok(BTreeMap::new())
    }
}

/// The RBAC verb that a list or watch needs.
fn rbac_verb(request: &ListRequest) -> &'static str {
    match request.resource.name {
        _ if request.watch_options.watch => WATCH_VERB,
        Some(_) => "get",
        None => "list",
    }
}

/// Lists the namespaces that hold the resource in the request's stores.
struct StoredNamespaces<'r> {
    caller: &'r Caller,
    catalog: &'r Catalog,
    request: &'r ListRequest,
}

#[async_trait]
impl NamespaceLister for StoredNamespaces<'_> {
    async fn namespaces(&self) -> Result<BTreeMap<ClusterName, Vec<Namespace>>, ApiError> {
        let found = plan(self.catalog, self.request, Permitted::Everything)?;
        if found.is_empty {
            return Ok(BTreeMap::new());
        }
        // Of all objects, so that a refusal does not reveal which of them the selectors match.
        let Query {
            resource,
            selectable,
            limit,
            clusters,
            namespaces,
            ..
        } = found.query;
        let permitted = self.within();
        // Counts as the caller's query, and opens no view that would evict the caller's lists.
        let requester = Requester::User(self.caller.name.as_str().into());
        let everything = Query {
            clusters,
            namespaces,
            permitted,
            requester,
            ..Query::all_of(resource, selectable, limit)
        };
        let keys = [GroupKey::Cluster, GroupKey::Namespace];
        let groups = in_time(TIMEOUT, found.stores.groups(&everything, &keys)).await?;
        let mut held: BTreeMap<ClusterName, Vec<Namespace>> = BTreeMap::new();
        for group in groups.groups {
            let [Some(cluster), Some(namespace)] = group.values.as_slice() else {
                continue;
            };
            let (Ok(cluster), Ok(namespace)) = (cluster.parse(), namespace.parse()) else {
                continue;
            };
            held.entry(cluster).or_default().push(namespace);
        }
        Ok(held)
    }
}

impl StoredNamespaces<'_> {
    /// The clusters that the caller can see: others must not influence the decision.
    fn within(&self) -> Permitted {
        if !self.catalog.is_restricted {
            return Permitted::Everything;
        }
        Permitted::Only(vec![Grant {
            clusters: Some(self.catalog.clusters().iter().cloned().collect()),
            namespaces: None,
        }])
    }
}
