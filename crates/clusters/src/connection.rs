//! A live connection to a member.

use kube::Client;

use super::{
    bearer::Bearer,
    connect,
    credentials::{Credentials, ServerTrust},
};

/// A live connection to a member.
#[derive(Clone)]
pub struct Connection {
    /// A new number for each connection, unique over all members.
    pub id: u64,
    /// The client.
    pub client: Client,
    /// The cluster UID, that of the namespace `kube-system`: another UID is another cluster. `None`
    /// if it may not be read.
    pub uid: Option<String>,
    /// Whether the member is the cluster that this program runs in; see
    /// [`Clusters::detect_own_cluster`](super::Clusters::detect_own_cluster).
    pub is_own: bool,
    /// What the client was built from; `None` for a client built elsewhere.
    config: Option<ConnectionConfig>,
    client_certificate_not_after: Option<i64>,
}

/// What the client of a connection was built from.
#[derive(Clone)]
pub(super) struct ConnectionConfig {
    pub(super) credentials: Credentials,
    pub(super) bearer: Bearer,
}

impl Connection {
    /// A connection over a client that was built elsewhere.
    pub fn new(id: u64, client: Client, uid: Option<String>) -> Self {
        Self {
            id,
            client,
            uid,
            is_own: false,
            config: None,
            client_certificate_not_after: None,
        }
    }

    pub(super) fn with_config(self, config: ConnectionConfig, is_own: bool) -> Self {
        Self {
            client_certificate_not_after: config.credentials.client_certificate_not_after(),
            config: Some(config),
            is_own,
            ..self
        }
    }

    /// The address of the API server, if it is known.
    pub fn address(&self) -> Option<&str> {
        self.config
            .as_ref()
            .map(|config| config.credentials.server())
    }

    /// How the API server's certificate is verified, if it is known.
    pub(super) fn trust(&self) -> Option<&ServerTrust> {
        self.config
            .as_ref()
            .map(|config| config.credentials.trust())
    }

    /// When the client certificate ends, in seconds since 1970; `None` without one.
    pub fn client_certificate_not_after(&self) -> Option<i64> {
        self.client_certificate_not_after
    }

    /// The configuration of the member with its current token.
    pub fn rest_config(&self) -> Option<kube::Config> {
        let ConnectionConfig {
            credentials,
            bearer,
        } = self.config.as_ref()?;
        connect::rest_config(credentials, bearer).ok()
    }
}

impl PartialEq for Connection {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Connection")
            .field("id", &self.id)
            .field("uid", &self.uid)
            .finish_non_exhaustive()
    }
}
