//! Runs what takes the processor beside what serves sockets.

pub use fleetdex_rendering::blocking::run_blocking;
