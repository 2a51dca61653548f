//! What is followed, and can be verified.

use std::sync::Arc;

use fleetdex_core::model::{StoreName, Unit};
use fleetdex_sync::audit::Audit;

/// One stream of the plan.
#[derive(Clone)]
pub struct Followed {
    /// What is followed.
    pub unit: Unit,
    /// Where it is stored.
    pub store: StoreName,
    /// What compares it, or why it does not run now.
    pub audit: Result<Arc<Audit>, String>,
}
