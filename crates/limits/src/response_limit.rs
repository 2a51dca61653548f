//! A tower layer that bounds responses, and passes watches through.

use std::task::{Context, Poll};

use bytes::Bytes;
use futures::{StreamExt as _, future::BoxFuture};
use http::{Request, Response};
use http_body_util::{BodyExt as _, BodyStream, StreamBody, combinators::UnsyncBoxBody};
use tower::{BoxError, Layer, Service};

use crate::intake::IntakeError;

/// Bounds responses of the control plane. kube's client has no limit of its own; the control plane
/// is trusted, so this bound is generous.
#[derive(Clone, Copy, Debug)]
pub struct ResponseLimitLayer {
    /// The most bytes without a line break. A response that is no watch has no line break at all.
    pub longest: usize,
}

impl Default for ResponseLimitLayer {
    /// 256 MiB: a page of Secrets has 500 of them, of up to 1 MiB and mostly of some kilobytes.
    fn default() -> Self {
        Self { longest: 256 << 20 }
    }
}

impl<S> Layer<S> for ResponseLimitLayer {
    type Service = ResponseLimit<S>;

    fn layer(&self, inner: S) -> Self::Service {
        ResponseLimit {
            inner,
            longest: self.longest,
        }
    }
}

/// The service of a [`ResponseLimitLayer`].
#[derive(Clone, Debug)]
pub struct ResponseLimit<S> {
    inner: S,
    longest: usize,
}

impl<S, I, O> Service<Request<I>> for ResponseLimit<S>
where
    S: Service<Request<I>, Response = Response<O>>,
    S::Future: Send + 'static,
    O: http_body::Body<Data = Bytes> + Send + 'static,
    O::Error: Into<BoxError>,
{
    type Response = Response<UnsyncBoxBody<Bytes, BoxError>>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Self::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<I>) -> Self::Future {
        let longest = self.longest;
        let response = self.inner.call(request);
        Box::pin(async move { Ok(response.await?.map(|body| bounded(body, longest))) })
    }
}

/// The body; it fails as soon as more than `longest` bytes came without a line break.
fn bounded<B>(body: B, longest: usize) -> UnsyncBoxBody<Bytes, BoxError>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let mut length = 0;
    let frames = BodyStream::new(body).map(move |frame| {
        let frame = frame.map_err(Into::into)?;
        if let Some(data) = frame.data_ref() {
            length =
                memchr::memrchr(b'\n', data).map_or(length + data.len(), |at| data.len() - at - 1);
        }
        if length > longest {
            Err(BoxError::from(IntakeError::TooLarge(longest)))
        } else {
            Ok(frame)
        }
    });
    StreamBody::new(frames).boxed_unsync()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::stream;

    use super::*;

    #[tokio::test]
    async fn a_response_is_bounded_and_a_watch_is_not() {
        let frames = |text: &'static str, times: usize| {
            let frame = move || {
                Ok::<_, Infallible>(http_body::Frame::data(Bytes::from_static(text.as_bytes())))
            };
            StreamBody::new(stream::iter(std::iter::repeat_with(frame).take(times)))
        };
        assert!(
            bounded(frames("0123456789", 10), 100)
                .collect()
                .await
                .is_ok()
        );
        assert!(
            bounded(frames("0123456789", 11), 100)
                .collect()
                .await
                .is_err()
        );
        assert!(
            bounded(frames("0123\n56789", 1_000), 100)
                .collect()
                .await
                .is_ok()
        );
    }
}
