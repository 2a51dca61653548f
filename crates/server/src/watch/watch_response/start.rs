//! Where a watch starts: at a change, or with the existing objects.

use std::sync::Arc;

use fleetdex_core::{model::FleetVersion, query::Query};
use fleetdex_query_api::{question::ListRequest, watch_options::RequestedVersion};
use fleetdex_store::{changes::Log, merged::Merged};

use crate::{
    api_error::ApiError,
    read::{
        page_reader::{PAGE_TIMEOUT, PageReader},
        snapshot::{sequence_number, sequence_of, wait_for},
        store_moves::PlannedCatalog,
    },
    store_timeout::in_time,
};

/// Where a watch starts.
pub(super) struct StartingPoint {
    /// The sequence number of the change before the first one of the watch.
    pub(super) after: u64,
    pub(super) initial: Option<InitialEvents>,
}

/// The existing objects that have not been sent yet.
pub(super) struct InitialEvents {
    pub(super) reader: PageReader,
    pub(super) version: FleetVersion,
    /// Whether a bookmark marks their end.
    pub(super) is_marked: bool,
}

/// Finds the starting point that the request asks for; reads the first page of existing objects.
pub(super) async fn start(
    catalog: &PlannedCatalog,
    stores: &Merged,
    logs: &[Arc<Log>],
    query: &Query,
    request: &ListRequest,
) -> Result<StartingPoint, ApiError> {
    let options = &request.watch_options;
    let last_move = catalog.last_move(request, sequence_of(logs)?);
    let requested = match options.resource_version {
        RequestedVersion::Version(version) => Some(sequence_number(logs, version)?),
        RequestedVersion::Unset | RequestedVersion::Any => None,
    };
    if !options.begins_with_state() {
        if requested.is_some_and(|requested| requested < last_move) {
            return Err(ApiError::VersionExpired(
                "the objects are in another store since then".to_owned(),
            ));
        }
        let newest = || {
            let reached = logs.iter().map(|log| log.reaches_to(log.newest()));
            reached.min().unwrap_or_default()
        };
        return Ok(StartingPoint {
            after: requested.unwrap_or_else(newest),
            initial: None,
        });
    }
    if let Some(requested) = requested {
        wait_for(logs, requested).await?;
    }
    let (page, after) = in_time(PAGE_TIMEOUT, stores.first_page(query)).await?;
    let is_marked = options.initial_events == Some(true);
    let version = sequence_of(logs)?.version(after);
    let reader = PageReader::begin(stores.clone(), query.clone(), page, false);
    Ok(StartingPoint {
        after,
        initial: Some(InitialEvents {
            reader,
            version,
            is_marked,
        }),
    })
}
