//! Answers that are not taken are ended: the stream of HTTP/2 is reset, the connection of HTTP/1.1 closed, and everything that the answer holds is freed.
//!
//! Nothing of hyper does that: while a peer takes nothing, the body is not asked for more, and cannot end itself. So each answer has a [`Clock`], which
//! its body sets and stops, and a second future beside the one that sends it, which looks at the clock. What is sent is cut in pieces, so that a large
//! piece has as much time as many small ones.
//!
//! Guarantee: an answer of which a piece of 64 KiB is not taken for 30 seconds ends, and so does one that goes on after it has to be over.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::{body::Body, response::Response};
use bytes::Bytes;
use fleetdex_telemetry::metrics::AnswerCut;
use http::StatusCode;
use http_body::{Body as _, Frame, SizeHint};
use hyper::rt::Executor;
use parking_lot::{Mutex, MutexGuard};
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

use super::{activity::UnderWay, counts::Counts};

/// How long a peer may take for one piece of an answer: 2 kB/s at least.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of a piece.
pub const PIECE_BYTES: usize = 64 * 1024;

tokio::task_local! {
    /// The clock of what is being answered: a connection of HTTP/1.1, or a stream of HTTP/2.
    static CLOCK: Clock;
}

/// When an answer has to be over, whatever happens. An extension of the response.
#[derive(Clone, Copy, Debug)]
pub struct EndsBy(pub Instant);

/// Watches over one answer at a time.
#[derive(Clone, Debug, Default)]
struct Clock(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    times: Mutex<Times>,
    /// The end of the answer has become known.
    ends: Notify,
}

#[derive(Debug, Default)]
struct Times {
    /// Since when a piece waits to be taken.
    waits_since: Option<Instant>,
    ends: Option<Instant>,
}

impl Times {
    fn due(&self) -> Option<(Instant, AnswerCut)> {
        let unread = self
            .waits_since
            .map(|since| (since + PATIENCE, AnswerCut::Unread));
        let over = self.ends.map(|ends| (ends, AnswerCut::Over));
        [unread, over]
            .into_iter()
            .flatten()
            .min_by_key(|(at, _)| *at)
    }
}

impl Clock {
    fn lock(&self) -> MutexGuard<'_, Times> {
        self.0.times.lock()
    }

    fn begin(&self, ends: Option<Instant>) {
        *self.lock() = Times {
            waits_since: Some(Instant::now()),
            ends,
        };
        if ends.is_some() {
            self.0.ends.notify_one();
        }
    }

    fn hands_out(&self) {
        self.lock().waits_since = Some(Instant::now());
    }

    fn is_taken(&self) {
        self.lock().waits_since = None;
    }

    fn stop(&self) {
        *self.lock() = Times::default();
    }

    /// Waits until the answer has to be ended. What begins to wait meanwhile is due no earlier than it is looked at again.
    async fn is_due(&self) -> AnswerCut {
        loop {
            let due = self.lock().due();
            let now = Instant::now();
            let at = match due {
                Some((at, why)) if at <= now => return why,
                Some((at, _)) => at.min(now + PATIENCE),
                None => now + PATIENCE,
            };
            tokio::select! {
                () = sleep_until(at) => {}
                () = self.0.ends.notified() => {}
            }
        }
    }
}

/// Sends answers until one of them has to be ended; what has been sent of it is all then.
pub(super) async fn while_taken<A: Future>(answering: A) -> Result<A::Output, AnswerCut> {
    let clock = Clock::default();
    let watched = async {
        tokio::select! {
            // The clock first: when it strikes, hyper would take what has room in its buffers, as if the peer had taken something.
            biased;
            why = clock.is_due() => Err(why),
            output = answering => Ok(output),
        }
    };
    CLOCK.scope(clock.clone(), watched).await
}

/// Runs the streams of HTTP/2 connections: a stream that is dropped is reset.
#[derive(Clone)]
pub(super) struct Streams(pub(super) Counts);

