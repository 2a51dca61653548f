//! Response bodies that are made within something: while a guard such as a permit is held, in
//! memory of a request, in a span.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use axum::body::Body;
use bytes::Bytes;
use fleetdex_limits::request::UserRequest;
use http_body::{Frame, SizeHint};

/// What each piece of a body is made within; dropped with the body.
pub(crate) trait Surroundings: Send + Unpin + 'static {
    /// Makes a piece.
    fn within<T>(&self, make: impl FnOnce() -> T) -> T;
}

struct SurroundedBody<S> {
    body: Body,
    surroundings: S,
}

/// A guard that is only held.
struct Guard<G>(G);

impl<G: Send + Unpin + 'static> Surroundings for Guard<G> {
    fn within<T>(&self, make: impl FnOnce() -> T) -> T {
        make()
    }
}

impl Surroundings for UserRequest {
    fn within<T>(&self, make: impl FnOnce() -> T) -> T {
        Self::within(self, make)
    }
}

/// Drops `guard` when the body has been sent or is no longer read.
pub fn guarded<G: Send + Unpin + 'static>(body: Body, guard: G) -> Body {
    surrounded(body, Guard(guard))
}

/// Makes a body within its surroundings.
pub(crate) fn surrounded(body: Body, surroundings: impl Surroundings) -> Body {
    Body::new(SurroundedBody { body, surroundings })
}

impl<S: Surroundings> http_body::Body for SurroundedBody<S> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Self { body, surroundings } = &mut *self;
        surroundings.within(|| Pin::new(body).poll_frame(context))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
