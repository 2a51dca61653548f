//! Watches: the changes of a collection after a revision, read from the watch cache on demand.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures::stream;
use http::Response;
use rand::RngExt;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};
use tower::BoxError;

use super::{
    Server,
    body::{self, Body, Broken, Ending},
    fault::FaultKind,
    object::error_line,
    request::ObjectRequest,
    state::State,
    status::Status,
    view::{Line, View},
};

/// When a watch sends bookmarks: at this interval, and this long before its end. Source: the watch
/// cache of the API server.
const BOOKMARK_INTERVAL: Duration = Duration::from_mins(1);
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// Duration of a watch without `timeoutSeconds`, in seconds. Source: `--min-request-timeout`,
/// randomly up to doubled.
const DEFAULT_SECONDS: std::ops::Range<u64> = 1_800..3_600;
/// Maximum number of changes per chunk, so that the lock is not held for long.
const BATCH: usize = 64;
/// Maximum age of a replayed change. Much later, a store may have dropped the tombstone of a
/// deleted object.
const REPLAY_WINDOW: Duration = Duration::from_mins(1);
/// Number of changes from which the replayed one is chosen.
const REPLAY_CHOICE: usize = 32;

/// A running watch.
pub(super) struct Watch {
    server: Server,
    view: View,
    changed: Arc<Notify>,
    /// All changes up to this revision were sent.
    cursor: u64,
    /// A bookmark is sent only above this revision: the start, or the newest change when the watch
    /// was opened.
    known: u64,
    /// The run of the server when the watch was opened.
    run: u64,
    /// `None`: the client requests none, or none is left before the end.
    next_bookmark: Option<Instant>,
    deadline: Instant,
    /// Expected length of a line.
    line_length: usize,
    stage: Stage,
}

enum Stage {
    Running,
    /// Sends this and ends.
    Last(Result<Bytes, Broken>),
    Frozen,
    Ended,
}

/// The next action of a running watch.
enum Next {
    Send(Vec<Line>),
    /// Sends the lines, the last one truncated.
    Cut(Vec<Line>),
    Bookmark,
    EnterStage(Stage),
    /// Waits for a change, at most until then.
    Wait(Instant),
}

impl From<Ending> for Stage {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Reset => Self::Last(Err(Broken::Reset)),
            Ending::Clean => Self::Ended,
        }
    }
}

impl Stage {
    fn error(status: &Status) -> Self {
        Self::Last(Ok(error_line(status).into()))
    }
}

impl Watch {
    /// Checks the request. A start before the watch cache is accepted and ends with an error event.
    /// A start in the future is accepted, too, and skips the changes until then.
    pub(super) fn open(
        server: Server,
        state: &mut State,
        object_request: ObjectRequest,
    ) -> Result<Self, Status> {
        let now = Instant::now();
        let parameters = &object_request.parameters;
        if parameters.is_true("sendInitialEvents") {
            return Err(Status::invalid(
                "sendInitialEvents: Forbidden: this server has no streaming lists",
            ));
        }
        let selectors = object_request.selectors()?;
        let start = parameters
            .number("resourceVersion")?
            .filter(|version| *version > 0);
        let start = start.ok_or_else(|| {
            Status::bad_request("this server wants watches to start from a resourceVersion")
        })?;
        let seconds = parameters
            .number("timeoutSeconds")?
            .filter(|seconds| *seconds > 0);
        let seconds = seconds.unwrap_or_else(|| state.random.random_range(DEFAULT_SECONDS));
        let deadline = now + Duration::from_secs(seconds);
        let wants_bookmarks = parameters.is_true("allowWatchBookmarks");
        let table = state.etcd.table(&object_request.resource)?;
        let (floor, newest) = (table.cache_floor(), table.newest());
        let changed = table.changed.clone();
        let stage = if start < floor {
            Stage::error(&Status::too_old(start, floor))
        } else if state.faults.strikes_as(FaultKind::CloseWatch, now) {
            Stage::Ended
        } else {
            Stage::Running
        };
        let prefix = object_request.prefix();
        Ok(Self {
            server,
            view: View {
                resource: object_request.resource,
                prefix,
                selectors,
                form: object_request.form,
            },
            changed,
            cursor: start,
            known: start.max(newest),
            run: state.run,
            next_bookmark: wants_bookmarks
                .then(|| next_bookmark(now, deadline))
                .flatten(),
            deadline,
            line_length: 512,
            stage,
        })
    }

    /// Returns the response with the events.
    pub(super) fn response(self) -> Response<Body> {
        let chunks = stream::unfold(self, |mut watch| async move {
            let chunk = watch.next().await?;
            Some((chunk.map_err(BoxError::from), watch))
        });
        body::json_of(body::streamed(chunks))
    }

    async fn next(&mut self) -> Option<Result<Bytes, Broken>> {
        loop {
            match std::mem::replace(&mut self.stage, Stage::Ended) {
                Stage::Running => self.stage = Stage::Running,
                Stage::Last(last) => return Some(last),
                Stage::Frozen => std::future::pending().await,
                Stage::Ended => return None,
            }
            let changed = self.changed.clone();
            let notified = changed.notified();
            tokio::pin!(notified);
            // No change is missed from here on.
            notified.as_mut().enable();
            match self.decide() {
                Next::Wait(until) => tokio::select! {
                    () = notified => {}
                    () = sleep_until(until) => {}
                },
                Next::Send(lines) => return Some(Ok(self.send(&lines))),
                Next::Cut(lines) => return Some(Ok(self.cut(&lines))),
                Next::Bookmark => return Some(Ok(self.view.bookmark(self.cursor).into())),
                Next::EnterStage(stage) => self.stage = stage,
            }
        }
    }

