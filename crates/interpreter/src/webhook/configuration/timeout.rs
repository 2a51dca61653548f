//! How long a webhook may take.

use std::time::Duration;

use serde_json::Value;

use crate::value;

/// The time that a webhook has if its configuration does not say. The proposal has this default.
/// Karmada's comment names it too, but its code then waits without end.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest time that a configuration may set.
pub const MAX_TIMEOUT: Duration = Duration::from_secs(30);

/// The timeout of a webhook. One that is too long is cut; one below a second is as good as absent.
pub(super) fn timeout(webhook: &Value) -> Duration {
    let seconds = value::integer(webhook, &["timeoutSeconds"])
        .and_then(|seconds| u64::try_from(seconds).ok())
        .filter(|seconds| *seconds > 0);
    seconds.map_or(DEFAULT_TIMEOUT, |seconds| {
        Duration::from_secs(seconds).min(MAX_TIMEOUT)
    })
}
