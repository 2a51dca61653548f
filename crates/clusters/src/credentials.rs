//! Credentials of a member, checked once when they are read. Nothing secret is ever in an error or in debug output.

use std::{collections::BTreeMap, fmt};

use fleetdex_api::cluster::SecretReference;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, pem::PemObject},
};

use super::member::Endpoint;

/// Everything that a connection is made from: where the member's API server is, what it is told, and what it is trusted by.
///
/// Two that are equal give the same connection. Only the token may change in a connection that goes on.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    /// URL of the API server, as it was written; [`super::connect`] checks it.
    pub(super) server: String,
    /// Bearer token, never empty, fit for a header.
    pub(super) token: Option<String>,
    /// What the API server's certificate is checked against.
    pub(super) trust: Trust,
    /// The name that the certificate is checked for, in place of the URL's.
    pub(super) server_name: Option<String>,
    /// Client certificate.
    pub(super) identity: Option<Identity>,
    /// User and password, where there is no token.
    pub(super) password: Option<Password>,
    /// As whom the member is asked.
    pub(super) impersonation: Impersonation,
    /// URL of the proxy to go through.
    pub(super) proxy_url: Option<String>,
    /// Headers for the proxy.
    pub(super) proxy_header: BTreeMap<String, String>,
}

/// What an API server's certificate is checked against.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// The certificates of this machine.
    #[default]
    System,
    /// These certificates (DER).
    Roots(Vec<Vec<u8>>),
    /// Nothing: any certificate will do.
    Anyone,
}

/// A client certificate and its key, both PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    /// The certificate, and those between it and its CA.
    pub(super) certificate: Vec<u8>,
    /// The private key.
    pub(super) key: Vec<u8>,
}

/// User and password for basic authentication.
#[derive(Clone, PartialEq, Eq)]
pub struct Password {
    /// Who.
    pub(super) user: String,
    /// The password.
    pub(super) password: String,
}

/// As whom a member is asked; empty: as oneself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Impersonation {
    /// The user.
    pub user: Option<String>,
    /// The user's UID.
    pub uid: Option<String>,
    /// The user's groups.
    pub groups: Vec<String>,
    /// What else is known of the user.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// A Secret does not hold what a connection needs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialsError {
    /// No token.
    #[error(
        "Secret {0} has no key \"token\", or it is empty: put a bearer token of the member cluster there"
    )]
    TokenMissing(SecretName),
    /// The token cannot stand in a header.
    #[error(
        "key \"token\" of Secret {0} holds characters that no bearer token has: store the bare token, once base64-encoded"
    )]
    TokenInvalid(SecretName),
    /// No certificates.
    #[error(
        "Secret {0} has no key \"caBundle\", or it is empty: put the PEM certificates of the member's CA there, or set spec.insecureSkipTLSVerification: true"
    )]
    CaBundleMissing(SecretName),
    /// No usable certificates.
    #[error(
        "key \"caBundle\" of Secret {0} holds no usable certificate: store PEM text (-----BEGIN CERTIFICATE-----), once base64-encoded"
    )]
    CaBundleInvalid(SecretName),
}

/// Namespace and name of a Secret, for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretName(pub SecretReference);

impl fmt::Display for SecretName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.0.namespace, self.0.name)
    }
}

impl Credentials {
    /// Reads the keys `token` and, unless the endpoint is insecure, `caBundle`.
    pub fn from_secret(
        endpoint: &Endpoint,
        reference: &SecretReference,
        secret: &Secret,
    ) -> Result<Self, CredentialsError> {
        let name = || SecretName(reference.clone());
        let token = key(secret, "token").ok_or_else(|| CredentialsError::TokenMissing(name()))?;
        let token = bearer(token).ok_or_else(|| CredentialsError::TokenInvalid(name()))?;
        Ok(Self {
            server: endpoint.url.clone(),
            token: Some(token),
            trust: trust(endpoint, name(), secret)?,
            proxy_url: endpoint.proxy_url.clone(),
            proxy_header: endpoint.proxy_header.clone(),
            ..Self::default()
        })
    }

    /// URL of the API server.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// What its certificate is checked against.
    pub(super) fn trust(&self) -> &Trust {
        &self.trust
    }

    /// Bearer token.
    pub(super) fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// Whether a connection made with `other` can go on with another token: nothing else is different.
    pub fn differs_in_token_only(&self, other: &Self) -> bool {
        let both_have_one = self.token.is_some() && other.token.is_some();
        both_have_one
            && self.token != other.token
            && Self {
                token: other.token.clone(),
                ..self.clone()
            } == *other
    }
}

/// Everything here that is not a secret, and whether there is a secret.
impl fmt::Debug for Credentials {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let trusted = match &self.trust {
            Trust::System => "those of this machine".to_owned(),
            Trust::Roots(roots) => roots.len().to_string(),
            Trust::Anyone => "any".to_owned(),
        };
        out.debug_struct("Credentials")
            .field("certificates", &trusted)
            .field("token", &self.token.is_some())
            .field("identity", &self.identity.is_some())
            .field("password", &self.password.is_some())
            .field("impersonation", &self.impersonation)
            .field("proxied", &self.proxy_url.is_some())
            .finish_non_exhaustive()
    }
}

