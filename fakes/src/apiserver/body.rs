//! Response bodies: complete, streamed and truncated ones.

use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use http::{Response, StatusCode, header};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use tower::BoxError;

/// The body of a response.
pub type Body = UnsyncBoxBody<Bytes, BoxError>;

/// A connection failure.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// The server does not listen.
    #[error("connection refused")]
    Refused,
    /// The connection broke during the response.
    #[error("connection reset by peer")]
    Reset,
}

/// Marks a response that is worth compressing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Compressible;

/// How a truncated body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// With a connection error.
    Reset,
    /// As if it were complete, as when a proxy closes it.
    Clean,
}

pub(super) fn whole(bytes: Bytes) -> Body {
    Full::new(bytes)
        .map_err(|never| match never {})
        .boxed_unsync()
}

pub(super) fn json(code: u16, bytes: Bytes) -> Response<Body> {
    let mut response = json_of(whole(bytes));
    *response.status_mut() =
        StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response
}

pub(super) fn json_of(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static("application/json"),
    );
    response
}

pub(super) fn streamed(
    chunks: impl Stream<Item = Result<Bytes, BoxError>> + Send + 'static,
) -> Body {
    StreamBody::new(chunks.map(|chunk| chunk.map(Frame::data))).boxed_unsync()
}

/// Returns a body of the first `length` bytes with this ending.
pub(super) fn cut(bytes: &Bytes, length: usize, ending: Ending) -> Body {
    let mut chunks: Vec<Result<Bytes, BoxError>> = vec![Ok(bytes.slice(..length.min(bytes.len())))];
    if ending == Ending::Reset {
        chunks.push(Err(Broken::Reset.into()));
    }
    streamed(stream::iter(chunks))
}
