//! The modes of authentication: the server's own token, or the control plane. The mode decides who
//! authorizes, too.

use std::sync::Arc;

use axum::extract::Request;
use fleetdex_telemetry::Metrics;
use http::header;
use tokio::sync::watch;

use super::{
    authenticate::{Authenticator, RemoteClient},
    authorize::{AuthorizationMode, Authorizer},
    caller::Caller,
    client_trust::ClientTrust,
    identity::IdentityHeaders,
    reviews::Reviews,
    token_file::TokenVerifier,
    tokens::TokenAuthenticator,
};
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

/// Authenticates and authorizes requests by asking the control plane.
#[derive(Clone, Debug)]
pub struct DelegatedAuth {
    authenticator: Authenticator,
    /// Decides what callers are allowed to see.
    pub(crate) authorizer: Authorizer,
}

impl DelegatedAuth {
    /// Verifies certificates against `trust`, and asks `reviews` about tokens and rights.
    pub fn new(
        trust: watch::Receiver<Arc<ClientTrust>>,
        reviews: Reviews,
        mode: AuthorizationMode,
        metrics: &Metrics,
    ) -> Self {
        let tokens =
            TokenAuthenticator::new(reviews.clone(), metrics.rejected_requests("token_reviews"));
        Self {
            authenticator: Authenticator::new(trust, tokens),
            authorizer: Authorizer::new(reviews, mode),
        }
    }

    /// Authenticates the caller of a request, and removes the credentials from the request.
    pub async fn authenticate(&self, request: &mut Request) -> Result<Caller, ApiError> {
        let client = RemoteClient::of(request);
        let authenticated = self.authenticator.authenticate(&client, request.headers());
        let caller = authenticated.await;
        self.authenticator.strip(request.headers_mut());
        caller
    }
}

fn token_holder(verifier: &TokenVerifier, request: &mut Request) -> Result<Caller, ApiError> {
    let authorization = request.headers().get(header::AUTHORIZATION);
    let authorization = authorization.and_then(|value| value.to_str().ok());
    let is_holder = verifier.accepts(authorization);
    IdentityHeaders::default().remove_from(request.headers_mut());
    if is_holder {
        Ok(Caller::local())
    } else {
        Err(ApiError::Unauthorized)
    }
}
