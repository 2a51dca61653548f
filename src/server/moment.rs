//! The version of the fleet that an answer shows.

use std::{sync::Arc, time::Duration};

use tokio::time::timeout;

use super::{
    follow::{Follow, Match, Since},
    status::ApiError,
};
use crate::{
    model::FleetVersion,
    query::{Page, Query},
    store::{Store, changes::Log},
};

/// How long a list waits until it shows a version that somebody has seen already, as long as an apiserver does.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long a store may take to say how far it is: bounded there by what may be under way.
const LOG_TIMEOUT: Duration = Duration::from_secs(10);

/// The first page of an answer, and the version that it shows; refused where that is not as asked for.
pub async fn first_page(
    store: &dyn Store,
    query: &Query,
    follow: &Follow,
    patience: Duration,
) -> Result<(Page, FleetVersion), ApiError> {
    let log = log_of(store).await?;
    let wanted = match follow.since {
        Since::Version(version) => Some(number(&log, version)?),
        Since::Unset | Since::Any => None,
    };
    if let Some(wanted) = wanted {
        reach(&log, wanted).await?;
    }
    let answered = timeout(patience, store.first_page(query)).await;
    let (page, shown) = answered.map_err(|_| ApiError::Timeout(patience.as_secs()))??;
    if follow.matching == Some(Match::Exact) && wanted != Some(shown) {
        return Err(ApiError::VersionExpired("the index shows another version by now, and keeps no old ones".to_owned()));
    }
    Ok((page, log.sequence().version(shown)))
}

/// The version that an answer has now.
pub async fn now(store: &dyn Store) -> Result<FleetVersion, ApiError> {
    Ok(log_of(store).await?.version())
}

/// The log of a store's changes.
pub async fn log_of(store: &dyn Store) -> Result<Arc<Log>, ApiError> {
    let asked = timeout(LOG_TIMEOUT, store.changes()).await;
    Ok(asked.map_err(|_| ApiError::Timeout(LOG_TIMEOUT.as_secs()))??)
}

/// The number of a version.
pub fn number(log: &Log, version: FleetVersion) -> Result<u64, ApiError> {
    let not_ours =
        || ApiError::VersionExpired(format!("resourceVersion {version} was not given by this server since it started"));
    log.sequence().number(version).ok_or_else(not_ours)
}

/// Waits until answers show a change.
pub async fn reach(log: &Log, wanted: u64) -> Result<(), ApiError> {
    if log.reaches(wanted, PATIENCE).await { Ok(()) } else { Err(ApiError::VersionNotReached) }
}
