//! A stream of events: one line of JSON for each, until the client leaves or the server ends it.
//!
//! Nothing is buffered for a slow client: the stream reads the next events from the log when the
//! client has read the last ones. If the log no longer holds them, the client gets an ERROR event
//! with status 410, as in Kubernetes, and lists again.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::body::Body;
use bytes::Bytes;
use fleetdex_core::model::FleetVersion;
use fleetdex_store::{
    StoreError,
    changes::{Event, EventObject, MergedWatch, WatchError},
};
use futures::{Stream, StreamExt as _, stream::unfold};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use super::event_lines::EventLines;
use crate::{api_error::ApiError, catalog::Catalog};

/// The interval of bookmarks: about a minute, as in an API server.
const BOOKMARK_INTERVAL: Duration = Duration::from_mins(1);
/// How long a client may take to read the last lines of a watch.
const LAST_LINES_TIMEOUT: Duration = Duration::from_secs(1);
/// The annotation of the bookmark after the initial events.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// What a watch follows, and how it shows it.
pub(super) trait EventView: Send + 'static {
    /// The lines that come before the changes, a part at a time; `None` after the last ones.
    fn initial_lines(
        &mut self,
    ) -> impl Future<Output = Result<Option<EventLines>, ApiError>> + Send;

    /// Sets the time for ages.
    fn set_now(&mut self, now: Timestamp);

    /// The object of an event.
    fn object(
        &mut self,
        object: &EventObject,
    ) -> impl Future<Output = Result<Vec<u8>, ApiError>> + Send;

    /// The object of a bookmark.
    fn bookmark(&self, version: FleetVersion) -> Vec<u8>;

    /// Ends the watch if it does not follow what this catalog has.
    fn check_catalog(&self, catalog: &Catalog) -> Result<(), ApiError>;

    /// What is followed, for log lines.
    fn name(&self) -> &str;
}

/// When a watch ends, and what it sends by then.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamOptions {
    /// The longest duration.
    pub(super) limit: Duration,
    /// Whether bookmarks are sent.
    pub(super) bookmarks: bool,
}

/// An open watch.
pub(super) struct EventStream<V> {
    view: V,
    watch: MergedWatch,
    catalog: watch::Receiver<Arc<Catalog>>,
    has_initial_lines: bool,
    bookmarks: bool,
    next_bookmark: Instant,
    ends: Instant,
}

/// The next chunk of the body.
enum NextChunk {
    Lines(EventLines),
    /// The last lines.
    End(EventLines),
}

impl<V: EventView> EventStream<V> {
    /// The body of the response, and when it ends at the latest. `catalog` also receives the
    /// catalogs that replace the one from which the watch was planned.
    pub(super) fn body(
        view: V,
        watch: MergedWatch,
        catalog: watch::Receiver<Arc<Catalog>>,
        options: StreamOptions,
    ) -> (Body, Instant) {
        let ends = Instant::now() + options.limit;
        let stream = Self {
            view,
            watch,
            catalog,
            has_initial_lines: true,
            bookmarks: options.bookmarks,
            next_bookmark: Instant::now() + BOOKMARK_INTERVAL,
            ends,
        };
        let body = Body::from_stream(stream.chunks());
        (body, ends + LAST_LINES_TIMEOUT)
    }

    fn chunks(self) -> impl Stream<Item = Result<Bytes, Infallible>> {
        unfold(Some(self), async |state| {
            let mut stream = state?;
            match stream.next().await {
                NextChunk::Lines(lines) => Some((Ok(lines.into_bytes()), Some(stream))),
                NextChunk::End(lines) => Some((Ok(lines.into_bytes()), None)),
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
                tracing::debug!(%error, resource = self.view.name(), "ending a watch with an error");
                NextChunk::End(error_line(&error))
            }
        }
    }

    async fn try_next(&mut self) -> Result<NextChunk, ApiError> {
        if self.has_initial_lines {
            if let Some(lines) = self.view.initial_lines().await? {
                return Ok(NextChunk::Lines(lines));
            }
            self.has_initial_lines = false;
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
                    return Ok(NextChunk::Lines(self.bookmark()));
                }
                events = self.watch.next() => {
                    let lines = self.event_lines(&events.map_err(ended)?).await?;
                    return Ok(NextChunk::Lines(lines));
                }
            }
        }
    }

    async fn event_lines(&mut self, events: &[Event]) -> Result<EventLines, ApiError> {
        let mut lines = EventLines::of_changes();
        lines.make_room_for_events(events).await?;
        self.view.set_now(Timestamp::now());
        for event in events {
            let object = self.view.object(&event.object).await?;
            lines.add(event.kind, &object);
        }
        Ok(lines)
    }

    fn bookmark(&self) -> EventLines {
        let mut lines = EventLines::of_changes();
        lines.add_bookmark(&self.view.bookmark(self.watch.version()));
        lines
    }

    /// A last bookmark, so that the client resumes from the newest possible version.
    fn last_lines(&self) -> EventLines {
        if self.bookmarks {
            self.bookmark()
        } else {
            EventLines::of_changes()
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

    fn check_catalog(&self) -> Result<(), ApiError> {
        let catalog = Arc::clone(&self.catalog.borrow());
        self.view.check_catalog(&catalog)
    }
}

/// The response to a watch that could not begin.
///
/// For a version that is too old it is one ERROR event, as in an API server: some clients, kube-rs
/// among them, list again only after such an event, and would otherwise request the same version
/// for ever.
pub(crate) fn refusal(error: ApiError) -> Result<(Body, Instant), ApiError> {
    match error {
        ApiError::VersionExpired(_) => Ok((
            error_line(&error).into_bytes().into(),
            Instant::now() + LAST_LINES_TIMEOUT,
        )),
        other => Err(other),
    }
}

/// The error of a watch that could not begin.
pub(super) fn refused(error: WatchError) -> ApiError {
    match error {
        WatchError::TooOld(_) => {
            ApiError::VersionExpired("the changes since then are no longer known".to_owned())
        }
        WatchError::Query(error) => ApiError::bad_request(error.to_string()),
        WatchError::TooComplex => StoreError::TooComplex.into(),
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
                error = &mut error => Some((Ok(error_line(&error).into_bytes()), None)),
                chunk = chunks.next() => Some((chunk?, Some((chunks, error)))),
            }
        },
    ))
}

/// The metadata of a bookmark.
pub(super) fn bookmark_metadata(version: &str, ends_initial_events: bool) -> Value {
    let mut metadata = json!({ "resourceVersion": version });
    if ends_initial_events {
        metadata["annotations"] = json!({ INITIAL_EVENTS_END: "true" });
    }
    metadata
}

fn error_line(error: &ApiError) -> EventLines {
    let mut lines = EventLines::of_changes();
    lines.add_error(error);
    lines
}
