//! Which member holds an object of a name: the index knows.

use std::num::NonZeroUsize;

use fleetdex_core::{
    model::ClusterName,
    query::{Hit, Page, Permitted, Query, ResourceName},
};
use fleetdex_store::Store;
use tokio::time::{Duration, timeout};

use super::{
    super::{
        answers::permitted_target,
        catalog::{Catalog, Registered},
        request::{ListRequest, NativePath},
        status::ApiError,
        target::{Target, target},
    },
    request::ResourceInfo,
    scope::Scope,
};

/// How long a store may take to find a name.
const LOCATE_TIMEOUT: Duration = Duration::from_secs(10);
/// Clusters of one name that are looked up: a message names no more, and nobody chooses from a longer list by reading it.
const MAX_FOUND: usize = 20;

/// The resource as it is registered.
pub fn registered<'c>(catalog: &'c Catalog, info: &ResourceInfo) -> Option<&'c Registered> {
    catalog.find(&ResourceName::new(&info.group, &info.plural))
}

/// The objects of the name that `info` has and that the caller may see, each of another cluster, of the clusters that were chosen or of all
/// if none was.
pub(super) async fn locate(
    scope: &Scope<'_>,
    info: &ResourceInfo,
    chosen: &[ClusterName],
) -> Result<Vec<Hit>, ApiError> {
    let mut found: Vec<Hit> = Vec::new();
    for wanted in targets(scope, info, chosen).await? {
        for hit in found_in(&wanted).await? {
            if !found.iter().any(|known| known.cluster == hit.cluster) {
                found.push(hit);
            }
        }
    }
    found.sort_by(|left, right| left.cluster.cmp(&right.cluster));
    Ok(found)
}

/// Where the object may be that `info` names, one target for each store, as far as the caller may see it.
pub(super) async fn targets(
    scope: &Scope<'_>,
    info: &ResourceInfo,
    chosen: &[ClusterName],
) -> Result<Vec<Target>, ApiError> {
    let stores = registered(scope.catalog, info)
        .map(|registered| registered.holdings.keys().cloned().collect::<Vec<_>>());
    let mut targets = Vec::new();
    for store in stores.unwrap_or_default() {
        let question = ListRequest {
            store: Some(store),
            ..question(info, chosen)
        };
        let wanted = permitted_target(scope.api, scope.caller, scope.catalog, &question)
            .await?
            .target;
        if !wanted.nothing_to_ask {
            targets.push(wanted);
        }
    }
    Ok(targets)
}

/// What is asked of the only store of a target.
async fn found_in(wanted: &Target) -> Result<Vec<Hit>, ApiError> {
    let mut found = Vec::new();
    for part in wanted.stores.parts() {
        found.extend(
            search(&*part.store, &part.query(&wanted.query))
                .await?
                .items,
        );
    }
    Ok(found)
}

/// Asks one store, for a few objects.
pub async fn search(store: &dyn Store, query: &Query) -> Result<Page, ApiError> {
    let answered = timeout(LOCATE_TIMEOUT, store.search(query, None)).await;
    let mut page = answered.map_err(|_| ApiError::Timeout(LOCATE_TIMEOUT.as_secs()))??;
    // Nobody reads on.
    if let Some(cursor) = page.next.take() {
        store.release(&cursor);
    }
    Ok(page)
}

/// What a list of the resource in the clusters would be: an error if there could be none.
pub fn check(
    catalog: &Catalog,
    info: &ResourceInfo,
    chosen: &[ClusterName],
) -> Result<Target, ApiError> {
    let path_cluster = chosen.first().filter(|_| chosen.len() == 1).cloned();
    target(
        catalog,
        &ListRequest {
            path_cluster,
            ..question(info, chosen)
        },
        Permitted::Everything,
    )
}

fn question(info: &ResourceInfo, chosen: &[ClusterName]) -> ListRequest {
    ListRequest {
        native: NativePath {
            group: info.group.clone(),
            version: info.version.clone(),
            plural: info.plural.clone(),
            namespace: info.namespace.clone(),
            name: info.name.clone(),
        },
        clusters: chosen.to_vec(),
        namespaces: info.namespace.iter().cloned().collect(),
        names: info.name.iter().cloned().collect(),
        limit: NonZeroUsize::new(MAX_FOUND),
        ..ListRequest::default()
    }
}
