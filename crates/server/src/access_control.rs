//! The two ways to authenticate and authorize callers: the server's own token, or the control
//! plane.

use super::{auth::DelegatedAuth, token_file::TokenVerifier};

/// How callers are authenticated and authorized.
#[derive(Clone, Debug)]
pub enum AccessControl {
    /// The holder of the token file has all rights. For loopback servers.
    LoopbackToken(TokenVerifier),
    /// The control plane authenticates and authorizes.
    Delegated(DelegatedAuth),
}
