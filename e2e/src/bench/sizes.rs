//! Amounts and durations of measurements.

use std::time::Duration;

/// The name of the member on a real API server.
pub(super) const CLUSTER: &str = "member1";
/// Deadline of every wait.
pub(super) const DEADLINE: Duration = Duration::from_mins(5);
/// Interval at which the operator's metrics are polled.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Amounts and durations of measurements.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) pods: usize,
    pub(super) syncs: usize,
    /// Objects of the second memory measurement.
    pub(super) objects: usize,
    /// Time between the start of writes and of a measurement.
    pub(super) warm_up: Duration,
    /// Duration of one attempt of raw `_bulk`.
    pub(super) raw: Duration,
    pub(super) churn: Duration,
    pub(super) latency: Duration,
    pub(super) outage: Duration,
    /// Repetitions of a query.
    pub(super) queries: usize,
    /// Calls of a webhook.
    pub(super) calls: usize,
    /// Concurrent watchers.
    pub(super) watchers: usize,
    /// Members of the fleet, a fifth of which is broken for some time.
    pub(super) members: usize,
    /// Templates that are distributed.
    pub(super) templates: usize,
    /// The members that they are distributed to.
    pub(super) targets: usize,
    /// Changes of single templates.
    pub(super) changes: usize,
    /// Renderings of a chart, and of a folder.
    pub(super) renderings: usize,
    /// Time for temporary memory to be released, and for unexpected events to happen.
    pub(super) quiet: Duration,
}

impl Sizes {
    pub(super) const WHOLE: Self = Self {
        pods: 20_000,
        syncs: 3,
        objects: 200_000,
        warm_up: Duration::from_secs(5),
        raw: Duration::from_secs(10),
        churn: Duration::from_secs(30),
        latency: Duration::from_secs(30),
        outage: Duration::from_mins(1),
        queries: 400,
        calls: 20_000,
        watchers: 1_000,
        members: 100,
        templates: 2_000,
        targets: 10,
        changes: 100,
        renderings: 100,
        quiet: Duration::from_secs(15),
    };
    pub(super) const QUICK: Self = Self {
        pods: 1_000,
        syncs: 1,
        objects: 5_000,
        warm_up: Duration::from_secs(1),
        raw: Duration::from_secs(2),
        churn: Duration::from_secs(5),
        latency: Duration::from_secs(5),
        outage: Duration::from_secs(10),
        queries: 40,
        calls: 1_000,
        watchers: 50,
        members: 20,
        templates: 50,
        targets: 2,
        changes: 10,
        renderings: 6,
        quiet: Duration::from_secs(3),
    };
}
