//! Credentials of a member, checked once when its Secret is read. No content of a Secret is ever in an error or in
//! debug output.

use std::fmt;

use k8s_openapi::{ByteString, api::core::v1::Secret};
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, pem::PemObject},
};

use super::bearer::Bearer;
use crate::api::cluster::SecretReference;

/// What a member's API server is told, and what it is trusted by.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// Bearer token. A clone of the credentials shares it with the connection that was made from them.
    pub(super) token: Bearer,
    /// Certificates (DER) that the API server's must come from; `None` if it is not verified.
    pub(super) roots: Option<Vec<Vec<u8>>>,
}

/// A Secret does not hold what a connection needs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialsError {
    /// No token.
    #[error("Secret {0} has no key \"token\", or it is empty: put a bearer token of the member cluster there")]
    TokenMissing(SecretName),
    /// The token cannot stand in a header.
    #[error("key \"token\" of Secret {0} holds characters that no bearer token has: store the bare token, once base64-encoded")]
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
    /// Reads the keys `token` and, unless `insecure`, `caBundle`.
    pub fn from_secret(reference: &SecretReference, secret: &Secret, insecure: bool) -> Result<Self, CredentialsError> {
        let name = || SecretName(reference.clone());
        let token = key(secret, "token").ok_or_else(|| CredentialsError::TokenMissing(name()))?;
        let token =
            std::str::from_utf8(token).ok().and_then(Bearer::new).ok_or_else(|| CredentialsError::TokenInvalid(name()))?;
        if insecure {
            return Ok(Self { token, roots: None });
        }
        let bundle = key(secret, "caBundle").ok_or_else(|| CredentialsError::CaBundleMissing(name()))?;
        let roots = usable_certificates(bundle);
        if roots.is_empty() {
            return Err(CredentialsError::CaBundleInvalid(name()));
        }
        Ok(Self { token, roots: Some(roots) })
    }

    /// Whether a connection made with `other` can go on with another token: nothing else is different.
    pub fn differs_in_token_only(&self, other: &Self) -> bool {
        self.token != other.token && self.roots == other.roots
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Credentials {{ token: (hidden), certificates: {:?} }}", self.roots.as_ref().map(Vec::len))
    }
}

/// The content of a key, without the white space that editors leave at its ends.
fn key<'a>(secret: &'a Secret, name: &str) -> Option<&'a [u8]> {
    let ByteString(content) = secret.data.as_ref()?.get(name)?;
    Some(content.trim_ascii()).filter(|text| !text.is_empty())
}

/// Like Go, certificates that cannot be used are left out as long as another one can.
fn usable_certificates(bundle: &[u8]) -> Vec<Vec<u8>> {
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
        SecretReference { namespace: "fleet".into(), name: "member1".into() }
    }

    fn read(data: &[(&str, &str)], insecure: bool) -> Result<Credentials, CredentialsError> {
        let data: BTreeMap<_, _> =
            data.iter().map(|(key, text)| ((*key).to_owned(), ByteString(text.as_bytes().to_vec()))).collect();
        Credentials::from_secret(&reference(), &Secret { data: Some(data), ..Secret::default() }, insecure)
    }

    fn name() -> SecretName {
        SecretName(reference())
    }

    #[test]
    fn a_token_and_a_bundle_make_credentials() {
        let credentials = read(&[("token", "abc\n"), ("caBundle", CERTIFICATE)], false).unwrap();
        assert_eq!(credentials.token.token(), "abc");
        assert_eq!(credentials.roots.map(|roots| roots.len()), Some(1));
    }

    #[test]
    fn an_insecure_member_needs_no_bundle_and_ignores_a_broken_one() {
        assert_eq!(read(&[("token", "abc"), ("caBundle", "?")], true).unwrap().roots, None);
        assert_eq!(read(&[("token", "abc")], true).unwrap().roots, None);
    }

    #[test]
    fn every_lack_is_told_apart() {
        let ca = ("caBundle", CERTIFICATE);
        assert_eq!(read(&[ca], false).unwrap_err(), CredentialsError::TokenMissing(name()));
        assert_eq!(read(&[("token", " \n"), ca], false).unwrap_err(), CredentialsError::TokenMissing(name()));
        assert_eq!(read(&[("token", "a\nb"), ca], false).unwrap_err(), CredentialsError::TokenInvalid(name()));
        assert_eq!(read(&[("token", "a")], false).unwrap_err(), CredentialsError::CaBundleMissing(name()));
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for text in ["not PEM", broken] {
            let error = read(&[("token", "a"), ("caBundle", text)], false).unwrap_err();
            assert_eq!(error, CredentialsError::CaBundleInvalid(name()));
        }
    }

    #[test]
    fn a_broken_certificate_beside_a_good_one_is_left_out() {
        let bundle = format!("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n{CERTIFICATE}");
        let credentials = read(&[("token", "a"), ("caBundle", &bundle)], false).unwrap();
        assert_eq!(credentials.roots.map(|roots| roots.len()), Some(1));
    }

    #[test]
    fn nothing_of_the_secret_is_shown() {
        let credentials = read(&[("token", "hunter2"), ("caBundle", CERTIFICATE)], false).unwrap();
        assert!(!format!("{credentials:?}").contains("hunter2"));
        let error = read(&[("token", "hunter2 hunter2")], true).unwrap_err();
        assert!(!format!("{error:?} {error}").contains("hunter2"));
    }
}
