//! The response to a watch: one line of JSON for each event, until the client leaves or the server
//! ends it.
//!
//! Nothing is buffered for a slow client: the stream reads the next events from the log when the
//! client has read the last ones. If the log no longer holds them, the client gets an ERROR event
//! with status 410, as in Kubernetes, and lists again.

mod start;

#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use axum::body::Body;
use bytes::Bytes;
use fleetdex_core::{
    model::{ClusterName, FleetVersion, with_fleet_version},
    query::{Hit, InCluster, Permitted, Query, ResourceName},
};
use fleetdex_store::{
    StoreError,
    changes::{Event, EventKind, MergedWatch, WatchError},
    merged::Merged,
};
use futures::{Stream, StreamExt as _, stream::unfold};
use jiff::Timestamp;
use serde_json::json;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use self::start::{InitialEvents, start};
use super::peers::PeerSubscription;
use crate::{
    catalog::Catalog,
    read::{
        page_reader::CHUNK_BYTES,
        query_plan::{PAGE, QueryPlan, stores},
        snapshot::logs_of,
        store_moves::PlannedCatalog,
    },
    render::representation::{ObjectEncoder, Representation},
    request::{api_error::ApiError, api_request::ListRequest},
};

/// The interval of bookmarks: about a minute, as in an API server.
const BOOKMARK_INTERVAL: Duration = Duration::from_mins(1);
/// How long a client may take to read the last lines of a watch.
const LAST_LINES_TIMEOUT: Duration = Duration::from_secs(1);
/// The annotation of the bookmark after the initial events.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

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
    fn limit(self) -> Duration {
        match self {
            Self::Short => Duration::from_millis(fastrand::u64(45_000..49_000)),
            Self::Long => Duration::from_secs(fastrand::u64(30 * 60..60 * 60)),
        }
    }
}

/// Starts a watch of `plan`, which was made from `catalog`. That also shows when the resource is no
/// longer registered, or its objects move to other stores. Also returns when the watch ends at the
/// latest.
///
/// For a version that is too old the response is one ERROR event, as in an API server: some
/// clients, kube-rs among them, list again only after such an event, and would otherwise request
/// the same version for ever.
pub async fn respond(
    catalog: PlannedCatalog,
    plan: QueryPlan,
    request: &ListRequest,
    representation: Representation,
    duration: WatchDuration,
    peers: &PeerSubscription,
) -> Result<(Body, Instant), ApiError> {
    match open(catalog, plan, request, representation, duration, peers).await {
        Err(error @ ApiError::VersionExpired(_)) => Ok((
            error_line(&error).into(),
            Instant::now() + LAST_LINES_TIMEOUT,
        )),
        opened => opened,
    }
}

async fn open(
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
    let watch = plan
        .stores
        .watch(&logs, &query, start.after)
        .await
        .map_err(refused)?;
    let limit = duration.limit();
    let requested = options.timeout_seconds.map_or(limit, Duration::from_secs);
    let ends = Instant::now() + limit.min(requested);
    let selection = StoreSelection {
        request: request.of_stores(),
        permitted: query.permitted.clone(),
    };
    let stream = WatchStream {
        initial_stores: selection.in_catalog(&catalog.catalog),
        selection,
        resource: query.resource.clone(),
        layout,
        has_columns: false,
        watch,
        catalog: catalog.current,
        initial: start.initial,
        bookmarks: options.bookmarks,
        next_bookmark: Instant::now() + BOOKMARK_INTERVAL,
        ends,
    };
    Ok((
        Body::from_stream(stream.chunks()),
        ends + LAST_LINES_TIMEOUT,
    ))
}

fn refused(error: WatchError) -> ApiError {
    match error {
        WatchError::TooOld(_) => {
            ApiError::VersionExpired("the changes since then are no longer known".to_owned())
        }
        WatchError::Query(error) => ApiError::bad_request(error.to_string()),
    }
}

/// An open watch. Of the request it stores only what selects its stores: names and selectors, which
/// may be large, are in `watch`, and in `initial` while existing objects are sent.
struct WatchStream {
    /// The stores at the start of the watch, without clusters that the caller cannot see.
    initial_stores: Option<Merged>,
    selection: StoreSelection,
    resource: ResourceName,
    layout: ObjectEncoder,
    /// Whether the columns of a Table have been sent: only the first event contains them.
    has_columns: bool,
    watch: MergedWatch,
    catalog: watch::Receiver<Arc<Catalog>>,
    initial: Option<InitialEvents>,
    bookmarks: bool,
    next_bookmark: Instant,
    ends: Instant,
}

/// The next chunk of the body.
enum NextChunk {
    Lines(Vec<u8>),
    /// The last lines.
    End(Vec<u8>),
}

impl WatchStream {
    fn chunks(self) -> impl Stream<Item = Result<Bytes, std::convert::Infallible>> {
        unfold(Some(self), async |state| {
            let mut stream = state?;
            match stream.next().await {
                NextChunk::Lines(lines) => Some((Ok(lines.into()), Some(stream))),
                NextChunk::End(lines) => Some((Ok(lines.into()), None)),
            }
        })
    }

    async fn next(&mut self) -> NextChunk {
        let next = self.try_next().await;
        // A version that the watch has reached after a move would be taken for one of the new
        // stores.
        match next.and_then(|next| self.check_newest_catalog().map(|()| next)) {
            Ok(next) => next,
            Err(error) => {
                tracing::debug!(%error, resource = %self.resource.plural, "ending a watch with an error");
                NextChunk::End(error_line(&error))
            }
        }
    }

