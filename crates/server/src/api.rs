//! The state that all handlers of requests share.

use std::sync::Arc;

use fleetdex_telemetry::Metrics;
use tokio::sync::watch;

use super::{
    catalog::Catalog, continue_token::Keys, front::limits::Limits, gate::Gate, peers::Peers,
    proxying::Members,
};

/// What every request needs.
#[derive(Clone, Debug)]
pub struct Api {
    /// What is registered now.
    pub catalog: watch::Receiver<Arc<Catalog>>,
    /// Where answers are counted.
    pub metrics: Arc<Metrics>,
    /// Who may ask.
    pub gate: Gate,
    /// What is taken on at a time.
    pub limits: Limits,
    /// Where requests about single objects go on to.
    pub members: Arc<Members>,
    /// The other replicas.
    pub peers: Peers,
    /// What continue tokens are sealed with.
    pub keys: Keys,
}
