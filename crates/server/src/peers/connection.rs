//! Connections to the servers of other replicas: with the credentials for the control plane, which knows all replicas, and only to a server that shows
//! a certificate of the source that this one's own is from.

use std::{net::SocketAddr, pin::Pin, sync::Arc, time::Duration};

use fleetdex_core::model::{FleetVersion, StoreName, causes};
use futures::AsyncBufRead;
use http::Request;
use kube::{Client, Config};
use tokio::{sync::watch, time::timeout};

use crate::{
    front::keeper::Recognition,
    percent,
    request::{GROUPS, NativePath, VERSION},
};

/// How long it may take until an answer begins.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Why another replica is not followed.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// Its certificate cannot be verified.
    #[error("this replica has no certificate yet, so it cannot know the others'")]
    NotRecognisable,
    /// No answer begins.
    #[error("it does not answer within {} s", TIMEOUT.as_secs())]
    Timeout,
    /// No connection, or an answer that is an error.
    #[error("it cannot be asked: {}", causes(.0))]
    Refused(#[from] Box<kube::Error>),
    /// 410: its log begins later.
    #[error("it does not know its changes since then any more")]
    TooOld,
    /// The address is none.
    #[error("the request cannot be made")]
    Request(#[from] http::Error),
}

/// Makes a client of the replica at an address.
pub type Connect = Arc<dyn Fn(SocketAddr) -> Result<Client, ConnectionError> + Send + Sync>;

pub(super) type Lines = Pin<Box<dyn AsyncBufRead + Send>>;

/// The path at which another replica tells what it changes of a resource.
pub(super) fn path(native: &NativePath, store: &StoreName) -> String {
    let group = if native.group.is_empty() {
        "api".to_owned()
    } else {
        format!("apis/{}", native.group)
    };
    let store = percent::encode(&store.to_string());
    format!(
        "/apis/{}/{VERSION}/changes/{group}/{}/{}?store={store}",
        GROUPS[0], native.version, native.plural
    )
}

/// Connections over TLS with the credentials for the control plane.
pub(super) fn over_tls(
    config: Config,
    recognition: watch::Receiver<Option<Recognition>>,
) -> Connect {
    Arc::new(move |address| {
        let recognition = recognition
            .borrow()
            .clone()
            .ok_or(ConnectionError::NotRecognisable)?;
        let mut config = config.clone();
        config.cluster_url = format!("https://{address}")
            .parse::<http::Uri>()
            .map_err(http::Error::from)?;
        config.root_cert = Some(recognition.authorities);
        config.root_cert_file = None;
        config.tls_server_name = recognition.name;
        config.accept_invalid_certs = false;
        config.proxy_url = None;
        config.default_retry = false;
        config.connect_timeout = Some(TIMEOUT);
        // Heartbeats come more often, and those who read know how long they wait for them.
        config.read_timeout = None;
        Client::try_from(config).map_err(|error| Box::new(error).into())
    })
}

/// The changes from a version on, or from now on.
pub(super) async fn changes(
    client: &Client,
    path: &str,
    since: Option<FleetVersion>,
) -> Result<Lines, ConnectionError> {
    let since = since
        .map(|version| format!("&resourceVersion={version}"))
        .unwrap_or_default();
    ask(client, format!("{path}&watch=true{since}")).await
}

/// A line that says how far the replica is once what is under way is done.
pub(super) async fn position(client: &Client, path: &str) -> Result<Lines, ConnectionError> {
    ask(client, path.to_owned()).await
}

async fn ask(client: &Client, path: String) -> Result<Lines, ConnectionError> {
    let request = Request::get(path).body(Vec::new())?;
    match timeout(TIMEOUT, client.request_stream(request)).await {
        Ok(Ok(lines)) => Ok(Box::pin(lines)),
        Ok(Err(kube::Error::Api(status))) if status.code == 410 => Err(ConnectionError::TooOld),
        Ok(Err(error)) => Err(Box::new(error).into()),
        Err(_) => Err(ConnectionError::Timeout),
    }
}
