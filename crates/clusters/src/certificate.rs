//! When certificates end.

use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// When a certificate (DER) ends, in seconds since 1970; `None` if it cannot be parsed.
pub fn not_after(der: &[u8]) -> Option<i64> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    Some(certificate.validity().not_after.timestamp())
}

/// When the first of these certificates (PEM, also with keys between them) ends, in seconds since
/// 1970; `None` if none can be parsed.
pub fn first_not_after(pem: &[u8]) -> Option<i64> {
    let certificates = CertificateDer::pem_slice_iter(pem).filter_map(Result::ok);
    certificates.filter_map(|der| not_after(&der)).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate(year: i32) -> String {
        let mut params = rcgen::CertificateParams::new(vec!["member".to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        let key = rcgen::KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().pem() + &key.serialize_pem()
    }

    #[test]
    fn the_first_of_several_certificates_counts() {
        let pem = certificate(2041) + &certificate(2031) + &certificate(2051);
        let first = rcgen::date_time_ymd(2031, 1, 1).unix_timestamp();
        assert_eq!(first_not_after(pem.as_bytes()), Some(first));
        assert_eq!(first_not_after(b"no certificate"), None);
    }
}
