//! Owner searches: from owners down to the generation that is asked for, whatever kinds lie between.
//!
//! Only what the stores hold is walked: where a registry leaves out `ReplicaSets`, no Pod is found from its Deployment. And only what the caller
//! may list: otherwise what is found at the end would tell of what lies between.

use std::time::Duration;

use fleetdex_core::query::{Owners, Relation, Relatives, owners::MAX_OWNERS};
use tokio::time::timeout;

use super::{
    options::{MAX_SENIORITY, OwnerSearch, Seniority},
    permission::Sight,
    status::ApiError,
    target::Target,
};

/// How long the store may take for one generation.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Finds the direct owners of what is asked for, and makes them part of the query.
pub async fn resolve(
    target: &mut Target,
    search: &OwnerSearch,
    sight: &Sight<'_>,
) -> Result<(), ApiError> {
    if !search.is_asked() || target.nothing_to_ask {
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
        owners.extend(find(target, named, sight).await?);
    }
    let mut all = owners.clone();
    let (generations, any) = match search.seniority {
        Seniority::Exactly(generations) => (generations, false),
        Seniority::Any => (MAX_SENIORITY, true),
    };
    for _ in 0..generations {
        if owners.is_empty() {
            break;
        }
        owners = find(target, Relation::OwnedBy(owners), sight).await?;
        let before = all.len();
        all.extend(owners.clone());
        check(&all)?;
        // Owners that own one another would be walked for ever.
        if any && all.len() == before {
            break;
        }
    }
    target.query.owners = Some(if any { all } else { owners });
    Ok(())
}

async fn find(target: &Target, relation: Relation, sight: &Sight<'_>) -> Result<Owners, ApiError> {
    let query = &target.query;
    let asked = Relatives {
        clusters: query.clusters.clone(),
        namespaces: query.namespaces.clone(),
        permitted: query.permitted.clone(),
        requester: query.requester.clone(),
        relation,
    };
    let found = timeout(TIMEOUT, target.stores.relatives(&asked)).await;
    let found = found.map_err(|_| ApiError::Timeout(TIMEOUT.as_secs()))??;
    Ok(sight.of(found).await?.into_iter().collect())
}

fn check(owners: &Owners) -> Result<(), ApiError> {
    if owners.len() <= MAX_OWNERS {
        return Ok(());
    }
    Err(ApiError::bad_request(format!(
        "the owner search meets {} owners, and at most {MAX_OWNERS} are possible; name a namespace, a cluster or fewer owners",
        owners.len()
    )))
}
