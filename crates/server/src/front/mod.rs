//! The authenticating front: TLS, who asks, and what they may.
//!
//! Built as the aggregation layer of Kubernetes wants its servers to be: the API server in front is believed because of its certificate and
//! nothing else, and its own decision about a request is made again here, as this server can be reached without it.

pub mod api_service;
mod args;
pub mod attributes;
pub mod authenticate;
pub mod authorize;
pub mod certificate;
pub mod expiring;
pub mod identity;
pub mod keeper;
pub mod limits;
pub mod reviews;
pub mod shared_authority;
pub mod shared_secret;
pub mod standing;
pub mod tls;
pub mod tokens;
pub mod trust;
pub mod trust_watch;

#[cfg(test)]
mod rights_tests;
#[cfg(test)]
mod sight_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tls_tests;

use std::sync::Arc;

use axum::extract::Request;
use fleetdex_clusters::Clusters;
use fleetdex_core::model::ClusterName;
use fleetdex_telemetry::Metrics;
use kube::Client;
use rustls::ServerConfig;
use tokio::{sync::watch, task::JoinSet};
use tokio_util::sync::CancellationToken;

pub use self::args::FrontArgs;
use self::{
    authenticate::{Authenticator, Peer},
    authorize::{Authorizer, Mode},
    keeper::{Keeper, KeeperError, Recognition},
    reviews::Reviews,
    shared_secret::SharedSecret,
    tokens::Tokens,
    trust::Trust,
};
use super::{
    caller::Caller,
    continue_token::{Keys, shared::KeyKeeper},
    status::ApiError,
    telemetry::Telemetry,
};

/// Who may ask, and what.
#[derive(Clone, Debug)]
pub struct Front {
    authenticator: Authenticator,
    authorizer: Authorizer,
}

/// A front that can be served.
#[derive(Debug)]
pub struct Entrance {
    /// Decides about each request.
    pub front: Front,
    /// How connections are made.
    pub tls: Arc<ServerConfig>,
    /// By what the replicas know one another's servers.
    pub recognition: watch::Receiver<Option<Recognition>>,
    /// What continue tokens are sealed with.
    pub keys: Keys,
}

impl Front {
    /// Believes whom `trust` says, and asks for the rest.
    pub fn new(
        trust: watch::Receiver<Arc<Trust>>,
        reviews: Reviews,
        mode: Mode,
        metrics: &Metrics,
    ) -> Self {
        let tokens = Tokens::new(reviews.clone(), metrics.refused_requests("token_reviews"));
        Self {
            authenticator: Authenticator::new(trust, tokens),
            authorizer: Authorizer::new(reviews, mode),
        }
    }

    /// Finds out who sends a request. What says so goes no further.
    pub async fn caller(&self, request: &mut Request) -> Result<Caller, ApiError> {
        let peer = request
            .extensions()
            .get::<Arc<Peer>>()
            .cloned()
            .unwrap_or_else(Peer::unknown);
        let caller = self.authenticator.caller(&peer, request.headers()).await;
        self.authenticator.strip(request.headers_mut());
        caller
    }

    /// Decides what callers may see.
    pub fn authorizer(&self) -> &Authorizer {
        &self.authorizer
    }
}

/// Makes the front and starts what keeps it up to date. Members are asked only when their rights decide. `replica_namespace`: where the
/// replicas share what no Service says a namespace for, if there may be several.
pub async fn start(
    args: &FrontArgs,
    replica_namespace: Option<&str>,
    control_plane: Client,
    clusters: Arc<Clusters>,
    telemetry: &Telemetry,
    tasks: &mut JoinSet<()>,
    cancel: &CancellationToken,
) -> Result<Entrance, KeeperError> {
    let Telemetry { metrics, readiness } = telemetry;
    let keeper = Keeper::start(args, control_plane.clone(), readiness.clone()).await?;
    let tls = tls::config(keeper.certificate()).map_err(KeeperError::Tls)?;
    let (sender, trust) = watch::channel(Arc::new(Trust::new(args.requestheader_allow_any_name)));
    let members = move |name: &ClusterName| {
        clusters
            .connection(name)
            .map(|connection| connection.client)
    };
    let reviews = Reviews::new(
        control_plane.clone(),
        Arc::new(members),
        args.api_audiences.clone(),
        metrics.refused_requests("access_reviews"),
    );
    let front = Front::new(trust, reviews, args.authorization, metrics);
    tasks.spawn(trust_watch::follow(
        control_plane.clone(),
        sender,
        readiness.clone(),
        cancel.clone(),
    ));
    let recognition = keeper.recognition();
    tasks.spawn(keeper.run(cancel.clone()));
    let keys = Keys::default();
    if let Some(namespace) = args
        .api_service
        .as_ref()
        .map(|service| service.namespace.as_str())
        .or(replica_namespace)
    {
        let secret = SharedSecret::new(control_plane, namespace, &args.continue_token_secret);
        let keeper = KeyKeeper::start(keys.clone(), secret, readiness.clone()).await;
        tasks.spawn(keeper.run(cancel.clone()));
    }
    Ok(Entrance {
        front,
        tls,
        recognition,
        keys,
    })
}
