//! The response to a watch of a search over all kinds.
//!
//! It begins with a bookmark, and not with the existing objects. Guarantee: what changes after the
//! bookmark's version is sent, and a list from then on shows at least that version.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::body::Body;
use fleetdex_core::{
    model::{FleetVersion, Gvk},
    query::{Query, ResourceName},
};
use fleetdex_limits::{computing::UserComputing, request::UserRequest};
use fleetdex_query_api::{question::SearchWatch, search_version::SearchVersion};
use fleetdex_store::{
    IndexReader,
    changes::{EventObject, Log, MergedWatch, WatchError},
};
use futures::{StreamExt as _, TryStreamExt as _, future::try_join_all, stream};
use jiff::Timestamp;
use tokio::{
    sync::watch,
    time::{Instant, timeout},
};

use super::{
    event_lines::EventLines,
    event_stream::{EventStream, EventView, StreamOptions, bookmark_metadata, refused},
    peers::PeerSubscription,
    watch_response::WatchDuration,
};
use crate::{
    api_error::ApiError,
    catalog::Catalog,
    read::{
        objects::{self, EventFormat},
        search::{SearchScope, WatchedSearch},
        snapshot::{log_of, sequence_number, sequence_of, wait_for},
    },
    render::representation::OutputKind,
};

/// How many kinds catch up with the other replicas at a time.
const CONCURRENT: usize = 16;
/// How long all kinds may take to catch up: twice as long as one.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(10);

/// Starts a watch. `catalog` also receives the catalogs that replace the one from which it was
/// planned. Also returns when the watch ends at the latest.
pub async fn open(
    catalog: watch::Receiver<Arc<Catalog>>,
    search: WatchedSearch,
    options: SearchWatch,
    output: OutputKind,
    peers: &[PeerSubscription],
) -> Result<(Body, Instant), ApiError> {
    let kinds = search.object_kinds();
    let followed = FollowedStores::open(search.stores).await?;
    let (after, watch) = match options.after {
        Some(version) => {
            let after = followed.number(version, search.scope.hash)?;
            catch_up(peers).await?;
            (after, followed.watch(after).await.map_err(refused)?)
        }
        None => {
            catch_up(peers).await?;
            followed.watch_from_now().await?
        }
    };
    let view = SearchView {
        first: Some(sequence_of(&followed.logs())?.version(after)),
        scope: search.scope,
        kinds,
        output,
        now: Timestamp::now(),
        computing: UserRequest::current().computing(),
        has_columns: false,
    };
    let limit = WatchDuration::Short.limit();
    let options = StreamOptions {
        limit: options.timeout.map_or(limit, |timeout| timeout.min(limit)),
        bookmarks: true,
    };
    Ok(EventStream::body(view, watch, catalog, options))
}

/// Waits until everything that the other replicas have written by now is replicated: a list may
/// have shown it.
async fn catch_up(peers: &[PeerSubscription]) -> Result<(), ApiError> {
    let all = stream::iter(peers)
        .map(PeerSubscription::wait_until_caught_up)
        .buffer_unordered(CONCURRENT)
        .try_collect::<()>();
    timeout(CATCH_UP_TIMEOUT, all).await.map_err(|_| {
        ApiError::Unavailable(
            "other replicas do not report the versions of their changes in time; try again"
                .to_owned(),
        )
    })?
}

/// The logs of the stores, of which there is at least one, each with what is followed in it.
struct FollowedStores {
    stores: Vec<Arc<dyn IndexReader>>,
    logs: Vec<(Arc<Log>, Vec<Query>)>,
}

impl FollowedStores {
    async fn open(stores: Vec<(Arc<dyn IndexReader>, Vec<Query>)>) -> Result<Self, ApiError> {
        let (stores, queries): (Vec<_>, Vec<_>) = stores.into_iter().unzip();
        let logs = try_join_all(stores.iter().map(|store| log_of(&**store))).await?;
        Ok(Self {
            stores,
            logs: logs.into_iter().zip(queries).collect(),
        })
    }

    fn logs(&self) -> Vec<Arc<Log>> {
        self.logs.iter().map(|(log, _)| Arc::clone(log)).collect()
    }

