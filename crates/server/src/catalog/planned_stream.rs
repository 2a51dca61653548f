//! The streams of the plan, which verification compares with their stores.

use std::sync::Arc;

use fleetdex_core::model::{StoreName, Unit};
use fleetdex_sync::audit::Audit;

/// One stream of the plan.
#[derive(Clone)]
pub struct PlannedStream {
    /// What it lists and watches.
    pub unit: Unit,
    /// Where its objects are stored.
    pub store: StoreName,
    /// Its audit, or why it does not run here.
    pub audit: Result<Arc<Audit>, NoAudit>,
}

/// Why a stream is not audited here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoAudit {
    /// This other replica reads the cluster.
    ReadBy(String),
    /// It does not run now.
    NotRunning(String),
}
