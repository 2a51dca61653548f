//! What the operator tells about itself: logs, metrics and the admin endpoints.
//!
//! Nothing here ever carries the name of an object: label sets are bounded by clusters, kinds and stores.

pub mod admin;
mod handles;
mod labels;
pub mod log;
pub mod metrics;
mod readiness;

pub use metrics::Metrics;
pub use readiness::Readiness;
