//! Requests over HTTP/1.1 whose line and headers cannot be read are answered with a Status, as all others are.
//!
//! hyper refuses them before any service sees them, with an answer that has no body. It is recognised because nothing else is written while no
//! request is being answered, and another one is written in its place. The connection ends after it, as hyper has it; what the client is still
//! sending is read for a moment, as it would otherwise lose the answer with the connection.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::response::Response;
use bytes::{Buf as _, Bytes};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

use super::{holding::holding, status::ApiError};

/// Bytes of a request's line and headers: a selector of several thousand names still fits.
pub const MAX_HEAD_BYTES: usize = 64 * 1024;
/// What hyper's own answers begin with, and what each of them holds.
const REFUSAL: &[u8] = b"HTTP/1.1 4";
const NO_BODY: &[u8] = b"content-length: 0\r\n";
/// How much is read, and for how long, of what a refused client goes on to send.
const MAX_UNREAD_BYTES: usize = 1024 * 1024;
const UNREAD_TIMEOUT: Duration = Duration::from_secs(2);
/// Bytes of it that are read at once.
const UNREAD_BUFFER: usize = 8 * 1024;

/// What a connection is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// A head is awaited or read.
    Head,
    /// A request is being answered.
    Answer,
    /// The answer has ended, and its last bytes may still have to be written.
    Tail,
    /// It is no HTTP any more.
    Upgraded,
}

#[derive(Debug)]
struct Progress {
    stage: Stage,
    /// Bytes of the request's line, as far as it has been read, and whether it has ended.
    line: usize,
    line_has_ended: bool,
}

/// How far the requests of one connection are: shared by what reads and writes and what answers.
#[derive(Clone, Debug)]
pub struct Heads(Arc<Mutex<Progress>>);

impl Heads {
    /// A connection on which nothing has been sent.
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(Progress { stage: Stage::Head, line: 0, line_has_ended: false })))
    }

    /// A head has been read whole.
    pub fn begin_answer(&self) {
        *self.lock() = Progress { stage: Stage::Answer, line: 0, line_has_ended: false };
    }

    /// The answer to it, which tells when it has ended.
    pub fn answered(&self, response: Response) -> Response {
        if response.status() == http::StatusCode::SWITCHING_PROTOCOLS {
            self.lock().stage = Stage::Upgraded;
            return response;
        }
        response.map(|body| holding(body, Answer(self.clone())))
    }

    fn read(&self, bytes: &[u8]) {
        let mut progress = self.lock();
        if progress.stage == Stage::Answer || progress.line_has_ended {
            return;
        }
        let end = memchr::memchr(b'\n', bytes);
        progress.line += end.unwrap_or(bytes.len());
        progress.line_has_ended = end.is_some();
    }

    fn end_answer(&self) {
        let mut progress = self.lock();
        if progress.stage == Stage::Answer {
            progress.stage = Stage::Tail;
        }
    }

    fn flushed(&self) {
        let mut progress = self.lock();
        if progress.stage == Stage::Tail {
            progress.stage = Stage::Head;
        }
    }

    /// What to say in the place of what is about to be written, if that is a refusal of hyper's own.
    fn refusal(&self, written: &[u8]) -> Option<ApiError> {
        let progress = self.lock();
        let is_refusal =
            written.starts_with(REFUSAL) && written.ends_with(b"\r\n\r\n") && memchr::memmem::find(written, NO_BODY).is_some();
        if progress.stage != Stage::Head || !is_refusal {
            return None;
        }
        match &written[REFUSAL.len() - 1..REFUSAL.len() + 2] {
            // The line is what is too long, or the headers after a line of ordinary length.
            b"414" | b"431" if progress.line > MAX_HEAD_BYTES / 2 => Some(ApiError::UriTooLong(MAX_HEAD_BYTES)),
            b"414" | b"431" => Some(ApiError::HeadersTooLarge(MAX_HEAD_BYTES)),
            _ => Some(ApiError::bad_request("this is no request of HTTP/1.1")),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says that an answer has ended when its body is dropped.
struct Answer(Heads);

impl Drop for Answer {
    fn drop(&mut self) {
        self.0.end_answer();
    }
}

/// A connection on which hyper's refusals are replaced.
pub struct Answering<S> {
    stream: S,
    heads: Heads,
    refused: Option<Refused>,
}

/// A refusal that is being written.
struct Refused {
    left: Bytes,
    unread: usize,
    patience: Pin<Box<Sleep>>,
}

impl<S> Answering<S> {
    /// The connection whose requests `heads` follows.
    pub fn new(stream: S, heads: Heads) -> Self {
        Self { stream, heads, refused: None }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Answering<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        self.heads.read(&buffer.filled()[before..]);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Answering<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.refused.is_none() {
            let Some(error) = self.heads.refusal(bytes) else { return Pin::new(&mut self.stream).poll_write(context, bytes) };
            self.refused = Some(Refused::new(&error));
        }
        ready!(self.poll_refuse(context))?;
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match slices {
            [only] => self.poll_write(context, only),
            _ => Pin::new(&mut self.stream).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        self.heads.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_shutdown(context))?;
        self.poll_unread(context).map(Ok)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Answering<S> {
    fn poll_refuse(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(refused) = &mut self.refused else { return Poll::Ready(Ok(())) };
        while refused.left.has_remaining() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(context, &refused.left))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            refused.left.advance(written);
        }
        Poll::Ready(Ok(()))
    }

    /// Reads what a refused client goes on to send: a connection that is closed before takes the answer with it.
    fn poll_unread(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(refused) = &mut self.refused else { return Poll::Ready(()) };
        let mut space = [0; UNREAD_BUFFER];
        while refused.unread < MAX_UNREAD_BYTES && refused.patience.as_mut().poll(context).is_pending() {
            let mut buffer = ReadBuf::new(&mut space);
            let read = ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer));
            if read.is_err() || buffer.filled().is_empty() {
                break;
            }
            refused.unread += buffer.filled().len();
        }
        Poll::Ready(())
    }
}

impl Refused {
    fn new(error: &ApiError) -> Self {
        tracing::debug!(code = error.code(), %error, "a head was refused");
        let code = http::StatusCode::from_u16(error.code()).unwrap_or(http::StatusCode::BAD_REQUEST);
        let body = serde_json::to_string(&error.status()).unwrap_or_default();
        let head = format!(
            "HTTP/1.1 {} {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            code.as_u16(),
            code.canonical_reason().unwrap_or_default(),
            body.len()
        );
        Self { left: Bytes::from(head + &body), unread: 0, patience: Box::pin(sleep(UNREAD_TIMEOUT)) }
    }
}
