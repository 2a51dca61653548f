//! Whom the control plane trusts: what `kube-system/extension-apiserver-authentication` says, and whether a certificate fits it.
//!
//! What is missing or broken never replaces what was good: a certificate authority that is empty for a moment would lock everybody out. The
//! list of allowed names is the exception: without it nobody is believed who speaks for others, unless a flag says so.

use std::{collections::BTreeMap, sync::Arc};

use rustls::{
    RootCertStore,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, UnixTime, pem::PemObject as _},
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};

use super::identity::{self, IdentityHeaders};

/// Certificates of one authority, and nothing but these.
#[derive(Clone)]
pub struct Pool {
    pem: String,
    verifier: Arc<dyn ClientCertVerifier>,
}

/// Why a certificate is not believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Disbelief {
    /// It is of another authority, expired or not for clients.
    #[error("the client certificate does not verify: {0}")]
    Unverified(String),
    /// The authority is right, but it speaks for somebody who may not speak for others.
    #[error(
        "the client certificate's common name {0:?} is not among the allowed names of front proxies"
    )]
    OtherName(String),
}

impl Pool {
    /// The authorities of a PEM text; nothing if there is none in it, or one is broken.
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

    /// Whether the first certificate may be used by a client and leads, by way of the others, to one of the authorities.
    pub fn verify(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> Result<(), Disbelief> {
        let (leaf, intermediates) = chain
            .split_first()
            .ok_or_else(|| Disbelief::Unverified("there is none".to_owned()))?;
        let verified = self.verifier.verify_client_cert(leaf, intermediates, now);
        verified
            .map(drop)
            .map_err(|error| Disbelief::Unverified(error.to_string()))
    }
}

/// Whom to believe. Another generation is another trust: what was found out under an older one counts no more.
#[derive(Clone, Default)]
pub struct Trust {
    /// Counts the changes.
    pub generation: u64,
    /// Authority of client certificates.
    pub client: Option<Pool>,
    /// Authority of those who speak for others.
    pub front: Option<Pool>,
    /// Common names of those who may speak for others.
    pub allowed_names: Vec<String>,
    /// Whether an empty list of them means anybody whom the authority knows.
    pub allows_any_name: bool,
    /// Where they say for whom they speak.
    pub headers: IdentityHeaders,
}

impl Trust {
    /// Nobody is trusted yet.
    pub fn new(allows_any_name: bool) -> Self {
        Self {
            allows_any_name,
            ..Self::default()
        }
    }

    /// What to believe after the `ConfigMap` has this content, and what is wrong with it. An empty one says nothing at all.
    pub fn updated(&self, data: &BTreeMap<String, String>) -> (Self, Vec<String>) {
        let mut problems = Vec::new();
        if data.is_empty() {
            return (
                self.clone(),
                vec!["it is empty; what it said before is kept".to_owned()],
            );
        }
        let mut next = self.clone();
        update_pool(&mut next.client, data, "client-ca-file", &mut problems);
        update_pool(
            &mut next.front,
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
        if next.front.is_some() && next.allowed_names.is_empty() && !next.allows_any_name {
            problems.push(
                "requestheader-allowed-names is empty: nobody may speak for others (--requestheader-allow-any-name would believe every certificate of that authority)"
                    .to_owned(),
            );
        }
        if next.differs_from(self) {
            next.generation += 1;
        }
        (next, problems)
    }

    fn differs_from(&self, other: &Self) -> bool {
        let pem = |pool: &Option<Pool>| pool.as_ref().map(|pool| pool.pem.clone());
        pem(&self.client) != pem(&other.client)
            || pem(&self.front) != pem(&other.front)
            || self.allowed_names != other.allowed_names
            || self.headers != other.headers
    }

    /// Whether the owner of a certificate speaks for others: nothing if nobody does, as long as the control plane has not said who may.
    pub fn speaks_for_others(
        &self,
        chain: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Option<Result<(), Disbelief>> {
        let pool = self.front.as_ref()?;
        if self.allowed_names.is_empty() && !self.allows_any_name {
            return None;
        }
        Some(
            pool.verify(chain, now)
                .and_then(|()| self.check_name(chain)),
        )
    }

    fn check_name(&self, chain: &[CertificateDer<'_>]) -> Result<(), Disbelief> {
        let name = chain
            .first()
            .and_then(|leaf| identity::common_name(leaf))
            .unwrap_or_default();
        if self.allowed_names.is_empty() || self.allowed_names.contains(&name) {
            return Ok(());
        }
        Err(Disbelief::OtherName(name))
    }
}

fn update_pool(
    pool: &mut Option<Pool>,
    data: &BTreeMap<String, String>,
    key: &str,
    problems: &mut Vec<String>,
) {
    let Some(pem) = data.get(key).filter(|pem| !pem.trim().is_empty()) else {
        if pool.is_some() {
            problems.push(format!("{key} is empty; what it held before is kept"));
        }
        return;
    };
    match Pool::new(pem) {
        Some(read) => *pool = Some(read),
        None => problems.push(format!(
            "{key} holds no certificates that can be read; what it held before is kept"
        )),
    }
}

fn update_list(
    list: &mut Vec<String>,
    data: &BTreeMap<String, String>,
    key: &str,
    problems: &mut Vec<String>,
) {
    let text = data
        .get(key)
        .map(String::as_str)
        .filter(|text| !text.is_empty());
    match identity::list(text.unwrap_or("[]")) {
        Some(read) => *list = read,
        None => problems.push(format!(
            "{key} is no JSON list of text; what it held before is kept"
        )),
    }
}
