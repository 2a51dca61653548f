//! The credentials that a member is connected with, and whether they have changed since.

use super::super::{
    bearer::Bearer, connect::ConnectError, connection::ConnectionConfig, credentials::Credentials,
    member::Member, shared::SupervisorState, source::PluginCachePolicy,
};

/// The credentials of the last connect; none before the first one.
#[derive(Clone, Default)]
pub(super) struct CredentialsInUse(Option<ConnectionConfig>);

/// How the credentials of a member have changed since the last connect.
#[derive(Debug)]
pub(super) enum CredentialsChange {
    /// They have not changed, or cannot be read.
    None,
    /// Only the token has changed.
    Token(Box<Credentials>),
    /// More than the token has changed, or they may no longer be sent to the member: it has to be
    /// reconnected.
    Connection,
}

impl CredentialsInUse {
    /// Reads the credentials for a new connect, and puts them in use.
    pub(super) async fn load(
        &mut self,
        shared: &SupervisorState,
        member: &Member,
    ) -> Result<ConnectionConfig, ConnectError> {
        self.0 = None;
        let credentials = read(shared, member, PluginCachePolicy::Bypass).await?;
        let bearer = Bearer::new(credentials.token());
        let config = ConnectionConfig {
            credentials,
            bearer,
        };
        self.0 = Some(config.clone());
        Ok(config)
    }

    /// Reads the credentials again and compares them with those in use.
    ///
    /// A connection that works is kept if they are gone or unreadable, but not if they may no
    /// longer be sent to the member.
    pub(super) async fn change(
        &self,
        shared: &SupervisorState,
        member: &Member,
    ) -> CredentialsChange {
        let read = match read(shared, member, PluginCachePolicy::Use).await {
            Ok(read) => read,
            // The owner of the Secret has revoked the permission.
            Err(ConnectError::HostNotAllowed(_)) => return CredentialsChange::Connection,
            Err(error) => {
                tracing::debug!(cluster = %member.name, %error, "cannot read the credentials again");
                return CredentialsChange::None;
            }
        };
        match self.0.as_ref().map(|config| &config.credentials) {
            Some(in_use) if *in_use == read => CredentialsChange::None,
            Some(in_use) if read.differs_in_token_only(in_use) => {
                CredentialsChange::Token(Box::new(read))
            }
            Some(_) | None => CredentialsChange::Connection,
        }
    }

    /// Makes new requests carry another token; open watches continue. Returns whether there are
    /// credentials in use.
    pub(super) fn replace_token(&mut self, credentials: Credentials) -> bool {
        let Some(config) = &mut self.0 else {
            return false;
        };
        config.bearer.replace(credentials.token());
        config.credentials = credentials;
        true
    }

    /// What the current connection is built from.
    pub(super) fn config(&self) -> Option<ConnectionConfig> {
        self.0.clone()
    }

    /// URL of the API server; empty if it is not known.
    pub(super) fn server(&self) -> &str {
        self.0
            .as_ref()
            .map_or("", |config| config.credentials.server())
    }
}

async fn read(
    shared: &SupervisorState,
    member: &Member,
    plugin_cache: PluginCachePolicy,
) -> Result<Credentials, ConnectError> {
    shared
        .loader
        .load(&member.access, plugin_cache, shared.timing.request_timeout)
        .await
}
