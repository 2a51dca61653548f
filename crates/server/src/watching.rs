//! The answer to a watch: one line of JSON for each event, as long as somebody reads and the server allows.
//!
//! Nothing is buffered for a slow client: its connection takes the next events when it has taken the last ones. When the log has moved on
//! meanwhile, it is told so by an event of type ERROR with status 410, as Kubernetes does, and lists again.

use std::{sync::Arc, time::Duration};

use axum::body::Body;
use bytes::Bytes;
use fleetdex_core::{
    model::{ClusterName, FleetVersion, with_fleet_version},
    query::{Hit, InCluster, Permitted, Query, ResourceName},
};
use fleetdex_store::{
    StoreError,
    changes::{Event, EventKind, Log, MergedWatch, WatchError},
    merged::Merged,
};
use futures::{Stream, StreamExt as _, stream::unfold};
use jiff::Timestamp;
use serde_json::json;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use super::{
    catalog::Catalog,
    follow::{Follow, Since},
    moment::{logs_of, number, reach, read_first},
    peers::Following,
    reading::{CHUNK_BYTES, PAGE_TIMEOUT, Reading},
    representation::{Layout, Representation},
    request::ListRequest,
    status::ApiError,
    target::{PAGE, Target, stores},
};

/// How often a watch tells how far it is: about once a minute, as an apiserver does.
const BOOKMARK_INTERVAL: Duration = Duration::from_mins(1);
/// How long the last lines of a watch may take to be taken.
const FAREWELL: Duration = Duration::from_secs(1);
/// The annotation of the bookmark after the initial events.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// How long a watch may last at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lasting {
    /// Below `search/` and `clusters/`: the aggregation layer cuts such requests after 60 seconds, so they end by themselves before.
    Short,
    /// Below `proxying/`: as long as with an apiserver. By chance, so that not all clients come back at once.
    Long,
}

impl Lasting {
    fn bound(self) -> Duration {
        match self {
            Self::Short => Duration::from_millis(fastrand::u64(45_000..49_000)),
            Self::Long => Duration::from_secs(fastrand::u64(30 * 60..60 * 60)),
        }
    }
}

/// Begins a watch of what was found in the catalog `begun`, of which nothing was left out. `catalog` tells it when its objects are registered no more, or
/// kept elsewhere. Also says when it ends, at the latest.
///
/// From a version that is too old the watch is one event, as that of an API server: some clients, of kube-rs for one, list again only when an event tells them to,
/// and would ask for the same version for ever.
pub async fn answer(
    begun: &Catalog,
    target: Target,
    request: &ListRequest,
    representation: Representation,
    lasting: Lasting,
    following: &Following,
    catalog: watch::Receiver<Arc<Catalog>>,
) -> Result<(Body, Instant), ApiError> {
    match begun_from(
        begun,
        target,
        request,
        representation,
        lasting,
        following,
        catalog,
    )
    .await
    {
        Err(error @ ApiError::VersionExpired(_)) => {
            Ok((error_line(&error).into(), Instant::now() + FAREWELL))
        }
        answered => answered,
    }
}

async fn begun_from(
    begun: &Catalog,
    target: Target,
    request: &ListRequest,
    representation: Representation,
    lasting: Lasting,
    following: &Following,
    catalog: watch::Receiver<Arc<Catalog>>,
) -> Result<(Body, Instant), ApiError> {
    let follow = &request.follow;
    // Each event is one line.
    let layout = target.layout(Representation {
        pretty: false,
        ..representation
    });
    // Clusters that come later are watched from then on.
    let query = Query {
        clusters: request.clusters.clone(),
        limit: PAGE,
        ..target.query
    };
    let logs = logs_of(&target.stores).await?;
    let from = begin(&target.stores, &logs, &query, follow).await?;
    // What has been shown may be newer than what is known here of the others' changes: a watch must not begin with less.
    following.settled().await?;
    let watch = target
        .stores
        .watch(&logs, &query, from.after)
        .await
        .map_err(refused)?;
    let bound = lasting.bound();
    let asked = follow.timeout_seconds.map_or(bound, Duration::from_secs);
    let ends = Instant::now() + bound.min(asked);
    let answered_by = AnsweredBy {
        request: request.of_stores(),
        permitted: query.permitted.clone(),
    };
    let watching = Watching {
        begun: answered_by.in_catalog(begun),
        answered_by,
        resource: query.resource.clone(),
        layout,
        has_columns: false,
        watch,
        catalog,
        initial: from.initial,
        bookmarks: follow.bookmarks,
        next_bookmark: Instant::now() + BOOKMARK_INTERVAL,
        ends,
    };
    Ok((Body::from_stream(watching.chunks()), ends + FAREWELL))
}

