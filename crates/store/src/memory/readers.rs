//! The threads that read the embedded store: how many there are, and how many questions wait for one.

use fleetdex_core::query::Requester;
use fleetdex_limits::shares::Shares;
use prometheus_client::metrics::counter::Counter as Count;

/// Threads that read at a time, for each core: one user, who has half of them, may use every core while no other asks. What else runs on threads
/// (writes, names of hosts) finds more than 400 of tokio's 512 on a machine with 48 cores.
const READERS_PER_CORE: usize = 2;
/// Questions that wait for a thread, of which those of one user are half at most: with the default flags one user has 100 requests and 2,000 watches. An
/// entry takes about 100 bytes.
const QUEUE: usize = 8_192;

/// The threads, none of which is taken.
pub(super) fn places() -> Shares<Requester> {
    Shares::new(places_in_all(), QUEUE, Count::default())
}

/// How many there are.
pub(super) fn places_in_all() -> usize {
    READERS_PER_CORE * std::thread::available_parallelism().map_or(1, usize::from)
}
