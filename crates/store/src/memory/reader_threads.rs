//! The threads that read the embedded store: how many there are, and how many queries wait for one.

use fleetdex_core::query::Requester;
use fleetdex_limits::fair_semaphore::FairSemaphore;
use prometheus_client::metrics::counter::Counter as Count;

/// Threads that read at a time, for each core: one user, who has half of them, may use every core
/// while no other user queries. Other blocking work (writes, name resolution) finds more than 400
/// of tokio's 512 threads on a machine with 48 cores.
const READERS_PER_CORE: usize = 2;
/// Queries that wait for a thread, of which half at most are of one user: with the default flags
/// one user has 100 requests and 2,000 watches. An entry takes about 100 bytes.
const QUEUE: usize = 8_192;

/// A permit for each reader thread.
pub(super) fn reader_threads() -> FairSemaphore<Requester> {
    FairSemaphore::new(thread_count(), QUEUE, Count::default())
}

/// The number of reader threads.
pub(super) fn thread_count() -> usize {
    READERS_PER_CORE * std::thread::available_parallelism().map_or(1, usize::from)
}