fn refused(error: WatchError) -> ApiError {
    match error {
        WatchError::TooOld(_) => {
            ApiError::VersionExpired("the changes since then are not known any more".to_owned())
        }
        WatchError::Query(error) => ApiError::bad_request(error.to_string()),
    }
}

/// Where a watch begins.
struct From {
    after: u64,
    initial: Option<Initial>,
}

/// What there is, as far as it has not been sent.
struct Initial {
    reading: Reading,
    version: FleetVersion,
    /// Whether a bookmark says that it ends.
    is_marked: bool,
    /// Bytes that the client takes before it asks for more.
    told: usize,
}

async fn begin(
    stores: &Merged,
    logs: &[Arc<Log>],
    query: &Query,
    follow: &Follow,
) -> Result<From, ApiError> {
    let wanted = match follow.since {
        Since::Version(version) => Some(number(logs, version)?),
        Since::Unset | Since::Any => None,
    };
    if !follow.begins_with_state() {
        let newest = || {
            logs.iter()
                .map(|log| log.reaches_to(log.newest()))
                .min()
                .unwrap_or_default()
        };
        return Ok(From {
            after: wanted.unwrap_or_else(newest),
            initial: None,
        });
    }
    if let Some(wanted) = wanted {
        reach(logs, wanted).await?;
    }
    let (page, after) = read_first(stores, query, PAGE_TIMEOUT).await?;
    let is_marked = follow.initial_events == Some(true);
    let sequence = logs
        .first()
        .map(|log| log.sequence())
        .ok_or_else(|| ApiError::Internal("no store answers".to_owned()))?;
    let version = sequence.version(after);
    let reading = Reading::begin(stores.clone(), query.clone(), page, false, false).await?;
    Ok(From {
        after,
        initial: Some(Initial {
            reading,
            version,
            is_marked,
            told: 0,
        }),
    })
}

/// A watch that is answered. Of the question it keeps only what says where it is answered from: names and selectors, of which there may be many, are kept
/// by `watch`, and while there are objects to be shown by `initial`.
struct Watching {
    /// Those that answered when the watch began, without clusters of which nothing may be seen.
    begun: Option<Merged>,
    answered_by: AnsweredBy,
    resource: ResourceName,
    layout: Layout,
    /// Whether the columns of a Table have been told: only the first event names them.
    has_columns: bool,
    watch: MergedWatch,
    catalog: watch::Receiver<Arc<Catalog>>,
    initial: Option<Initial>,
    bookmarks: bool,
    next_bookmark: Instant,
    ends: Instant,
}

/// What comes next.
enum Next {
    Lines(Vec<u8>),
    /// The last ones.
    End(Vec<u8>),
}

impl Watching {
    fn chunks(self) -> impl Stream<Item = Result<Bytes, std::convert::Infallible>> {
        unfold(Some(self), async |state| {
            let mut watching = state?;
            match watching.next().await {
                Next::Lines(lines) => Some((Ok(lines.into()), Some(watching))),
                Next::End(lines) => Some((Ok(lines.into()), None)),
            }
        })
    }

    async fn next(&mut self) -> Next {
        match self.try_next().await {
            Ok(next) => next,
            Err(error) => {
                tracing::debug!(%error, resource = %self.resource.plural, "a watch ends");
                Next::End(error_line(&error))
            }
        }
    }

    async fn try_next(&mut self) -> Result<Next, ApiError> {
        if let Some(initial) = self.initial.take() {
            let lines = self.initial_lines(initial).await?;
            return Ok(Next::Lines(lines));
        }
        loop {
            tokio::select! {
                biased;
                () = sleep_until(self.ends) => return Ok(Next::End(self.last_lines())),
                changed = self.catalog.changed() => {
                    if changed.is_err() {
                        return Ok(Next::End(self.last_lines()));
                    }
                    self.check_catalog()?;
                }
                () = sleep_until(self.next_bookmark), if self.bookmarks => {
                    self.next_bookmark = Instant::now() + BOOKMARK_INTERVAL;
                    return Ok(Next::Lines(self.bookmark(self.watch.version(), false)));
                }
                events = self.watch.next() => {
                    let lines = self.event_lines(&events.map_err(ended)?)?;
                    return Ok(Next::Lines(lines));
                }
            }
        }
    }

