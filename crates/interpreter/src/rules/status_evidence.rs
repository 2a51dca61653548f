//! Whether any object of a kind has ever had a status.
//!
//! An object without a status waits for its controller, or there is none. What decides is whether a
//! status was ever written for any object of the kind in the cluster. A stream notes what it sees,
//! and begins with what its documents say.

use std::sync::atomic::{AtomicBool, Ordering};

use fleetdex_core::model::{JsonTree, NO_CONTROLLER};

use crate::health::{KindStatus, generic::written_status};

/// What one stream knows of the status of the objects of its kind.
#[derive(Debug, Default)]
pub struct StatusEvidence {
    is_written: AtomicBool,
    /// Whether documents say that it was never written.
    is_denied: AtomicBool,
}

impl StatusEvidence {
    /// Begins with what documents say: `is_written`: some of them have it, or wait for it;
    /// `is_denied`: some say that it was never written.
    pub fn begin(&self, is_written: bool, is_denied: bool) {
        self.is_written.fetch_or(is_written, Ordering::Relaxed);
        self.is_denied.fetch_or(is_denied, Ordering::Relaxed);
    }

    /// Whether documents say that the status was never written, though it was: their objects have to
    /// be interpreted again.
    pub fn is_contradicted(&self) -> bool {
        self.is_written.load(Ordering::Relaxed) && self.is_denied.load(Ordering::Relaxed)
    }

    /// Notes that all objects are about to be interpreted again.
    pub fn forget_denial(&self) {
        self.is_denied.store(false, Ordering::Relaxed);
    }

    /// What is known of the kind, with this object.
    pub(super) fn with(&self, object: &JsonTree<'_>) -> KindStatus {
        if self.is_written.load(Ordering::Relaxed) {
            return KindStatus::Written;
        }
        if written_status(object).is_none() {
            return KindStatus::NeverWritten;
        }
        self.is_written.store(true, Ordering::Relaxed);
        KindStatus::Written
    }

    /// Notes the reason that a document has got.
    pub(super) fn note(&self, reason: &str) {
        if reason == NO_CONTROLLER {
            self.is_denied.store(true, Ordering::Relaxed);
        }
    }
}
