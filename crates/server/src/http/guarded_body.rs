//! Response bodies that hold a guard, such as a permit, until they end, or that are made in memory of
//! a request.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use axum::body::Body;
use bytes::Bytes;
use fleetdex_limits::request::UserRequest;
use http_body::{Frame, SizeHint};

/// A body and the guard that is dropped with it.
struct GuardedBody<G> {
    body: Body,
    _guard: G,
}

/// A body that is made for a request.
struct RequestedBody {
    body: Body,
    request: UserRequest,
}

/// Makes a body in memory of a request.
pub fn requested(body: Body, request: UserRequest) -> Body {
    Body::new(RequestedBody { body, request })
}

impl http_body::Body for RequestedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let RequestedBody { body, request } = &mut *self;
        request.within(|| Pin::new(body).poll_frame(context))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Drops `guard` when the body has been sent or is no longer read.
pub fn guarded<G: Send + Unpin + 'static>(body: Body, guard: G) -> Body {
    Body::new(GuardedBody {
        body,
        _guard: guard,
    })
}

impl<G: Unpin> http_body::Body for GuardedBody<G> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
