//! The serving certificate: from files, which may be replaced at any time, or signed by a
//! certificate authority of the installation's own.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use fleetdex_clusters::certificate;
use fleetdex_core::model::causes;
use parking_lot::RwLock;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::{
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// Validity of a certificate authority of the installation's own.
const AUTHORITY_DAYS: i64 = 3 * 365;
/// Validity of a certificate that it signs. Each process creates and renews its own.
const SERVING_DAYS: i64 = 90;
/// Clocks differ: validity begins an hour before creation.
const CLOCK_SKEW_HOURS: i64 = 1;
/// The part of its validity after which a certificate is renewed.
const RENEWED_AFTER: f64 = 2.0 / 3.0;

/// A certificate cannot be used or created.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("cannot read {} (--tls-cert-file, --tls-private-key-file)", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// Invalid PEM, or a key of another certificate.
    #[error("{origin} holds no certificate with its key: {reason}")]
    Unusable {
        /// Where the certificate is from.
        origin: String,
        /// What is wrong.
        reason: String,
    },
    /// A certificate or key cannot be generated.
    #[error("cannot create a certificate")]
    Create(#[from] rcgen::Error),
}

/// The certificate in use. Open connections keep the one from their handshake.
#[derive(Debug)]
pub struct ServingCertificate(RwLock<Arc<CertifiedKey>>);

impl ServingCertificate {
    /// Serves with this certificate.
    pub fn new(certificate: CertifiedKey) -> Arc<Self> {
        Arc::new(Self(RwLock::new(Arc::new(certificate))))
    }

    /// When it ends, in seconds since 1970; `None` if it cannot be parsed.
    pub fn not_after(&self) -> Option<i64> {
        certificate::not_after(self.0.read().cert.first()?)
    }

    /// Serves new connections with another certificate.
    pub fn replace(&self, certificate: CertifiedKey) {
        *self.0.write() = Arc::new(certificate);
    }
}

impl ResolvesServerCert for ServingCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read()))
    }
}

/// A certificate and its key in two files.
#[derive(Clone, Debug)]
pub struct KeyPairFiles {
    /// PEM of the certificate and its intermediates.
    pub certificate: PathBuf,
    /// PEM of its key.
    pub key: PathBuf,
}

/// The contents of [`KeyPairFiles`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPairPem {
    pub(super) certificate: Vec<u8>,
    key: Vec<u8>,
}

impl KeyPairFiles {
    /// Reads both files.
    pub async fn read(&self) -> Result<KeyPairPem, CertificateError> {
        Ok(KeyPairPem {
            certificate: read(&self.certificate).await?,
            key: read(&self.key).await?,
        })
    }

    /// Parses what [`Self::read`] returned.
    pub fn certified(&self, key_pair: &KeyPairPem) -> Result<CertifiedKey, CertificateError> {
        certified(
            &key_pair.certificate,
            &key_pair.key,
            &self.certificate.display().to_string(),
        )
    }
}

async fn read(path: &Path) -> Result<Vec<u8>, CertificateError> {
    tokio::fs::read(path)
        .await
        .map_err(|source| CertificateError::Read {
            path: path.to_owned(),
            source,
        })
}

fn certified(
    certificate: &[u8],
    key: &[u8],
    origin: &str,
) -> Result<CertifiedKey, CertificateError> {
    let unusable = |reason: String| CertificateError::Unusable {
        origin: origin.to_owned(),
        reason,
    };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(certificate)
        .collect::<Result<_, _>>()
        .map_err(|error| unusable(error.to_string()))?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| unusable(error.to_string()))?;
    let certified = CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider());
    certified.map_err(|error| unusable(causes(&error)))
}

/// The installation's own certificate authority, which replicas share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateAuthority {
    /// PEM of its certificate, then of the previous one, which stays trusted while replicas change
    /// over.
    pub certificates: String,
    /// PEM of its key.
    pub key: String,
}

