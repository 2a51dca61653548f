//! Owner searches: resolves owners down to the requested level, through objects of any kind.
//!
//! They pass only through stored objects: where a registry omits `ReplicaSets`, no Pod is found
//! from its Deployment. And only through objects that the caller can list: otherwise the result
//! would reveal what lies between.

use std::time::Duration;

use fleetdex_core::query::{Owners, Relation, RelativesQuery, owners::MAX_OWNERS};
use fleetdex_query_api::search_options::{MAX_SENIORITY, OwnerSearch, Seniority};

use super::{permitted::VisibilityFilter, query_plan::QueryPlan};
use crate::{api_error::ApiError, store_timeout::in_time};

/// Timeout of the query for one level.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Finds the direct owners of the requested objects, and adds them to the query.
pub async fn resolve(
    plan: &mut QueryPlan,
    search: &OwnerSearch,
    filter: &VisibilityFilter<'_>,
) -> Result<(), ApiError> {
    if !search.is_given() || plan.is_empty {
        return Ok(());
    }
    let mut owners = Owners::default();
    for uid in &search.uids {
        owners.insert(None, uid);
    }
    if !search.names.is_empty() {
        let named = Relation::Named {
            resource: search.resource.clone(),
            names: search.names.clone(),
        };
        owners.extend(find(plan, named, filter).await?);
    }
    let mut all = owners.clone();
    let (levels, any) = match search.seniority {
        Seniority::Exactly(levels) => (levels, false),
        Seniority::Any => (MAX_SENIORITY, true),
    };
    for _ in 0..levels {
        if owners.is_empty() {
            break;
        }
        owners = find(plan, Relation::OwnedBy(owners), filter).await?;
        let before = all.len();
        all.extend(owners.clone());
        check(&all)?;
        // Objects that own each other form a circle.
        if any && all.len() == before {
            break;
        }
    }
    plan.query.owners = Some(if any { all } else { owners });
    Ok(())
}

async fn find(
    plan: &QueryPlan,
    relation: Relation,
    filter: &VisibilityFilter<'_>,
) -> Result<Owners, ApiError> {
    let query = &plan.query;
    let relatives = RelativesQuery {
        clusters: query.clusters.clone(),
        namespaces: query.namespaces.clone(),
        permitted: query.permitted.clone(),
        requester: query.requester.clone(),
        relation,
    };
    let found = in_time(TIMEOUT, plan.stores.relatives(&relatives)).await?;
    Ok(filter.visible(found).await?.into_iter().collect())
}

fn check(owners: &Owners) -> Result<(), ApiError> {
    if owners.len() <= MAX_OWNERS {
        return Ok(());
    }
    Err(ApiError::bad_request(format!(
        "the owner search finds {} owners, more than the limit of {MAX_OWNERS}; name a namespace, a cluster or fewer owners",
        owners.len()
    )))
}
