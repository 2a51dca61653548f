//! Logs, metrics and admin endpoints of a process.
//!
//! No metric and no response holds the name of an object: label sets are bounded by clusters, kinds
//! and stores.

pub mod admin;
mod gauges;
mod handles;
mod labels;
mod lag;
pub mod log;
pub mod metrics;
mod readiness;
mod webhooks;

pub use metrics::Metrics;
pub use readiness::Readiness;
