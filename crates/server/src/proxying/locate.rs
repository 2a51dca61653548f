//! Finds the members that have an object of a name, by the index.

use std::num::NonZeroUsize;

use fleetdex_core::{
    model::ClusterName,
    query::{Hit, Page, Permitted, Query, ResourceName},
};
use fleetdex_query_api::{
    fleet_request::ResourceInfo,
    question::{ListRequest, ResourcePath},
};
use fleetdex_store::IndexReader;
use tokio::time::Duration;

use super::{super::catalog::Catalog, context::ProxyContext};
use crate::{
    answers::objects::permitted_query,
    api_error::ApiError,
    read::query_plan::{QueryPlan, plan},
    store_timeout::in_time,
};

/// How long a store may take to find a name.
const LOCATE_TIMEOUT: Duration = Duration::from_secs(10);
/// Objects of one name that are looked up: error messages name no more clusters than these.
const MAX_FOUND: usize = 20;

/// The objects of the requested name that the caller may see, one for each cluster, in the chosen
/// clusters or in all.
pub(super) async fn locate(
    context: &ProxyContext<'_>,
    info: &ResourceInfo,
    chosen: &[ClusterName],
) -> Result<Vec<Hit>, ApiError> {
    let mut found: Vec<Hit> = Vec::new();
    for plan in plans(context, info, chosen).await? {
        for part in plan.stores.parts() {
            for hit in search(&*part.store, &part.query(&plan.query)).await?.items {
                if !found.iter().any(|known| known.cluster == hit.cluster) {
                    found.push(hit);
                }
            }
        }
    }
    found.sort_by(|left, right| left.cluster.cmp(&right.cluster));
    Ok(found)
}

/// One query plan for each store that may have the requested object, restricted to what the caller
/// may see.
pub(super) async fn plans(
    context: &ProxyContext<'_>,
    info: &ResourceInfo,
    chosen: &[ClusterName],
) -> Result<Vec<QueryPlan>, ApiError> {
    let registered = context
        .catalog
        .find(&ResourceName::new(&info.group, &info.plural));
    let stores = registered
        .into_iter()
        .flat_map(|registered| registered.by_store.keys());
    let mut plans = Vec::new();
    for store in stores {
        let request = ListRequest {
            store: Some(store.clone()),
            ..request(info, chosen)
        };
        let plan = permitted_query(context.answers, context.caller, context.catalog, &request)
            .await?
            .plan;
        if !plan.is_empty {
            plans.push(plan);
        }
    }
    Ok(plans)
}

/// Searches one store for a few objects.
pub async fn search(store: &dyn IndexReader, query: &Query) -> Result<Page, ApiError> {
    let mut page = in_time(LOCATE_TIMEOUT, store.search(query, None)).await?;
    // Further pages are never read.
    if let Some(cursor) = page.next.take() {
        store.release(&cursor);
    }
    Ok(page)
}

/// The plan of a list of the resource in the clusters, or the error of one.
pub fn check(
    catalog: &Catalog,
    info: &ResourceInfo,
    chosen: &[ClusterName],
) -> Result<QueryPlan, ApiError> {
    let path_cluster = chosen.first().filter(|_| chosen.len() == 1).cloned();
    plan(
        catalog,
        &ListRequest {
            path_cluster,
            ..request(info, chosen)
        },
        Permitted::Everything,
    )
}

/// The list of the requested objects in these clusters.
pub(super) fn request(info: &ResourceInfo, chosen: &[ClusterName]) -> ListRequest {
    ListRequest {
        resource: ResourcePath {
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
