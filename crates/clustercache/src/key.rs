//! A key for client certificates of a member.

use std::fmt;

use aws_lc_rs::{
    encoding::{AsDer, Pkcs8V1Der},
    rsa::{KeyPair, KeySize},
};

/// No key could be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no RSA key could be made: the random numbers of this machine do not work")]
pub struct KeyError;

/// An RSA key of 2,048 bits, for certificates that a member's control plane signs.
pub struct ClientCertificateKey {
    der: Vec<u8>,
}

impl ClientCertificateKey {
    /// Makes one, which takes some tenths of a second of a processor.
    pub(super) fn generate() -> Result<Self, KeyError> {
        let pair = KeyPair::generate(KeySize::Rsa2048).map_err(|_| KeyError)?;
        let der: Pkcs8V1Der<'_> = pair.as_der().map_err(|_| KeyError)?;
        Ok(Self {
            der: der.as_ref().to_vec(),
        })
    }

    /// PKCS #8, as bytes.
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// PKCS #8, as PEM text.
    pub fn pem(&self) -> String {
        pem::encode(&pem::Pem::new("PRIVATE KEY", self.der.as_slice()))
    }
}

impl fmt::Debug for ClientCertificateKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("ClientCertificateKey (hidden)")
    }
}