    async fn try_next(&mut self) -> Result<NextChunk, ApiError> {
        if let Some(initial) = self.initial.take() {
            let lines = self.initial_lines(initial).await?;
            return Ok(NextChunk::Lines(lines));
        }
        loop {
            tokio::select! {
                biased;
                () = sleep_until(self.ends) => return Ok(NextChunk::End(self.last_lines())),
                changed = self.catalog.changed() => {
                    if changed.is_err() {
                        return Ok(NextChunk::End(self.last_lines()));
                    }
                    self.check_catalog()?;
                }
                () = sleep_until(self.next_bookmark), if self.bookmarks => {
                    self.next_bookmark = Instant::now() + BOOKMARK_INTERVAL;
                    return Ok(NextChunk::Lines(self.bookmark(self.watch.version(), false)));
                }
                events = self.watch.next() => {
                    let lines = self.event_lines(&events.map_err(ended)?)?;
                    return Ok(NextChunk::Lines(lines));
                }
            }
        }
    }

    /// A chunk of existing objects. After the last one, the stream continues with changes.
    async fn initial_lines(&mut self, mut initial: InitialEvents) -> Result<Vec<u8>, ApiError> {
        initial.reader.keep_pace(initial.sent_bytes)?;
        let mut lines = Vec::new();
        while lines.len() < CHUNK_BYTES {
            let Some(hit) = initial.reader.next().await? else {
                if initial.is_marked && self.bookmarks {
                    lines.extend(self.bookmark(initial.version, true));
                }
                return Ok(lines);
            };
            let object = with_fleet_version(&hit.object, initial.version);
            lines.extend(self.event_line(EventKind::Added, &Hit { object, ..hit })?);
        }
        initial.sent_bytes = lines.len();
        self.initial = Some(initial);
        Ok(lines)
    }

    fn event_lines(&mut self, events: &[Event]) -> Result<Vec<u8>, ApiError> {
        self.layout.set_now(Timestamp::now());
        let mut lines = Vec::new();
        for event in events {
            lines.extend(self.event_line(event.kind, event.object.versioned())?);
        }
        Ok(lines)
    }

    /// The line of an event. The object already has its fleet resourceVersion.
    fn event_line(&mut self, kind: EventKind, hit: &Hit) -> Result<Vec<u8>, ApiError> {
        let name = match kind {
            EventKind::Added => "ADDED",
            EventKind::Modified => "MODIFIED",
            EventKind::Deleted => "DELETED",
        };
        let with_columns = !std::mem::replace(&mut self.has_columns, true);
        let shown = self.layout.object(hit, with_columns)?;
        Ok(line(name, shown.trim_ascii_end()))
    }

    fn bookmark(&self, version: FleetVersion, ends_initial_events: bool) -> Vec<u8> {
        let mut metadata = json!({ "resourceVersion": version.to_string() });
        if ends_initial_events {
            metadata["annotations"] = json!({ INITIAL_EVENTS_END: "true" });
        }
        line("BOOKMARK", &self.layout.bookmark(&metadata))
    }

    /// A last bookmark, so that the client resumes from the newest possible version.
    fn last_lines(&self) -> Vec<u8> {
        if self.bookmarks {
            self.bookmark(self.watch.version(), false)
        } else {
            Vec::new()
        }
    }

    /// Checks the catalog if another one has been published since the last time.
    fn check_newest_catalog(&mut self) -> Result<(), ApiError> {
        // Without a sender the process is stopping.
        if self.catalog.has_changed().unwrap_or_default() {
            self.catalog.mark_unchanged();
            self.check_catalog()?;
        }
        Ok(())
    }

    /// Ends the watch, which reads only its initial stores, when its resource is no longer
    /// registered, or when the catalog selects other stores or other parts of them.
    fn check_catalog(&self) -> Result<(), ApiError> {
        let catalog = self.catalog.borrow();
        if !self.is_registered(&catalog) {
            return Err(ApiError::VersionExpired(
                "the resource is no longer registered".to_owned(),
            ));
        }
        let is_unchanged = match (&self.initial_stores, self.selection.in_catalog(&catalog)) {
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
        let visible = catalog
            .find(&resource)?
            .clusters()
            .filter(is_visible)
            .cloned()
            .collect();
        stores(&catalog.of_clusters(&visible, Some(&resource)), request).ok()
    }
}

fn ended(error: StoreError) -> ApiError {
    match error {
        StoreError::Expired => {
            ApiError::VersionExpired("the client read slower than changes came".to_owned())
        }
        other => other.into(),
    }
}

/// Ends a watch with an ERROR event as soon as `error` is ready. Chunks of `body` are whole lines.
pub fn ended_by(body: Body, error: impl Future<Output = ApiError> + Send + 'static) -> Body {
    let error = Box::pin(error);
    Body::from_stream(unfold(
        Some((body.into_data_stream(), error)),
        async |state| {
            let (mut chunks, mut error) = state?;
            tokio::select! {
                biased;
                error = &mut error => Some((Ok(error_line(&error).into()), None)),
                chunk = chunks.next() => Some((chunk?, Some((chunks, error)))),
            }
        },
    ))
}

fn error_line(error: &ApiError) -> Vec<u8> {
    line("ERROR", json!(error.status()).to_string().as_bytes())
}

fn line(kind: &str, object: &[u8]) -> Vec<u8> {
    let head = format!("{{\"type\":\"{kind}\",\"object\":");
    [head.as_bytes(), object, b"}\n"].concat()
}
