//! Options of a server.

use std::time::Duration;

use fleetdex_core::model::Resource;

use super::resource::usual;

/// What a server is like.
#[derive(Clone, Debug)]
pub struct Options {
    /// Everything random follows from it: UIDs, and where faults strike.
    pub seed: u64,
    /// What is served.
    pub resources: Vec<Resource>,
    /// Pages have at most so many objects, whatever is asked for: to see several of them with few objects.
    pub largest_page: Option<usize>,
    /// How many events of a resource the watch cache holds. A watch that starts before them is answered 410.
    pub cached_events: usize,
    /// A request waits for a random time up to this before it is answered, so that things happen in between.
    pub latency: Duration,
    /// The revision of an etcd that is new.
    pub first_revision: u64,
    /// The time at which the server is made: the first creation timestamps.
    pub epoch: jiff::Timestamp,
}

impl Options {
    /// The usual resources and limits, and no latency. Creation begins on 2026-01-01.
    pub fn new(seed: u64) -> Self {
        let epoch =
            jiff::Timestamp::from_second(1_767_225_600).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
        Self {
            seed,
            resources: usual(),
            largest_page: None,
            cached_events: 10_000,
            latency: Duration::ZERO,
            first_revision: 1,
            epoch,
        }
    }
}