impl CertificateAuthority {
    /// Creates an authority that keeps the certificate of the previous one trusted.
    pub fn create(previous: Option<&Self>) -> Result<Self, CertificateError> {
        let mut params = named("fleetdex-serving-ca", AUTHORITY_DAYS, Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::CrlSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        let key = KeyPair::generate()?;
        let newest = params.self_signed(&key)?.pem();
        let older = previous.map(Self::newest_pem).unwrap_or_default();
        Ok(Self {
            certificates: format!("{newest}{older}"),
            key: key.serialize_pem(),
        })
    }

    /// Whether it is valid and not due for renewal.
    pub fn is_good(&self) -> bool {
        let newest = CertificateDer::from_pem_slice(self.certificates.as_bytes());
        let usable = newest.is_ok_and(|der| !is_renewable(&der)) && self.issuer().is_ok();
        let (newest, key) = (self.newest_pem(), self.key.as_bytes());
        usable && certified(newest.as_bytes(), key, "the Secret").is_ok()
    }

    /// Signs a certificate for servers of these names.
    pub fn sign(&self, names: &[String]) -> Result<CertifiedKey, CertificateError> {
        let common_name = names.first().map_or("fleetdex", String::as_str);
        let mut params = named(common_name, SERVING_DAYS, names.to_vec())?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer()?)?;
        let (certificate, key) = (certificate.pem(), key.serialize_pem());
        certified(certificate.as_bytes(), key.as_bytes(), "a new certificate")
    }

    fn issuer(&self) -> Result<Issuer<'static, KeyPair>, CertificateError> {
        Ok(Issuer::from_ca_cert_pem(
            &self.newest_pem(),
            KeyPair::from_pem(&self.key)?,
        )?)
    }

    fn newest_pem(&self) -> String {
        let end = "-----END CERTIFICATE-----";
        let cut = self.certificates.find(end).map_or(0, |at| at + end.len());
        format!("{}\n", self.certificates.get(..cut).unwrap_or_default())
    }
}

/// Whether a certificate is due for renewal, or invalid.
pub fn is_renewable(der: &[u8]) -> bool {
    let Ok((_, certificate)) = X509Certificate::from_der(der) else {
        return true;
    };
    let validity = certificate.validity();
    let from = validity.not_before.timestamp();
    let until = validity.not_after.timestamp();
    let now = jiff::Timestamp::now().as_second();
    #[expect(
        clippy::cast_precision_loss,
        reason = "seconds of years are exact in a double"
    )]
    let (elapsed, whole) = ((now - from) as f64, (until - from) as f64);
    now < from || elapsed > whole * RENEWED_AFTER
}

fn named(
    common_name: &str,
    days: i64,
    names: Vec<String>,
) -> Result<CertificateParams, CertificateError> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::CommonName, common_name);
    let now = time::OffsetDateTime::now_utc();
    params.not_before = now - time::Duration::hours(CLOCK_SKEW_HOURS);
    params.not_after = now + time::Duration::days(days);
    Ok(params)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_signs_certificates_that_its_pem_verifies() {
        let authority = CertificateAuthority::create(None).unwrap();
        assert!(authority.is_good());
        let names = ["fleetdex.search.svc".to_owned()];
        let certificate = authority.sign(&names).unwrap();
        assert!(!is_renewable(&certificate.cert[0]));
        let (_, parsed) = X509Certificate::from_der(&certificate.cert[0]).unwrap();
        let (_, issuer) =
            x509_parser::pem::parse_x509_pem(authority.certificates.as_bytes()).unwrap();
        assert_eq!(parsed.issuer(), issuer.parse_x509().unwrap().subject());
        let alternative = parsed.subject_alternative_name().unwrap().unwrap();
        assert!(format!("{:?}", alternative.value).contains("fleetdex.search.svc"));
    }

    #[test]
    fn only_the_previous_authority_stays_trusted() {
        let first = CertificateAuthority::create(None).unwrap();
        let second = CertificateAuthority::create(Some(&first)).unwrap();
        let third = CertificateAuthority::create(Some(&second)).unwrap();
        let count = |authority: &CertificateAuthority| {
            authority.certificates.matches("BEGIN CERTIFICATE").count()
        };
        assert_eq!((count(&first), count(&second), count(&third)), (1, 2, 2));
        assert!(second.certificates.ends_with(&first.certificates));
        assert!(third.is_good());
    }

    #[test]
    fn broken_authorities_and_certificates_are_renewed() {
        let good = CertificateAuthority::create(None).unwrap();
        assert!(
            !CertificateAuthority {
                key: "no key".to_owned(),
                ..good.clone()
            }
            .is_good()
        );
        assert!(
            !CertificateAuthority {
                certificates: "none".to_owned(),
                ..good.clone()
            }
            .is_good()
        );
        let other = CertificateAuthority::create(None).unwrap();
        assert!(
            !CertificateAuthority {
                key: other.key,
                ..good
            }
            .is_good()
        );
        assert!(is_renewable(b"no certificate"));
    }
}
