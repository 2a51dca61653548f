//! Server options.

use std::time::Duration;

use fleetdex_core::model::Resource;

use super::{
    name::Name,
    resource::{usual, with_status},
};

/// The options of a server.
#[derive(Clone, Debug)]
pub struct Options {
    /// The seed of all random choices: UIDs and the effects of faults.
    pub seed: u64,
    /// The served resources.
    pub resources: Vec<Resource>,
    /// The resources with a subresource `status`, which is written apart.
    pub with_status: Vec<Name>,
    /// Whether `metadata.generation` counts the changes of `spec`, as in API servers.
    pub counts_generations: bool,
    /// Maximum page size, whatever `limit` a request has: few objects then need several pages.
    pub largest_page: Option<usize>,
    /// Number of events per resource in the watch cache. A watch that starts before them gets 410.
    pub cached_events: usize,
    /// Maximum of the random latency of a request, during which other operations may happen.
    pub latency: Duration,
    /// The first revision of a new etcd.
    pub first_revision: u64,
    /// The creation time of the server: the first creation timestamp.
    pub epoch: jiff::Timestamp,
}

impl Options {
    /// Default resources and limits, no latency. Creation timestamps begin at 2026-01-01.
    pub fn new(seed: u64) -> Self {
        let epoch =
            jiff::Timestamp::from_second(1_767_225_600).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
        Self {
            seed,
            resources: usual(),
            with_status: with_status(),
            counts_generations: false,
            largest_page: None,
            cached_events: 10_000,
            latency: Duration::ZERO,
            first_revision: 1,
            epoch,
        }
    }
}