impl<S> Executor<S> for Streams
where
    S: Future + Send + 'static,
    S::Output: Send,
{
    fn execute(&self, stream: S) {
        let counts = self.0.clone();
        tokio::spawn(async move {
            if let Err(why) = while_taken(stream).await {
                counts.cut(why);
            }
        });
    }
}

/// The same answer, watched by the clock of the connection or stream that sends it.
pub(super) fn watched(mut response: Response, request: UnderWay) -> Response {
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return response;
    }
    let ends = response
        .extensions_mut()
        .remove::<EndsBy>()
        .map(|EndsBy(at)| at);
    let clock = CLOCK.try_with(Clone::clone).unwrap_or_default();
    clock.begin(ends);
    request.waits();
    response.map(|body| {
        Body::new(Delivery {
            body,
            rest: Bytes::new(),
            clock,
            request,
        })
    })
}

/// A body that is handed out in pieces.
struct Delivery {
    body: Body,
    /// What is left of its last frame.
    rest: Bytes,
    clock: Clock,
    request: UnderWay,
}

impl Delivery {
    /// The next piece of what is left. The last byte of a body goes by itself: hyper asks for it when the peer has room for all that comes before, so
    /// that an answer that is not taken is not over when its last piece has been handed out.
    fn piece(&mut self) -> Bytes {
        let is_last =
            self.rest.len() <= PIECE_BYTES && self.rest.len() > 1 && self.body.is_end_stream();
        let length = if is_last {
            self.rest.len() - 1
        } else {
            self.rest.len().min(PIECE_BYTES)
        };
        self.clock.hands_out();
        self.request.waits();
        self.rest.split_to(length)
    }
}

impl http_body::Body for Delivery {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.clock.is_taken();
        self.request.goes_on();
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

impl Drop for Delivery {
    fn drop(&mut self) {
        self.clock.stop();
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;
    use tokio::time::sleep;

    use super::{super::activity::Activity, *};

    fn delivery(body: Body, ends: Option<Instant>) -> Body {
        let mut response = Response::new(body);
        if let Some(at) = ends {
            response.extensions_mut().insert(EndsBy(at));
        }
        watched(response, Activity::new().begin()).into_body()
    }

    /// Takes a piece each so many seconds; how many bytes came, unless the answer was ended.
    async fn taken_every(
        seconds: u64,
        body: Body,
        ends: Option<Instant>,
    ) -> Result<usize, AnswerCut> {
        while_taken(async move {
            let mut body = delivery(body, ends);
            let mut taken = 0;
            while let Some(frame) = body.frame().await {
                taken += frame.unwrap().into_data().unwrap().len();
                sleep(Duration::from_secs(seconds)).await;
            }
            taken
        })
        .await
    }

    fn large() -> Body {
        Body::from(vec![b'x'; 10 * PIECE_BYTES + 7])
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_taken_slowly_goes_on_and_one_that_is_not_taken_ends() {
        let begun = Instant::now();
        assert_eq!(
            taken_every(29, large(), None).await,
            Ok(10 * PIECE_BYTES + 7)
        );
        assert!(begun.elapsed() > 10 * Duration::from_secs(29));
        let begun = Instant::now();
        assert_eq!(taken_every(31, large(), None).await, Err(AnswerCut::Unread));
        assert_eq!(begun.elapsed(), PATIENCE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_has_nothing_to_say_may_be_silent_until_its_end() {
        let silent = || {
            Body::from_stream(futures::stream::pending::<
                Result<Bytes, std::convert::Infallible>,
            >())
        };
        let begun = Instant::now();
        let ends = begun + Duration::from_hours(1);
        assert_eq!(
            taken_every(0, silent(), Some(ends)).await,
            Err(AnswerCut::Over)
        );
        assert_eq!(begun.elapsed(), Duration::from_hours(1));
        let short = Instant::now() + Duration::from_secs(5);
        assert_eq!(
            taken_every(60, large(), Some(short)).await,
            Err(AnswerCut::Over),
            "though it is not read"
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
