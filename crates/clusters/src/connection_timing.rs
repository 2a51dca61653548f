//! How often members are probed, and how long a broken one is left alone.

use std::time::Duration;

/// Intervals, timeouts and the reconnect backoff of a member. The defaults are those of Cluster
/// API's `clustercache`, which its users know.
#[derive(Clone, Debug, PartialEq)]
pub struct ConnectionTiming {
    /// Time between probes.
    pub probe_interval: Duration,
    /// Timeout of a probe, and of every other small request.
    pub request_timeout: Duration,
    /// Timeout of discovery.
    pub discovery_timeout: Duration,
    /// Failed probes in a row after which the member is disconnected.
    pub probe_failures: u32,
    /// Time from a failed connect to the next attempt.
    pub connect_retry: Duration,
    /// Up to this fraction of `connect_retry` is added or subtracted, so that members do not all
    /// reconnect at once.
    pub connect_jitter: f64,
    /// Up to this fraction of `probe_interval` is subtracted before the first probe of a
    /// connection, so that members that connected together are not always probed together.
    pub probe_jitter: f64,
}

impl Default for ConnectionTiming {
    fn default() -> Self {
        Self {
            probe_interval: Duration::from_secs(10),
            request_timeout: Duration::from_secs(5),
            discovery_timeout: Duration::from_secs(10),
            probe_failures: 5,
            connect_retry: Duration::from_secs(30),
            connect_jitter: 0.2,
            probe_jitter: 0.2,
        }
    }
}

impl ConnectionTiming {
    /// The backoff of a broken member: the wait before the next connect; `random` is between 0
    /// and 1.
    pub fn reconnect_backoff(&self, random: f64) -> Duration {
        self.connect_retry
            .mul_f64(1.0 + self.connect_jitter * (2.0 * random - 1.0))
    }

    /// The wait before the first probe of a connection; `random` is between 0 and 1.
    pub fn first_probe_wait(&self, random: f64) -> Duration {
        self.probe_interval
            .mul_f64(1.0 - self.probe_jitter * random)
    }
}
