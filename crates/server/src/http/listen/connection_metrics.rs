//! Counts refused and ended connections, and cut responses.

use std::sync::Arc;

use fleetdex_telemetry::{
    Metrics,
    metrics::{AbortReason, CloseReason},
};
use tracing::debug;

/// The metrics of a port; some ports have none.
#[derive(Clone, Debug, Default)]
pub(super) struct ConnectionMetrics(pub(super) Option<Arc<Metrics>>);

impl ConnectionMetrics {
    pub(super) fn aborted(&self, reason: AbortReason) {
        debug!(?reason, "aborted a response");
        if let Some(metrics) = &self.0 {
            metrics.response_aborted(reason);
        }
    }

    pub(super) fn closed(&self, reason: CloseReason) {
        debug!(?reason, "closed a connection");
        if let Some(metrics) = &self.0 {
            metrics.connection_closed(reason);
        }
    }
}
