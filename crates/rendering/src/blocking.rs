//! Runs what takes the processor beside what serves sockets.

use tokio::{
    runtime::{Handle, RuntimeFlavor},
    task::{JoinError, spawn_blocking},
};

/// Runs work on a thread that may be blocked. On a runtime with one thread it runs in place: there
/// the order of events depends on nothing but the clock of the runtime, which a simulation needs.
pub async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::CurrentThread => Ok(work()),
        _ => spawn_blocking(work).await,
    }
}
