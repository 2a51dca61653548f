//! Why a call has no result, and what that says about the webhook.

use std::time::Duration;

use fleetdex_core::model::quoted;
use fleetdex_interpreter::webhook::AnswerError;
use fleetdex_telemetry::metrics::CallEnd;

use crate::{breaker::Contact, service::ServiceError};

/// A call without a result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("interpreter webhook {webhook}: {failure}")]
pub struct CallError {
    /// The id of the webhook: names of the configuration and of the webhook in it.
    pub webhook: String,
    /// The cause.
    pub failure: CallFailure,
}

/// Why a call has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallFailure {
    /// Too many calls were under way for the whole time that the call may take.
    #[error("not called: other calls took all {} s that it has", seconds(.0))]
    Busy(Duration),
    /// Too many calls wait for their turn.
    #[error("not called: too many other calls wait; try again")]
    QueueFull,
    /// Calls before it failed, and it is not called again yet. Why they failed is in the log and in
    /// the documents of their objects: who asks now may not be allowed to see those.
    #[error("not called: earlier calls failed, and it is not called again yet")]
    Outage,
    /// Its address or certificates cannot be used.
    #[error("not called: {0}")]
    Endpoint(String),
    /// The request cannot be written.
    #[error("not called: {0}")]
    Request(String),
    /// Its Service cannot be reached.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// There was no whole answer in time.
    #[error("no whole answer within {} s", seconds(.0))]
    Timeout(Duration),
    /// There was no connection, or it broke.
    #[error("{0}")]
    Connection(String),
    /// It answered with another status than 2xx. Redirects are not followed.
    #[error("HTTP status {code}{}{reason}", if reason.is_empty() { "" } else { ": " })]
    Status {
        /// The status.
        code: u16,
        /// How long it asks not to be called.
        retry_after: Option<Duration>,
        /// What it gives as the reason.
        reason: String,
    },
    /// The answer is compressed, although that was not accepted.
    #[error("the answer has the Content-Encoding \"{0}\", and only identity was accepted")]
    Encoded(String),
    /// The answer is no valid one, or says that the webhook failed.
    #[error(transparent)]
    Answer(#[from] AnswerError),
}

impl CallError {
    /// A failure of the webhook with this id.
    pub fn new(webhook: &str, failure: CallFailure) -> Self {
        Self {
            webhook: quoted(webhook),
            failure,
        }
    }

    /// What it says about the webhook.
    pub fn contact(&self) -> Contact {
        self.failure.contact()
    }
}

impl CallFailure {
    fn contact(&self) -> Contact {
        // The statuses of a server that is overloaded, and of a proxy before one that is away. Any
        // other may be due to this one object.
        if let Self::Status {
            code: 429 | 502 | 503 | 504,
            retry_after,
            ..
        } = self
        {
            return Contact::Unreachable {
                retry_after: *retry_after,
            };
        }
        match self.end() {
            CallEnd::NotMade => Contact::NotCalled,
            CallEnd::Timeout | CallEnd::Connection => Contact::Unreachable { retry_after: None },
            _ => Contact::Reached,
        }
    }

    pub(super) fn end(&self) -> CallEnd {
        match self {
            Self::Busy(_)
            | Self::QueueFull
            | Self::Outage
            | Self::Endpoint(_)
            | Self::Request(_) => CallEnd::NotMade,
            Self::Timeout(_) => CallEnd::Timeout,
            Self::Service(_) | Self::Connection(_) => CallEnd::Connection,
            Self::Status { .. } => CallEnd::Status,
            Self::Answer(AnswerError::Unsuccessful { .. } | AnswerError::Unexplained) => {
                CallEnd::Unsuccessful
            }
            Self::Encoded(_) | Self::Answer(_) => CallEnd::Invalid,
        }
    }
}

/// Seconds, rounded to tenths: what is measured differs from call to call, and the same cause has
/// the same text.
fn seconds(duration: &Duration) -> f64 {
    (duration.as_secs_f64() * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_rounded_to_tenths() {
        for (nanoseconds, shown) in [
            (10_000_000_000, "10"),
            (1_500_000_000, "1.5"),
            (4_999_998_123, "5"),
            (300_000_007, "0.3"),
        ] {
            let duration = Duration::from_nanos(nanoseconds);
            assert_eq!(
                CallFailure::Timeout(duration).to_string(),
                format!("no whole answer within {shown} s")
            );
            assert_eq!(
                CallFailure::Busy(duration).to_string(),
                format!("not called: other calls took all {shown} s that it has")
            );
        }
    }
}
