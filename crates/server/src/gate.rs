//! The two ways to let callers in: by the token of this server, or by the authenticating front.

use super::{auth::TokenVerifier, front::Front};

/// Who is let in.
#[derive(Clone, Debug)]
pub enum Gate {
    /// The holder of the token, who may everything.
    Token(TokenVerifier),
    /// Whom the control plane knows, to what they may.
    Front(Front),
}
