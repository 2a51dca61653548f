//! The response to a watch of one resource.

mod start;

#[cfg(test)]
mod tests;

use std::time::Duration;

use axum::body::Body;
use fleetdex_core::{
    model::{ClusterName, FleetVersion, with_fleet_version},
    query::{Hit, InCluster, Permitted, Query, ResourceName},
};
use fleetdex_limits::{computing::UserComputing, request::UserRequest};
use fleetdex_query_api::question::ListRequest;
use fleetdex_store::{
    changes::{EventKind, EventObject},
    merged::Merged,
};
use jiff::Timestamp;
use tokio::time::Instant;

use self::start::{InitialEvents, start};
use super::{
    event_lines::EventLines,
    event_stream::{EventStream, EventView, StreamOptions, bookmark_metadata, refused},
    peers::PeerSubscription,
};
use crate::{
    api_error::ApiError,
    catalog::Catalog,
    read::{
        page_reader::CHUNK_BYTES,
        query_plan::{PAGE, QueryPlan, stores},
        snapshot::logs_of,
        store_moves::PlannedCatalog,
    },
    render::representation::{ObjectEncoder, Representation},
};

/// The longest duration of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchDuration {
    /// Below `search/` and `clusters/`: the aggregation layer cuts such requests after 60 seconds,
    /// so the server ends them earlier.
    Short,
    /// Below `proxying/`: as in an API server. Random, so that not all clients reconnect at once.
    Long,
}

impl WatchDuration {
    /// A duration for one watch.
    pub(super) fn limit(self) -> Duration {
        match self {
            Self::Short => Duration::from_millis(fastrand::u64(45_000..49_000)),
            Self::Long => Duration::from_secs(fastrand::u64(30 * 60..60 * 60)),
        }
    }
}

/// Starts a watch of `plan`, which was made from `catalog`. That also shows when the resource is no
/// longer registered, or its objects move to other stores. Also returns when the watch ends at the
/// latest.
pub async fn open(
    catalog: PlannedCatalog,
    plan: QueryPlan,
    request: &ListRequest,
    representation: Representation,
    duration: WatchDuration,
    peers: &PeerSubscription,
) -> Result<(Body, Instant), ApiError> {
    let options = &request.watch_options;
    // Each event is one line.
    let layout = plan.encoder(Representation {
        pretty: false,
        ..representation
    });
    // Includes clusters that are registered later.
    let query = Query {
        clusters: request.clusters.clone(),
        limit: PAGE,
        ..plan.query
    };
    let logs = logs_of(&plan.stores).await?;
    let start = start(&catalog, &plan.stores, &logs, &query, request).await?;
    // The client may have seen newer changes of other replicas than those that have been
    // replicated.
    peers.wait_until_caught_up().await?;
    let watch = plan.stores.watch(&logs, &query, start.after).await;
    let watch = watch.map_err(refused)?;
    let limit = duration.limit();
    let requested = options.timeout_seconds.map_or(limit, Duration::from_secs);
    let selection = StoreSelection {
        request: request.of_stores(),
        permitted: query.permitted.clone(),
    };
    let view = ResourceView {
        initial_stores: selection.in_catalog(&catalog.catalog),
        selection,
        resource: query.resource.clone(),
        layout,
        computing: UserRequest::current().computing(),
        has_columns: false,
        initial: start.initial,
        bookmarks: options.bookmarks,
    };
    let options = StreamOptions {
        limit: limit.min(requested),
        bookmarks: options.bookmarks,
    };
    Ok(EventStream::body(view, watch, catalog.current, options))
}

/// What a watch of one resource follows. Of the request it stores only what selects its stores:
/// names and selectors, which may be large, are in the watch, and in `initial` while existing
/// objects are sent.
struct ResourceView {
    /// The stores at the start of the watch, without clusters that the caller cannot see.
    initial_stores: Option<Merged>,
    selection: StoreSelection,
    resource: ResourceName,
    layout: ObjectEncoder,
    computing: UserComputing,
    /// Whether the columns of a Table have been sent: only the first event contains them.
    has_columns: bool,
    initial: Option<InitialEvents>,
    bookmarks: bool,
}

