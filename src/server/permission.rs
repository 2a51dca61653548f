//! What of a list the caller may see: the place where the front's decisions meet the catalog and the stores.

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use tokio::time::timeout;

use super::{
    caller::Caller,
    catalog::Catalog,
    front::authorize::{Holders, Permission, Wanted},
    request::ListRequest,
    serve::Gate,
    status::ApiError,
    target::{asked_clusters, target},
};
use crate::{
    model::{ClusterName, Namespace},
    query::{GroupKey, Permitted, Query, ResourceName},
};

/// How long the store may take to tell which namespaces hold objects.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What of the objects that a request asks for its caller may see. An error if it is nothing.
pub async fn permission(gate: &Gate, caller: &Caller, catalog: &Catalog, request: &ListRequest) -> Result<Permission, ApiError> {
    let Gate::Front(front) = gate else { return Ok(Permission::default()) };
    let native = &request.native;
    let resource = ResourceName::new(&native.group, &native.plural);
    // What is not registered is not found, whoever asks.
    let Some(registered) = catalog.find(&resource) else { return Ok(Permission::default()) };
    if let Some(cluster) = &request.path_cluster {
        front.authorizer().check_cluster(caller, cluster).await?;
    }
    let clusters: Vec<ClusterName> = asked_clusters(registered, request).into_iter().collect();
    let wanted = Wanted {
        verb: verb(request),
        resource: &resource,
        version: &native.version,
        namespaced: registered.namespaced,
        name: native.name.as_deref(),
        namespaces: &request.namespaces,
        clusters: &clusters,
        clusters_named: !request.clusters.is_empty(),
    };
    front.authorizer().permission(caller, &wanted, &StoredNamespaces { catalog, request }).await
}

/// What a list or watch is for somebody who may see it.
fn verb(request: &ListRequest) -> &'static str {
    match request.native.name {
        _ if request.follow.watch => "watch",
        Some(_) => "get",
        None => "list",
    }
}

/// The namespaces that hold the resource in the store that would answer.
struct StoredNamespaces<'r> {
    catalog: &'r Catalog,
    request: &'r ListRequest,
}

#[async_trait]
impl Holders for StoredNamespaces<'_> {
    async fn namespaces(&self) -> Result<BTreeMap<ClusterName, Vec<Namespace>>, ApiError> {
        let found = target(self.catalog, self.request, Permitted::Everything)?;
        if found.nothing_to_ask {
            return Ok(BTreeMap::new());
        }
        // Of all objects, so that a refusal tells nothing about which of them selectors match.
        let Query { resource, selectable, limit, clusters, namespaces, .. } = found.query;
        let everything = Query { clusters, namespaces, ..Query::all_of(resource, selectable, limit) };
        let keys = [GroupKey::Cluster, GroupKey::Namespace];
        let asked = timeout(TIMEOUT, found.store.aggregate(&everything, &keys, usize::MAX)).await;
        let groups = asked.map_err(|_| ApiError::Timeout(TIMEOUT.as_secs()))??;
        let mut held: BTreeMap<ClusterName, Vec<Namespace>> = BTreeMap::new();
        for group in groups.groups {
            let [Some(cluster), Some(namespace)] = group.values.as_slice() else { continue };
            let (Ok(cluster), Ok(namespace)) = (cluster.parse(), namespace.parse()) else { continue };
            held.entry(cluster).or_default().push(namespace);
        }
        Ok(held)
    }
}
