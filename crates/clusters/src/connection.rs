//! A live connection to a member.

use kube::Client;

use super::{
    bearer::Bearer,
    connect,
    credentials::{Credentials, Trust},
};

/// A live connection to a member.
#[derive(Clone)]
pub struct Connection {
    /// New on each reconnect, and never the same for two members.
    pub id: u64,
    /// The client.
    pub client: Client,
    /// UID of the member's namespace `kube-system`: another UID is another cluster. `None` if it may not be read.
    pub uid: Option<String>,
    /// Whether the member is the cluster that this program runs in; see [`Clusters::recognise`](super::Clusters::recognise).
    pub is_own: bool,
    /// How it was made. `None` for a client that somebody else made.
    way: Option<Way>,
}

/// What a connection was made from.
#[derive(Clone)]
pub(super) struct Way {
    pub(super) credentials: Credentials,
    pub(super) bearer: Bearer,
}

impl Connection {
    /// A connection over a client that somebody else made.
    pub fn new(id: u64, client: Client, uid: Option<String>) -> Self {
        Self {
            id,
            client,
            uid,
            is_own: false,
            way: None,
        }
    }

    pub(super) fn made(self, way: Way, is_own: bool) -> Self {
        Self {
            way: Some(way),
            is_own,
            ..self
        }
    }

    /// The address of the API server, if that is known.
    pub(super) fn address(&self) -> Option<&str> {
        self.way.as_ref().map(|way| way.credentials.server())
    }

    /// What the API server's certificate is checked against, if that is known.
    pub(super) fn trust(&self) -> Option<&Trust> {
        self.way.as_ref().map(|way| way.credentials.trust())
    }

    /// How the member is reached, with the token of this moment.
    pub fn rest_config(&self) -> Option<kube::Config> {
        let Way {
            credentials,
            bearer,
        } = self.way.as_ref()?;
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
