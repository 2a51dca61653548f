//! The version of the fleet that an answer shows.

use std::{sync::Arc, time::Duration};

use fleetdex_core::{
    model::FleetVersion,
    query::{Page, Query},
};
use fleetdex_store::{
    Store,
    changes::Log,
    merged::{self, Merged},
};
use futures::future::join_all;
use tokio::time::timeout;

use super::{
    follow::{Follow, Match, Since},
    status::ApiError,
};

/// How long a list waits until it shows a version that somebody has seen already, as long as an apiserver does.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long a store may take to say how far it is: bounded there by what may be under way.
const LOG_TIMEOUT: Duration = Duration::from_secs(10);

/// The first page of an answer, and the version that it shows; refused where that is not as asked for.
pub async fn first_page(
    stores: &Merged,
    query: &Query,
    follow: &Follow,
    patience: Duration,
) -> Result<(Page, FleetVersion), ApiError> {
    let logs = logs_of(stores).await?;
    let wanted = match follow.since {
        Since::Version(version) => Some(number(&logs, version)?),
        Since::Unset | Since::Any => None,
    };
    if let Some(wanted) = wanted {
        reach(&logs, wanted).await?;
    }
    let (page, shown) = read_first(stores, query, patience).await?;
    // Of several stores the number is not less than that of any change that is shown, unless a change came meanwhile.
    let is_exact = wanted == Some(shown)
        || logs.len() > 1
            && wanted.is_some_and(|wanted| logs.iter().all(|log| log.newest() <= wanted));
    if follow.matching == Some(Match::Exact) && !is_exact {
        if let Some(cursor) = &page.next {
            stores.release(cursor);
        }
        return Err(ApiError::VersionExpired(
            "the index shows another version by now, and keeps no old ones".to_owned(),
        ));
    }
    let version = wanted
        .filter(|_| follow.matching == Some(Match::Exact))
        .unwrap_or(shown);
    let sequence = logs
        .first()
        .map(|log| log.sequence())
        .ok_or_else(no_store)?;
    Ok((page, sequence.version(version)))
}

/// The first page, and the number of the last change that it is sure to show.
pub async fn read_first(
    stores: &Merged,
    query: &Query,
    patience: Duration,
) -> Result<(Page, u64), ApiError> {
    let answered = timeout(patience, stores.first_page(query)).await;
    Ok(answered.map_err(|_| ApiError::Timeout(patience.as_secs()))??)
}

/// The version that an answer has now.
pub async fn now(stores: &Merged) -> Result<FleetVersion, ApiError> {
    merged::version(&logs_of(stores).await?).ok_or_else(no_store)
}

/// The logs of the stores' changes.
pub async fn logs_of(stores: &Merged) -> Result<Vec<Arc<Log>>, ApiError> {
    let asked = timeout(LOG_TIMEOUT, stores.logs()).await;
    Ok(asked.map_err(|_| ApiError::Timeout(LOG_TIMEOUT.as_secs()))??)
}

/// The log of one store's changes.
pub async fn log_of(store: &dyn Store) -> Result<Arc<Log>, ApiError> {
    let asked = timeout(LOG_TIMEOUT, store.changes()).await;
    Ok(asked.map_err(|_| ApiError::Timeout(LOG_TIMEOUT.as_secs()))??)
}

fn no_store() -> ApiError {
    ApiError::Internal("no store answers".to_owned())
}

/// The number of a version. The logs of a process share their numbers.
pub fn number(logs: &[Arc<Log>], version: FleetVersion) -> Result<u64, ApiError> {
    let not_ours = || {
        ApiError::VersionExpired(format!(
            "resourceVersion {version} was not given by this server since it started"
        ))
    };
    logs.first()
        .and_then(|log| log.sequence().number(version))
        .ok_or_else(not_ours)
}

/// Waits until answers show a change.
pub async fn reach(logs: &[Arc<Log>], wanted: u64) -> Result<(), ApiError> {
    let reached = join_all(logs.iter().map(|log| log.reaches(wanted, PATIENCE))).await;
    if reached.into_iter().all(|is_reached| is_reached) {
        Ok(())
    } else {
        Err(ApiError::VersionNotReached)
    }
}
