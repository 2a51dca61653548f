//! The certificates in use, of which metrics tell when they end.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::labels::{CertificateLabels, CertificateUse};

/// A certificate in use. Its metric exists for as long as this value.
#[derive(Clone, Debug)]
pub struct CertificateInUse {
    _certificate: Arc<Certificate>,
}

#[derive(Debug)]
struct Certificate {
    labels: CertificateLabels,
    not_after: i64,
}

/// All certificates in use.
#[derive(Debug, Default)]
pub(super) struct Certificates(Mutex<Vec<Weak<Certificate>>>);

impl Certificates {
    pub(super) fn add(
        &self,
        certificate: CertificateUse,
        name: &str,
        not_after: i64,
    ) -> CertificateInUse {
        let added = Arc::new(Certificate {
            labels: CertificateLabels::new(certificate, name),
            not_after,
        });
        let mut all = self.0.lock();
        all.retain(|known| known.strong_count() > 0);
        all.push(Arc::downgrade(&added));
        CertificateInUse {
            _certificate: added,
        }
    }

    /// The labels of each, and when it ends; the newest of each last.
    pub(super) fn current(&self) -> Vec<(CertificateLabels, i64)> {
        let all = self.0.lock();
        let current = all.iter().filter_map(Weak::upgrade);
        current
            .map(|certificate| (certificate.labels.clone(), certificate.not_after))
            .collect()
    }
}