impl EventView for ResourceView {
    /// A chunk of existing objects. After the last one, the stream continues with changes.
    async fn initial_lines(&mut self) -> Result<Option<EventLines>, ApiError> {
        let Some(mut initial) = self.initial.take() else {
            return Ok(None);
        };
        let mut lines = EventLines::of_page();
        while lines.len() < CHUNK_BYTES {
            let Some(hit) = initial.reader.next().await? else {
                if initial.is_marked && self.bookmarks {
                    lines.add_bookmark(&self.bookmark_of(initial.version, true));
                }
                return Ok(Some(lines));
            };
            lines.make_room(hit.object.get().len()).await?;
            let object = with_fleet_version(&hit.object, initial.version);
            let object = self.encoded(&Hit { object, ..hit }).await?;
            lines.add(EventKind::Added, &object);
        }
        self.initial = Some(initial);
        Ok(Some(lines))
    }

    fn set_now(&mut self, now: Timestamp) {
        self.layout.set_now(now);
    }

    async fn object(&mut self, object: &EventObject) -> Result<Vec<u8>, ApiError> {
        self.encoded(object.versioned()?).await
    }

    fn bookmark(&self, version: FleetVersion) -> Vec<u8> {
        self.bookmark_of(version, false)
    }

    /// Ends the watch, which reads only its initial stores, when its resource is no longer
    /// registered, or when the catalog selects other stores or other parts of them.
    fn check_catalog(&self, catalog: &Catalog) -> Result<(), ApiError> {
        if !self.is_registered(catalog) {
            return Err(ApiError::VersionExpired(
                "the resource is no longer registered".to_owned(),
            ));
        }
        let is_unchanged = match (&self.initial_stores, self.selection.in_catalog(catalog)) {
            (Some(initial), Some(current)) => current.is_like(initial),
            (None, None) => true,
            _ => false,
        };
        if is_unchanged {
            Ok(())
        } else {
            Err(ApiError::VersionExpired(
                "the objects are in another store now".to_owned(),
            ))
        }
    }

    fn name(&self) -> &str {
        &self.resource.plural
    }
}

impl ResourceView {
    /// An object that already has its fleet resourceVersion.
    async fn encoded(&mut self, hit: &Hit) -> Result<Vec<u8>, ApiError> {
        let with_columns = !std::mem::replace(&mut self.has_columns, true);
        let (layout, bytes) = (&mut self.layout, hit.object.get().len());
        let encode = move || layout.object(hit, with_columns);
        let encoded = self.computing.run(bytes, encode).await;
        encoded.ok_or(ApiError::TooManyRequests)?
    }

    fn bookmark_of(&self, version: FleetVersion, ends_initial_events: bool) -> Vec<u8> {
        let metadata = bookmark_metadata(&version.to_string(), ends_initial_events);
        self.layout.bookmark(&metadata)
    }

    fn is_registered(&self, catalog: &Catalog) -> bool {
        // In visible clusters: changes of others must not end the watch.
        let is_visible =
            |name: &ClusterName| self.selection.permitted.in_cluster(name) != InCluster::Nothing;
        catalog
            .find(&self.resource)
            .is_some_and(|registered| registered.clusters().any(is_visible))
    }
}

/// The part of a request that selects its stores.
struct StoreSelection {
    request: ListRequest,
    permitted: Permitted,
}

impl StoreSelection {
    /// The stores of the visible clusters: changes of others must not end the watch.
    fn in_catalog(&self, catalog: &Catalog) -> Option<Merged> {
        let Self { request, permitted } = self;
        let resource = ResourceName::new(&request.resource.group, &request.resource.plural);
        let is_visible = |name: &&ClusterName| permitted.in_cluster(name) != InCluster::Nothing;
        let visible = catalog.find(&resource)?.clusters().filter(is_visible);
        let visible = visible.cloned().collect();
        stores(&catalog.of_clusters(&visible, Some(&resource)), request).ok()
    }
}
