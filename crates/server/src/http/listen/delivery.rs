//! Cuts responses that are not read: resets the HTTP/2 stream or closes the HTTP/1.1 connection,
//! and frees everything that the response holds.
//!
//! hyper has no such timeout: while a client reads nothing, hyper does not poll the body, which
//! cannot end itself. So each response has a [`ResponseTimer`], which its body starts and stops,
//! and which a second future beside the sending one waits for. Bodies are sent in pieces, so that
//! each 64 KiB have the same time however the handler produces them.
//!
//! Guarantee: a response ends when a piece of 64 KiB is unread for 30 seconds, or at its
//! [`ResponseDeadline`]; while others wait for the memory of its request, also when a piece is
//! unread for 2 seconds and a little, or when pieces that were unread for 5 seconds together have
//! less than 1,280 KiB.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::{body::Body, response::Response};
use bytes::Bytes;
use fleetdex_limits::intake::{Intake, PACE, PACE_WINDOW};
use fleetdex_telemetry::metrics::AbortReason;
use http::StatusCode;
use http_body::{Body as _, Frame, SizeHint};
use hyper::rt::Executor;
use parking_lot::{Mutex, MutexGuard};
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

use super::{activity::RequestGuard, connection_metrics::ConnectionMetrics};
use crate::limits::{ResponseDeadline, ResponseMemory};

/// How long a client may take to read one piece of a response: 2 kB/s at least.
pub const PIECE_TIMEOUT: Duration = Duration::from_secs(30);
/// The same while others wait for the memory of its request: 32 kB/s at least.
const HELD_PIECE_TIMEOUT: Duration = Duration::from_secs(2);
/// How often a response that may hold memory is looked at while a piece is unread.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Bytes of a piece.
pub const PIECE_BYTES: usize = 64 * 1024;

tokio::task_local! {
    /// The timer of the HTTP/1.1 connection or HTTP/2 stream that the task serves.
    static TIMER: ResponseTimer;
}

/// The timeouts of one response at a time.
#[derive(Clone, Debug, Default)]
struct ResponseTimer(Arc<TimerState>);

#[derive(Debug, Default)]
struct TimerState {
    deadlines: Mutex<TimerDeadlines>,
    /// Notified when a response with a deadline starts, or one is too slow.
    deadline_set: Notify,
}

#[derive(Debug, Default)]
struct TimerDeadlines {
    /// Since when a piece is unread.
    unread_since: Option<Instant>,
    response: Option<Instant>,
    memory: Option<Intake>,
    /// Of the pieces of the current window.
    window: SentPieces,
    /// Whether others waited for memory at the end of a window of too few bytes.
    is_too_slow: bool,
}

/// Pieces that the client has read.
#[derive(Debug, Default)]
struct SentPieces {
    bytes: usize,
    /// How long they were unread. The time in which nothing was there to be sent does not count.
    unread: Duration,
}

impl TimerDeadlines {
    fn due(&self) -> Option<(Instant, AbortReason)> {
        let limit = if self.is_waited_for() {
            HELD_PIECE_TIMEOUT
        } else {
            PIECE_TIMEOUT
        };
        let slow = if self.is_too_slow {
            Some(Instant::now())
        } else {
            self.unread_since.map(|since| since + limit)
        };
        let slow = slow.map(|at| (at, AbortReason::SlowClient));
        let over = self
            .response
            .map(|deadline| (deadline, AbortReason::DeadlineExceeded));
        [slow, over].into_iter().flatten().min_by_key(|(at, _)| *at)
    }

    fn is_waited_for(&self) -> bool {
        self.memory.as_ref().is_some_and(Intake::is_waited_for)
    }

    /// Notes that the client has read the piece that was unread.
    fn piece_read(&mut self, bytes: usize) {
        let Some(since) = self.unread_since.take() else {
            return;
        };
        self.window.bytes += bytes;
        self.window.unread += since.elapsed();
        if self.window.unread >= PACE_WINDOW {
            self.is_too_slow = self.window.bytes < PACE && self.is_waited_for();
            self.window = SentPieces::default();
        }
    }

    /// How long nothing expires that is not due now: what becomes unread meanwhile has its whole
    /// time.
    fn interval(&self) -> Duration {
        match (&self.memory, self.unread_since) {
            (Some(_), Some(_)) => CHECK_INTERVAL,
            (Some(_), None) => HELD_PIECE_TIMEOUT,
            (None, _) => PIECE_TIMEOUT,
        }
    }
}

