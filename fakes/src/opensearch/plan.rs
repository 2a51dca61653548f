//! The plan for a request: whether it is applied, and whether the client gets a response.

use std::time::Duration;

use bytes::Bytes;
use http::Response;

/// How the server treats a request.
#[derive(Debug)]
pub(super) enum Plan {
    /// The connection is refused.
    Refuse,
    /// The client never gets a response.
    Hang,
    /// The connection breaks and nothing is applied.
    Cut,
    /// This is the response, and nothing is applied.
    Respond(Response<Bytes>),
    /// The request is applied; its response may get lost.
    Handle { responds: bool },
    /// The client gets no response, and the request is applied this much later.
    HandleLate { by: Duration, breaks_at_once: bool },
}
