//! The metrics, the traces and the readiness that all parts of the server report to.

use std::sync::Arc;

use fleetdex_telemetry::{Metrics, Readiness, Traces};

/// What the server reports about itself.
#[derive(Clone, Debug)]
pub struct Telemetry {
    /// The metrics.
    pub metrics: Arc<Metrics>,
    /// The checks of `/readyz`.
    pub readiness: Readiness,
    /// Begins the traces of requests.
    pub traces: Traces,
}
