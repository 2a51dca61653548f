//! How much is measured, and for how long.

use std::time::Duration;

/// The member on a real API server.
pub(super) const CLUSTER: &str = "member1";
/// How long anything may take.
pub(super) const DEADLINE: Duration = Duration::from_mins(5);
/// How closely an end is watched; each look is a request to the operator.
pub(super) const LOOK: Duration = Duration::from_millis(50);

/// How much is measured, and for how long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) pods: usize,
    pub(super) syncs: usize,
    /// Objects of the second look at memory.
    pub(super) objects: usize,
    /// Between the start of writes and that of a measurement.
    pub(super) warm_up: Duration,
    /// One try of raw `_bulk`.
    pub(super) raw: Duration,
    pub(super) churn: Duration,
    pub(super) latency: Duration,
    pub(super) outage: Duration,
    /// How often a question is asked.
    pub(super) questions: usize,
    /// Those who watch at a time.
    pub(super) watchers: usize,
    /// Members of a fleet, of which a fifth is broken for a while.
    pub(super) members: usize,
    /// Until what was used for a moment is given back, and what should not happen would have happened.
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
        questions: 400,
        watchers: 1_000,
        members: 100,
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
        questions: 40,
        watchers: 50,
        members: 20,
        quiet: Duration::from_secs(3),
    };
}
