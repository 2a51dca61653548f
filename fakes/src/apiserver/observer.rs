//! Tells tests what clients have written.

use std::{fmt, sync::Arc};

use serde_json::Value;

/// A write of a client that was done. It may not have changed anything.
#[derive(Clone, Debug)]
pub struct ClientWrite {
    /// The `User-Agent` of the client.
    pub agent: String,
    /// `POST`, `PUT`, `PATCH` or `DELETE`.
    pub method: String,
    /// The plural and group, such as `deployments.apps`.
    pub resource: String,
    /// The subresource, such as `status`; empty: none.
    pub subresource: String,
    /// The namespace; empty: none.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The object before; `None`: there was none.
    pub before: Option<Value>,
    /// The object after; `None`: there is none any more.
    pub after: Option<Value>,
}

/// Called for each write of a client, while the server is locked: it must not use the server.
#[derive(Clone)]
pub(super) struct Observer(pub(super) Arc<dyn Fn(&ClientWrite) + Send + Sync>);

impl fmt::Debug for Observer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Observer")
    }
}
