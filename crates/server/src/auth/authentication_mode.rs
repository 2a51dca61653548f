//! The modes of authentication: the server's own token, or the control plane. The mode decides who
//! authorizes, too.

use axum::extract::Request;
use http::header;

use super::{DelegatedAuth, caller::Caller, identity::IdentityHeaders, token_file::TokenVerifier};
use crate::api_error::ApiError;

/// How callers are authenticated and authorized.
#[derive(Clone, Debug)]
pub enum AuthenticationMode {
    /// The holder of the token file has all rights. For loopback servers.
    LoopbackToken(TokenVerifier),
    /// The control plane authenticates and authorizes.
    Delegated(DelegatedAuth),
}

impl AuthenticationMode {
    /// The caller of a request. Credentials are removed from it.
    pub(crate) async fn authenticate(&self, request: &mut Request) -> Result<Caller, ApiError> {
        match self {
            Self::LoopbackToken(verifier) => token_holder(verifier, request),
            Self::Delegated(auth) => auth.authenticate(request).await,
        }
    }
}

fn token_holder(verifier: &TokenVerifier, request: &mut Request) -> Result<Caller, ApiError> {
    let authorization = request
        .headers()
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    let is_holder = verifier.accepts(authorization);
    IdentityHeaders::default().remove_from(request.headers_mut());
    if is_holder {
        Ok(Caller::local())
    } else {
        Err(ApiError::Unauthorized)
    }
}