    fn send(&mut self, lines: &[Line]) -> Bytes {
        let text = self.view.render(lines, self.line_length);
        self.line_length = text.len() / lines.len().max(1) + 64;
        text.into()
    }

    fn decide(&mut self) -> Next {
        let server = self.server.clone();
        let state = &mut *server.lock();
        let now = Instant::now();
        if state.run != self.run {
            return Next::EnterStage(Ending::Reset.into());
        }
        if now >= self.deadline || self.has_fallen_behind(state) {
            return Next::EnterStage(Stage::Ended);
        }
        if let Some(stage) = disrupted(state, now) {
            return Next::EnterStage(stage);
        }
        let (mut lines, late) = self.collect_lines(state, now);
        if lines.is_empty() {
            return self.idle(now, late);
        }
        if state.faults.is_empty() {
            return Next::Send(lines);
        }
        lines.extend(self.replay(state, now));
        if state.faults.strikes_as(FaultKind::CutLine, now) {
            self.stage = state.ending().into();
            return Next::Cut(lines);
        }
        Next::Send(lines)
    }

    /// Whether the client reads too slowly; a real server ends such a watch, too.
    fn has_fallen_behind(&self, state: &State) -> bool {
        state
            .etcd
            .table(&self.view.resource)
            .is_ok_and(|table| table.has_dropped_after(self.cursor))
    }

    /// Collects the lines to send. Also returns when the next delayed change becomes visible.
    fn collect_lines(&mut self, state: &mut State, now: Instant) -> (Vec<Line>, Option<Instant>) {
        let newest = state.etcd.revision();
        let State { etcd, faults, .. } = state;
        let mut lines = Vec::new();
        let Ok(table) = etcd.table_mut(&self.view.resource) else {
            return (lines, None);
        };
        for event in table.after(self.cursor) {
            if event.visible_at > now {
                return (lines, Some(event.visible_at));
            }
            if lines.len() >= BATCH {
                return (lines, None);
            }
            self.cursor = event.revision;
            let Some(line) = self.view.line(event).filter(|_| !event.is_lost) else {
                continue;
            };
            if faults.strikes_as(FaultKind::Swallow, now) {
                event.is_lost = true;
            } else {
                lines.push(line);
            }
        }
        self.cursor = self.cursor.max(newest);
        (lines, None)
    }

    fn idle(&mut self, now: Instant, late: Option<Instant>) -> Next {
        if self.next_bookmark.is_some_and(|due| due <= now) {
            self.next_bookmark = next_bookmark(now, self.deadline);
            if self.cursor > self.known {
                return Next::Bookmark;
            }
        }
        let due = [late, self.next_bookmark].into_iter().flatten().min();
        Next::Wait(due.map_or(self.deadline, |due| due.min(self.deadline)))
    }

    /// Returns an older change to send again.
    fn replay(&self, state: &mut State, now: Instant) -> Option<Line> {
        if !state.faults.is_active(FaultKind::Replay) {
            return None;
        }
        let table = state.etcd.table(&self.view.resource).ok()?;
        let recent = table
            .before(self.cursor)
            .take_while(|event| event.at + REPLAY_WINDOW >= now);
        let older = recent
            .filter(|event| !event.is_lost && event.visible_at <= now)
            .filter_map(|event| self.view.line(event));
        let mut choice: Vec<Line> = older.skip(1).take(REPLAY_CHOICE).collect();
        if choice.is_empty() || !state.faults.strikes_as(FaultKind::Replay, now) {
            return None;
        }
        let index = state.random.random_range(0..choice.len());
        Some(choice.swap_remove(index))
    }

    /// Renders the lines, the last one truncated.
    fn cut(&self, lines: &[Line]) -> Bytes {
        let text = self.view.render(lines, self.line_length);
        let last = lines.last().map_or(0, |line| {
            self.view
                .render(std::slice::from_ref(line), self.line_length)
                .len()
        });
        let missing = self.server.lock().random.random_range(1..=last.max(1));
        let length = text.len().saturating_sub(missing);
        Bytes::from(text).slice(..length)
    }
}

/// Returns the stage that a fault enforces, whether or not the watch has lines to send.
fn disrupted(state: &mut State, now: Instant) -> Option<Stage> {
    if state.faults.is_empty() {
        return None;
    }
    if state.faults.strikes_as(FaultKind::FreezeWatch, now) {
        return Some(Stage::Frozen);
    }
    if state.faults.strikes_as(FaultKind::FailWatch, now) {
        return Some(Stage::error(&Status::internal()));
    }
    let is_cut = state.faults.strikes_as(FaultKind::CutWatch, now);
    is_cut.then(|| state.ending().into())
}

fn next_bookmark(now: Instant, deadline: Instant) -> Option<Instant> {
    let due = (now + BOOKMARK_INTERVAL).min(deadline.checked_sub(BOOKMARK_BEFORE_END)?);
    (due > now).then_some(due)
}