impl ResponseTimer {
    fn lock(&self) -> MutexGuard<'_, TimerDeadlines> {
        self.0.deadlines.lock()
    }

    fn start(&self, response: Option<Instant>, memory: Option<Intake>) {
        let has_any = response.is_some() || memory.is_some();
        *self.lock() = TimerDeadlines {
            unread_since: Some(Instant::now()),
            response,
            memory,
            ..TimerDeadlines::default()
        };
        if has_any {
            self.0.deadline_set.notify_one();
        }
    }

    fn piece_unread(&self) {
        self.lock().unread_since = Some(Instant::now());
    }

    fn piece_read(&self, bytes: usize) {
        let mut deadlines = self.lock();
        deadlines.piece_read(bytes);
        if deadlines.is_too_slow {
            self.0.deadline_set.notify_one();
        }
    }

    fn stop(&self) {
        *self.lock() = TimerDeadlines::default();
    }

    /// Waits until a timeout expires. It wakes at least every [`PIECE_TIMEOUT`]; while a response
    /// may hold memory, every [`HELD_PIECE_TIMEOUT`], and every [`CHECK_INTERVAL`] while a piece is
    /// unread. No piece that becomes unread meanwhile expires before that.
    async fn expired(&self) -> AbortReason {
        loop {
            let (due, interval) = {
                let deadlines = self.lock();
                (deadlines.due(), deadlines.interval())
            };
            let now = Instant::now();
            let at = match due {
                Some((at, reason)) if at <= now => return reason,
                Some((at, _)) => at.min(now + interval),
                None => now + interval,
            };
            tokio::select! {
                () = sleep_until(at) => {}
                () = self.0.deadline_set.notified() => {}
            }
        }
    }
}

/// Runs `sending`, a connection or stream, until a timeout of one of its responses expires.
pub(super) async fn cut_if_unread<S: Future>(sending: S) -> Result<S::Output, AbortReason> {
    let timer = ResponseTimer::default();
    let timed = async {
        tokio::select! {
            // The timer first: at its expiry hyper would poll the body for what its buffers have
            // room for, as if the client had read something.
            biased;
            reason = timer.expired() => Err(reason),
            output = sending => Ok(output),
        }
    };
    TIMER.scope(timer.clone(), timed).await
}

/// Runs the streams of HTTP/2 connections. Dropping a stream resets it.
#[derive(Clone)]
pub(super) struct StreamExecutor(pub(super) ConnectionMetrics);

impl<S> Executor<S> for StreamExecutor
where
    S: Future + Send + 'static,
    S::Output: Send,
{
    fn execute(&self, stream: S) {
        let metrics = self.0.clone();
        tokio::spawn(async move {
            if let Err(reason) = cut_if_unread(stream).await {
                metrics.aborted(reason);
            }
        });
    }
}

/// Puts a response under the timer of the connection or stream that sends it.
pub(super) fn timed(mut response: Response, request: RequestGuard) -> Response {
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return response;
    }
    let deadline = response.extensions_mut().remove::<ResponseDeadline>();
    let memory = response.extensions_mut().remove::<ResponseMemory>();
    let timer = TIMER.try_with(Clone::clone).unwrap_or_default();
    timer.start(
        deadline.map(|ResponseDeadline(at)| at),
        memory.map(|ResponseMemory(memory)| memory),
    );
    request.piece_unread();
    response.map(|body| {
        Body::new(DeliveryBody {
            body,
            rest: Bytes::new(),
            piece: 0,
            timer,
            request,
        })
    })
}

/// A body that is sent in pieces.
struct DeliveryBody {
    body: Body,
    /// The unsent rest of the last frame.
    rest: Bytes,
    /// Bytes of the piece that was sent last.
    piece: usize,
    timer: ResponseTimer,
    request: RequestGuard,
}

impl DeliveryBody {
    /// The next piece of the rest. The last byte of a body is a piece of its own: hyper polls for
    /// it once the client has room for everything before it, so that an unread response does not
    /// end when its last piece is handed to hyper.
    fn piece(&mut self) -> Bytes {
        let is_last =
            self.rest.len() <= PIECE_BYTES && self.rest.len() > 1 && self.body.is_end_stream();
        let length = if is_last {
            self.rest.len() - 1
        } else {
            self.rest.len().min(PIECE_BYTES)
        };
        self.timer.piece_unread();
        self.request.piece_unread();
        self.piece = length;
        self.rest.split_to(length)
    }
}

impl http_body::Body for DeliveryBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.timer.piece_read(self.piece);
        self.request.piece_read();
        if self.rest.is_empty() {
            let frame = match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => frame,
                ended => return Poll::Ready(ended),
            };
            match frame.into_data() {
                Ok(data) if !data.is_empty() => self.rest = data,
                Ok(empty) => return Poll::Ready(Some(Ok(Frame::data(empty)))),
                Err(frame) => return Poll::Ready(Some(Ok(frame))),
            }
        }
        Poll::Ready(Some(Ok(Frame::data(self.piece()))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (inner, rest) = (self.body.size_hint(), self.rest.len() as u64);
        let mut hint = SizeHint::new();
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper + rest);
        }
        hint.set_lower(inner.lower() + rest);
        hint
    }
}

impl Drop for DeliveryBody {
    fn drop(&mut self) {
        self.timer.stop();
    }
}

#[cfg(test)]
mod tests {
    use fleetdex_limits::{
        computing::ComputingTurns,
        intake::Budget,
        request::{MEMORY, UserRequest},
    };
    use http_body_util::BodyExt as _;
    use tokio::{task::JoinHandle, time::sleep};

