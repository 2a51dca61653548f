//! Connections to the servers of other replicas: with the credentials for the control plane, which
//! authenticates all replicas, and only to servers whose certificate has the same source as this
//! replica's own.

use std::{net::SocketAddr, pin::Pin, sync::Arc, time::Duration};

use fleetdex_core::model::{ClusterName, causes};
use fleetdex_query_api::question::{ChangesRequest, VerifyRequest};
use futures::AsyncBufRead;
use http::Request;
use kube::{Client, Config};
use tokio::{sync::watch, time::timeout};

use crate::auth::certificate_rotation::PeerTrust;

/// A replica that sends nothing for so long is gone: it sends a line every few seconds.
pub(super) const SILENCE_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout until a response begins.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Another replica cannot be reached.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// Its certificate cannot be verified.
    #[error("this replica has no certificate yet, so it cannot verify those of others")]
    NoPeerTrust,
    /// No response begins.
    #[error("it does not respond within {} s", TIMEOUT.as_secs())]
    Timeout,
    /// No connection, or an error as response.
    #[error("the request to it failed: {}", causes(.0))]
    Refused(#[from] Box<kube::Error>),
    /// 410: its log begins later.
    #[error("it no longer knows its changes since then")]
    TooOld,
    /// The address is invalid.
    #[error("cannot build the request")]
    Request(#[from] http::Error),
}

/// Creates a client for the replica at an address.
pub type ConnectFn = Arc<dyn Fn(SocketAddr) -> Result<Client, ConnectionError> + Send + Sync>;

pub(super) type Lines = Pin<Box<dyn AsyncBufRead + Send>>;

/// Connections over TLS with the credentials for the control plane.
pub(super) fn over_tls(
    config: Config,
    peer_trust: watch::Receiver<Option<PeerTrust>>,
) -> ConnectFn {
    Arc::new(move |address| {
        let peer_trust = peer_trust.borrow().clone();
        let peer_trust = peer_trust.ok_or(ConnectionError::NoPeerTrust)?;
        let mut config = config.clone();
        config.cluster_url = format!("https://{address}")
            .parse::<http::Uri>()
            .map_err(http::Error::from)?;
        config.root_cert = Some(peer_trust.authorities);
        config.root_cert_file = None;
        config.tls_server_name = peer_trust.name;
        config.accept_invalid_certs = false;
        config.proxy_url = None;
        config.default_retry = false;
        config.connect_timeout = Some(TIMEOUT);
        // The reader of the changes has a timeout of its own, which heartbeats renew.
        config.read_timeout = None;
        Client::try_from(config).map_err(|error| Box::new(error).into())
    })
}

/// The report of the verification of clusters.
pub(super) async fn verification(
    client: &Client,
    clusters: &[ClusterName],
) -> Result<Lines, ConnectionError> {
    let verification = VerifyRequest {
        clusters: clusters.to_vec(),
        is_of_replica: true,
    };
    request(
        client,
        Request::post(verification.to_uri()).body(Vec::new())?,
    )
    .await
}

/// The changes that a request asks for; without `watch` one line with the replica's version once
/// its changes in flight have ended.
pub(super) async fn ask(
    client: &Client,
    changes: ChangesRequest,
) -> Result<Lines, ConnectionError> {
    request(client, Request::get(changes.to_uri()).body(Vec::new())?).await
}

async fn request(client: &Client, request: Request<Vec<u8>>) -> Result<Lines, ConnectionError> {
    match timeout(TIMEOUT, client.request_stream(request)).await {
        Ok(Ok(lines)) => Ok(Box::pin(lines)),
        Ok(Err(kube::Error::Api(status))) if status.code == 410 => Err(ConnectionError::TooOld),
        Ok(Err(error)) => Err(Box::new(error).into()),
        Err(_) => Err(ConnectionError::Timeout),
    }
}