    /// The sequence number of a version, from which a watch of the selection with this hash
    /// continues.
    fn number(&self, version: SearchVersion, selection: u64) -> Result<u64, ApiError> {
        let number = sequence_number(&self.logs(), version.version)?;
        if version.selection == selection {
            Ok(number)
        } else {
            Err(ApiError::VersionExpired(
                "what the search selects has changed since then, or it is another search"
                    .to_owned(),
            ))
        }
    }

    async fn watch(&self, after: u64) -> Result<MergedWatch, WatchError> {
        MergedWatch::begin(&self.logs, after).await
    }

    /// A watch that begins where every list is from now on, or before.
    async fn watch_from_now(&self) -> Result<(u64, MergedWatch), ApiError> {
        let after = self.visible().await?;
        if let Ok(watch) = self.watch(after).await {
            return Ok((after, watch));
        }
        // Something has changed that the log does not hold, and that lists do not show yet.
        let logs = self.logs();
        let newest = logs.iter().map(|log| log.newest()).max();
        wait_for(&logs, newest.unwrap_or_default()).await?;
        let after = self.visible().await?;
        Ok((after, self.watch(after).await.map_err(refused)?))
    }

    /// The number up to which every list shows the changes of all logs from now on.
    async fn visible(&self) -> Result<u64, ApiError> {
        let numbers = self.stores.iter().zip(&self.logs);
        let numbers = numbers.map(async |(store, (log, queries))| {
            let visible = match queries.first() {
                Some(query) => store.visible_sequence(&query.resource).await?,
                None => log.visible(),
            };
            let is_only = self.logs.len() == 1;
            Ok::<_, ApiError>(if is_only {
                visible
            } else {
                log.reaches_to(visible)
            })
        });
        let numbers = try_join_all(numbers).await?;
        Ok(numbers.into_iter().min().unwrap_or_default())
    }
}

/// What a watch of a search follows and shows.
struct SearchView {
    /// The version of the first bookmark, until it is sent.
    first: Option<FleetVersion>,
    scope: SearchScope,
    /// The kinds of the objects, in their best versions.
    kinds: BTreeMap<ResourceName, Gvk>,
    output: OutputKind,
    /// The time for ages.
    now: Timestamp,
    computing: UserComputing,
    /// Whether the columns of a Table have been sent: only the first event contains them.
    has_columns: bool,
}

impl EventView for SearchView {
    /// A bookmark, with which the watch has begun.
    async fn initial_lines(&mut self) -> Result<Option<EventLines>, ApiError> {
        let Some(first) = self.first.take() else {
            return Ok(None);
        };
        let mut lines = EventLines::of_page();
        lines.add_bookmark(&self.bookmark_of(first, true));
        Ok(Some(lines))
    }

    fn set_now(&mut self, now: Timestamp) {
        self.now = now;
    }

    async fn object(&mut self, object: &EventObject) -> Result<Vec<u8>, ApiError> {
        let resource = object.resource();
        let unknown = || ApiError::Internal(format!("{} are not watched", resource.plural));
        let kind = self.kinds.get(resource).ok_or_else(unknown)?;
        let format = EventFormat {
            output: self.output,
            now: self.now,
            with_columns: !std::mem::replace(&mut self.has_columns, true),
        };
        let version = self.version(object.version()).to_string();
        let hit = object.hit()?;
        let show = || objects::event_object(resource, kind, hit, &version, format);
        let shown = self.computing.run(hit.object.get().len(), show).await;
        shown.ok_or(ApiError::TooManyRequests)?
    }

    fn bookmark(&self, version: FleetVersion) -> Vec<u8> {
        self.bookmark_of(version, false)
    }

    fn check_catalog(&self, catalog: &Catalog) -> Result<(), ApiError> {
        self.scope.check(catalog)
    }

    fn name(&self) -> &'static str {
        "objects"
    }
}

impl SearchView {
    fn version(&self, version: FleetVersion) -> SearchVersion {
        SearchVersion {
            version,
            selection: self.scope.hash,
        }
    }

    fn bookmark_of(&self, version: FleetVersion, ends_initial_events: bool) -> Vec<u8> {
        let version = self.version(version).to_string();
        let metadata = bookmark_metadata(&version, ends_initial_events);
        let object = objects::bookmark_object(&metadata, self.output);
        object.to_string().into_bytes()
    }
}