    use super::{super::activity::Activity, *};

    fn delivery(body: Body, deadline: Option<Instant>) -> Body {
        let mut response = Response::new(body);
        if let Some(at) = deadline {
            response.extensions_mut().insert(ResponseDeadline(at));
        }
        timed(response, Activity::new().begin()).into_body()
    }

    /// Reads a piece every `seconds`; returns how many bytes came, unless the response was cut.
    async fn read_every(
        seconds: u64,
        body: Body,
        deadline: Option<Instant>,
    ) -> Result<usize, AbortReason> {
        cut_if_unread(async move {
            let mut body = delivery(body, deadline);
            let mut read = 0;
            while let Some(frame) = body.frame().await {
                read += frame.unwrap().into_data().unwrap().len();
                sleep(Duration::from_secs(seconds)).await;
            }
            read
        })
        .await
    }

    fn large() -> Body {
        Body::from(vec![b'x'; 10 * PIECE_BYTES + 7])
    }

    #[tokio::test(start_paused = true)]
    async fn a_response_that_is_read_slowly_continues_and_an_unread_one_is_cut() {
        let begun = Instant::now();
        assert_eq!(
            read_every(29, large(), None).await,
            Ok(10 * PIECE_BYTES + 7)
        );
        assert!(begun.elapsed() > 10 * Duration::from_secs(29));
        let begun = Instant::now();
        assert_eq!(
            read_every(31, large(), None).await,
            Err(AbortReason::SlowClient)
        );
        assert_eq!(begun.elapsed(), PIECE_TIMEOUT);
    }

    #[tokio::test(start_paused = true)]
    async fn an_unread_response_is_cut_earlier_while_others_wait_for_its_memory() {
        let budget = Budget::new(MEMORY);
        let of_user = |name| UserRequest::new(&budget, &ComputingTurns::default(), name);
        let holder = of_user("alice").memory().clone();
        let mut held = holder.reservation();
        held.grow(MEMORY.shared).await.unwrap();
        let unread = || {
            let mut response = Response::new(large());
            response
                .extensions_mut()
                .insert(ResponseMemory(holder.clone()));
            cut_if_unread(async {
                let mut body = timed(response, Activity::new().begin()).into_body();
                body.frame().await.unwrap().unwrap();
                sleep(Duration::from_hours(1)).await;
            })
        };
        let begun = Instant::now();
        assert_eq!(unread().await, Err(AbortReason::SlowClient));
        assert_eq!(begun.elapsed(), PIECE_TIMEOUT);

        let others = ["bob", "carol"].map(|name| {
            let mut memory = of_user(name).memory().reservation();
            tokio::spawn(async move { memory.grow(MEMORY.request).await.map(|()| memory) })
        });
        let begun = Instant::now();
        assert_eq!(unread().await, Err(AbortReason::SlowClient));
        assert!(begun.elapsed() <= HELD_PIECE_TIMEOUT + CHECK_INTERVAL);

        // Each piece is read in time, and all of them too slowly.
        let begun = Instant::now();
        let slow = cut_if_unread(async {
            let mut response = Response::new(large());
            response
                .extensions_mut()
                .insert(ResponseMemory(holder.clone()));
            let mut body = timed(response, Activity::new().begin()).into_body();
            while let Some(frame) = body.frame().await {
                frame.unwrap();
                sleep(Duration::from_secs(1)).await;
            }
        });
        assert_eq!(slow.await, Err(AbortReason::SlowClient));
        assert_eq!(begun.elapsed(), PACE_WINDOW);
        others.iter().for_each(JoinHandle::abort);
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_without_events_stays_open_until_its_deadline() {
        let silent = || {
            Body::from_stream(futures::stream::pending::<
                Result<Bytes, std::convert::Infallible>,
            >())
        };
        let begun = Instant::now();
        let deadline = begun + Duration::from_hours(1);
        assert_eq!(
            read_every(0, silent(), Some(deadline)).await,
            Err(AbortReason::DeadlineExceeded)
        );
        assert_eq!(begun.elapsed(), Duration::from_hours(1));
        let short = Instant::now() + Duration::from_secs(5);
        assert_eq!(
            read_every(60, large(), Some(short)).await,
            Err(AbortReason::DeadlineExceeded),
            "even while it is unread"
        );
    }

    #[tokio::test]
    async fn a_body_keeps_its_bytes_and_its_length() {
        let body = delivery(Body::from("abc"), None);
        assert_eq!(body.size_hint().exact(), Some(3));
        assert_eq!(body.collect().await.unwrap().to_bytes(), "abc");
        assert!(delivery(Body::empty(), None).is_end_stream());
        let mut body = delivery(Body::from("abc"), None);
        let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(
            (&first[..], body.size_hint().exact(), body.is_end_stream()),
            (&b"ab"[..], Some(1), false)
        );
    }
}
