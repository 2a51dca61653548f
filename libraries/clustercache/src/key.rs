//! A private key for client certificates of a member.

use std::fmt;

use aws_lc_rs::{
    encoding::{AsDer, Pkcs8V1Der},
    rsa::{KeyPair, KeySize},
};

/// The key could not be generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot generate an RSA key: the random number generator of this machine fails")]
pub struct KeyError;

/// An RSA key of 2,048 bits, for certificates that a member's control plane signs.
pub struct ClientCertificateKey {
    der: Vec<u8>,
}

impl ClientCertificateKey {
    /// Generates a key, which takes some tenths of a second of CPU time.
    pub(super) fn generate() -> Result<Self, KeyError> {
        let pair = KeyPair::generate(KeySize::Rsa2048).map_err(|_| KeyError)?;
        let der: Pkcs8V1Der<'_> = pair.as_der().map_err(|_| KeyError)?;
        Ok(Self {
            der: der.as_ref().to_vec(),
        })
    }

    /// The key as PKCS #8 DER.
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// The key as PKCS #8 PEM.
    pub fn pem(&self) -> String {
        pem::encode(&pem::Pem::new("PRIVATE KEY", self.der.as_slice()))
    }
}

impl fmt::Debug for ClientCertificateKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("ClientCertificateKey (hidden)")
    }
}
