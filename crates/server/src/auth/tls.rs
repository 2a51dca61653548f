//! The TLS configuration. A client certificate is optional, and the handshake verifies only that
//! the client has its key. The authenticator verifies the certificate for each request, because two
//! certificate authorities have different meanings, and both can change while a connection is open.

use std::sync::Arc;

use rustls::{
    DigitallySignedStruct, DistinguishedName, Error, ServerConfig, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::{
        WebPkiSupportedAlgorithms, aws_lc_rs, verify_tls12_signature, verify_tls13_signature,
    },
    pki_types::{CertificateDer, UnixTime},
    server::danger::{ClientCertVerified, ClientCertVerifier},
};

use super::certificate::ServingCertificate;

/// HTTP/2 as ALPN calls it.
pub const HTTP_2: &[u8] = b"h2";
/// HTTP/1.1 as ALPN calls it.
const HTTP_1: &[u8] = b"http/1.1";

/// A configuration that serves with this certificate.
pub fn config(certificate: Arc<ServingCertificate>) -> Result<Arc<ServerConfig>, Error> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let algorithms = provider.signature_verification_algorithms;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(Arc::new(KeyPossessionVerifier { algorithms }))
        .with_cert_resolver(certificate);
    config.alpn_protocols = vec![HTTP_2.to_vec(), HTTP_1.to_vec()];
    Ok(Arc::new(config))
}

/// Accepts every client certificate whose key the client has.
#[derive(Debug)]
struct KeyPossessionVerifier {
    algorithms: WebPkiSupportedAlgorithms,
}

impl ClientCertVerifier for KeyPossessionVerifier {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
