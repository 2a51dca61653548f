//! The credentials of a member, validated when they are read. Errors and debug output never contain
//! a secret.

use std::{collections::BTreeMap, fmt};

use fleetdex_crds::cluster::LocalSecretReference;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, pem::PemObject},
};

use super::{certificate, member::ApiServerEndpoint};

/// Everything that a connection is made from: the address of the API server, how this program
/// authenticates, and how the server is verified.
///
/// Equal credentials give the same connection. Only the token can be replaced in an open
/// connection.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    /// URL of the API server, as it was written; [`super::connect`] checks it.
    pub(super) server: String,
    /// Bearer token: not empty, and valid in a header.
    pub(super) token: Option<String>,
    /// How the API server's certificate is verified.
    pub(super) trust: ServerTrust,
    /// The name that the certificate must have, in place of the URL's host.
    pub(super) server_name: Option<String>,
    pub(super) client_certificate: Option<ClientCertificate>,
    /// User and password, if there is no token.
    pub(super) password: Option<Password>,
    /// The user that requests impersonate.
    pub(super) impersonation: Impersonation,
    /// URL of the proxy to go through.
    pub(super) proxy_url: Option<String>,
    pub(super) proxy_header: BTreeMap<String, String>,
}

/// How an API server's certificate is verified.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ServerTrust {
    /// Against the certificate authorities of this machine.
    #[default]
    System,
    /// Against these certificate authorities (DER).
    Roots(Vec<Vec<u8>>),
    /// Not at all.
    Insecure,
}

/// A client certificate and its key, both PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The certificate and its intermediate certificates.
    pub(super) certificate: Vec<u8>,
    /// The private key.
    pub(super) key: Vec<u8>,
}

/// User and password for basic authentication.
#[derive(Clone, PartialEq, Eq)]
pub struct Password {
    /// The user name.
    pub(super) user: String,
    pub(super) password: String,
}

/// The user that requests to a member impersonate; empty for none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Impersonation {
    /// The user.
    pub user: Option<String>,
    /// The user's UID.
    pub uid: Option<String>,
    /// The user's groups.
    pub groups: Vec<String>,
    /// The user's extra fields.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// Why a Secret cannot be used for a connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialsError {
    /// The token is missing or empty.
    #[error(
        "Secret {0} has no key \"token\", or it is empty: put a bearer token of the member cluster there"
    )]
    TokenMissing(SecretName),
    /// The token is not valid in a header.
    #[error(
        "key \"token\" of Secret {0} contains characters that no bearer token has: store the bare token, once base64-encoded"
    )]
    TokenInvalid(SecretName),
    /// The CA bundle is missing or empty.
    #[error(
        "Secret {0} has no key \"caBundle\", or it is empty: put the PEM certificates of the member's CA there, or set spec.insecureSkipTLSVerification: true"
    )]
    CaBundleMissing(SecretName),
    /// The CA bundle has no usable certificate.
    #[error(
        "key \"caBundle\" of Secret {0} contains no usable certificate: store PEM text (-----BEGIN CERTIFICATE-----), once base64-encoded"
    )]
    CaBundleInvalid(SecretName),
}

/// Namespace and name of a Secret, for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretName(pub LocalSecretReference);

impl fmt::Display for SecretName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.0.namespace, self.0.name)
    }
}

impl Credentials {
    /// Reads the keys `token` and, unless the endpoint is insecure, `caBundle`.
    pub fn from_secret(
        endpoint: &ApiServerEndpoint,
        reference: &LocalSecretReference,
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

    /// How its certificate is verified.
    pub(super) fn trust(&self) -> &ServerTrust {
        &self.trust
    }

    /// Bearer token.
    pub(super) fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// When the client certificate ends, in seconds since 1970; `None` without one.
    pub fn client_certificate_not_after(&self) -> Option<i64> {
        let in_use = self.client_certificate.as_ref()?;
        certificate::first_not_after(&in_use.certificate)
    }

    /// Whether only the token differs from `other`, so that an open connection can use the new one.
    pub fn differs_in_token_only(&self, other: &Self) -> bool {
        let both_have_a_token = self.token.is_some() && other.token.is_some();
        both_have_a_token
            && self.token != other.token
            && Self {
                token: other.token.clone(),
                ..self.clone()
            } == *other
    }
}

/// Shows whether there are secrets, but not the secrets.
impl fmt::Debug for Credentials {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let trusted = match &self.trust {
            ServerTrust::System => "those of this machine".to_owned(),
            ServerTrust::Roots(roots) => roots.len().to_string(),
            ServerTrust::Insecure => "any".to_owned(),
        };
        out.debug_struct("Credentials")
            .field("certificates", &trusted)
            .field("token", &self.token.is_some())
            .field("client_certificate", &self.client_certificate.is_some())
            .field("password", &self.password.is_some())
            .field("impersonation", &self.impersonation)
            .field("proxied", &self.proxy_url.is_some())
            .finish_non_exhaustive()
    }
}

fn trust(
    endpoint: &ApiServerEndpoint,
    name: SecretName,
    secret: &Secret,
) -> Result<ServerTrust, CredentialsError> {
    if endpoint.insecure {
        return Ok(ServerTrust::Insecure);
    }
    let Some(bundle) = key(secret, "caBundle") else {
        return Err(CredentialsError::CaBundleMissing(name));
    };
    let roots = usable_certificates(bundle);
    if roots.is_empty() {
        return Err(CredentialsError::CaBundleInvalid(name));
    }
    Ok(ServerTrust::Roots(roots))
}

/// The value of a key without surrounding white space, which editors add; `None` if it is missing
/// or empty.
pub(super) fn key<'a>(secret: &'a Secret, name: &str) -> Option<&'a [u8]> {
    let ByteString(content) = secret.data.as_ref()?.get(name)?;
    Some(content.trim_ascii()).filter(|text| !text.is_empty())
}

/// Returns a token that is valid in a header; otherwise `None`.
pub(super) fn bearer(token: &[u8]) -> Option<String> {
    let printable = !token.is_empty() && token.iter().all(u8::is_ascii_graphic);
    printable.then(|| String::from_utf8_lossy(token).into_owned())
}

/// The usable certificates of a PEM bundle. Like Go, skips the others.
pub(super) fn usable_certificates(bundle: &[u8]) -> Vec<Vec<u8>> {
    CertificateDer::pem_slice_iter(bundle)
        .filter_map(Result::ok)
        .filter(|certificate| RootCertStore::empty().add(certificate.clone()).is_ok())
        .map(|certificate| certificate.to_vec())
        .collect()
}

#[cfg(test)]
mod tests;