    /// Some of what there is. When it ends, changes follow.
    async fn initial_lines(&mut self, mut initial: Initial) -> Result<Vec<u8>, ApiError> {
        initial.reading.keep_pace(initial.told)?;
        let mut lines = Vec::new();
        while lines.len() < CHUNK_BYTES {
            let Some(hit) = initial.reading.next().await? else {
                if initial.is_marked && self.bookmarks {
                    lines.extend(self.bookmark(initial.version, true));
                }
                return Ok(lines);
            };
            let object = with_fleet_version(&hit.object, initial.version);
            lines.extend(self.event_line(EventKind::Added, &Hit { object, ..hit })?);
        }
        initial.told = lines.len();
        self.initial = Some(initial);
        Ok(lines)
    }

    fn event_lines(&mut self, events: &[Event]) -> Result<Vec<u8>, ApiError> {
        self.layout.set_now(Timestamp::now());
        let mut lines = Vec::new();
        for event in events {
            lines.extend(self.event_line(event.kind, event.object.told())?);
        }
        Ok(lines)
    }

    /// The line of an event. The object has the version of the fleet already.
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

    /// Before the end, so that a client goes on from as far as possible.
    fn last_lines(&self) -> Vec<u8> {
        if self.bookmarks {
            self.bookmark(self.watch.version(), false)
        } else {
            Vec::new()
        }
    }

    /// A watch hears of nothing but the stores that it began with: it ends when its resource is not registered any more, or is to be answered from
    /// other stores, or from other parts of them.
    fn check_catalog(&self) -> Result<(), ApiError> {
        let catalog = self.catalog.borrow();
        if !self.is_registered(&catalog) {
            return Err(ApiError::VersionExpired(
                "the resource is not registered any more".to_owned(),
            ));
        }
        let is_as_before = match (&self.begun, self.answered_by.in_catalog(&catalog)) {
            (Some(begun), Some(now)) => now.is_like(begun),
            (None, None) => true,
            _ => false,
        };
        if is_as_before {
            Ok(())
        } else {
            Err(ApiError::VersionExpired(
                "the objects are kept in another store by now".to_owned(),
            ))
        }
    }

    fn is_registered(&self, catalog: &Catalog) -> bool {
        // Of clusters that may be seen: what happens to others changes nothing here.
        let is_seen =
            |name: &ClusterName| self.answered_by.permitted.in_cluster(name) != InCluster::Nothing;
        catalog
            .find(&self.resource)
            .is_some_and(|registered| registered.clusters().any(is_seen))
    }
}

/// What says which stores answer a question.
struct AnsweredBy {
    request: ListRequest,
    permitted: Permitted,
}

impl AnsweredBy {
    /// The stores that answer about clusters that may be seen: what happens to others changes nothing.
    fn in_catalog(&self, catalog: &Catalog) -> Option<Merged> {
        let Self { request, permitted } = self;
        let resource = ResourceName::new(&request.native.group, &request.native.plural);
        let is_seen = |name: &&ClusterName| permitted.in_cluster(name) != InCluster::Nothing;
        let seen = catalog
            .find(&resource)?
            .clusters()
            .filter(is_seen)
            .cloned()
            .collect();
        stores(&catalog.of_clusters(&seen, Some(&resource)), request).ok()
    }
}

fn ended(error: StoreError) -> ApiError {
    match error {
        StoreError::Expired => {
            ApiError::VersionExpired("changes have come faster than they were read".to_owned())
        }
        other => other.into(),
    }
}

/// The answer, until something ends it before its time. Chunks of it are whole lines.
pub fn ended_by(answer: Body, reason: impl Future<Output = ApiError> + Send + 'static) -> Body {
    let reason = Box::pin(reason);
    Body::from_stream(unfold(
        Some((answer.into_data_stream(), reason)),
        async |state| {
            let (mut chunks, mut reason) = state?;
            tokio::select! {
                biased;
                error = &mut reason => Some((Ok(error_line(&error).into()), None)),
                chunk = chunks.next() => Some((chunk?, Some((chunks, reason)))),
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

#[cfg(test)]
mod tests;
