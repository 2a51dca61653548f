//! Metrics and readiness of the server, which its parts report to.

use std::sync::Arc;

use fleetdex_telemetry::{Metrics, Readiness};

/// What the server tells about itself.
#[derive(Clone, Debug)]
pub struct Telemetry {
    /// Where answers are counted.
    pub metrics: Arc<Metrics>,
    /// What `/readyz` says.
    pub readiness: Readiness,
}
