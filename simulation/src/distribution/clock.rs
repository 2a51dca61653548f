//! The time of day in a simulation: it passes as simulated time does, and is the same in each run.

use std::cell::Cell;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// When every run begins, in seconds since 1970.
const BEGINNING: i64 = 1_800_000_000;

thread_local! {
    static STARTED: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// A run begins in this thread.
pub fn start() {
    STARTED.set(Some(Instant::now()));
}

/// The time of day in the run of this thread.
pub fn now() -> Timestamp {
    let elapsed = STARTED.get().map(|started| started.elapsed());
    let elapsed = elapsed.and_then(|elapsed| SignedDuration::try_from(elapsed).ok());
    let beginning = Timestamp::from_second(BEGINNING).unwrap_or_default();
    beginning + elapsed.unwrap_or_default()
}
