//! The modes of authentication: the server's own token, or the control plane. The mode decides who
//! authorizes, too.

use super::{DelegatedAuth, token_file::TokenVerifier};

/// How callers are authenticated and authorized.
#[derive(Clone, Debug)]
pub enum AuthenticationMode {
    /// The holder of the token file has all rights. For loopback servers.
    LoopbackToken(TokenVerifier),
    /// The control plane authenticates and authorizes.
    Delegated(DelegatedAuth),
}
