//! What becomes of a request: whether it is applied, and whether it is answered.

use std::time::Duration;

use bytes::Bytes;
use http::Response;

/// What becomes of a request.
#[derive(Debug)]
pub(super) enum Plan {
    /// Nobody listens.
    Refuse,
    /// Nobody answers.
    Hang,
    /// The connection breaks, and nothing is applied.
    Cut,
    /// This is the answer, and nothing is applied.
    Answer(Response<Bytes>),
    /// It is applied; the answer may get lost.
    Handle { is_answered: bool },
    /// The client is left without an answer, and it is applied this much later.
    HandleLate { by: Duration, breaks_at_once: bool },
}