fn trust(
    endpoint: &Endpoint,
    name: SecretName,
    secret: &Secret,
) -> Result<Trust, CredentialsError> {
    if endpoint.insecure {
        return Ok(Trust::Anyone);
    }
    let Some(bundle) = key(secret, "caBundle") else {
        return Err(CredentialsError::CaBundleMissing(name));
    };
    let roots = usable_certificates(bundle);
    if roots.is_empty() {
        return Err(CredentialsError::CaBundleInvalid(name));
    }
    Ok(Trust::Roots(roots))
}

/// The content of a key, without the white space that editors leave at its ends.
pub(super) fn key<'a>(secret: &'a Secret, name: &str) -> Option<&'a [u8]> {
    let ByteString(content) = secret.data.as_ref()?.get(name)?;
    Some(content.trim_ascii()).filter(|text| !text.is_empty())
}

/// A token as a header can bear it.
pub(super) fn bearer(token: &[u8]) -> Option<String> {
    let printable = !token.is_empty() && token.iter().all(u8::is_ascii_graphic);
    printable.then(|| String::from_utf8_lossy(token).into_owned())
}

/// Like Go, certificates that cannot be used are left out as long as another one can.
pub(super) fn usable_certificates(bundle: &[u8]) -> Vec<Vec<u8>> {
    CertificateDer::pem_slice_iter(bundle)
        .filter_map(Result::ok)
        .filter(|certificate| RootCertStore::empty().add(certificate.clone()).is_ok())
        .map(|certificate| certificate.to_vec())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const CERTIFICATE: &str = include_str!("testdata/ca.pem");

    fn reference() -> SecretReference {
        SecretReference {
            namespace: "fleet".into(),
            name: "member1".into(),
        }
    }

    fn read(data: &[(&str, &str)], insecure: bool) -> Result<Credentials, CredentialsError> {
        let data: BTreeMap<_, _> = data
            .iter()
            .map(|(key, text)| ((*key).to_owned(), ByteString(text.as_bytes().to_vec())))
            .collect();
        let endpoint = Endpoint {
            url: "https://a".to_owned(),
            insecure,
            ..Endpoint::default()
        };
        Credentials::from_secret(
            &endpoint,
            &reference(),
            &Secret {
                data: Some(data),
                ..Secret::default()
            },
        )
    }

    fn roots(credentials: &Credentials) -> usize {
        match &credentials.trust {
            Trust::Roots(roots) => roots.len(),
            other => panic!("{other:?}"),
        }
    }

    fn name() -> SecretName {
        SecretName(reference())
    }

    #[test]
    fn a_token_and_a_bundle_make_credentials() {
        let credentials = read(&[("token", "abc\n"), ("caBundle", CERTIFICATE)], false).unwrap();
        assert_eq!(credentials.token.as_deref(), Some("abc"));
        assert_eq!(roots(&credentials), 1);
    }

    #[test]
    fn an_insecure_member_needs_no_bundle_and_ignores_a_broken_one() {
        assert_eq!(
            read(&[("token", "abc"), ("caBundle", "?")], true)
                .unwrap()
                .trust,
            Trust::Anyone
        );
        assert_eq!(
            read(&[("token", "abc")], true).unwrap().trust,
            Trust::Anyone
        );
    }

    #[test]
    fn every_lack_is_told_apart() {
        let ca = ("caBundle", CERTIFICATE);
        assert_eq!(
            read(&[ca], false).unwrap_err(),
            CredentialsError::TokenMissing(name())
        );
        assert_eq!(
            read(&[("token", " \n"), ca], false).unwrap_err(),
            CredentialsError::TokenMissing(name())
        );
        assert_eq!(
            read(&[("token", "a\nb"), ca], false).unwrap_err(),
            CredentialsError::TokenInvalid(name())
        );
        assert_eq!(
            read(&[("token", "a")], false).unwrap_err(),
            CredentialsError::CaBundleMissing(name())
        );
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for text in ["not PEM", broken] {
            let error = read(&[("token", "a"), ("caBundle", text)], false).unwrap_err();
            assert_eq!(error, CredentialsError::CaBundleInvalid(name()));
        }
    }

    #[test]
    fn a_broken_certificate_beside_a_good_one_is_left_out() {
        let bundle =
            format!("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n{CERTIFICATE}");
        let credentials = read(&[("token", "a"), ("caBundle", &bundle)], false).unwrap();
        assert_eq!(roots(&credentials), 1);
    }

    #[test]
    fn another_token_is_told_from_another_way_to_the_member() {
        let before = read(&[("token", "abc"), ("caBundle", CERTIFICATE)], false).unwrap();
        let renewed = read(&[("token", "abd"), ("caBundle", CERTIFICATE)], false).unwrap();
        assert!(renewed.differs_in_token_only(&before) && !before.differs_in_token_only(&before));
        assert!(
            !read(&[("token", "abd")], true)
                .unwrap()
                .differs_in_token_only(&before)
        );
        assert!(
            !Credentials {
                token: None,
                ..before.clone()
            }
            .differs_in_token_only(&before)
        );
    }

    #[test]
    fn nothing_of_the_secret_is_shown() {
        let credentials = read(&[("token", "hunter2"), ("caBundle", CERTIFICATE)], false).unwrap();
        assert!(!format!("{credentials:?}").contains("hunter2"));
        let error = read(&[("token", "hunter2 hunter2")], true).unwrap_err();
        assert!(!format!("{error:?} {error}").contains("hunter2"));
    }
}
