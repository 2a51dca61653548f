//! The state that all request handlers share.

use std::sync::Arc;

use fleetdex_telemetry::{Metrics, Traces};
use tokio::sync::watch;

use super::limits::RequestLimits;
use crate::{
    auth::{
        authentication_mode::AuthenticationMode, continue_token::SealingKeys,
        page_session::PageLinks,
    },
    catalog::Catalog,
    proxying::MemberProxy,
    read::{fleet::Registries, interpreters::Interpreters, store_moves::StoreMoves},
    watch::peers::Peers,
};

/// The state that all request handlers share.
#[derive(Clone, Debug)]
pub struct ApiState {
    /// The registered resources.
    pub catalog: watch::Receiver<Arc<Catalog>>,
    /// When the objects that requests select last moved between stores.
    pub moves: StoreMoves,
    /// Metrics of responses.
    pub metrics: Arc<Metrics>,
    /// Begins the traces of requests.
    pub traces: Traces,
    /// Who may ask.
    pub authentication_mode: AuthenticationMode,
    /// What is taken on at a time.
    pub limits: RequestLimits,
    /// Where requests about single objects go on to.
    pub members: Arc<MemberProxy>,
    /// The other replicas.
    pub peers: Peers,
    /// The keys that seal continue tokens.
    pub keys: SealingKeys,
    /// Resource interpreters.
    pub interpreters: Interpreters,
    /// The statuses of the registries.
    pub registries: Registries,
    /// One-time links to the web page.
    pub links: Arc<PageLinks>,
}
