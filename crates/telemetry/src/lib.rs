//! Logs, metrics, traces and admin endpoints of a process.
//!
//! No metric and no response holds the name of an object: label sets are bounded by clusters, kinds
//! and stores.

pub mod admin;
mod certificates;
mod distribution;
mod evaluations;
mod families;
mod gauges;
mod handles;
mod labels;
mod lag;
mod liveness;
pub mod log;
pub mod metrics;
mod process;
mod readiness;
pub mod traces;
mod webhooks;

pub use liveness::Liveness;
pub use metrics::Metrics;
pub use readiness::Readiness;
pub use traces::Traces;
