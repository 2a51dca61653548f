//! Which client certificates to trust, from the `ConfigMap`
//! `kube-system/extension-apiserver-authentication` of the control plane.
//!
//! A missing or invalid value never replaces a valid one: a certificate authority that is empty for
//! a moment would lock out all clients. The list of allowed names is the exception: while it is
//! empty, no front proxy is trusted, unless a flag allows it.

use std::{collections::BTreeMap, fmt, sync::Arc};

use rustls::{
    RootCertStore,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, UnixTime, pem::PemObject as _},
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};

use super::identity::{self, IdentityHeaders};

/// The certificate authorities of one PEM bundle.
#[derive(Clone)]
pub struct CaBundle {
    pem: String,
    verifier: Arc<dyn ClientCertVerifier>,
}

/// Why a client certificate is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateRejection {
    /// It is signed by another authority, expired, or not for clients.
    #[error("the client certificate does not verify: {0}")]
    Unverified(String),
    /// It is signed by the front proxies' authority, but its common name is not allowed.
    #[error(
        "the client certificate's common name {0:?} is not among the allowed names of front proxies"
    )]
    NameNotAllowed(String),
}

impl CaBundle {
    /// Parses a PEM bundle; `None` if it is empty or one certificate is invalid.
    pub fn new(pem: &str) -> Option<Self> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
            roots.add(certificate.ok()?).ok()?;
        }
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .ok()?;
        Some(Self {
            pem: pem.to_owned(),
            verifier,
        })
    }

    /// Verifies that the first certificate is for clients and chains, by way of the others, to one
    /// of the authorities.
    pub fn verify(
        &self,
        chain: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), CertificateRejection> {
        let (leaf, intermediates) = chain
            .split_first()
            .ok_or_else(|| CertificateRejection::Unverified("the chain is empty".to_owned()))?;
        let verified = self.verifier.verify_client_cert(leaf, intermediates, now);
        verified
            .map(drop)
            .map_err(|error| CertificateRejection::Unverified(error.to_string()))
    }
}

/// Which client certificates to trust.
#[derive(Clone, Default)]
pub struct ClientTrust {
    /// Increases with every change; results of an older revision are void.
    pub revision: u64,
    /// The certificate authorities of clients.
    pub client: Option<CaBundle>,
    /// The certificate authorities of front proxies.
    pub front_proxy: Option<CaBundle>,
    /// The common names of front proxies.
    pub allowed_names: Vec<String>,
    /// Whether an empty list of names allows every certificate of the front proxies' authorities.
    pub allows_any_name: bool,
    /// The headers in which front proxies send the user.
    pub headers: IdentityHeaders,
}

impl fmt::Debug for ClientTrust {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ClientTrust")
            .field("revision", &self.revision)
            .field("allowed_names", &self.allowed_names)
            .field("headers", &self.headers)
            .finish_non_exhaustive()
    }
}

impl ClientTrust {
    /// Trusts no certificate.
    pub fn new(allows_any_name: bool) -> Self {
        Self {
            allows_any_name,
            ..Self::default()
        }
    }

    /// Applies the data of the `ConfigMap`, and returns what is wrong with it. Empty data change
    /// nothing.
    pub fn updated(&self, data: &BTreeMap<String, String>) -> (Self, Vec<String>) {
        if data.is_empty() {
            let problem = "it is empty; keeping the previous content".to_owned();
            return (self.clone(), vec![problem]);
        }
        let mut problems = Vec::new();

        let mut next = self.clone();
        update_bundle(&mut next.client, data, "client-ca-file", &mut problems);
        update_bundle(
            &mut next.front_proxy,
            data,
            "requestheader-client-ca-file",
            &mut problems,
        );
        let IdentityHeaders {
            username,
            uid,
            group,
            extra_prefixes,
        } = &mut next.headers;
        let lists = [
            (username, "requestheader-username-headers"),
            (uid, "requestheader-uid-headers"),
            (group, "requestheader-group-headers"),
            (extra_prefixes, "requestheader-extra-headers-prefix"),
            (&mut next.allowed_names, "requestheader-allowed-names"),
        ];
        for (list, key) in lists {
            update_list(list, data, key, &mut problems);
        }
        if next.front_proxy.is_some() && next.allowed_names.is_empty() && !next.allows_any_name {
            problems.push(
                "requestheader-allowed-names is empty: no front proxy is trusted (--requestheader-allow-any-name would trust every certificate of the authority)"
                    .to_owned(),
            );
        }
        if next.differs_from(self) {
            next.revision += 1;
        }
        (next, problems)
    }

    fn differs_from(&self, other: &Self) -> bool {
        let pem = |bundle: &Option<CaBundle>| bundle.as_ref().map(|bundle| bundle.pem.clone());
        pem(&self.client) != pem(&other.client)
            || pem(&self.front_proxy) != pem(&other.front_proxy)
            || self.allowed_names != other.allowed_names
            || self.headers != other.headers
    }

    /// Verifies that a certificate is a front proxy's; `None` while no front proxies are
    /// configured.
    pub fn verify_front_proxy(
        &self,
        chain: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Option<Result<(), CertificateRejection>> {
        let bundle = self.front_proxy.as_ref()?;
        if self.allowed_names.is_empty() && !self.allows_any_name {
            return None;
        }
        let verified = bundle.verify(chain, now);
        Some(verified.and_then(|()| self.check_name(chain)))
    }

    fn check_name(&self, chain: &[CertificateDer<'_>]) -> Result<(), CertificateRejection> {
        let name = chain.first().and_then(|leaf| identity::common_name(leaf));
        let name = name.unwrap_or_default();
        if self.allowed_names.is_empty() || self.allowed_names.contains(&name) {
            return Ok(());
        }
        Err(CertificateRejection::NameNotAllowed(name))
    }
}

fn update_bundle(
    bundle: &mut Option<CaBundle>,
    data: &BTreeMap<String, String>,
    key: &str,
    problems: &mut Vec<String>,
) {
    let Some(pem) = data.get(key).filter(|pem| !pem.trim().is_empty()) else {
        if bundle.is_some() {
            problems.push(format!("{key} is empty; keeping the previous value"));
        }
        return;
    };
    match CaBundle::new(pem) {
        Some(parsed) => *bundle = Some(parsed),
        None => problems.push(format!(
            "{key} has no valid certificates; keeping the previous value"
        )),
    }
}

fn update_list(
    list: &mut Vec<String>,
    data: &BTreeMap<String, String>,
    key: &str,
    problems: &mut Vec<String>,
) {
    let text = data.get(key).filter(|text| !text.is_empty());
    match identity::list(text.map_or("[]", String::as_str)) {
        Some(parsed) => *list = parsed,
        None => problems.push(format!(
            "{key} is not a JSON list of strings; keeping the previous value"
        )),
    }
}
