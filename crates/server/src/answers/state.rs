//! What answers need.

use std::sync::Arc;

use fleetdex_telemetry::Metrics;
use tokio::sync::watch;

use crate::{
    auth::{authentication_mode::AuthenticationMode, continue_token::SealingKeys},
    catalog::Catalog,
    limits::RequestLimits,
    read::{fleet::Registries, interpreters::Interpreters, store_moves::StoreMoves},
    watch::peers::Peers,
};

/// Answers questions, each restricted to what its caller may see.
#[derive(Clone, Debug)]
pub struct Answers {
    /// The registered resources.
    pub catalog: watch::Receiver<Arc<Catalog>>,
    /// When the objects that requests select last moved between stores.
    pub moves: StoreMoves,
    /// Metrics of responses.
    pub metrics: Arc<Metrics>,
    /// Who may ask.
    pub authentication_mode: AuthenticationMode,
    /// What is taken on at a time.
    pub limits: RequestLimits,
    /// The other replicas.
    pub peers: Peers,
    /// The keys that seal continue tokens.
    pub keys: SealingKeys,
    /// Resource interpreters.
    pub interpreters: Interpreters,
    /// The statuses of the registries.
    pub registries: Registries,
}

impl Answers {
    /// Answers from this catalog alone: without other replicas, interpreters and registries.
    pub fn new(
        catalog: watch::Receiver<Arc<Catalog>>,
        authentication_mode: AuthenticationMode,
        limits: RequestLimits,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            catalog,
            moves: StoreMoves::default(),
            metrics,
            authentication_mode,
            limits,
            peers: Peers::default(),
            keys: SealingKeys::default(),
            interpreters: Interpreters::default(),
            registries: Registries::default(),
        }
    }
}
