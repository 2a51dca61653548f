//! What answers need, and the question of a caller.

use std::sync::Arc;

use fleetdex_core::model::ClusterName;
use fleetdex_query_api::{answer::Answer, question::ListRequest};
use fleetdex_telemetry::Metrics;
use tokio::sync::watch;

use super::{
    reply::{Reply, UnencodedAnswer},
    response::unknown_parameters,
};
use crate::{
    api_error::ApiError,
    auth::{authentication_mode::AuthenticationMode, caller::Caller, continue_token::SealingKeys},
    catalog::Catalog,
    limits::{RequestLimits, UserPermit},
    read::{
        across_kinds::AcrossKinds, bindings::BindingReader, fleet::Registries,
        interpreters::Interpreters, query_plan::bounded, store_moves::StoreMoves,
    },
    render::representation::Representation,
    watch::peers::Peers,
};

/// Bytes that one byte of a selection across kinds takes at most: in the queries that are in
/// flight, parsed and translated.
const SELECTION_COPIES: usize = 16;

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
    /// Reads what is distributed; `None`: this server distributes nothing.
    pub bindings: Option<BindingReader>,
}

impl Answers {
    /// Answers from this catalog alone: without other replicas, interpreters, registries and
    /// bindings.
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
            bindings: None,
        }
    }
}

/// Who asks, and how the caller wants to see the answer.
#[derive(Clone, Copy)]
pub(crate) struct AnswerContext<'s> {
    pub(crate) answers: &'s Answers,
    pub(crate) caller: &'s Caller,
    pub(crate) catalog: &'s Arc<Catalog>,
    pub(crate) representation: Representation,
}

impl<'s> AnswerContext<'s> {
    /// An answer that is not encoded yet, with its warnings and the memory of its query.
    pub(super) fn reply(
        &self,
        answer: Answer,
        warnings: Vec<String>,
        reservation: Vec<UserPermit>,
    ) -> Reply {
        Reply::Answer(Box::new(UnencodedAnswer {
            answer,
            warnings,
            representation: self.representation,
            reservation,
        }))
    }

    /// The memory of a selection that is sent to the store of every kind, a few at a time.
    pub(super) fn reserve_selection(
        &self,
        list: &ListRequest,
    ) -> Result<Vec<UserPermit>, ApiError> {
        let selectors = list.labels.to_string().len() + list.fields.to_string().len();
        let names: usize = list.names.iter().map(String::len).sum();
        let namespaces: usize = list.namespaces.iter().map(|name| name.as_str().len()).sum();
        let search = list.search.as_ref().map_or(0, String::len);
        let bytes = selectors + names + namespaces + search;
        let limits = &self.answers.limits;
        limits.reserve_query(self.caller, bytes * SELECTION_COPIES)
    }

    /// What a request across kinds may search.
    pub(super) async fn across_kinds(
        &self,
        named: &[ClusterName],
    ) -> Result<AcrossKinds<'s>, ApiError> {
        let mode = &self.answers.authentication_mode;
        let permits = &self.answers.limits.search_pages;
        AcrossKinds::new(mode, permits, self.caller, self.catalog, named).await
    }
}

/// The warnings of an answer about several kinds: about ignored parameters, and what is missing.
pub(super) fn all_warnings(ignored: &[String], warnings: Vec<String>) -> Vec<String> {
    let mut all = unknown_parameters(ignored);
    all.extend(bounded(warnings));
    all
}
