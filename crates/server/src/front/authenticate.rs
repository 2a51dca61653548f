//! Who asks: a front proxy's word, a client certificate or a token, in the order of Kubernetes' aggregated API servers.
//!
//! The first that succeeds wins, what the others say does not matter then. Nobody else may ask: there are no anonymous callers.

use std::{
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

use http::{HeaderMap, header::AUTHORIZATION};
use parking_lot::Mutex;
use rustls::pki_types::{CertificateDer, UnixTime};
use tokio::{
    sync::watch,
    time::{Duration, Instant},
};

use super::{
    identity,
    reviews::ReviewError,
    tokens::Tokens,
    trust::{Disbelief, Trust},
};
use crate::{caller::Caller, status::ApiError};

/// How long what was found out about a connection's certificate counts: it may expire meanwhile.
const VERDICT_LIFETIME: Duration = Duration::from_secs(10);
/// Every authenticated caller's group.
const AUTHENTICATED: &str = "system:authenticated";
/// The group of those who are not.
const UNAUTHENTICATED: &str = "system:unauthenticated";

/// The other end of a connection.
#[derive(Debug)]
pub struct Peer {
    address: IpAddr,
    /// The certificates that it has shown, its own first. That it has the key is certain, and nothing else.
    certificates: Vec<CertificateDer<'static>>,
    verdict: Mutex<Option<Verdict>>,
}

/// What the certificates of a connection are worth.
#[derive(Clone, Debug)]
struct Verdict {
    generation: u64,
    at: Instant,
    speaks_for_others: Option<Result<(), Disbelief>>,
    client: Option<Result<Option<Caller>, Disbelief>>,
}

impl Peer {
    /// A peer at an address that has shown these certificates.
    pub fn at(address: IpAddr, certificates: Vec<CertificateDer<'static>>) -> Arc<Self> {
        Arc::new(Self {
            address,
            certificates,
            verdict: Mutex::default(),
        })
    }

    /// A peer without an address or certificates.
    pub fn unknown() -> Arc<Self> {
        Self::at(Ipv4Addr::UNSPECIFIED.into(), Vec::new())
    }

    fn verdict(&self, trust: &Trust) -> Verdict {
        let mut known = self.verdict.lock();
        let is_current = |verdict: &&Verdict| {
            verdict.generation == trust.generation && verdict.at.elapsed() < VERDICT_LIFETIME
        };
        if let Some(verdict) = known.as_ref().filter(is_current) {
            return verdict.clone();
        }
        known.insert(self.judge(trust)).clone()
    }

    fn judge(&self, trust: &Trust) -> Verdict {
        let (chain, now) = (self.certificates.as_slice(), UnixTime::now());
        let mut verdict = Verdict {
            generation: trust.generation,
            at: Instant::now(),
            speaks_for_others: None,
            client: None,
        };
        let Some(leaf) = chain.first() else {
            return verdict;
        };
        verdict.speaks_for_others = trust.speaks_for_others(chain, now);
        let user = |()| identity::of_certificate(leaf);
        verdict.client = trust
            .client
            .as_ref()
            .map(|pool| pool.verify(chain, now).map(user));
        verdict
    }
}

/// Finds out who asks.
#[derive(Clone, Debug)]
pub struct Authenticator {
    trust: watch::Receiver<Arc<Trust>>,
    tokens: Tokens,
}

impl std::fmt::Debug for Trust {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Trust")
            .field("generation", &self.generation)
            .field("allowed_names", &self.allowed_names)
            .field("headers", &self.headers)
            .finish_non_exhaustive()
    }
}

impl Authenticator {
    /// Believes whom the newest trust names, and the control plane's word about tokens.
    pub fn new(trust: watch::Receiver<Arc<Trust>>, tokens: Tokens) -> Self {
        Self { trust, tokens }
    }

    /// Who sends a request with these headers over a connection to this peer. Refused where too many tokens are to be reviewed already.
    pub async fn caller(&self, peer: &Peer, headers: &HeaderMap) -> Result<Caller, ApiError> {
        let trust = Arc::clone(&self.trust.borrow());
        let verdict = peer.verdict(&trust);
        let mut problems: Vec<String> = Vec::new();
        match verdict.speaks_for_others {
            Some(Ok(())) => match trust.headers.caller(headers) {
                Some(caller) => return known(caller),
                None => problems.push("the front proxy does not say who asks".to_owned()),
            },
            Some(Err(disbelief)) => problems.push(disbelief.to_string()),
            None => {}
        }
        match verdict.client {
            Some(Ok(Some(caller))) => return known(caller),
            Some(Ok(None)) => problems.push("the client certificate has no common name".to_owned()),
            Some(Err(disbelief)) => problems.push(disbelief.to_string()),
            None => {}
        }
        if let Some(token) = token(headers) {
            match self.tokens.owner(token, peer.address).await {
                Ok(Some(caller)) => return known(caller),
                Err(ReviewError::Busy) => return Err(ApiError::TooManyRequests),
                Ok(None) => problems.push("the control plane does not know the token".to_owned()),
                Err(error) => problems.push(error.to_string()),
            }
        }
        tracing::debug!(
            problems = problems.join("; "),
            "nobody may ask without saying who it is"
        );
        Err(ApiError::Unauthenticated)
    }

    /// Takes out of a request whatever says who asks.
    pub fn strip(&self, headers: &mut HeaderMap) {
        self.trust.borrow().headers.remove_from(headers);
    }
}

/// The name of the local caller, who is trusted blindly, is nobody else's. Names that an HTTP header would change are refused: members are asked as the
/// caller in headers, which lose white space at their ends, so that a blank name would be no name, and the member would answer the operator itself.
fn known(mut caller: Caller) -> Result<Caller, ApiError> {
    let is_kept =
        |name: &String| !name.is_empty() && name.trim() == name && !name.contains(char::is_control);
    if caller.is_local() || !is_kept(&caller.name) || !caller.groups.iter().all(is_kept) {
        tracing::debug!(user = ?caller.name, groups = ?caller.groups, "a caller has a name that cannot be passed on");
        return Err(ApiError::Unauthenticated);
    }
    if !caller
        .groups
        .iter()
        .any(|group| group == AUTHENTICATED || group == UNAUTHENTICATED)
    {
        caller.groups.push(AUTHENTICATED.to_owned());
    }
    Ok(caller)
}

/// `Authorization: Bearer <token>`, however the scheme is written.
fn token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers
        .get(AUTHORIZATION)?
        .to_str()
        .ok()?
        .trim()
        .split_once(' ')?;
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
    fn nobody_is_known_by_a_name_that_a_header_would_change() {
        assert!(known(named("alice", &["dev team"])).is_ok());
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
            assert!(known(named(name, &[])).is_err(), "{name:?}");
        }
        for group in ["", " system:masters", "dev\n"] {
            assert!(known(named("alice", &[group])).is_err(), "{group:?}");
        }
    }
}
