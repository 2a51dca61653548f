//! TLS, authentication and authorization, all delegated to the control plane. A loopback server has
//! the token of [`token_file`] instead. [`continue_token`] seals the tokens of pages.
//! [`page_session`] keeps users of the web page signed in.
//!
//! Follows the rules for servers behind Kubernetes' aggregation layer: the API server in front is
//! trusted because of its client certificate and nothing else, and every request is authorized
//! again here, because clients can reach this server without it.

pub mod access_review;
pub mod api_service;
mod args;
pub mod authenticate;
pub mod authentication_mode;
pub mod authorize;
pub mod caller;
pub mod certificate;
pub mod certificate_rotation;
pub mod client_trust;
pub mod client_trust_reflector;
pub mod continue_token;
pub mod expiring_cache;
pub mod identity;
pub mod page_session;
pub mod reauthorization;
pub mod reviews;
pub mod shared_authority;
pub mod shared_secret;
pub mod tls;
pub mod token_file;
pub mod tokens;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use fleetdex_clusters::Clusters;
use fleetdex_core::model::ClusterName;
use kube::Client;
use rustls::ServerConfig;
use tokio::{sync::watch, task::JoinSet};
use tokio_util::sync::CancellationToken;

pub use self::args::SecureServingArgs;
use self::{
    authentication_mode::DelegatedAuth,
    certificate_rotation::{CertificateRotation, CertificateRotationError, PeerTrust},
    client_trust::ClientTrust,
    continue_token::{SealingKeys, key_rotation::KeyRotation},
    reviews::Reviews,
    shared_secret::SharedSecret,
};

use crate::telemetry::Telemetry;

/// What a server over TLS needs.
#[derive(Debug)]
pub struct SecureServing {
    /// Authenticates and authorizes each request.
    pub auth: DelegatedAuth,
    /// The TLS configuration.
    pub tls: Arc<ServerConfig>,
    /// How replicas verify each other's servers.
    pub peer_trust: watch::Receiver<Option<PeerTrust>>,
    /// The keys of continue tokens.
    pub keys: SealingKeys,
}

/// Prepares secure serving, and starts the tasks that keep certificates, trust and keys up to date.
/// `clusters` gives the members, which are asked only if their rights decide. Replicas share their
/// Secrets in the Service's namespace, or else in `replica_namespace`.
pub async fn start(
    args: &SecureServingArgs,
    replica_namespace: Option<&str>,
    control_plane: Client,
    clusters: Arc<Clusters>,
    telemetry: &Telemetry,
    tasks: &mut JoinSet<()>,
    cancel: &CancellationToken,
) -> Result<SecureServing, CertificateRotationError> {
    let Telemetry {
        metrics, readiness, ..
    } = telemetry;
    let rotation =
        CertificateRotation::start(args, control_plane.clone(), telemetry.clone()).await?;
    let tls =
        tls::config(Arc::clone(&rotation.certificate)).map_err(CertificateRotationError::Tls)?;
    let (sender, trust) = watch::channel(Arc::new(ClientTrust::new(
        args.requestheader_allow_any_name,
    )));
    let members = move |name: &ClusterName| {
        clusters
            .connection(name)
            .map(|connection| connection.client)
    };
    let reviews = Reviews::new(
        control_plane.clone(),
        Arc::new(members),
        args.api_audiences.clone(),
        metrics.rejected_requests("access_reviews"),
    );
    let auth = DelegatedAuth::new(trust, reviews, args.authorization, metrics);
    tasks.spawn(client_trust_reflector::run(
        control_plane.clone(),
        sender,
        readiness.clone(),
        cancel.clone(),
    ));
    let peer_trust = rotation.peer_trust.subscribe();
    tasks.spawn(rotation.run(cancel.clone()));
    let keys = SealingKeys::default();
    if let Some(namespace) = args
        .api_service
        .as_ref()
        .map(|service| service.namespace.as_str())
        .or(replica_namespace)
    {
        let secret = SharedSecret::new(control_plane, namespace, &args.continue_token_secret);
        let key_rotation = KeyRotation::start(keys.clone(), secret, readiness.clone()).await;
        tasks.spawn(key_rotation.run(cancel.clone()));
    }
    Ok(SecureServing {
        auth,
        tls,
        peer_trust,
        keys,
    })
}
