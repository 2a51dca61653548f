//! Counts of what a port refuses and ends.

use std::sync::Arc;

use fleetdex_telemetry::{
    Metrics,
    metrics::{AnswerCut, ConnectionEnd},
};
use tracing::debug;

/// Where it is counted what was refused and ended, if anywhere.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts(pub(super) Option<Arc<Metrics>>);

impl Counts {
    pub(super) fn cut(&self, why: AnswerCut) {
        debug!(?why, "an answer was cut off");
        if let Some(metrics) = &self.0 {
            metrics.answer_cut(why);
        }
    }

    pub(super) fn ended(&self, why: ConnectionEnd) {
        debug!(?why, "a connection was ended");
        if let Some(metrics) = &self.0 {
            metrics.connection_ended(why);
        }
    }
}
