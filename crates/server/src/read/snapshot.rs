//! The snapshot that a response shows: its first page and its fleet resourceVersion.

use std::{sync::Arc, time::Duration};

use fleetdex_core::{
    model::FleetVersion,
    query::{Page, Query},
};
use fleetdex_query_api::{
    question::ListRequest,
    watch_options::{RequestedVersion, ResourceVersionMatch},
};
use fleetdex_store::{
    IndexReader,
    changes::{Log, Sequence},
    merged::{self, Merged},
};
use futures::future::join_all;

use super::{page_reader::PAGE_TIMEOUT, store_moves::PlannedCatalog};
use crate::{api_error::ApiError, store_timeout::in_time};

/// How long a list waits until the stores show the requested version, as in an API server.
const VERSION_TIMEOUT: Duration = Duration::from_secs(3);
/// Timeout of opening the change log of a store, which limits what is in flight there.
const LOG_TIMEOUT: Duration = Duration::from_secs(10);

/// The first page of a response and the version that it shows; an error if that is not the
/// requested one.
pub async fn first_page(
    catalog: &PlannedCatalog,
    stores: &Merged,
    query: &Query,
    request: &ListRequest,
) -> Result<(Page, FleetVersion), ApiError> {
    let options = &request.watch_options;
    let logs = logs_of(stores).await?;
    let sequence = sequence_of(&logs)?;
    let last_move = catalog.last_move(request, sequence);
    let requested = match options.resource_version {
        RequestedVersion::Version(version) => Some(sequence_number(&logs, version)?),
        RequestedVersion::Unset | RequestedVersion::Any => None,
    };
    if let Some(requested) = requested {
        wait_for(&logs, requested).await?;
    }
    let (page, shown) = in_time(PAGE_TIMEOUT, stores.first_page(query)).await?;
    let shown = catalog.response_number(request, &logs, shown, last_move);
    // Of several stores the page may show more than `shown`. It shows no more than the requested
    // version if no log has a newer change.
    let is_exact = requested == Some(shown)
        || logs.len() > 1
            && requested.is_some_and(|requested| logs.iter().all(|log| log.newest() <= requested));
    if options.version_match == Some(ResourceVersionMatch::Exact) && !is_exact {
        if let Some(cursor) = &page.next {
            stores.release(cursor);
        }
        return Err(ApiError::VersionExpired(
            "the index shows another version by now, and keeps no old ones".to_owned(),
        ));
    }
    let version = requested
        .filter(|_| options.version_match == Some(ResourceVersionMatch::Exact))
        .unwrap_or(shown);
    Ok((page, sequence.version(version)))
}

/// The version that a response to a request shows now.
pub async fn current_version(
    catalog: &PlannedCatalog,
    stores: &Merged,
    request: &ListRequest,
) -> Result<FleetVersion, ApiError> {
    let logs = logs_of(stores).await?;
    let sequence = sequence_of(&logs)?;
    let last_move = catalog.last_move(request, sequence);
    let shown = merged::visible(&logs).ok_or_else(no_store)?;
    let number = catalog.response_number(request, &logs, shown, last_move);
    Ok(sequence.version(number))
}

/// The change logs of the stores.
pub async fn logs_of(stores: &Merged) -> Result<Vec<Arc<Log>>, ApiError> {
    in_time(LOG_TIMEOUT, stores.logs()).await
}

/// The change log of one store.
pub async fn log_of(store: &dyn IndexReader) -> Result<Arc<Log>, ApiError> {
    in_time(LOG_TIMEOUT, store.change_log()).await
}

/// The sequence that all logs share.
pub fn sequence_of(logs: &[Arc<Log>]) -> Result<&Sequence, ApiError> {
    let first = logs.first().ok_or_else(no_store)?;
    Ok(first.sequence())
}

fn no_store() -> ApiError {
    ApiError::Internal("no store holds the resource".to_owned())
}

/// The sequence number of a version. All logs of a process share one sequence.
pub fn sequence_number(logs: &[Arc<Log>], version: FleetVersion) -> Result<u64, ApiError> {
    let not_ours = || {
        ApiError::VersionExpired(format!(
            "resourceVersion {version} was not issued by this server since it started"
        ))
    };
    logs.first()
        .and_then(|log| log.sequence().number(version))
        .ok_or_else(not_ours)
}

/// Waits until responses show the change with this sequence number.
pub async fn wait_for(logs: &[Arc<Log>], number: u64) -> Result<(), ApiError> {
    let reached = join_all(logs.iter().map(|log| log.reaches(number, VERSION_TIMEOUT))).await;
    if reached.into_iter().all(|is_reached| is_reached) {
        Ok(())
    } else {
        Err(ApiError::VersionNotReached)
    }
}
