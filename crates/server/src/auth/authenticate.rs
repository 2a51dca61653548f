//! Authenticates callers by a front proxy's headers, a client certificate or a token, in the order
//! of Kubernetes' aggregated API servers.
//!
//! The first authenticator that succeeds decides. There are no anonymous callers.

use std::{
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

use axum::extract::Request;
use http::{HeaderMap, header::AUTHORIZATION};
use parking_lot::Mutex;
use rustls::pki_types::{CertificateDer, UnixTime};
use tokio::{
    sync::watch,
    time::{Duration, Instant},
};

use super::{
    caller::Caller,
    client_trust::{CertificateRejection, ClientTrust},
    identity,
    reviews::ReviewError,
    tokens::TokenAuthenticator,
};
use crate::api_error::ApiError;

/// How long the check of a connection's certificate is valid: the certificate may expire meanwhile.
const CHECK_LIFETIME: Duration = Duration::from_secs(10);
/// The group of every authenticated caller.
const AUTHENTICATED: &str = "system:authenticated";
/// The group of anonymous callers.
const UNAUTHENTICATED: &str = "system:unauthenticated";

/// The client at the other end of a connection.
#[derive(Debug)]
pub struct RemoteClient {
    address: IpAddr,
    /// Its certificate chain, its own certificate first. TLS has verified the key and nothing else.
    certificates: Vec<CertificateDer<'static>>,
    check: Mutex<Option<CertificateCheck>>,
}

/// The result of checking the certificates of a connection against one revision of the trust.
#[derive(Clone, Debug)]
struct CertificateCheck {
    revision: u64,
    at: Instant,
    /// `None` without a certificate, or without front proxies to trust.
    front_proxy: Option<Result<(), CertificateRejection>>,
    /// `None` without a certificate, or without client authorities to trust.
    client: Option<Result<Option<Caller>, CertificateRejection>>,
}

impl RemoteClient {
    /// A client at this address that has presented these certificates.
    pub fn at(address: IpAddr, certificates: Vec<CertificateDer<'static>>) -> Arc<Self> {
        Arc::new(Self {
            address,
            certificates,
            check: Mutex::default(),
        })
    }

    /// Its address.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// The same client as if it had presented no certificates.
    #[must_use]
    pub fn without_certificates(&self) -> Arc<Self> {
        Self::at(self.address, Vec::new())
    }

    /// A client without an address or certificates.
    pub fn unknown() -> Arc<Self> {
        Self::at(Ipv4Addr::UNSPECIFIED.into(), Vec::new())
    }

    /// The client that sends a request.
    pub fn of(request: &Request) -> Arc<Self> {
        let client = request.extensions().get::<Arc<Self>>().cloned();
        client.unwrap_or_else(Self::unknown)
    }

    fn check(&self, trust: &ClientTrust) -> CertificateCheck {
        let mut cached = self.check.lock();
        let is_current = |check: &&CertificateCheck| {
            check.revision == trust.revision && check.at.elapsed() < CHECK_LIFETIME
        };
        if let Some(check) = cached.as_ref().filter(is_current) {
            return check.clone();
        }
        cached.insert(self.check_certificates(trust)).clone()
    }

    fn check_certificates(&self, trust: &ClientTrust) -> CertificateCheck {
        let (chain, now) = (self.certificates.as_slice(), UnixTime::now());
        let mut check = CertificateCheck {
            revision: trust.revision,
            at: Instant::now(),
            front_proxy: None,
            client: None,
        };
        let Some(leaf) = chain.first() else {
            return check;
        };
        check.front_proxy = trust.verify_front_proxy(chain, now);
        let user = |()| identity::of_certificate(leaf);
        let clients = trust.client.as_ref();
        check.client = clients.map(|bundle| bundle.verify(chain, now).map(user));
        check
    }
}

/// Authenticates callers.
#[derive(Clone, Debug)]
pub struct Authenticator {
    trust: watch::Receiver<Arc<ClientTrust>>,
    tokens: TokenAuthenticator,
}

impl Authenticator {
    /// Verifies certificates against the newest `trust`, and tokens by `tokens`.
    pub fn new(trust: watch::Receiver<Arc<ClientTrust>>, tokens: TokenAuthenticator) -> Self {
        Self { trust, tokens }
    }

    /// The caller that sends a request with these headers over the connection of `client`. An error
    /// while too many token reviews are queued.
    pub async fn authenticate(
        &self,
        client: &RemoteClient,
        headers: &HeaderMap,
    ) -> Result<Caller, ApiError> {
        let trust = Arc::clone(&self.trust.borrow());
        let check = client.check(&trust);
        let mut problems: Vec<String> = Vec::new();
        match check.front_proxy {
            Some(Ok(())) => match trust.headers.caller(headers) {
                Some(caller) => return accept(caller),
                None => problems.push("the front proxy sends no user name".to_owned()),
            },
            Some(Err(rejection)) => problems.push(rejection.to_string()),
            None => {}
        }
        match check.client {
            Some(Ok(Some(caller))) => return accept(caller),
            Some(Ok(None)) => problems.push("the client certificate has no common name".to_owned()),
            Some(Err(rejection)) => problems.push(rejection.to_string()),
            None => {}
        }
        if let Some(token) = bearer_token(headers) {
            match self.tokens.review(token, client.address).await {
                Ok(Some(caller)) => return accept(caller),
                Err(ReviewError::Busy) => return Err(ApiError::TooManyRequests),
                Ok(None) => problems.push("the control plane rejects the token".to_owned()),
                Err(error) => problems.push(error.to_string()),
            }
        }
        tracing::debug!(
            problems = problems.join("; "),
            "refused an unauthenticated request"
        );
        Err(ApiError::Unauthenticated)
    }

    /// Removes all credentials and identity headers from a request.
    pub fn strip(&self, headers: &mut HeaderMap) {
        self.trust.borrow().headers.remove_from(headers);
    }
}

/// Refuses the name of the local caller, who has all rights, and names that an HTTP header would
/// change. Requests to members impersonate the caller in headers, which lose white space at their
/// ends: with a blank name there would be no impersonation, and the member would serve the operator
/// itself.
fn accept(mut caller: Caller) -> Result<Caller, ApiError> {
    let is_preserved =
        |name: &String| !name.is_empty() && name.trim() == name && !name.contains(char::is_control);
    if caller.is_local() || !is_preserved(&caller.name) || !caller.groups.iter().all(is_preserved) {
        tracing::debug!(user = ?caller.name, groups = ?caller.groups, "refused a caller whose name does not fit into a header");
        return Err(ApiError::Unauthenticated);
    }
    let mut groups = caller.groups.iter();
    if !groups.any(|group| group == AUTHENTICATED || group == UNAUTHENTICATED) {
        caller.groups.push(AUTHENTICATED.to_owned());
    }
    Ok(caller)
}

/// The token of `Authorization: Bearer <token>`; the scheme is case-insensitive.
pub(crate) fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let header = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = header.trim().split_once(' ')?;
    Some(token.trim()).filter(|token| scheme.eq_ignore_ascii_case("bearer") && !token.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str, groups: &[&str]) -> Caller {
        Caller {
            name: name.to_owned(),
            uid: None,
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
            extra: std::collections::BTreeMap::new(),
        }
    }

    #[test]
    fn names_that_a_header_would_change_are_refused() {
        assert!(accept(named("alice", &["dev team"])).is_ok());
        for name in [
            "",
            " ",
            "\t",
            "\u{a0}",
            " alice",
            "alice ",
            "a\r\nimpersonate-group: system:masters",
            "fleetdex:local",
        ] {
            assert!(accept(named(name, &[])).is_err(), "{name:?}");
        }
        for group in ["", " system:masters", "dev\n"] {
            assert!(accept(named("alice", &[group])).is_err(), "{group:?}");
        }
    }
}
